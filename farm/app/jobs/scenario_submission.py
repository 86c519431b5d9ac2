"""Submits a scenario's jobs to a live farm, as the farm's time goes by."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from farm.app.jobs.sources import runnable
from farm.core.commands import EndJob
from farm.core.jobs.needs import renamed
from farm.core.model import Job
from farm.live.operating.client import FarmClient
from farm.processes.signals import StopRequest
from farm.scenario import Scenario
from farm.workload import Batch, FeedbackLoad, Submissions, batches, build_jobs

#: real seconds between two looks at whether it is time to stop
STEP = 0.5
#: real seconds after which a submitted job that the farm does not know is not waited for any more
MAX_DELAY = 60.0


def play(
    scenario: Scenario,
    client: FarmClient,
    prefix: str,
    most_waiting: int,
    stop: StopRequest,
    progress: Callable[[int, int], None],
) -> tuple[int, int]:
    """Submit the scenario's jobs at their farm times until they end, or ``stop`` is set.

    Nothing is submitted while ``most_waiting`` jobs wait. Returns how many were, and how many
    were not because the farm knows them; ``progress`` is called with how many were so far, and how
    many wait. Raises InputError for a job that no pool could run.
    """
    status = client.status()
    began = time.monotonic()
    # farm time now: the status is a moment old
    offset = status.at + client.age(status) * status.speed
    count = known = 0
    jobs = build_jobs(scenario)
    answers: _Answers | None = None
    if isinstance(jobs, FeedbackLoad):
        if not scenario.allow_unrunnable:
            # of what comes by itself: what follows has the same platforms
            deque(runnable(jobs, client.pools(), scenario.name, "allow_unrunnable: true"), maxlen=0)
        answers = _Answers(client, jobs.begun(), prefix, offset)
        submissions: Iterator[Batch] = answers
    else:
        if not scenario.allow_unrunnable:
            jobs = runnable(jobs, client.pools(), scenario.name, "allow_unrunnable: true")
        submissions = batches(jobs)
    while True:
        if answers is not None and not answers.wait(stop, began, status.speed):
            return count, known
        at, together = next(submissions, (0.0, ()))
        if not together:
            return count, known
        while (pause := at / status.speed - (time.monotonic() - began)) > 0:
            if stop.wait(min(pause, STEP)):
                return count, known
        while (waiting := client.status().waiting) >= most_waiting:
            progress(count, waiting)
            if stop.wait(STEP):
                return count, known
        if stop.is_set():
            return count, known
        renamed = list(_renamed(together, prefix, offset))
        before = client.known([job.id for job in renamed])
        count += client.submit(job for job in renamed if job.id not in before)
        known += len(before)
        progress(count, waiting)


class _Answers(Iterator[Batch]):
    """What people submit to a farm: they learn how jobs end by looking at it from outside.

    So what follows is lost with the process that submits; what was submitted is not.
    """

    def __init__(
        self, client: FarmClient, submissions: Submissions, prefix: str, offset: float
    ) -> None:
        self._client = client
        self._submissions = submissions
        self._prefix = prefix
        self._offset = offset
        #: by the id in the farm, the jobs that have not ended, and until when each has to be known
        self._open: dict[str, tuple[Job, float]] = {}

    def __next__(self) -> Batch:
        """Return the next batch, of which people will want to know how it ends."""
        at, jobs = next(self._submissions)
        until = time.monotonic() + MAX_DELAY
        self._open |= {f"{self._prefix}.{job.id}": (job, until) for job in jobs}
        return at, jobs

    def wait(self, stop: StopRequest, began: float, speed: float) -> bool:
        """Wait until the next batch is due; return whether there is one."""
        while not stop.is_set():
            self._look()
            next_at = self._submissions.next_at
            if next_at is None and not self._open:
                return False
            pause = STEP
            if next_at is not None:
                pause = min(STEP, next_at / speed - (time.monotonic() - began))
            if pause <= 0:
                return True
            stop.wait(pause)
        return False

    def _look(self) -> None:
        """Learn which jobs have ended; those that the farm refused, or has forgotten, are gone."""
        known: set[str] = set()
        for found in self._client.jobs_of(list(self._open)):
            known.add(found.job.id)
            if not isinstance(found, EndJob):
                continue
            job, _ = self._open.pop(found.job.id)
            at = found.finished_at - self._offset
            self._submissions.ended(msgspec.structs.replace(found, job=job, finished_at=at))
        now = time.monotonic()
        for name, (_, until) in list(self._open.items()):
            if name not in known and now > until:
                del self._open[name]


def _renamed(jobs: tuple[Job, ...], prefix: str, offset: float) -> Iterator[Job]:
    """Give jobs ids that no earlier load had, and the farm's own time."""
    for job in jobs:
        changes: dict[str, object] = {
            "id": f"{prefix}.{job.id}",
            "arrived_at": offset + (job.arrived_at or 0.0),
        }
        if job.needs:
            changes["needs"] = renamed(job.needs, lambda name: f"{prefix}.{name}")
        if job.matrix is not None:
            changes["matrix"] = f"{prefix}.{job.matrix}"
        yield msgspec.structs.replace(job, **changes)
