"""The scenario's ``contention:`` mapping, and the laws that it names."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.contention.progress import Load, contention_law
from farm.core.errors import InputError


@pytest.mark.parametrize(
    ("options", "factors"),
    [
        ({"slowdown": [1, 1, 1.4, 1.8, 2.2]}, [1, 1, 1.4, 1.8, 2.2, 2.6, 3.0]),
        ({"slowdown": (1.0, 1.0, 1.4), "linear": None}, [1, 1, 1.4, 1.8, 2.2]),
        ({"slowdown": "thesis"}, [1, 1, 1.4, 1.8, 2.2, 2.6, 3.0]),
        ({"linear": {"threshold": 1, "slope": 0.4}}, [1, 1, 1.4, 1.8, 2.2, 2.6]),
        ({"linear": {"threshold": 3, "slope": 0.5}}, [1, 1, 1, 1, 1.5, 2]),
        ({"threads": {"cores": 8, "heavy_threads": 4}}, [1, 1, 1, 1.5, 2]),
        ({"slowdown": [1, 1.1, 1.1]}, [1, 1.1, 1.1, 1.1, 1.1]),
        ({"slowdown": [1]}, [1, 1, 1]),
    ],
)
def test_factor_by_number_of_heavy_jobs(options: dict[str, Any], factors: list[float]) -> None:
    """Protects each form of a law, and the linear way on beyond a table's end."""
    law = contention_law(options)
    assert law is not None
    found = [
        law.slowdown(Load(k, k, 0, k * law.threads_of(1, heavy=True))) for k in range(len(factors))
    ]
    assert found == pytest.approx(factors)


@pytest.mark.parametrize("options", [None, {}, {"slowdown": None, "memory": None}])
def test_nothing_said_is_no_contention(options: dict[str, Any] | None) -> None:
    """Protects pools without contention from paying for it."""
    assert contention_law(options) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slowdwon": [1]}, r"contention\.slowdwon: unknown key; did you mean slowdown\?"),
        ({"slowdown": [1], "threads": {"cores": 1}}, "found slowdown and threads; expected one"),
        ({"slowdown": []}, r"contention\.slowdown: the table is empty"),
        ({"slowdown": [1, 0.5]}, r"contention\.slowdown\[1\]: found 0\.5; .*at least 1"),
        ({"slowdown": [1, 2, 1.5]}, r"slowdown\[2\]: found 1\.5 after 2"),
        ({"slowdown": [1, "x"]}, r"slowdown\[1\]: found 'x'"),
        ({"slowdown": [1, float("nan")]}, r"slowdown\[1\]: found nan"),
        ({"slowdown": [1, float("inf")]}, r"slowdown\[1\]: found inf"),
        ({"slowdown": [True]}, r"slowdown\[0\]: found True"),
        ({"slowdown": "launchpad"}, "found 'launchpad'; expected a table"),
        ({"slowdown": 1.4}, r"contention\.slowdown: found 1\.4"),
        ({"linear": 2}, r"contention\.linear: found 2; expected \{threshold, slope\}"),
        ({"linear": {"threshold": 1}}, r"linear\.slope: missing"),
        ({"linear": {"threshold": -1, "slope": 1}}, r"linear\.threshold: found -1"),
        ({"linear": {"threshold": 1, "slope": -1}}, r"linear\.slope: found -1"),
        (
            {"linear": {"treshold": 1, "slope": 1}},
            r"treshold: unknown key; did you mean threshold\?",
        ),
        ({"threads": {"cores": 0}}, r"threads\.cores: found 0; expected a number above 0"),
        ({"threads": {"cores": 8, "heavy_threads": 1.5}}, r"threads\.heavy_threads: found 1\.5"),
        ({"memory": {"cores": 8}}, r"contention\.memory\.cores: unknown key"),
        ({"memory": [2, 1]}, r"contention\.memory\[1\]"),
        (
            {"slowdown": [1], "combine": "sum"},
            r"contention\.combine: found 'sum'; allowed: product, max",
        ),
        ([1, 1, 1.4], "expected keys slowdown, linear, threads, memory, combine"),
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
