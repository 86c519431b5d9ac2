"""Small scenarios."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.scenario import Scenario, parse_scenario

ScenarioOf = Callable[..., Scenario]
Write = Callable[[str, bytes | str], Path]


@pytest.fixture
def scenario_of(tmp_path: Path) -> ScenarioOf:
    """Make a scenario of one amd64 pool and these workload sources."""

    def make(*sources: dict[str, Any], **keys: Any) -> Scenario:
        pool = {"name": "linux", "platform": {"processor": "amd64"}, "builders": 1}
        return parse_scenario({"pools": [pool], "workload": list(sources), **keys}, tmp_path)

    return make


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a trace file."""

    def write_file(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file
