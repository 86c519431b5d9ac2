"""The estimates of a whole queue, from one pass over the sorted queue.

A job's lead time is a sum over platform groups of a quotient that depends only on how many jobs
of that group are ahead of it. So each group's quotients are computed once (two running sums) and
looked up by position. n jobs on g platforms cost one sort and vector operations of length n in
all; after that an estimate costs a binary search per group.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.columns import Floats
from farm.core.model import Platform
from farm.forecasts.dispatch.builder_pools import BuilderPools
from farm.forecasts.dispatch.view import FarmView, JobView
from farm.upstream.launchpad import LAUNCHPAD, LAUNCHPAD_2010, PAGE, Rules

Counts = NDArray[np.intp]

FARM = Rules(name="farm", sees_cancelling=True, shared_builders=True)
"""Ours: the page's arithmetic, the code's head job, and builders with several processors seen."""

RULES = {rules.name: rules for rules in (PAGE, LAUNCHPAD_2010, LAUNCHPAD, FARM)}
"""Every rule set by its name."""


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
            # an unknown one adds nothing, as in Launchpad (``OVERDUE_GUESS_S`` is of running ones)
            np.array([job.duration_s or 0.0 for job in jobs], dtype=np.float64),
        )


class PlatformGroup(msgspec.Struct, frozen=True, eq=False):
    """The waiting jobs of one platform: their places, and what the first of them add up to."""

    platform: Platform
    #: places in the queue, ascending
    positions: Counts
    #: entry k: the sum of the estimated run times of the first k + 1 jobs, seconds
    sums: Floats
    #: entry k: what the first k jobs of the group add to a lead time, seconds
    quotients: Floats


class QueueEstimates:
    """The estimates of jobs by their platform and their place in dispatch order."""

    def __init__(self, columns: WaitingColumns, builder_pools: BuilderPools, rules: Rules) -> None:
        self.rules = rules
        self.columns = columns
        self.builder_pools = builder_pools
        written = [rules.shown(platform) for platform in columns.platforms]
        names = list(dict.fromkeys(platform.normalised() for platform in written))
        #: platform code -> group
        self._group_of = np.array([names.index(p.normalised()) for p in written], dtype=np.int32)
        self._groups = self._in_order_of_appearance(names, written)
        self._rivals_of: dict[tuple[str | None, bool], list[PlatformGroup]] = {}

    def __len__(self) -> int:
        return len(self.columns.codes)

    def predecessor_places(self, place: int) -> Counts:
        """Return the places of the competing jobs ahead of this one."""
        rivals = self.rivals(self.platform_at(place))
        ahead = [rival.positions[: np.searchsorted(rival.positions, place)] for rival in rivals]
        return np.sort(np.concatenate(ahead)) if ahead else np.zeros(0, dtype=np.intp)

    def predecessor_count(self, place: int) -> int:
        """Return how many competing jobs are ahead of this one, without listing them."""
        rivals = self.rivals(self.platform_at(place))
        return sum(int(np.searchsorted(rival.positions, place)) for rival in rivals)

    def new_job(self, platform: Platform, place: int | None = None) -> float | None:
        """Estimate the dispatch of a job that is not in the queue, seconds; None if never.

        It would precede the job that is now at ``place``, or follow all (None). Cheap enough for
        every submission.
        """
        written = self.rules.shown(platform)
        if not self.builder_pools.pool_for_job(written):
            return None
        place = len(self) if place is None else place
        lead_time = 0.0
        rivals = self.rivals(platform)
        for rival in rivals:
            before = int(np.searchsorted(rival.positions, place))
            lead_time += float(rival.quotients[before])
        head = self.rules.head_place(place, [int(rival.positions[0]) for rival in rivals])
        if head < place:
            platform = self.platform_at(head)
        tnb = self.builder_pools.next_builder(platform).tnb_s
        return max(self.rules.floor_s, tnb + lead_time)

    def head_of_queue(self, platform: Platform) -> float | None:
        """Estimate the dispatch of this platform's first waiting job, or of a new one.

        Only jobs of exactly this platform are considered; competing ones are ahead as usual.
        """
        ours = platform.normalised()
        for group in self._groups:
            if group.platform == ours:
                first = int(group.positions[0])
                return self.new_job(self.platform_at(first), first)
        return self.new_job(platform)

    def platform_at(self, place: int) -> Platform:
        """Return the platform of the job at this place, as written."""
        return self.columns.platforms[int(self.columns.codes[place])]

    def rivals(self, platform: Platform) -> list[PlatformGroup]:
        """Return the groups that compete with jobs of this platform, the first one ahead first."""
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
    ) -> list[PlatformGroup]:
        """Make the groups, in the order in which a job's quotients are added."""
        codes = self.columns.codes
        membership = self._group_of[codes] if len(codes) else codes
        # a stable sort by group leaves each group's places ascending
        by_group = np.argsort(membership, kind="stable")
        ends = np.cumsum(np.bincount(membership, minlength=len(names)))
        parts = np.split(by_group, ends[:-1]) if names else []
        groups = [
            self._make_group(name, positions, written)
            for name, positions in zip(names, parts, strict=True)
            if len(positions)
        ]
        return sorted(groups, key=lambda group: int(group.positions[0]))

    def _make_group(
        self, name: Platform, positions: Counts, written: list[Platform]
    ) -> PlatformGroup:
        durations, codes = self.columns.durations[positions], self.columns.codes[positions]
        sums = self._running_sums(durations, codes, written)
        pool = self.builder_pools.group_pool(name)
        quotients = np.zeros(len(positions) + 1)
        if pool:
            quotients[1:] = sums / np.minimum(np.arange(1, len(positions) + 1), pool)
        whole = np.trunc(quotients) if self.rules.whole_seconds else quotients
        return PlatformGroup(name, positions, sums, whole)

    def _running_sums(
        self, durations: Floats, codes: NDArray[np.int32], written: list[Platform]
    ) -> Floats:
        """Return running sums; unspecified virtualization is rounded apart.

        In 2010 it was summed apart from virtual, and added afterwards.
        """
        unspecified = np.array([p.virtualized is None for p in written])[codes]
        if not unspecified.any() or unspecified.all():
            return self._rounded(np.cumsum(durations))
        specified_sums = self._rounded(np.cumsum(np.where(unspecified, 0.0, durations)))
        return specified_sums + self._rounded(np.cumsum(np.where(unspecified, durations, 0.0)))

    def _rounded(self, sums: Floats) -> Floats:
        return np.rint(sums) if self.rules.whole_seconds else sums


def estimate_queue(
    view: FarmView, rules: Rules = LAUNCHPAD
) -> tuple[list[JobView], QueueEstimates]:
    """Estimate when every waiting job will be dispatched.

    Returns the waiting jobs in dispatch order, and the estimates by place in that order.
    """
    jobs = view.waiting()
    builder_pools = BuilderPools(view.builders, view.jobs, rules)
    return jobs, QueueEstimates(WaitingColumns.of(jobs), builder_pools, rules)
