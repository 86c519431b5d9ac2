"""Small scenarios, and where recorded traces may lie."""

import os
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


@pytest.fixture
def traces() -> Path:
    """Return the folder of recorded traces; skip where there is none."""
    beside = Path(__file__).parents[2].parent / "shared" / "traces"
    folder = Path(os.environ.get("FARM_TRACES", beside))
    if not folder.is_dir():
        pytest.skip("no folder of recorded traces (FARM_TRACES)")
    return folder
