"""The whole queue's estimates in one pass over the sorted queue.

A job's lead time is a sum over platform groups of a quotient that depends only on how many jobs
of that group are ahead of it. So each group's quotients are computed once (two running sums) and
looked up by position. n jobs on g platforms cost one sort and about g vector operations of
length n, while estimating each job alone costs n passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.core.model import Platform
from farm.forecasts.dispatch.builder_pools import BuilderPools, NextBuilder
from farm.forecasts.dispatch.rules import LAUNCHPAD, Rules
from farm.forecasts.dispatch.view import FarmView, JobView

Floats = NDArray[np.float64]
Counts = NDArray[np.intp]


class WaitingColumns(msgspec.Struct, frozen=True, eq=False):
    """The waiting jobs in dispatch order, as columns."""

    platforms: tuple[Platform, ...]
    #: for each job the index of its platform in ``platforms``
    codes: NDArray[np.int32]
    #: for each job its estimated run time, seconds
    durations: Floats

    @classmethod
    def of(cls, jobs: Sequence[JobView]) -> WaitingColumns:
        """Convert jobs that are in dispatch order already."""
        seen: dict[tuple[str | None, bool | None], int] = {}
        codes = [seen.setdefault((job.processor, job.virtualized), len(seen)) for job in jobs]
        return cls(
            tuple(Platform(*key) for key in seen),
            np.array(codes, dtype=np.int32),
            np.array([job.duration_s or 0.0 for job in jobs], dtype=np.float64),
        )


class _Group:
    """The waiting jobs of one platform: their places, and the quotient after each."""

    def __init__(self, platform: Platform, positions: Counts, quotients: Floats) -> None:
        self.platform = platform
        #: places in the queue, ascending
        self.positions = positions
        #: entry k: what the first k jobs of the group add to a lead time, seconds
        self.quotients = quotients


class QueueEstimates:
    """Every waiting job's estimate, by place in dispatch order.

    The arrays (one entry per job) are computed on first use; estimates of single jobs
    (``estimate_at``, ``head_of_queue``, ``new_job``) do without them.
    """

    def __init__(self, columns: WaitingColumns, builder_pools: BuilderPools, rules: Rules) -> None:
        self.rules = rules
        self.columns = columns
        self.builder_pools = builder_pools
        written = [rules.shown(platform) for platform in columns.platforms]
        names = list(dict.fromkeys(platform.normalised() for platform in written))
        #: platform code -> group
        self._group_of = np.array([names.index(p.normalised()) for p in written], dtype=np.int32)
        self._groups = self._in_order_of_appearance(names, written)
        self._rivals_of: dict[tuple[str | None, bool], list[_Group]] = {}

    def __len__(self) -> int:
        return len(self.columns.codes)

    @cached_property
    def plt_s(self) -> Floats:
        """Predecessor lead time, seconds."""
        found = np.zeros(len(self))
        for group, rival in self._pairs():
            found[group.positions] += rival.quotients[_count_before(rival, group)]
        return found

    @cached_property
    def predecessors(self) -> Counts:
        """The number of competing jobs ahead."""
        found = np.zeros(len(self), dtype=np.intp)
        for group, rival in self._pairs():
            found[group.positions] += _count_before(rival, group)
        return found

    @cached_property
    def tnb_s(self) -> Floats:
        """Time to next builder, seconds."""
        found = np.zeros(len(self))
        for group in self._groups:
            found[group.positions] = self.next_builder(group.platform).tnb_s
        return found

    @cached_property
    def estimate_s(self) -> Floats:
        """Seconds until dispatch; NaN: no builder can run it."""
        found = np.maximum(self.rules.floor_s, self.tnb_s + self.plt_s)
        shown = (self.rules.shown(platform) for platform in self.columns.platforms)
        pools = np.array([self.builder_pools.pool_for_job(p) for p in shown], dtype=np.int64)
        if len(self):
            found[pools[self.columns.codes] == 0] = np.nan
        return found

    def estimate_at(self, place: int) -> float | None:
        """Return one entry of ``estimate_s`` without computing all of them; None for NaN."""
        return self.new_job(self.columns.platforms[self.columns.codes[place]], place)

    def head_place(self, platform: Platform) -> int | None:
        """Return the place of the head job of this platform's queue; None if it is empty."""
        if self.rules.global_head:
            return 0 if len(self) else None
        return min((int(rival.positions[0]) for rival in self._rivals(platform)), default=None)

    def next_builder(self, platform: Platform) -> NextBuilder:
        """Return the next builder for the head job of this platform's queue."""
        head = self.head_place(platform)
        if head is not None:
            platform = self.columns.platforms[self.columns.codes[head]]
        return self.builder_pools.next_builder(platform)

    def predecessor_places(self, place: int) -> Counts:
        """Return the places of the competing jobs ahead of this one."""
        platform = self.columns.platforms[self.columns.codes[place]]
        ahead = [
            rival.positions[: np.searchsorted(rival.positions, place)]
            for rival in self._rivals(platform)
        ]
        return np.sort(np.concatenate(ahead)) if ahead else np.zeros(0, dtype=np.intp)

    def new_job(self, platform: Platform, place: int | None = None) -> float | None:
        """Estimate the dispatch of a job that is not in the queue, seconds; None if never.

        It would precede the job that is now at ``place``, or follow all (None). Costs a binary
        search per platform, which is cheap enough for every submission.
        """
        written = self.rules.shown(platform)
        if not self.builder_pools.pool_for_job(written):
            return None
        place = len(self) if place is None else place
        lead_time = 0.0
        head = 0 if self.rules.global_head else place
        for rival in self._rivals(platform):
            before = int(np.searchsorted(rival.positions, place))
            lead_time += float(rival.quotients[before])
            head = min(head, int(rival.positions[0]))
        if head < place:
            platform = self.columns.platforms[self.columns.codes[head]]
        tnb = self.builder_pools.next_builder(platform).tnb_s
        return max(self.rules.floor_s, tnb + lead_time)

    def head_of_queue(self, platform: Platform) -> float | None:
        """Estimate the dispatch of this platform's first waiting job, or of a new one.

        Only jobs of exactly this platform are considered; competing ones are ahead as usual.
        """
        ours = platform.normalised()
        for group in self._groups:
            if group.platform == ours:
                return self.estimate_at(int(group.positions[0]))
        return self.new_job(platform)

    def _rivals(self, platform: Platform) -> list[_Group]:
        key = (platform.processor, platform.needs_virtual)
        if key not in self._rivals_of:
            self._rivals_of[key] = [
                group
                for group in self._groups
                if self.builder_pools.competes(platform, group.platform)
            ]
        return self._rivals_of[key]

    def _in_order_of_appearance(
        self, names: list[Platform], written: list[Platform]
    ) -> list[_Group]:
        """Make the groups, in the order in which a job's quotients are added."""
        codes = self.columns.codes
        membership = self._group_of[codes] if len(codes) else codes
        # a stable sort by group leaves each group's places ascending
        by_group = np.argsort(membership, kind="stable")
        ends = np.cumsum(np.bincount(membership, minlength=len(names)))
        groups = (
            [
                self._make_group(name, positions, written)
                for name, positions in zip(names, np.split(by_group, ends[:-1]), strict=True)
                if len(positions)
            ]
            if names
            else []
        )
        return sorted(groups, key=lambda group: int(group.positions[0]))

    def _make_group(self, name: Platform, positions: Counts, written: list[Platform]) -> _Group:
        durations, codes = self.columns.durations[positions], self.columns.codes[positions]
        pool = self.builder_pools.group_pool(name)
        quotients = np.zeros(len(positions) + 1)
        if pool:
            sums = self._running_sums(durations, codes, written)
            quotients[1:] = sums / np.minimum(np.arange(1, len(positions) + 1), pool)
        return _Group(
            name, positions, np.trunc(quotients) if self.rules.whole_seconds else quotients
        )

    def _running_sums(
        self, durations: Floats, codes: NDArray[np.int32], written: list[Platform]
    ) -> Floats:
        """Return running sums; unspecified virtualization is rounded apart (as in ``_groups``)."""
        unspecified = np.array([p.virtualized is None for p in written])[codes]
        if not unspecified.any() or unspecified.all():
            return self._rounded(np.cumsum(durations))
        specified_sums = self._rounded(np.cumsum(np.where(unspecified, 0.0, durations)))
        return specified_sums + self._rounded(np.cumsum(np.where(unspecified, durations, 0.0)))

    def _rounded(self, sums: Floats) -> Floats:
        return np.rint(sums) if self.rules.whole_seconds else sums

    def _pairs(self) -> Iterator[tuple[_Group, _Group]]:
        """Yield each group with each of its rivals, in the order in which lead times are added."""
        for group in self._groups:
            for rival in self._rivals(group.platform):
                yield group, rival


def _count_before(rival: _Group, group: _Group) -> Counts:
    """Count, for each job of the group, the rival's jobs ahead of it."""
    if rival is group:
        return np.arange(len(group.positions))
    return np.searchsorted(rival.positions, group.positions)


def estimate_queue(
    view: FarmView, rules: Rules = LAUNCHPAD
) -> tuple[list[JobView], QueueEstimates]:
    """Estimate when every waiting job will be dispatched.

    Returns the waiting jobs in dispatch order and the estimates in the same order; they equal
    those of ``estimate_dispatch`` exactly.
    """
    jobs = view.waiting()
    builder_pools = BuilderPools(view.builders, view.jobs, rules)
    return jobs, QueueEstimates(WaitingColumns.of(jobs), builder_pools, rules)
