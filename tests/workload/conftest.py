"""Small scenarios."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.scenario import Scenario, parse_scenario

ScenarioOf = Callable[..., Scenario]


@pytest.fixture
def scenario_of(tmp_path: Path) -> ScenarioOf:
    """Make a scenario of one amd64 pool and these workload sources."""

    def make(*sources: dict[str, Any], **keys: Any) -> Scenario:
        pool = {"name": "linux", "platform": {"processor": "amd64"}, "builders": 1}
        return parse_scenario({"pools": [pool], "workload": list(sources), **keys}, tmp_path)

    return make
