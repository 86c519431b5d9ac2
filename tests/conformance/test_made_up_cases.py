"""The tests of this folder on made-up cases: wrong and unreadable ones fail, right ones do not."""

from __future__ import annotations

from typing import Any

import pytest

from . import test_taskcluster as taskcluster


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"tasks": -1}, "-1"), ({"tsaks": 2885}, "unknown key tsaks"), ({"workers": 6}, "6")],
)
def test_taskclusters_counts_are_compared(wrong: dict[str, Any], message: str) -> None:
    """Protects against a count that no test reads."""
    case = {"name": "w5-l4", "workers": 5, "load": 4, "tasks": 2885} | wrong
    with pytest.raises(AssertionError, match=message):
        taskcluster.test_a_manual_pool_under_an_even_load(case, "reference")
