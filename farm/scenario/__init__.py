"""The scenario file: a farm, its workload and its scheduling, as plain frozen data.

``load_scenario(path, sets)`` and ``parse_scenario(data)`` make a ``Scenario`` or raise a
ScenarioError that names file, line and key; ``scenario_schema()`` is its JSON Schema.
"""

from __future__ import annotations

from farm.scenario.estimates import Estimates
from farm.scenario.load import load_scenario, parse_scenario
from farm.scenario.model import Live, Phases, Scenario, scenario_schema
from farm.scenario.pools import Contention, Pool, PoolPlatform, ProvisionerSettings
from farm.scenario.scheduling import HeavyLight, Scheduling
from farm.scenario.workload import Arrivals, Matrices, Source, Trace, TraceOptions

__all__ = [
    "Arrivals",
    "Contention",
    "Estimates",
    "HeavyLight",
    "Live",
    "Matrices",
    "Phases",
    "Pool",
    "PoolPlatform",
    "ProvisionerSettings",
    "Scenario",
    "Scheduling",
    "Source",
    "Trace",
    "TraceOptions",
    "load_scenario",
    "parse_scenario",
    "scenario_schema",
]
