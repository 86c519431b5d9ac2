"""Scenarios: a farm, its workload and its scheduling, as plain frozen data.

``load_scenario(path, sets)`` and ``parse_scenario(data)`` return a ``Scenario`` or raise a
ScenarioError that names file, line and key; ``scenario_schema()`` is the JSON Schema.
"""

from __future__ import annotations

from farm.scenario.load import load_scenario, parse_scenario
from farm.scenario.model import Scenario, TwinErrors, scenario_schema
from farm.scenario.pools import Pool
from farm.scenario.workload import TraceOptions

__all__ = [
    "Pool",
    "Scenario",
    "TraceOptions",
    "TwinErrors",
    "load_scenario",
    "parse_scenario",
    "scenario_schema",
]
