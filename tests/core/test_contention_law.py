"""The scenario's ``contention:`` mapping, and the laws that it names."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.contention import Load, contention_law
from farm.core.errors import InputError


@pytest.mark.parametrize(
    ("options", "factors"),
    [
        ({"slowdown": [1, 1, 1.4, 1.8, 2.2]}, [1, 1, 1.4, 1.8, 2.2, 2.6, 3.0]),
        ({"slowdown": "thesis"}, [1, 1, 1.4, 1.8, 2.2, 2.6, 3.0]),
        ({"cpu": {"table": [1, 1, 1.4]}}, [1, 1, 1.4, 1.8, 2.2]),
        ({"slowdown": {"threshold": 1, "step": 0.4}}, [1, 1, 1.4, 1.8, 2.2, 2.6]),
        ({"slowdown": {"threshold": 3, "step": 0.5}}, [1, 1, 1, 1, 1.5, 2]),
        ({"slowdown": [1, 1.1, 1.1]}, [1, 1.1, 1.1, 1.1, 1.1]),
        ({"slowdown": [1]}, [1, 1, 1]),
    ],
)
def test_factor_by_number_of_heavy_jobs(options: dict[str, Any], factors: list[float]) -> None:
    """Protects each form of a law, and the linear way on beyond a table's end."""
    law = contention_law(options)
    assert law is not None
    found = [law.slowdown(Load(jobs=k, heavy=k)) for k in range(len(factors))]
    assert found == pytest.approx(factors)


@pytest.mark.parametrize("options", [None, {}, {"slowdown": None}])
def test_nothing_said_is_no_contention(options: dict[str, Any] | None) -> None:
    """Protects pools without contention from paying for it."""
    assert contention_law(options) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slowdwon": [1]}, r"contention\.slowdwon: unknown key; did you mean slowdown\?"),
        ({"slowdown": [1], "cpu": [1]}, "give one of them"),
        ({"slowdown": []}, r"contention\.slowdown: the table is empty"),
        ({"slowdown": [1, 0.5]}, r"contention\.slowdown\[1\]: found 0\.5; .*at least 1"),
        ({"slowdown": [1, 2, 1.5]}, r"slowdown\[2\]: found 1\.5 after 2"),
        ({"slowdown": [1, "x"]}, r"slowdown\[1\]: found 'x'"),
        ({"slowdown": [1, float("nan")]}, r"slowdown\[1\]: found nan"),
        ({"slowdown": [1, float("inf")]}, r"slowdown\[1\]: found inf"),
        ({"slowdown": [True]}, r"slowdown\[0\]: found True"),
        ({"slowdown": "launchpad"}, "found 'launchpad'; expected a table"),
        ({"slowdown": 1.4}, r"contention\.slowdown: found 1\.4"),
        ({"slowdown": {"threshold": 1}}, r"slowdown\.step: missing"),
        ({"slowdown": {"threshold": -1, "step": 1}}, r"slowdown\.threshold: found -1"),
        ({"slowdown": {"threshold": 1, "step": -1}}, r"slowdown\.step: found -1"),
        (
            {"slowdown": {"treshold": 1, "step": 1}},
            r"treshold: unknown key; did you mean threshold\?",
        ),
        ({"slowdown": {"cores": 0}}, r"slowdown\.cores: found 0; expected a number above 0"),
        ({"slowdown": {"cores": 8, "heavy_threads": 1.5}}, r"slowdown\.heavy_threads: found 1\.5"),
        ({"memory": {"cores": 8}}, r"contention\.memory: cores slow the processor"),
        ({"memory": [2, 1]}, r"contention\.memory\[1\]"),
        (
            {"slowdown": [1], "combine": "sum"},
            r"contention\.combine: found 'sum'; allowed: product, max",
        ),
        ([1, 1, 1.4], "expected keys slowdown, memory, combine"),
    ],
)
def test_a_mistake_is_one_message_that_names_the_key(options: Any, message: str) -> None:
    """Protects users: the key, what was found, what is allowed."""
    with pytest.raises(InputError, match=message):
        contention_law(options)


def test_the_message_can_name_the_pool() -> None:
    """Protects scenarios with several pools: the key's whole path is in the message."""
    with pytest.raises(InputError, match=r"^pools\.linux\.contention\.memory: "):
        contention_law({"memory": 3}, "pools.linux.contention")
