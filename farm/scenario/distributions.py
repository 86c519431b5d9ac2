"""Distributions in scenarios; ``farm.workload`` draws from them."""

from __future__ import annotations

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


class Exponential(Section):
    """Memoryless, as in M/M/1."""

    mean: PositiveDuration


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
        return self


class Normal(Section):
    """Normal, truncated to values above 0: mean and std are those before truncation."""

    mean: PositiveDuration
    std: Duration


class Pareto(Section):
    """P(X > x) = (scale ÷ x)^alpha for x ≥ scale; the mean is infinite for alpha ≤ 1."""

    alpha: PositiveNumber
    scale: PositiveDuration


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

    @property
    def form(self) -> str:
        """The name of the form, such as ``exponential``."""
        return self.only_one_of(*self.one_of)
