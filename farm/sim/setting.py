"""What loads are played on: what both engines need of a scenario, made of it once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from farm.assembly import pool_specs
from farm.core.pools.algorithm import AnyAlgorithm
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.scenario import Scenario

Algorithms = Mapping[str, AnyAlgorithm]
"""Those of the provisioned pools, by the pool's name."""
NO_ALGORITHMS: Algorithms = MappingProxyType({})


class Setting(NamedTuple):
    """A farm without its jobs and its estimator."""

    pools: Sequence[PoolSpec]
    rules: SchedulingRules
    algorithms: Algorithms = NO_ALGORITHMS
    #: the run lasts until then at least
    ends_at: float = 0.0

    @classmethod
    def of(
        cls, scenario: Scenario, rules: SchedulingRules, algorithms: Algorithms = NO_ALGORITHMS
    ) -> Setting:
        """Return a scenario's setting; ``rules``: those that its scheduler has."""
        return cls(pool_specs(scenario), rules, algorithms, scenario.ends_at)
