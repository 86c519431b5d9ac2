"""A change of the number of runners within the records: whether the twin would have foreseen it.

Jobs that came on the larger farm, played on the smaller one, must wait as those did that came
there. No twin passes whose jobs come as they were recorded to. They are other jobs, so their mean
waits differ by chance, too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from farm.columns import Floats
from farm.results.formatting import readable_percent, readable_span
from farm_twin.twins.pool_shapes import PoolLoad, Shape

LEAST_CHANGE: Final = 0.2
"""Share by which the number of runners must change: less would hardly show in the waits."""
FORESEEN: Final = 0.3
"""Share by which the mean wait may be off, either way: a week's load differs from the next by as
much."""
LEAST_JOBS: Final = 200
"""Jobs that must have come before the change, and after it: the means of fewer differ by chance."""


class Change(NamedTuple):
    """A change of the number of a pool's runners."""

    before: int
    after: int
    #: seconds after the first job's arrival
    at: float


class ForeseenChange(NamedTuple):
    """How long jobs wait after such a change, and would wait by the jobs of before."""

    pool: str
    change: Change
    #: mean waits, seconds
    recorded: float
    foreseen: float
    #: seconds that the records do not tell apart
    resolution: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether they are alike."""
        off = abs(self.foreseen - self.recorded)
        return off <= max(FORESEEN * self.recorded, self.resolution)

    @property
    def text(self) -> str:
        """What was found, in one sentence."""
        before, after, _ = self.change
        others = "of other jobs"
        if self.recorded:
            off = readable_percent(self.foreseen / self.recorded - 1, signed=True)
            others = f"{off}, {others}"
        verdict = "as foreseen" if self.holds else "not as foreseen"
        return (
            f"{self.pool}: its runners went from {before:,} to {after:,}, {verdict}: the jobs of "
            f"before wait {readable_span(self.foreseen)} on {after:,} here, and those that came "
            f"then did {readable_span(self.recorded)} ({others})"
        )


def change_of(shape: Shape, load: PoolLoad) -> Change | None:
    """Return the change of a pool's size in its records; None: none that can be checked."""
    options = shape.changes or {}
    steps = options.get("by_time")
    before = options.get("capacity")
    if not isinstance(before, int) or not isinstance(steps, list) or len(steps) != 1:
        return None
    at, after = steps[0].get("start"), steps[0].get("capacity")
    if not before or not after or at is None or abs(after - before) < LEAST_CHANGE * before:
        return None
    jobs_before = int(np.searchsorted(load.arrived, at))
    if min(jobs_before, len(load.arrived) - jobs_before) < LEAST_JOBS:
        return None
    return Change(before, after, float(at))


def foreseen_change(
    pool: str, change: Change, load: PoolLoad, waits: Floats, resolution: float
) -> ForeseenChange | None:
    """Return how a change was foreseen; None: no job started that came before it.

    Args:
        pool: its name.
        change: of its number of runners.
        load: what was recorded.
        waits: of the jobs that came before the change, with the number of runners after it.
        resolution: seconds that the records do not tell apart.
    """
    has_come_before = load.arrived < change.at
    waits_before = waits[has_come_before]
    if np.isnan(waits_before).all():
        return None
    return ForeseenChange(
        pool,
        change,
        recorded=float(load.waited[~has_come_before].mean()),
        foreseen=float(np.nanmean(waits_before)),
        resolution=resolution,
    )
