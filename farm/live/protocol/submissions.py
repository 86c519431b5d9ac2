"""Submissions: which jobs are accepted, and what the live ones take of the scheduler."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from farm.core import events
from farm.core.commands import EndJob
from farm.core.events import JobsSubmitted
from farm.core.jobs.needs import NeedsFlaw, flaw_of_needs, needs_of
from farm.core.model import Job, Outcome, Platform, content_digest
from farm.core.pools.spec import PoolSpec
from farm.core.state.working_state import JobState
from farm.live.protocol.out import Out
from farm.live.store.saved import SavedFarm
from farm.live.wire import messages as wire
from farm.live.wire.report_checks import flaw_of

#: maximum number of platforms, beside those that the pools serve
MAX_PLATFORMS = 1000
#: characters of attributes for which a job counts as one more (live.max_waiting)
PAGE = 1024
#: known ids that a refusal names
NAMED = 3
#: why a job is refused
ONE_TOO_MANY = f"live jobs ask for {MAX_PLATFORMS} platforms of no pool already"


#: of every job without attributes, which are never modified
NO_ATTRIBUTES: dict[str, str] = {}


class Submissions:
    """Adds an event to ``out`` for each submission with a job that is new and acceptable.

    Args:
        live: counts them.
        known: returns the content digests of those of these jobs that were submitted before;
            None: not checked.
    """

    def __init__(
        self,
        live: LiveJobs,
        out: Out,
        known: Callable[[Sequence[str]], Mapping[str, str]] | None = None,
    ) -> None:
        self._live, self._out, self.known = live, out, known
        #: how many jobs in all
        self.accepted = 0
        #: no more are taken
        self.closed = False
        #: the submitter has said that it was the last one
        self.ended = False
        #: largest intended arrival -> intake, farm seconds
        self.worst_delay = 0.0
        #: accepted jobs that ``known`` may not know yet, by id
        self._just_now: dict[str, Job] = {}

    def go_on(self, saved: SavedFarm) -> None:
        """Know the jobs of an earlier scheduler."""
        self.accepted = saved.counts.serial
        self._live.go_on(record.job for record in saved.jobs.values())

    def close(self, at: float) -> None:
        """Take no more."""
        self.closed = True
        self.end(at)

    def end(self, at: float) -> None:
        """Record that nothing more is submitted."""
        if not self.ended:
            self.ended = True
            self._out.add(events.ArrivalsEnded(at))

    def take(self, report: JobsSubmitted, at: float) -> None:
        """Accept the jobs of a submission that are new and acceptable, at farm time ``at``."""
        if self.closed:
            return
        sound = self._sound(report.jobs, at)
        if self.known is not None and (flaw := self._flaw_of_needs(sound)) is not None:
            why = f"job {flaw.job.id}: {flaw.why}"
            self._out.refuse("out-of-bounds", why, flaw.job, len(sound))
            return
        jobs = self._new(sound)
        if not jobs:
            return
        self.accepted += len(jobs)
        first = min((job.arrived_at for job in jobs if job.arrived_at is not None), default=at)
        self.worst_delay = max(self.worst_delay, at - first)
        self._out.add(JobsSubmitted(at, jobs))

    def _sound(self, jobs: tuple[Job, ...], at: float) -> list[Job]:
        """Return the acceptable jobs, and refuse the others one by one."""
        sound: list[Job] = []
        for job in jobs:
            if (flaw := flaw_of(job)) is None:
                wire.limit_arrival(job, at)
                sound.append(job)
            else:
                self._out.refuse("out-of-bounds", flaw, job)
        return sound

    def _flaw_of_needs(self, jobs: Sequence[Job]) -> NeedsFlaw | None:
        """Return what is wrong with the needs of a submission, which is refused as a whole."""
        needed = {need.job for job in jobs if job.needs for need in needs_of(job)}
        if not needed or self.known is None:
            return None
        if not self._out.events:
            self._just_now.clear()
        elsewhere = sorted(needed - self._just_now.keys() - {job.id for job in jobs})
        known = self.known(elsewhere) if elsewhere else {}
        return flaw_of_needs(jobs, lambda name: name in known or name in self._just_now)

    def _new(self, jobs: Sequence[Job]) -> tuple[Job, ...]:
        """Leave out jobs that were submitted before, and refuse those of a platform too many.

        A known id with another content is another job, which its submitter believes to be
        accepted: it is refused.
        """
        if not self._out.events:
            self._just_now.clear()
        known = self.known([job.id for job in jobs]) if self.known and jobs else {}
        new: list[Job] = []
        others: list[Job] = []
        for job in jobs:
            digest = known.get(job.id)
            if digest is None and job.id in self._just_now:
                digest = content_digest(self._just_now[job.id])
            if digest is not None:
                if digest != content_digest(job):
                    others.append(job)
                continue
            if (platform := self._live.take(job)) is None:
                self._out.refuse("out-of-bounds", f"job {job.id}: {ONE_TOO_MANY}", job)
                continue
            if self.known is not None:
                self._just_now[job.id] = job
            _share_parts(job, platform)
            new.append(job)
        if others:
            self._refuse_known(others)
        return tuple(new)

    def _refuse_known(self, jobs: Sequence[Job]) -> None:
        """Refuse jobs of a submission whose ids other jobs have."""
        names = ", ".join(job.id for job in jobs[:NAMED])
        more = ", …" if len(jobs) > NAMED else ""
        why = f"the farm has other jobs of these ids already: {names}{more}"
        if len(jobs) == 1:
            why = f"the farm has another job of this id already: {names}"
        self._out.refuse("known", why, jobs[0], len(jobs))


def with_ended_needs(
    event: JobsSubmitted,
    live: Mapping[str, JobState],
    just_ended: Mapping[str, EndJob],
    outcomes: Callable[[Sequence[str]], Mapping[str, Outcome]],
) -> JobsSubmitted:
    """Return a submission that says how those ended that its jobs need and that are over.

    Args:
        event: the submission, which the scheduler handles next.
        live: the jobs that have not ended by then, by id.
        just_ended: those that ended since the last commit.
        outcomes: returns how those of these jobs ended that did before, as far as that is kept.
    """
    needed = dict.fromkeys(need.job for job in event.jobs for need in needs_of(job))
    for job in event.jobs:
        needed.pop(job.id, None)
    over = [name for name in needed if name not in live or live[name].abandoned]
    now = {name: just_ended[name].outcome for name in over if name in just_ended}
    before = [name for name in over if name not in now]
    ended = {**(outcomes(before) if before else {}), **now}
    return JobsSubmitted(event.at, event.jobs, ended)


class LiveJobs:
    """Counts live jobs by platform, which is forgotten with its last job.

    The platforms of ``pools`` are never too many.
    """

    def __init__(self, pools: Collection[PoolSpec]) -> None:
        self._samples = [pool.builder(1, 0) for pool in pools]
        self._jobs: Counter[Platform] = Counter()
        #: the object that all jobs of a platform share
        self._shared: dict[Platform, Platform] = {}
        #: how many are served by no pool
        self._others = 0
        #: as how many more than they are they count, being large
        self.extra = 0

    def take(self, job: Job) -> Platform | None:
        """Count a new job and return its platform; None: it names one too many."""
        platform = job.platform
        if platform not in self._jobs:
            if (served := self._is_served(platform)) is False and self._others >= MAX_PLATFORMS:
                return None
            self._others += not served
        self._jobs[platform] += 1
        self.extra += _pages(job)
        return self._shared.setdefault(platform, platform)

    def go_on(self, jobs: Iterable[Job]) -> None:
        """Count the jobs of an earlier scheduler."""
        for job in jobs:
            self.take(job)

    def ended(self, job: Job) -> None:
        """Count a job no more."""
        platform = job.platform
        self.extra -= _pages(job)
        self._jobs[platform] -= 1
        if self._jobs[platform] <= 0:
            del self._jobs[platform]
            if self._shared.pop(platform, None) is not None:
                self._others -= not self._is_served(platform)

    def _is_served(self, platform: Platform) -> bool:
        return any(sample.can_run(platform) for sample in self._samples)


def _pages(job: Job) -> int:
    attributes = job.attributes
    if not attributes:
        return 0
    return sum(len(name) + len(value) for name, value in attributes.items()) // PAGE


def _share_parts(job: Job, platform: Platform) -> None:
    """Let a job that was decoded just now have the very objects that a million others have."""
    force = msgspec.structs.force_setattr
    force(job, "platform", platform)
    force(job, "kind", sys.intern(job.kind))
    if job.matrix is not None:
        force(job, "matrix", sys.intern(job.matrix))
    if not job.attributes:
        force(job, "attributes", NO_ATTRIBUTES)
