"""Distributions: means of seeded draws against theory, shapes, caps."""

import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from farm.scenario.distributions import LARGEST, Distribution
from farm.scenario.workload import Arrivals
from farm.workload.streams import chooser, stream

DRAWS = 40_000


def drawn(given: Any) -> list[float]:
    """Return many draws of a distribution."""
    quantile = Distribution.model_validate(given).quantile_function()
    rng = stream(1, "test")
    return [quantile(rng.random()) for _ in range(DRAWS)]


@pytest.mark.parametrize(
    ("given", "mean", "std"),
    [
        ({"constant": "5s"}, 5.0, 0.0),
        (7, 7.0, 0.0),
        ({"exponential": {"mean": 3}}, 3.0, 3.0),
        ({"normal": {"mean": 10, "std": 2}}, 10.0, 2.0),
        ({"normal": {"mean": 1, "std": 1}}, 1.2876, 0.7935),  # what is below 0 is cut off
        ({"normal": {"mean": 3, "std": 0}}, 3.0, 0.0),
        ({"lognormal": {"mean": 10, "std": 5}}, 10.0, 5.0),
        ({"lognormal": {"median": 2, "sigma": 0.5}}, 2 * math.exp(0.125), 1.2086),
        ({"pareto": {"alpha": 4, "scale": 3}}, 4.0, math.sqrt(2.0)),
        ({"uniform": {"min": 2, "max": 4}}, 3.0, 2 / math.sqrt(12)),
        ({"empirical": {"quantiles": [0, 10]}}, 5.0, 10 / math.sqrt(12)),
        ({"empirical": {"quantiles": [0, 1, 9]}}, 2.75, 2.674),
        ({"empirical": {"values": [6, 1, 2]}}, 3.0, math.sqrt(14 / 3)),
        ({"empirical": {"values": [10, 0], "interpolate": True}}, 5.0, 10 / math.sqrt(12)),
    ],
)
def test_moments(given: Any, mean: float, std: float) -> None:
    """Forty thousand draws have the mean and spread of theory, within 1.5 and 4 percent."""
    draws = drawn(given)
    assert statistics.fmean(draws) == pytest.approx(mean, rel=0.015)
    assert statistics.pstdev(draws) == pytest.approx(std, rel=0.04, abs=1e-9)


def test_pareto_tail() -> None:
    """P(X > x) = (scale / x)^alpha, also where the variance is infinite."""
    draws = drawn({"pareto": {"alpha": 1.161, "scale": 1}})
    assert min(draws) >= 1
    share = sum(one > 10 for one in draws) / DRAWS
    assert share == pytest.approx(10**-1.161, rel=0.05)


def test_larger_draws_become_the_maximum() -> None:
    """`max` ends tails."""
    draws = drawn({"pareto": {"alpha": 1, "scale": 1}, "max": 5})
    assert max(draws) == 5.0
    assert sum(one == 5.0 for one in draws) / DRAWS == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize(
    "endless",
    [
        {"exponential": {"mean": 1e307}},
        {"normal": {"mean": 1e307, "std": 1e308}},
        {"lognormal": {"median": 1, "sigma": 90}},
        {"pareto": {"alpha": 0.05, "scale": 1}},
    ],
)
def test_draws_larger_than_any_number_need_a_maximum(endless: Any) -> None:
    """The largest draw decides, not luck; a shorter tail is accepted up to its very last draw."""
    with pytest.raises(ValueError, match="draws larger than any number"):
        Distribution.model_validate(endless)
    capped = Distribution.model_validate({**endless, "max": 5}).quantile_function()
    assert capped(LARGEST) == 5.0
    shorter = {"lognormal": {"median": 1, "sigma": 86}}, {"pareto": {"alpha": 0.052, "scale": 1}}
    for plain in shorter:
        assert math.isfinite(Distribution.model_validate(plain).quantile_function()(LARGEST))


def test_one_distribution_for_each_kind() -> None:
    """by_kind gives each kind its own, the cap holds for all."""
    given = {"by_kind": {"test": 5, "build": {"uniform": {"min": 10, "max": 20}}}, "max": 12}
    quantiles = Distribution.model_validate(given).quantiles_by_kind(["test", "build"])
    assert quantiles["test"](0.9) == 5.0
    assert (quantiles["build"](0.1), quantiles["build"](0.9)) == (11.0, 12.0)
    with pytest.raises(ValueError, match="by_kind"):
        Distribution.model_validate(given).quantile_function()


def test_an_unknown_form_is_one_problem() -> None:
    """Also where a distribution was checked alone before the section that has it."""
    Distribution.model_validate(5)
    with pytest.raises(ValidationError) as caught:
        Arrivals.model_validate({"every": 1, "count": 1, "service_time": {"exponental": 3}})
    assert [problem["type"] for problem in caught.value.errors()] == ["unknown_key"]


FORMS = st.sampled_from(
    [
        {"exponential": {"mean": 3}},
        {"normal": {"mean": 1, "std": 1000}},
        {"normal": {"mean": 1000, "std": 1}},
        {"lognormal": {"mean": 10, "std": 5}},
        {"pareto": {"alpha": 1.161, "scale": 3}},
        {"uniform": {"min": 2, "max": 4}},
        {"empirical": {"quantiles": [0, 1, 9]}},
        {"empirical": {"values": [6, 1, 2]}},
    ]
)
BELOW_ONE = st.floats(min_value=0, max_value=1, exclude_max=True)


@given(FORMS, BELOW_ONE, BELOW_ONE)
def test_quantiles_ascend(given: Any, one: float, other: float) -> None:
    """A larger random number never gives less, and every value is finite and not negative."""
    quantile = Distribution.model_validate(given).quantile_function()
    low, high = quantile(min(one, other)), quantile(max(one, other))
    assert 0 <= low <= high < math.inf


def test_weighted_choice() -> None:
    """Values are drawn in proportion to their weights; weight 0 never; one value draws nothing."""
    rng = stream(1, "choice")
    draw = chooser({"a": 3, "never": 0, "b": 1}, lambda _: rng, "kind")
    found = draw(DRAWS).tolist()
    assert set(found) == {"a", "b"}
    assert found.count("a") / DRAWS == pytest.approx(0.75, rel=0.02)
    before = rng.getstate()
    assert chooser({"only": 2}, lambda _: rng, "kind")(2).tolist() == ["only", "only"]
    assert rng.getstate() == before
