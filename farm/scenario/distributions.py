"""Distributions in scenarios; ``farm.workload`` draws from them."""

from __future__ import annotations

import math
from itertools import pairwise

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

BITS = 53
"""Of a uniform number u: its distance from 1 is at least 2^-53."""
DEVIATIONS = 8.21
"""Standard deviations from the mean of a normal distribution to the draw by the largest u."""


class Exponential(Section):
    """Memoryless, as in M/M/1."""

    mean: PositiveDuration

    @property
    def largest(self) -> float:
        """The largest draw; infinite (here and below) if no float can have it."""
        return self.mean * BITS * math.log(2.0)


class Lognormal(Section):
    """exp(normal): by median and sigma (of the logarithm), or by mean and std."""

    median: PositiveDuration | None = None
    sigma: NonNegative | None = None
    mean: PositiveDuration | None = None
    std: Duration | None = None

    @model_validator(mode="after")
    def _one_pair(self) -> Lognormal:
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

    @property
    def largest(self) -> float:
        """The largest draw."""
        mu, sigma = self.of_logarithm
        try:
            return math.exp(mu + DEVIATIONS * sigma)
        except OverflowError:
            return math.inf


class Normal(Section):
    """Normal, truncated to values above 0: mean and std are those before truncation."""

    mean: PositiveDuration
    std: Duration

    @property
    def largest(self) -> float:
        """The largest draw."""
        return self.mean + DEVIATIONS * self.std


class Pareto(Section):
    """P(X > x) = (scale ÷ x)^alpha for x ≥ scale; the mean is infinite for alpha ≤ 1."""

    alpha: PositiveNumber
    scale: PositiveDuration

    @property
    def largest(self) -> float:
        """The largest draw."""
        try:
            return self.scale * math.pow(2.0, BITS / self.alpha)
        except OverflowError:
            return math.inf


class Uniform(Section):
    """Uniform between min and max."""

    min: Duration
    max: Duration

    @model_validator(mode="after")
    def _ordered(self) -> Uniform:
        if self.max < self.min:
            raise ValueError(f"found max {self.max:g} below min {self.min:g}; allowed: max >= min")
        return self


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
    def _usable(self) -> Empirical:
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


class Distribution(Section):
    """One distribution; a plain span of time is short for ``constant``."""

    model_config = ConfigDict(json_schema_extra=or_plain("number", "string"))
    one_of = (
        "constant", "exponential", "normal", "lognormal", "pareto", "uniform", "empirical",
        "by_kind",
    )  # fmt: skip
    short_for = ("constant", (str, int, float))

    constant: Duration | None = None
    """A constant value."""
    exponential: Exponential | None = None
    normal: Normal | None = None
    lognormal: Lognormal | None = None
    pareto: Pareto | None = None
    uniform: Uniform | None = None
    empirical: Empirical | None = None
    by_kind: dict[Text, Distribution] | None = None
    """One distribution for each kind of job."""
    max: PositiveDuration | None = None
    """The maximum, to which larger draws are reduced."""

    @model_validator(mode="after")
    def _one_level(self) -> Distribution:
        for kind, inner in (self.by_kind or {}).items():
            if inner.by_kind is not None:
                raise ValueError(f"found by_kind inside by_kind ({kind}); allowed: one level")
        return self

    @model_validator(mode="after")
    def _finite(self) -> Distribution:
        for form in ("exponential", "normal", "lognormal", "pareto"):
            given = getattr(self, form)
            if given is not None and self.max is None and not math.isfinite(given.largest):
                raise ValueError(
                    f"found {form} with draws larger than any number; "
                    "allowed: a shorter tail, or max"
                )
        return self

    @property
    def form(self) -> str:
        """The name of the form, such as ``exponential``."""
        return self.only_one_of(*self.one_of)
