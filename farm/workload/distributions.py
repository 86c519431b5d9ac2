"""Quantile functions: from a uniform number in [0, 1) to a value of a distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

from farm.scenario.distributions import (
    Distribution,
    Empirical,
    Exponential,
    Lognormal,
    Normal,
    Pareto,
    Uniform,
)

Quantile = Callable[[float], float]
"""Inverse of a cumulative distribution function: u in [0, 1) -> value (mostly seconds)."""

SMALLEST = 2.0**-54
"""Stands for u = 0 where the quantile would be minus infinity (u has 53 bits)."""
LARGEST = 1.0 - 2.0**-53


def quantile_function(distribution: Distribution) -> Quantile:
    """Return the distribution's quantile function (``by_kind`` has one for each kind instead).

    Raises ValueError for ``by_kind``.
    """
    form = distribution.form
    if form == "by_kind":
        raise ValueError("by_kind has a quantile function for each kind only")
    plain = _FORMS[form](getattr(distribution, form))
    return _capped(plain, distribution.max)


def quantiles_by_kind(distribution: Distribution, kinds: Sequence[str]) -> dict[str, Quantile]:
    """Return a quantile function for each kind of job."""
    if distribution.by_kind is None:
        same = quantile_function(distribution)
        return dict.fromkeys(kinds, same)
    inner = distribution.by_kind
    return {kind: _capped(quantile_function(inner[kind]), distribution.max) for kind in kinds}


def _capped(plain: Quantile, most: float | None) -> Quantile:
    if most is None:
        return plain

    def capped(u: float) -> float:
        try:
            return min(plain(u), most)
        except OverflowError:
            return most

    return capped


def _constant(value: float) -> Quantile:
    return lambda _: value


def _exponential(given: Exponential) -> Quantile:
    mean = given.mean
    return lambda u: -mean * math.log1p(-u)


def _normal(given: Normal) -> Quantile:
    """Mean - std z, z by the upper tail: restricted to values above 0, so no draw is repeated."""
    mean, std, standard = given.mean, given.std, NormalDist()
    if not std:
        return _constant(mean)
    above = standard.cdf(mean / std)
    return lambda u: max(0.0, mean - std * standard.inv_cdf(min((1.0 - u) * above, LARGEST)))


def _lognormal(given: Lognormal) -> Quantile:
    """exp(mu + sigma z)."""
    mu, sigma = given.of_logarithm
    standard = NormalDist().inv_cdf
    return lambda u: math.exp(mu + sigma * standard(max(u, SMALLEST)))


def _pareto(given: Pareto) -> Quantile:
    """Scale / (1 - u)^(1/alpha)."""
    scale, power = given.scale, -1.0 / given.alpha
    return lambda u: scale * (1.0 - u) ** power


def _uniform(given: Uniform) -> Quantile:
    low, width = given.min, given.max - given.min
    return lambda u: low + width * u


def _empirical(given: Empirical) -> Quantile:
    if given.quantiles is not None:
        return _interpolated(given.quantiles)
    values = tuple(sorted(given.values or ()))
    if given.interpolate and len(values) > 1:
        return _interpolated(values)
    count = len(values)
    return lambda u: values[int(u * count)]


def _interpolated(quantiles: Sequence[float]) -> Quantile:
    points = tuple(quantiles)
    steps = len(points) - 1

    def quantile(u: float) -> float:
        place = u * steps
        index = int(place)
        low = points[index]
        return low + (points[index + 1] - low) * (place - index)

    return quantile


_FORMS: dict[str, Callable[[Any], Quantile]] = {
    "constant": _constant,
    "exponential": _exponential,
    "normal": _normal,
    "lognormal": _lognormal,
    "pareto": _pareto,
    "uniform": _uniform,
    "empirical": _empirical,
}
