"""The scenario's ``contention:`` mapping, and the laws that it names."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.contention.laws import ContentionLaw, LinearSlowdown, Load, SlowdownTable
from farm.core.errors import ScenarioError
from farm.scenario import parse_scenario
from farm.testing import small_scenario


def law_of(options: Any) -> ContentionLaw:
    """Return the law of a scenario whose only pool has this contention."""
    pool = {"name": "linux", "contention": options}
    contention = parse_scenario(small_scenario(pool)).pools[0].contention
    assert contention is not None
    return contention.law


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
    """Protects each form of a law, and the linear extrapolation beyond a table's end."""
    law = law_of(options)
    found = [
        law.slowdown(Load(k, k, 0, k * law.threads_of(1, heavy=True))) for k in range(len(factors))
    ]
    assert found == pytest.approx(factors)


def test_the_memory_bus_has_its_own_law() -> None:
    """Protects the second resource: a table or a line, and how the two are combined."""
    law = law_of({"slowdown": [1, 2], "memory": [1, 3], "combine": "max"})
    assert law == ContentionLaw(SlowdownTable((1, 2)), SlowdownTable((1, 3)), "max")
    line = {"threshold": 2, "slope": 0.1}
    assert law_of({"memory": line}) == ContentionLaw(None, LinearSlowdown(2, 0.1), "product")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slowdwon": [1]}, r"slowdwon: unknown key; did you mean slowdown\?"),
        ({"slowdown": [1], "threads": {"cores": 1}}, " found slowdown and threads together"),
        ({"slowdown": []}, "slowdown: found an empty table"),
        (
            {"slowdown": [1, 0.5]},
            r"slowdown: found 0\.5 after 1; allowed: from 1 on, never falling",
        ),
        ({"slowdown": [1, 2, 1.5]}, r"slowdown: found 1\.5 after 2"),
        ({"slowdown": [1, "x"]}, r"slowdown\.1: found 'x'"),
        ({"slowdown": [1, float("nan")]}, r"slowdown\.1: found nan"),
        ({"slowdown": [1, float("inf")]}, r"slowdown\.1: found inf"),
        ({"slowdown": [True]}, r"slowdown\.0: found true"),
        ({"slowdown": "launchpad"}, "slowdown: found 'launchpad'; allowed: a list"),
        ({"slowdown": 1.4}, r"slowdown: found 1\.4"),
        ({"linear": 2}, "linear: found 2; allowed: a mapping"),
        ({"linear": {"threshold": 1}}, r"linear\.slope: this key is required"),
        ({"linear": {"threshold": -1, "slope": 1}}, r"linear\.threshold: found -1"),
        ({"linear": {"threshold": 1, "slope": -1}}, r"linear\.slope: found -1"),
        (
            {"linear": {"treshold": 1, "slope": 1}},
            r"linear\.treshold: unknown key; did you mean threshold\?",
        ),
        ({"threads": {"cores": 0}}, r"threads\.cores: found 0; allowed: more than 0"),
        ({"threads": {"cores": 8, "heavy_threads": 1.5}}, r"threads\.heavy_threads: found 1\.5"),
        ({"memory": {"cores": 8}}, r"memory\.cores: unknown key"),
        ({"memory": [2, 1]}, "memory: found 1 after 2"),
        ({"slowdown": [1], "combine": "sum"}, "combine: found 'sum'; allowed: product, max"),
        ([1, 1, 1.4], " found a list; allowed: a mapping"),
        ({}, " found nothing; allowed: one of slowdown, linear, threads, calibration, and memory"),
    ],
)
def test_a_mistake_is_one_message_that_names_the_key(options: Any, message: str) -> None:
    """Protects users: the key's whole path, what was found, what is allowed."""
    separator = r":" if message.startswith(" ") else r"\."
    with pytest.raises(ScenarioError, match=rf"pools\.linux\.contention{separator}{message}"):
        law_of(options)
