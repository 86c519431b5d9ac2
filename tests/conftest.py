"""What all tests share: live tests take turns, and a missing tool is an error in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

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
