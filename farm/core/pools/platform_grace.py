"""Jobs fail when their platform has had no builder for longer than a grace period."""

from __future__ import annotations

from farm.core import events
from farm.core.alarms import Alarms
from farm.core.dispatching.matching import Lane
from farm.core.jobs.cancelling import Canceller
from farm.core.jobs.giving_up import why_unserved
from farm.core.model import Cause
from farm.core.pools.keeper import PoolKeeper
from farm.core.state.working_state import JobState

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


class PlatformGrace:
    """Fails the jobs of a platform that has had no builder for longer than ``grace`` seconds.

    The period begins when the last builder leaves, or with the first job that waits for a platform
    without any; a booting builder ends it. A restored scheduler starts it again.
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
