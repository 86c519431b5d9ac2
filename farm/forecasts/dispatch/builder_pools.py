"""The builders of an estimate: pools, free slots and the next free builder of each platform."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from farm.core.model import Platform
from farm.forecasts.dispatch.view import BuilderView, JobView
from farm.upstream.launchpad import Rules

OVERDUE_GUESS_S = 120.0
"""A job that has outrun its estimate is assumed to end in this many seconds, however late it is.

So is a running job without an estimate; a waiting one without counts as no work at all, since
Launchpad sums what it knows. These are rules of its formula. Run-time estimators have an
option for the like (``overdue_time``), which begins at the same value.
"""


#: the processors of a builder and whether it is virtual, which decide what jobs it can run
Kind = tuple[tuple[str, ...], bool]


class NextBuilder(msgspec.Struct, frozen=True):
    """When the next slot of a platform becomes free, and why (the time to next builder)."""

    #: slots that are free now
    free: int
    #: seconds until one is free
    tnb_s: float
    why: Literal["free", "finishes", "overdue", "unknown", "nothing to wait for"]
    #: the builder that is free, or becomes free first
    builder: str | None = None
    #: the job that it runs until then
    job: str | None = None
    #: that job's estimated run time minus its elapsed time, seconds (negative: overdue)
    left_s: float | None = None


class BuilderPools:
    """The builders' side of an estimate; results are computed once per platform.

    ``jobs`` may be all jobs of the farm: only those that hold a builder matter. A slot counts as a
    builder, so with one slot per builder these are Launchpad's numbers.
    """

    def __init__(
        self, builders: Iterable[BuilderView], jobs: Iterable[JobView], rules: Rules
    ) -> None:
        self._rules = rules
        #: usable builders by kind, with their positions in the input
        self._kinds: dict[Kind, list[tuple[int, BuilderView]]] = {}
        for place, builder in enumerate(builders):
            if builder.usable:
                kind = (builder.processors, builder.virtualized)
                self._kinds.setdefault(kind, []).append((place, builder))
        self._holders: dict[str, list[JobView]] = {}
        for job in jobs:
            if job.builder is not None:
                self._holders.setdefault(job.builder, []).append(job)
        self._pools: dict[Platform, int] = {}
        self._next: dict[Platform, NextBuilder] = {}
        self._runners: dict[Platform, frozenset[Kind]] = {}

    def group_pool(self, platform: Platform) -> int:
        """Count the usable slots, busy or free, that can run jobs of this platform."""
        platform = platform.normalised()
        if platform not in self._pools:
            self._pools[platform] = sum(builder.slots for builder in self._able(platform))
        return self._pools[platform]

    def pool_for_job(self, platform: Platform) -> int:
        """Count the slots that the rules allow to a job of interest of this platform."""
        lost = self._rules.loses_unspecified and platform.virtualized is None
        return 0 if lost and platform.processor is not None else self.group_pool(platform)

    def next_builder(self, platform: Platform) -> NextBuilder:
        """Return when a slot of this platform becomes free."""
        platform = platform.normalised()
        if platform not in self._next:
            able = self._able(platform)
            self._next[platform] = self._first_free(able) or self._first_to_end(able)
        return self._next[platform]

    def competes(self, ours: Platform, theirs: Platform) -> bool:
        """Return whether jobs of these two platforms compete for the same builders."""
        ours, theirs = ours.normalised(), theirs.normalised()
        if ours == theirs:
            return True
        if self._rules.shared_builders:
            return not self._able_kinds(ours).isdisjoint(self._able_kinds(theirs))
        return ours.virtualized == theirs.virtualized and None in (ours.processor, theirs.processor)

    def _able_kinds(self, platform: Platform) -> frozenset[Kind]:
        if platform not in self._runners:
            self._runners[platform] = frozenset(
                kind for kind, builders in self._kinds.items() if builders[0][1].can_run(platform)
            )
        return self._runners[platform]

    def _able(self, platform: Platform) -> list[BuilderView]:
        """Return the usable builders that can run it, in the order of the input."""
        able = [self._kinds[kind] for kind in self._able_kinds(platform)]
        if len(able) == 1:
            return [builder for _, builder in able[0]]
        places = sorted((one for builders in able for one in builders), key=lambda one: one[0])
        return [builder for _, builder in places]

    def _first_free(self, able: list[BuilderView]) -> NextBuilder | None:
        room = [(max(0, b.slots - len(self._holders.get(b.name, ()))), b.name) for b in able]
        free = sum(slots for slots, _ in room)
        if not free:
            return None
        return NextBuilder(free, 0.0, "free", next(name for slots, name in room if slots))

    def _first_to_end(self, able: list[BuilderView]) -> NextBuilder:
        statuses = ("running", "cancelling") if self._rules.sees_cancelling else ("running",)
        ends = [
            self._end_of(job, builder)
            for builder in able
            for job in self._holders.get(builder.name, ())
            if job.status in statuses
        ]
        # no builder to wait for: zero, as in Launchpad (the builders are being cancelled,
        # or there are none and the job has no estimate anyway)
        return min(
            ends, key=lambda end: end.tnb_s, default=NextBuilder(0, 0.0, "nothing to wait for")
        )

    def _end_of(self, job: JobView, builder: BuilderView) -> NextBuilder:
        if job.duration_s is None or job.elapsed_s is None:
            return NextBuilder(0, OVERDUE_GUESS_S, "unknown", builder.name, job.name)
        left = job.duration_s - job.elapsed_s
        if left < 0:
            return NextBuilder(0, OVERDUE_GUESS_S, "overdue", builder.name, job.name, left)
        tnb = float(int(left)) if self._rules.whole_seconds else left
        return NextBuilder(0, tnb, "finishes", builder.name, job.name, left)
