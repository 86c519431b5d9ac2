"""Whether a live farm, at its speed, can be planned as often as its algorithms want."""

from __future__ import annotations

from collections.abc import Mapping

from farm.core.pools.algorithm import AnyAlgorithm
from farm.scenario import Scenario
from farm.units import format_roughly
from provisioner.from_scenario import algorithms_of

#: real seconds that a live farm's plans come late, and the share of an interval that may be
LAG, TOLERABLE = 0.01, 0.1


def too_fast_to_plan(
    scenario: Scenario, algorithms: Mapping[str, AnyAlgorithm] | None = None
) -> list[str]:
    """Return the remark that plans are due too often in real time, if they are.

    ``algorithms``: by pool; None: the scenario's.
    """
    planned = algorithms_of(scenario) if algorithms is None else algorithms
    speed, intervals = scenario.live.speed, {pool: one.interval for pool, one in planned.items()}
    pool = min(intervals, key=intervals.__getitem__, default=None)
    if pool is None or (late := LAG * speed / intervals[pool]) <= TOLERABLE:
        return []
    often, usual = 1000 * intervals[pool] / speed, format_roughly(intervals[pool])
    remark = (
        f"at speed {speed:g} pool {pool} is planned every {often:.2g}ms of real time, and plans "
        f"come some {1000 * LAG:g}ms late, {100 * late:.0f} % of their interval ({usual}); up to "
        f"speed {TOLERABLE * intervals[pool] / LAG:g} live and simulated pools agree better"
    )
    return [remark]
