"""How long what has not ended yet will last, by what has ended and by what has not.

It is used for run times, for waits, and for errors of forecasts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from farm.columns import Floats

#: equally likely parts that continue a distribution beyond what has been seen
TAIL = 10
#: of the longest values, those from which a tail is guessed, at least; and Pareto's index of one
#: that is heavy, at least: were it smaller, a guess would outweigh all that is known
LONG, LEAST_INDEX = 5, 2.5
#: shares in the middle of equal parts
EVENLY = (np.arange(20 * TAIL) + 0.5) / (20 * TAIL)
#: when attempts began of which that is not known: before farm time 0
BEFORE = -1.0


class Running(NamedTuple):
    """Attempts that have not ended: estimates and work so far (s at speed 1), and instants."""

    at: float
    estimates: Floats
    work: Floats
    began: Floats
    #: the sorts of their jobs
    names: Sequence[str] = ()


def seen_from(began_at: Floats, ended_at: Floats, since: float | Floats) -> Floats:
    """Return which part of each attempt had passed at the instant ``since``, 0 to 1."""
    lengths = np.maximum(ended_at - began_at, 1e-9)
    return np.clip((np.maximum(since, BEFORE) - began_at) / lengths, 0.0, 1.0)


class Tail(NamedTuple):
    """What may come beyond the last value that ended."""

    last: float
    #: of an exponential tail: by how much others are longer
    mean: float
    #: of Pareto's tail, its index; 0: it is exponential
    exponent: float

    def beyond(self, value: float, shares: Floats) -> Floats:
        """Return the quantiles of what is larger than a value of the tail."""
        if self.exponent:
            return np.asarray(value * (1.0 - shares) ** (-1.0 / self.exponent))
        return value - self.mean * np.log1p(-shares)

    def means(self) -> Floats:
        """Return the means of ``TAIL`` equally likely parts of it."""
        return np.asarray(self.beyond(self.last, EVENLY).reshape(TAIL, -1).mean(axis=1))


class Survival(NamedTuple):
    """Values that ended, their weights in the same order, and a tail that has the rest."""

    ended: Floats
    weights: Floats
    beyond: float
    tail: Tail

    def longer_than(self, value: float, shares: Floats) -> Floats | None:
        """Return the quantiles of what is larger than a value; None: nothing is."""
        order = self.ended.argsort(kind="stable")
        longer = order[np.searchsorted(self.ended[order], value, side="right") :]
        mass = np.append(0.0, self.weights[longer].cumsum())
        if (whole := mass[-1] + self.beyond) <= 0.0:
            return None
        wanted = shares * whole
        places = np.searchsorted(mass[1:], wanted, side="right")
        rest = np.clip((wanted - mass[-1]) / max(self.beyond, 1e-300), 0.0, 1.0 - 1e-12)
        found = self.tail.beyond(max(value, self.tail.last), rest)
        known = places < len(longer)
        found[known] = self.ended[longer[places[known]]]
        return found

    def mean_beyond(self, value: float) -> float:
        """Return the mean of what is larger than a value; the value itself if nothing is."""
        longer = self.longer_than(value, EVENLY)
        return value if longer is None else float(longer.mean())


def survival(
    ended: Floats, entered: Floats, unfinished: Floats, unfinished_entered: Floats
) -> Survival:
    """Return how likely values are, of which some have only been seen to be larger than a bound.

    It is Kaplan and Meier's product-limit estimate (JASA 53, 1958) with delayed entry: a value that
    was seen only from ``entered`` on says nothing of smaller ones. Beyond the largest that ended it
    is continued exponentially (Brown, Hollander and Korwar 1974), or as Pareto's distribution where
    that is likelier by what the longest fifth took.

    Args:
        ended: the values that are known; at least one.
        entered: by value, from where on it was seen.
        unfinished: bounds of the others.
        unfinished_entered: from where on those were seen.
    """
    order = ended.argsort(kind="stable")
    values = ended[order]
    entries = np.sort(np.concatenate([entered, unfinished_entered]))
    left = np.arange(len(values)) + np.searchsorted(np.sort(unfinished), values, side="left")
    at_risk = np.maximum(np.searchsorted(entries, values, side="right") - left, 1)
    surviving = np.cumprod(1.0 - 1.0 / at_risk)
    if not surviving[:-1].all():
        # nothing else was seen there: larger values would be lost
        surviving = np.cumprod(1.0 - 1.0 / (at_risk + (np.arange(len(values), 0, -1) > 1)))
    weights = np.empty(len(values))
    weights[order] = -np.diff(surviving, prepend=1.0)
    beyond, last = float(surviving[-1]), float(values[-1])
    mean = last / -math.log(beyond) if 0.0 < beyond < 1.0 else last
    index = _pareto_index(
        values,
        np.concatenate([ended, unfinished]),
        np.concatenate([entered, unfinished_entered]),
    )
    return Survival(ended, weights, beyond, Tail(last, mean, index))


def _pareto_index(values: Floats, seen: Floats, entered: Floats) -> float:
    """Return that of the longest values, or 0 where an exponential tail is likelier.

    Both by maximum likelihood (Hill, Annals of Statistics 3, 1975, where all have ended): as many
    as have ended, divided by what was seen of all, or of their logarithms, beyond the threshold.

    Args:
        values: those that ended, sorted.
        seen: how far each was seen, the unfinished ones as well.
        entered: from where on.
    """
    count = max(LONG, len(values) // 5)
    if len(values) <= count or (least := float(values[-count - 1])) <= 0:
        return 0.0
    longest, since = values[values > least], np.maximum(entered, least)
    seen, since = seen[seen > since], since[seen > since]
    with np.errstate(over="ignore"):
        spans, logarithms = (
            float(one.sum()) for one in (seen - since, np.log(seen) - np.log(since))
        )
    # a value may be infinite: a ratio to an estimate of next to nothing
    if not len(longest) or not (0 < spans < math.inf and 0 < logarithms < math.inf):
        return 0.0
    index = len(longest) / logarithms
    mean = math.log(index) + math.log(spans) - math.log(len(longest))
    gained = len(longest) * mean - float(np.log(longest).sum())
    return max(index, LEAST_INDEX) if gained > 0 else 0.0
