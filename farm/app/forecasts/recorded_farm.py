"""The farm of a recorded run at one of its instants: its builders, and what runs on them.

A run's log has no progress: it changes no decision, and would be most of the log. Whatever the
log says of starts and ends is played on emulated builders, of which progress can be asked.
"""

from __future__ import annotations

from farm.assembly import pool_specs
from farm.core.commands import CancelJob, StartJob
from farm.core.events import (
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    JobFinished,
    JobsSubmitted,
    JobStarted,
)
from farm.core.model import Builder, Job
from farm.core.pools.spec import PoolSpec
from farm.emulation.agenda import Action, Due
from farm.emulation.behaviour import spec_of
from farm.emulation.builder import EmulatedBuilder
from farm.forecasts.runtime.interface import Progress
from farm.results.log.reader import Entry
from farm.scenario import Scenario


class _Instant:
    """An agenda on which nothing becomes due: the log says when it happened."""

    now = 0.0

    def put(self, at: float, rank: int, place: int, action: Action) -> Due:  # noqa: ARG002
        return Due(action)


class RecordedFarm:
    """Builders, jobs and running attempts, after the entries of a log that were taken so far.

    ``live``: a burning job's progress was up to its machine, and is not known.
    """

    def __init__(self, scenario: Scenario, *, live: bool) -> None:
        self._pools = {pool.name: pool for pool in pool_specs(scenario)}
        self._live = live
        self._instant = _Instant()
        self._played: dict[str, EmulatedBuilder] = {}
        self._sent: dict[tuple[str, int], StartJob] = {}
        self.jobs: dict[str, Job] = {}
        #: by job: its attempt, and when that started
        self.running: dict[str, tuple[StartJob, float]] = {}

    @property
    def builders(self) -> dict[str, Builder]:
        """Those that are there."""
        return {name: played.builder for name, played in self._played.items()}

    def take(self, entry: Entry) -> None:
        """Let happen what one event and its commands say."""
        for command in entry.commands:
            if isinstance(command, StartJob):
                self._sent[command.job.id, command.attempt] = command
        event = entry.event
        self._instant.now = max(event.at, self._instant.now)
        if entry.ignored:
            return
        match event:
            case JobsSubmitted():
                self.jobs.update((job.id, job) for job in event.jobs)
            case BuilderJoined():
                pool = self._pools.get(event.builder.pool) or PoolSpec(name=event.builder.pool)
                spec = spec_of(pool, event.builder)
                self._played[event.builder.id] = EmulatedBuilder(
                    spec, self._instant, lambda _: None
                )
            case JobStarted():
                self._started(event)
            case JobFinished() | AttemptLost():
                self._over(event.job, event.attempt)
            case BuilderLost() | BuilderRetired():
                self._played.pop(event.builder, None)
                for start, _ in list(self.running.values()):
                    if start.builder == event.builder:
                        self._over(start.job.id, start.attempt)

    def _started(self, event: JobStarted) -> None:
        start, played = self._sent.get((event.job, event.attempt)), self._played.get(event.builder)
        if start is not None and played is not None:
            self.running[event.job] = start, event.at
            played.start(start)

    def _over(self, job: str, attempt: int) -> None:
        start = self._sent.pop((job, attempt), None)
        self.running.pop(job, None)
        if start is not None and (played := self._played.get(start.builder)) is not None:
            played.cancel(CancelJob(job, attempt, start.builder))

    def progress(self, job: str, at: float) -> Progress | None:
        """Return the progress of a running job at an instant after the last entry's."""
        start, since = self.running[job]
        played = self._played[start.builder]
        own = self._pools.get(played.builder.pool)
        if (own is not None and own.behaviour) or (self._live and start.job.mode != "timed"):
            return None
        self._instant.now = max(at, self._instant.now)
        done = played.fraction_done(job)
        return None if done is None else Progress(done, self._instant.now - since)
