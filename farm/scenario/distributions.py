"""Distributions in scenarios, and their quantile functions, by which values are drawn."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Self

import msgspec
from pydantic import ConfigDict, model_validator

from farm.scenario.quantities import (
    Duration,
    Flag,
    NonNegative,
    PositiveDuration,
    PositiveNumber,
    Text,
)
from farm.scenario.section import Section, or_plain

Quantile = Callable[[float], float]
"""Inverse of a cumulative distribution function: u in [0, 1) -> value (mostly seconds)."""

SMALLEST = 2.0**-54
"""Stands for u = 0 where the quantile would be minus infinity (u has 53 bits)."""
LARGEST = 1.0 - 2.0**-53


class Exponential(Section):
    """Memoryless, as in M/M/1."""

    mean: PositiveDuration

    def quantile_function(self) -> Quantile:
        """-mean ln(1 - u)."""
        return Memoryless(self.mean)


class Lognormal(Section):
    """exp(normal): by median and sigma (of the logarithm), or by mean and std."""

    median: PositiveDuration | None = None
    sigma: NonNegative | None = None
    mean: PositiveDuration | None = None
    std: Duration | None = None

    @model_validator(mode="after")
    def _one_pair(self) -> Self:
        keys = ("median", "sigma", "mean", "std")
        given = {key for key in keys if getattr(self, key) is not None}
        if given not in ({"median", "sigma"}, {"mean", "std"}):
            raise ValueError(
                f"found {', '.join(sorted(given)) or 'nothing'}; "
                "allowed: median and sigma, or mean and std"
            )
        try:
            finite = all(map(math.isfinite, self.of_logarithm))
        except OverflowError:
            finite = False
        if not finite:
            found = f"found std {self.std:g} for mean {self.mean:g}"
            raise ValueError(f"{found}; allowed: up to 1e150 times the mean")
        return self

    @property
    def of_logarithm(self) -> tuple[float, float]:
        """Mean and standard deviation of the logarithm.

        By mean and std: sigma² = ln(1 + (std/mean)²), mu = ln mean - sigma²/2.
        """
        if self.median is not None and self.sigma is not None:
            return math.log(self.median), self.sigma
        mean, std = self.mean or 1.0, self.std or 0.0
        variance = math.log1p((std / mean) ** 2)
        return math.log(mean) - variance / 2, math.sqrt(variance)

    def quantile_function(self) -> Quantile:
        """exp(mu + sigma z)."""
        mu, sigma = self.of_logarithm
        standard = NormalDist().inv_cdf
        return lambda u: math.exp(mu + sigma * standard(max(u, SMALLEST)))


class Normal(Section):
    """Normal, truncated to values above 0: mean and std are those before truncation."""

    mean: PositiveDuration
    std: Duration

    def quantile_function(self) -> Quantile:
        """Mean - std z, z by the upper tail; restricted to values above 0: no draw is repeated."""
        mean, std, standard = self.mean, self.std, NormalDist()
        if not std:
            return _constant(mean)
        above = standard.cdf(mean / std)
        return lambda u: max(0.0, mean - std * standard.inv_cdf(min((1.0 - u) * above, LARGEST)))


class Pareto(Section):
    """P(X > x) = (scale ÷ x)^alpha for x ≥ scale; the mean is infinite for alpha ≤ 1."""

    alpha: PositiveNumber
    scale: PositiveDuration

    def quantile_function(self) -> Quantile:
        """Scale / (1 - u)^(1/alpha)."""
        scale, power = self.scale, -1.0 / self.alpha
        return lambda u: scale * (1.0 - u) ** power


class Uniform(Section):
    """Uniform between min and max."""

    min: Duration
    max: Duration

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max < self.min:
            raise ValueError(f"found max {self.max:g} below min {self.min:g}; allowed: max >= min")
        return self

    def quantile_function(self) -> Quantile:
        """Min + (max - min) u."""
        low, width = self.min, self.max - self.min
        return lambda u: low + width * u


class Empirical(Section):
    """Empirical: equally spaced quantiles from 0 to 1, or observed values."""

    quantiles: tuple[Duration, ...] | None = None
    """The 0-quantile (minimum), …, the 1-quantile (maximum), equally spaced; ascending. Values
    between two of them are interpolated linearly."""
    values: tuple[Duration, ...] | None = None
    """Observed values, each equally likely, in any order."""
    interpolate: Flag = False
    """Treat the sorted values as quantiles instead."""

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if self.only_one_of("quantiles", "values") == "values":
            if not self.values:
                raise ValueError("found no values; allowed: at least one")
            return self
        quantiles = self.quantiles or ()
        if len(quantiles) < 2:
            raise ValueError(f"found {len(quantiles)} quantiles; allowed: at least two")
        for number, (low, high) in enumerate(pairwise(quantiles), start=1):
            if high < low:
                raise ValueError(
                    f"found quantile {number} ({high:g}) below the one before it ({low:g}); "
                    "allowed: ascending quantiles"
                )
        return self

    def quantile_function(self) -> Quantile:
        """Between the quantiles, or one of the values."""
        if self.quantiles is not None:
            return Interpolated(self.quantiles)
        values = tuple(sorted(self.values or ()))
        if self.interpolate and len(values) > 1:
            return Interpolated(values)
        count = len(values)
        return lambda u: values[int(u * count)]


class Distribution(Section):
    """One distribution; a plain span of time is short for ``constant``."""

    model_config = ConfigDict(json_schema_extra=or_plain("number", "string"))
    one_of = (
        "constant",
        "exponential",
        "normal",
        "lognormal",
        "pareto",
        "uniform",
        "empirical",
        "by_kind",
    )
    short_for = ("constant", (str, int, float))

    constant: Duration | None = None
    """A constant value."""
    exponential: Exponential | None = None
    normal: Normal | None = None
    lognormal: Lognormal | None = None
    pareto: Pareto | None = None
    uniform: Uniform | None = None
    empirical: Empirical | None = None
    by_kind: dict[Text, "Distribution"] | None = None
    """One distribution for each kind of job."""
    max: PositiveDuration | None = None
    """The maximum, to which larger draws are reduced."""

    @model_validator(mode="after")
    def _one_level(self) -> Self:
        for kind, inner in (self.by_kind or {}).items():
            if inner.by_kind is not None:
                raise ValueError(f"found by_kind inside by_kind ({kind}); allowed: one level")
        return self

    @model_validator(mode="after")
    def _finite(self) -> Self:
        try:
            finite = self.by_kind is not None or math.isfinite(self.quantile_function()(LARGEST))
        except OverflowError:
            finite = False
        if not finite:
            raise ValueError(
                f"found {self.form} with draws larger than any number; "
                "allowed: a shorter tail, or max"
            )
        return self

    @property
    def form(self) -> str:
        """The name of the form, such as ``exponential``."""
        return self.only_one_of(*self.one_of)

    def quantile_function(self) -> Quantile:
        """Return the quantile function; raises ValueError for ``by_kind``, which has several."""
        if self.by_kind is not None:
            raise ValueError("by_kind has a quantile function for each kind only")
        given = getattr(self, self.form)
        plain = _constant(given) if self.form == "constant" else given.quantile_function()
        return _capped(plain, self.max)

    def quantiles_by_kind(self, kinds: Sequence[str]) -> dict[str, Quantile]:
        """Return a quantile function for each kind of job."""
        if self.by_kind is None:
            return dict.fromkeys(kinds, self.quantile_function())
        inner = self.by_kind
        return {kind: _capped(inner[kind].quantile_function(), self.max) for kind in kinds}


def _constant(value: float) -> Quantile:
    return lambda _: value


class Memoryless(msgspec.Struct, frozen=True):
    """-mean ln(1 - u)."""

    mean: float

    def __call__(self, u: float) -> float:
        """Return the quantile of the exponential distribution."""
        return -self.mean * math.log1p(-u)


class Interpolated(msgspec.Struct, frozen=True):
    """Between equally spaced quantiles."""

    points: tuple[float, ...]

    def __call__(self, u: float) -> float:
        """Return the value between two points, by a straight line."""
        place = u * (len(self.points) - 1)
        index = int(place)
        low = self.points[index]
        return low + (self.points[index + 1] - low) * (place - index)


class Capped(msgspec.Struct, frozen=True):
    """Another one's, but not above the most."""

    plain: Quantile
    most: float

    def __call__(self, u: float) -> float:
        """Return the smaller of the two, also where the other's is too large for a number."""
        try:
            return min(self.plain(u), self.most)
        except OverflowError:
            return self.most


def _capped(plain: Quantile, most: float | None) -> Quantile:
    return plain if most is None else Capped(plain, most)
