"""Submits jobs to a live farm: all together, as they come, or at their arrival times."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TypeVar

import msgspec

from farm.app.jobs.sources import runnable, sound
from farm.app.jobs.submission_estimate import SubmissionEstimate, estimate_of
from farm.core.errors import InputError, TraceError
from farm.core.jobs.needs import flaw_of_needs, needs_first, needs_of, renamed
from farm.core.model import Job
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import AT_ONCE
from farm.units import many

T = TypeVar("T")
Progress = Callable[[int, int], None]


class SubmitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are submitted.

    Attributes:
        pace: submit jobs at their arrival times, N of their seconds per real second. Default: all
            now.
        prefix: prefix of every id, to submit the same file again; of a scenario's a new one each
            time by default.
        skip_known: skip jobs whose ids are known already.
        allow_unrunnable: accept jobs that no pool of the farm could run: they wait until one can.
        sync: wait until the jobs are on the server's disk, safe from loss of power.
    """

    pace: float | None = None
    prefix: str | None = None
    skip_known: bool = False
    allow_unrunnable: bool = False
    sync: bool = False


class Submission:
    """Submits jobs and counts them.

    ``source`` is for messages. ``streaming``: jobs come by and by, and each is submitted as it
    comes. Raises InputError for a pace that is none.
    """

    _client: FarmClient

    def __init__(self, source: str, how: SubmitOptions, *, streaming: bool = False) -> None:
        if how.pace is not None and not 0 < how.pace < math.inf:
            raise InputError(f"--speed: found {how.pace:g}; allowed: a positive number")
        self._source = source
        self._how = how
        self.streaming = streaming
        self.submitted = 0
        self.skipped = 0
        #: why it is not known whether the scheduler accepts the jobs; empty: it has accepted them
        self.not_confirmed = ""
        self._first: list[str] = []
        #: jobs of the source have arrival times that were not kept
        self._at_once = False
        self._last = ""

    def begin(self, client: FarmClient) -> None:
        """Submit to this operator's farm from now on; raises ServerError if it cannot sync."""
        self._client = client
        if self._how.sync:
            client.check_sync()

    def submit(
        self, jobs: Iterable[Job], client: FarmClient, count: int, progress: Progress
    ) -> None:
        """Submit jobs to this operator's farm, or ``count`` like the first; as ``begin`` does.

        Raises InputError for a job that cannot be submitted, or that no pool could run.
        """
        if (prefix := self._how.prefix) is not None:
            jobs = (_prefixed(job, prefix) for job in jobs)
        jobs = sound(jobs, self._source)
        if not self._how.allow_unrunnable:
            jobs = runnable(jobs, client.pools(), self._source, "--allow-unrunnable")
        self.begin(client)
        if self.streaming and self._how.pace is None:
            self.stream(jobs)
        elif self.streaming:
            self.paced(jobs)
        elif count > 1:
            self.equal_ones(next(iter(jobs)), count, progress)
        else:
            self.at_once(list(jobs), progress)
        self.confirm()

    def at_once(self, jobs: list[Job], progress: Progress = lambda *_: None) -> None:
        """All of them, or none if one is known already (or its id stands there twice).

        With a pace not all at the same moment, but each at its own time. ``progress`` is called
        with the numbers of submitted and of all jobs.
        """
        self._refuse_repeated_ids(jobs)
        jobs = self._with_known_needs(self._new(jobs))
        self._client.check_room(len(jobs))
        if self._how.pace is not None:
            self.paced(sorted(jobs, key=_arrival))
            return
        self._at_once = len({job.arrived_at for job in jobs}) > 1
        for first in range(0, len(jobs), AT_ONCE):
            progress(first, len(jobs))
            last = first + AT_ONCE >= len(jobs)
            self._submit(jobs[first : first + AT_ONCE], sync=self._how.sync and last)

    def equal_ones(self, job: Job, count: int, progress: Progress) -> None:
        """``count`` jobs like this one, with numbered ids, or none if one is known already.

        Whether the farm has room for them is known before the first is made, and never more than
        some are in memory.
        """
        self._client.check_room(count)
        for _ in sound([msgspec.structs.replace(job, id=f"{job.id}-{count}")], self._source):
            pass  # the longest of the ids
        self._with_known_needs([job])
        if not self._how.skip_known:
            for some in _numbered(job, count):
                self._new(some)
        for some in _numbered(job, count):
            progress(self.submitted, count)
            last = self.submitted + self.skipped + len(some) >= count
            self._submit(self._new(some), sync=self._how.sync and last)

    def stream(self, jobs: Iterable[Job]) -> None:
        """Each as it comes."""
        for together in in_batches(jobs):
            self._refuse_repeated_ids(together)
            self._submit(self._new(together), sync=self._how.sync)

    def paced(self, jobs: Iterable[Job]) -> None:
        """Each at its own time.

        They come in order of arrival; raises TraceError for one that arrives before another.
        """
        began, pace = time.monotonic(), self._how.pace or 1.0
        for at, together in groupby(_in_order(jobs, self._source), key=_arrival):
            pause = at / pace - (time.monotonic() - began)
            if pause > 0:
                time.sleep(pause)
            self._submit(self._new(list(together)), sync=self._how.sync)

    def confirm(self) -> None:
        """Wait for the scheduler's answer; raises InputError if it has refused any of the jobs."""
        try:
            self.not_confirmed = self._client.check_accepted()
        except InputError:
            self.submitted -= sum(letter.jobs for letter in self._client.refused())
            raise

    def outcome(self) -> dict[str, object]:
        """Return the outcome as plain values."""
        return {
            "submitted": self.submitted,
            "known": self.skipped,
            "first": self._first,
            "confirmed": not self.not_confirmed,
        }

    def estimate(self) -> SubmissionEstimate | None:
        """Return when the last submitted job will be dispatched and finished, if known.

        Of jobs that come by and by it is not asked.
        """
        if self.streaming or self._how.pace or not self._last or self.not_confirmed:
            return None
        return estimate_of(self._client, self._last)

    def in_words(self) -> str:
        """Return the outcome as text: the id of a single job, or else the number of jobs."""
        if self.submitted == 1 and not self.skipped:
            return self._first[0]
        known = f", {self.skipped:,} known already" if self.skipped else ""
        now = ", all of them now: --speed keeps their arrival times" if self._at_once else ""
        return f"{many(self.submitted, 'job')} submitted{known}{now}"

    def _submit(self, jobs: list[Job], *, sync: bool) -> None:
        # the farm's clock says when they arrive, not the file's
        jobs = [msgspec.structs.replace(job, arrived_at=None) for job in jobs]
        self._client.check_room(len(jobs))
        self._first.extend(job.id for job in jobs[: 1 - len(self._first)])
        self.submitted += self._client.submit(jobs, sync=sync)
        self._last = jobs[-1].id if jobs else self._last

    def _refuse_repeated_ids(self, jobs: list[Job]) -> None:
        places: dict[str, int] = {}
        for place, job in enumerate(jobs, 1):
            if (first := places.setdefault(job.id, place)) != place:
                raise InputError(
                    f"{self._source}: found job id {job.id!r} twice (jobs {first:,} and "
                    f"{place:,}); allowed: distinct ids"
                )

    def _with_known_needs(self, jobs: list[Job]) -> list[Job]:
        """Return the jobs, each behind those it needs, as they are sent one piece after the other.

        Raises InputError, before anything is submitted, for needs that can never be met.
        """
        needed = {need.job for job in jobs if job.needs for need in needs_of(job)}
        if not needed:
            return jobs
        arrivals = {job.id: _arrival(job) for job in jobs}
        known = self._client.known([name for name in needed if name not in arrivals])
        if (flaw := flaw_of_needs(jobs, known.__contains__)) is not None:
            raise InputError(f"{self._source}: job {flaw.job.id}: {flaw.why}")
        for job in jobs if self._how.pace is not None else ():
            for need in needs_of(job):
                if arrivals.get(need.job, 0.0) > _arrival(job):
                    raise InputError(
                        f"{self._source}: job {job.id}: needs: found {need.job}, which arrives at "
                        f"{arrivals[need.job]:g}s; allowed: jobs that arrive by "
                        f"{_arrival(job):g}s, as this one does"
                    )
        return needs_first(jobs)

    def _new(self, jobs: list[Job]) -> list[Job]:
        known = self._client.known([job.id for job in jobs])
        if known and not self._how.skip_known:
            first = next(job.id for job in jobs if job.id in known)
            raise InputError(
                f"{self._source}: {len(known):,} of {len(jobs):,} job ids are known to the "
                f"farm already, {first!r} the first; allowed: new ids (see --prefix), or "
                "--skip-known; farm retry runs an ended job again"
            )
        self.skipped += len(known)
        return [job for job in jobs if job.id not in known]


