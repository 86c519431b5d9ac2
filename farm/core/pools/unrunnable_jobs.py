"""Jobs that no builder runs: given up after the last arrival, or failed after a grace period.

``UnrunnableJobs`` ends what no builder will ever run, so that a run comes to its end.
``PlatformGrace`` is a limit that the user sets (``platform_grace``), and applies at any time.
"""

from __future__ import annotations

from farm.core import events
from farm.core.alarms import Alarms
from farm.core.dispatching.matching import Lane
from farm.core.jobs.cancelling import Canceller
from farm.core.jobs.giving_up import why_unserved
from farm.core.model import Cause
from farm.core.pools.keeper import PoolKeeper
from farm.core.state.working_state import JobState, JobStatus

GIVEN_UP_AFTER = 7 * 86_400.0
"""Farm seconds without a running job after which the waiting jobs are given up.

Longer than any pool that follows the week stays empty, so that jobs which wait for Monday's
builders are run; short enough that a run whose pools stay empty ends.
"""


class UnrunnableJobs:
    """Ends waiting jobs that no builder will ever run.

    Blocked jobs are none of these: they are skipped, or released, when those end that they need.
    When nothing runs or boots, jobs that neither a present builder nor one that a pool may still
    add could run are given up immediately; after ``GIVEN_UP_AFTER`` without a running job, all of
    them are: builders that come and go, or that may not take these jobs, do not make a run endless.
    They end as cancelled, as nothing was tried; ``platform_grace`` is a limit that the user sets,
    and jobs that it ends have failed.
    """

    def __init__(self, canceller: Canceller, keeper: PoolKeeper, alarms: Alarms) -> None:
        self._canceller = canceller
        self._jobs = canceller.jobs
        self._blocked = canceller.blocked.states
        self._keeper = keeper
        self._alarms = alarms
        #: since when no job runs; None: one does
        self._still_since: float | None = None
        #: whether arrivals have ended
        self.watches = False

    def give_up(self, at: float) -> None:
        """End the jobs that no builder will ever run; set an alarm for the others."""
        if len(self._jobs) == len(self._blocked) or self._something_runs():
            self._still_since = None
            return
        if self._still_since is None:
            self._still_since = at
        given_up_at = self._still_since + GIVEN_UP_AFTER
        if at >= given_up_at:
            found = [s for s in self._jobs.values() if s.status is not JobStatus.BLOCKED]
        else:
            found = self._without_builders()
        self._canceller.cancel(found, at, Cause.UNRUNNABLE, Cause.UNRUNNABLE.text)
        if len(self._jobs) > len(self._blocked):
            self._alarms.ask(given_up_at)

    def give_up_those_that_wait_for_each_other(self, at: float) -> None:
        """End blocked jobs that are all that is left, of which none has a release to come.

        A job that waits for a place in its group may need one that waits for it.
        """
        blocked = list(self._blocked.values())
        is_all = len(blocked) == len(self._jobs)
        if is_all and all(state.released_at is None for state in blocked):
            self._canceller.cancel(blocked, at, Cause.UNRUNNABLE, "it waits for itself")

    def _something_runs(self) -> bool:
        for pool in self._keeper.pools.values():  # noqa: SIM110 - asked after every event
            if pool.busy_slots:
                return True
        return False

    def _without_builders(self) -> list[JobState]:
        if self._canceller.book.rules.platform_grace is not None:
            return []  # they fail when their platform's grace period is over
        if any(pool.requested for pool in self._keeper.pools.values()):
            return []
        lanes = self.lanes()
        if not lanes:
            return []
        jobs = [s for s in self._jobs.values() if s.status is not JobStatus.BLOCKED]
        return [s for s in jobs if (s.leader or s).lane in lanes]

    def lanes(self) -> list[Lane]:
        """Return the queues whose jobs no builder will run.

        None that could is there (drained ones may be undrained), boots, or may still be added.
        """
        lanes = self._canceller.dispatcher.matching.with_jobs()
        return [lane for lane in lanes if not self._may_run(lane)]

    def _may_run(self, lane: Lane) -> bool:
        there = (state for group in lane.groups for state in group.free.members())
        if any(s.builder.takes_jobs and not (s.failed or s.retiring) for s in there):
            return True
        boots = {name for name, pool in self._keeper.pools.items() if pool.requested}
        return any(
            spec.builder(1, 1).can_run(lane.platform)
            and (name in boots or self._keeper.may_make(spec))
            for name, spec in self._keeper.specs.items()
        )


WATCHED = (
    events.FarmOpened,
    events.JobsSubmitted,
    events.BuilderJoined,
    events.BuilderRetired,
    events.BuilderLost,
    events.DrainRequested,
    events.PoolPlanned,
    events.AlarmRang,
)
"""Events that may add a job to a platform without builders, or remove its last builder."""

CANCELLING = (events.CancelRequested, events.JobFinished, events.AttemptLost)
"""Other events that may cancel the last job that waits for a platform (two of them: fail-fast)."""


class PlatformGrace:
    """Fails the jobs that have waited for ``grace`` seconds for a platform without a builder.

    The period begins when the last builder leaves while jobs wait, or with the first job that waits
    for a platform without any; a booting builder ends it, and so does the end of the last job that
    waits: the next one has all of it. A restored scheduler starts it again.
    """

    def __init__(
        self, grace: float, canceller: Canceller, keeper: PoolKeeper, alarms: Alarms
    ) -> None:
        self._grace = grace
        self._canceller = canceller
        self._book, self._dispatcher = canceller.book, canceller.dispatcher
        self._keeper = keeper
        self._alarms = alarms
        #: since when jobs wait for a platform without builders
        self._since: dict[Lane, float] = {}

    def look(self, at: float) -> None:
        """Fail the jobs that have waited too long; set an alarm for the rest."""
        lanes = self._dispatcher.matching.with_jobs()
        without = [lane for lane in lanes if not self._has_builders(lane)]
        self._since = {lane: self._since.get(lane, at) for lane in without}
        for lane in without:
            vanishes_at = self._since[lane] + self._grace
            if at < vanishes_at:
                self._alarms.ask(vanishes_at)
                continue
            del self._since[lane]
            for state in list(lane.queue.in_order()):
                self._fail(state, lane, at)
        self._canceller.fail_fast(at)

    def forget_idle(self, _at: float) -> None:
        """End the periods of platforms for which no job waits any more."""
        if self._since:
            lanes = self._dispatcher.matching.with_jobs()
            self._since = {lane: self._since[lane] for lane in lanes if lane in self._since}

    def _has_builders(self, lane: Lane) -> bool:
        """Return whether a builder for these jobs is there, or boots.

        One that is drained or out of service counts: an operator may let it take jobs again, which
        is no reason for failing them. (``UnrunnableJobs`` also counts builders that may yet be
        requested, and none that are out of service: then no arrival is to come.)
        """
        there = (state for group in lane.groups for state in group.free.members())
        if any(state.builder.takes_jobs and not state.retiring for state in there):
            return True
        requested = (one for pool in self._keeper.pools.values() for one in pool.requested.values())
        return any(one.builder.can_run(lane.platform) for one in requested)

    def _fail(self, state: JobState, lane: Lane, at: float) -> None:
        reason = why_unserved(lane.platform, self._grace)
        for follower in state.followers:
            self._book.leave(follower, state, at)
            self._book.end(follower, at, "failed", Cause.UNRUNNABLE, reason, state)
        self._dispatcher.unwait(state, lane, at)
        if state.abandoned:
            self._book.forget(state)
        else:
            self._book.end(state, at, "failed", Cause.UNRUNNABLE, reason)
