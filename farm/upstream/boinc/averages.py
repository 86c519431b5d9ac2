"""Running averages: an exact mean of the first samples, an exponential one afterwards."""

from __future__ import annotations

import math

import msgspec


class Averaging(msgspec.Struct, frozen=True):
    """How an average moves: exact below ``threshold`` samples, then by ``weight``."""

    threshold: float
    weight: float
    #: a sample above ``limit`` x the average is cut down to that
    limit: float


HOST_AVERAGING = Averaging(threshold=20, weight=0.01, limit=10)
VERSION_AVERAGING = Averaging(threshold=100, weight=0.001, limit=10)


class Average(msgspec.Struct, frozen=True):
    """A number of samples and their average."""

    n: float = 0.0
    avg: float = 0.0


class Variance(msgspec.Struct, frozen=True):
    """An average with the (population) variance of its samples; ``q`` is the sum of squares."""

    n: float = 0.0
    avg: float = 0.0
    var: float = 0.0
    q: float = 0.0


def _cut(average: Average | Variance, sample: float, rule: Averaging) -> tuple[float, bool]:
    """Cut a high outlier down. The first sample, and any beside an average of 0, is not cut."""
    top = average.avg * rule.limit
    if average.n != 0 and average.avg != 0 and sample > top:
        return top, True
    return sample, False


def _moved(avg: float, n: float, delta: float, rule: Averaging) -> float:
    """Return the average after its n-th sample; the threshold-th is exponential already."""
    return avg + (delta / n if n < rule.threshold else rule.weight * delta)


def updated(average: Average, sample: float, rule: Averaging) -> tuple[Average, bool]:
    """Return the average after one more sample, and whether the sample was cut.

    A negative sample changes nothing and counts as cut.
    """
    if sample < 0:
        return average, True
    sample, cut = _cut(average, sample, rule)
    n = average.n + 1
    return Average(n, _moved(average.avg, n, sample - average.avg, rule)), cut


def updated_variance(variance: Variance, sample: float, rule: Averaging) -> tuple[Variance, bool]:
    """Return average and variance after one more sample, and whether the sample was cut.

    Below the threshold the variance is Welford's; above, it is exponential with the deviation
    from the *old* average, and ``q`` stays as it was.
    """
    if sample < 0:
        return variance, True
    sample, cut = _cut(variance, sample, rule)
    n = variance.n + 1
    delta = sample - variance.avg
    avg = _moved(variance.avg, n, delta, rule)
    if n < rule.threshold:
        q = variance.q + delta * (sample - avg)
        return Variance(n, avg, q / n, q), cut
    var = variance.var + rule.weight * (delta * delta - variance.var)
    return Variance(n, avg, var, variance.q), cut


def ratio(dividend: float, divisor: float) -> float:
    """Return dividend ÷ divisor as the hardware does: by 0 an infinity, and 0 ÷ 0 not a number."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)