def _prefixed(job: Job, prefix: str) -> Job:
    needs = renamed(job.needs, lambda name: f"{prefix}{name}") if job.needs else ()
    return msgspec.structs.replace(job, id=f"{prefix}{job.id}", needs=needs)


def _numbered(job: Job, count: int) -> Iterator[list[Job]]:
    """Yield copies of a job with numbered ids, some at once."""
    for first in range(1, count + 1, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count + 1))
        yield [msgspec.structs.replace(job, id=f"{job.id}-{number}") for number in numbers]


def _arrival(job: Job) -> float:
    return job.arrived_at or 0.0


def _in_order(jobs: Iterable[Job], source: str) -> Iterator[Job]:
    """Pass jobs on; raises TraceError for one whose time is before that of an earlier job."""
    latest = -math.inf
    for job in jobs:
        at = _arrival(job)
        if job.arrived_at is not None and at < latest:
            raise TraceError(
                f"{source}: job {job.id!r}: found submitted_at_s {at:g} after "
                f"{latest:g}; allowed: jobs in order of time (or a FILE, which is sorted)"
            )
        latest = max(latest, at)
        yield job


def in_batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield what comes together as lists: as soon as there is one, with all that follow at once.

    What the source raises is raised after the items that came before it.
    """
    arrived: queue.Queue[T | BaseException] = queue.Queue(maxsize=AT_ONCE)

    def read() -> None:
        end: BaseException = StopIteration()
        try:
            for item in items:
                arrived.put(item)
        except BaseException as raised:  # noqa: BLE001 - it is raised where it is waited for
            end = raised
        arrived.put(end)

    threading.Thread(target=read, daemon=True).start()
    last: T | BaseException | None = None
    while not isinstance(last, BaseException):
        together = [arrived.get()]
        while len(together) < AT_ONCE and not arrived.empty():
            together.append(arrived.get())
        if batch := [item for item in together if not isinstance(item, BaseException)]:
            yield batch
        last = together[-1]
    if not isinstance(last, StopIteration):
        raise last
