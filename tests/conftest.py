"""What all tests share: turns of live tests, tools (missing ones are errors in CI), traces."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let live tests run one after the other, in one process, beside the rest (pytest -n)."""
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.xdist_group("live"))


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Find a program that a test needs: without it the test is skipped, or fails in CI."""

    def find(name: str) -> str:
        found = shutil.which(name)
        if found is not None:
            return found
        reason = f"needs {name} on PATH"
        if os.environ.get("FARM_CI") or os.environ.get("CI"):
            pytest.fail(f"{reason}; .ci/run installs it")
        pytest.skip(reason)

    return find


@pytest.fixture(scope="session")
def traces() -> Path:
    """Return the folder of recorded traces; skip where there is none."""
    beside = Path(__file__).parents[2] / "shared" / "traces"
    folder = Path(os.environ.get("FARM_TRACES", beside))
    if not folder.is_dir():
        pytest.skip("no folder of recorded traces (FARM_TRACES)")
    return folder
