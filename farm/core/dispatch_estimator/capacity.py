"""Who could run it: pools, free slots and the next builder to come free, platform by platform."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from farm.core.dispatch_estimator.rules import Rules
from farm.core.dispatch_estimator.view import BuilderView, JobView
from farm.core.model import Platform

OVERDUE_GUESS_S = 120.0
"""A job that overruns its estimate is taken to end in two minutes, however late it is."""


class NextBuilder(msgspec.Struct, frozen=True):
    """When the next slot of a platform comes free, and why (the time to next builder)."""

    #: slots that are free at this moment
    free: int
    #: seconds until there is one
    tnb_s: float
    why: Literal["free", "finishes", "overdue", "unknown", "nothing to wait for"]
    #: the builder that is free, or comes free first
    builder: str | None = None
    #: the job that it runs until then
    job: str | None = None
    #: that job's estimated duration less what it has run, seconds (negative: overdue)
    left_s: float | None = None


class Capacity:
    """The builders' side of an estimate; answers are computed once per platform.

    ``jobs`` may be all jobs of the farm: only those that hold a builder matter. A slot counts as
    a builder of its own, so with one slot per builder these are Launchpad's numbers.
    """

    def __init__(
        self, builders: Iterable[BuilderView], jobs: Iterable[JobView], rules: Rules
    ) -> None:
        self._rules = rules
        self._usable = [builder for builder in builders if builder.usable]
        self._holders: dict[str, list[JobView]] = {}
        for job in jobs:
            if job.builder is not None:
                self._holders.setdefault(job.builder, []).append(job)
        self._pools: dict[Platform, int] = {}
        self._next: dict[Platform, NextBuilder] = {}
        self._runners: dict[Platform, frozenset[str]] = {}

    def group_pool(self, platform: Platform) -> int:
        """Count the usable slots, busy or free, that can run jobs of this platform."""
        platform = platform.normalised()
        if platform not in self._pools:
            self._pools[platform] = sum(b.slots for b in self._usable if b.can_run(platform))
        return self._pools[platform]

    def pool_for_job(self, platform: Platform) -> int:
        """Count the slots that the rules grant to a job of interest of this platform."""
        lost = self._rules.loses_unspecified and platform.virtualized is None
        return 0 if lost and platform.processor is not None else self.group_pool(platform)

    def free(self, platform: Platform) -> int:
        """Count the usable slots of this platform that no job, of whatever status, holds."""
        return self.next_builder(platform).free

    def next_builder(self, platform: Platform) -> NextBuilder:
        """Say when a slot of this platform comes free."""
        platform = platform.normalised()
        if platform not in self._next:
            able = [builder for builder in self._usable if builder.can_run(platform)]
            self._next[platform] = self._first_free(able) or self._first_to_end(able)
        return self._next[platform]

    def competes(self, ours: Platform, theirs: Platform) -> bool:
        """Whether jobs of these two platforms want the same builders."""
        ours, theirs = ours.normalised(), theirs.normalised()
        if ours == theirs:
            return True
        if self._rules.shared_builders:
            return not self._able(ours).isdisjoint(self._able(theirs))
        return ours.virtualized == theirs.virtualized and None in (ours.processor, theirs.processor)

    def _able(self, platform: Platform) -> frozenset[str]:
        if platform not in self._runners:
            self._runners[platform] = frozenset(
                builder.name for builder in self._usable if builder.can_run(platform)
            )
        return self._runners[platform]

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
        # nothing that we wait for: zero, as in Launchpad (the builders are being cancelled,
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
