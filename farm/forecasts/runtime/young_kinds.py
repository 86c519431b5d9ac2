"""Kinds of which few runs are known: how long their jobs take, by what is known of all kinds.

A kind's few runs say less of it than they seem to, and those that end first are short ones. Its
location (the mean logarithm of its run times) is taken between its own runs' and that of all kinds,
the nearer to its own the more runs it has and the more kinds differ (empirical Bayes: Efron and
Morris, Stein's estimation rule and its competitors, JASA 68, 1973). How wrong that still is, all
jobs of the kind have in common: a rollout draws it once for each kind, and for each job a factor
around it. Pairs of earlier estimates and run times would not do: a kind's first run, which ended
first, would be held against the longer ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from farm.columns import Floats
from farm.forecasts.runtime.survival import EVENLY, Running, Survival, seen_from, survival

#: runs up to which a kind counts as young; of older ones as many, the last, are used
FEW = 20
#: the number of runs from which something is known of how much they vary: runs of a kind, or (of
#: young kinds) those beyond the first of each
MIN_RUNS = 5


class KindRuns(Protocol):
    """The runs of a kind that ended, in order: seconds at speed 1, and instants."""

    work: list[float]
    began: list[float]
    ended: list[float]


class YoungKinds:
    """The kinds' locations, how sure they are, and the factors around them.

    Args:
        kinds: the runs of each; at least one of each.
        going: by kind, the logarithms of what running attempts are expected to take.
    """

    def __init__(
        self, kinds: Mapping[str, KindRuns], going: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        self._kinds = kinds
        works = [kept.work[-FEW:] for kept in kinds.values()]
        sizes = np.array([len(one) for one in works])
        work = np.concatenate(works)
        # tiny values count as zero: one job of no length must not make all uncertain
        ended = np.log(np.maximum(work, max(float(np.median(work)) / 100, 1e-6)))
        place = np.repeat(np.arange(len(sizes)), sizes)
        self._place = {name: n for n, name in enumerate(kinds)}
        more = going or {}
        values = np.concatenate([ended, *(np.array(one) for one in more.values())])
        of_kind = [np.full(len(one), self._place[name]) for name, one in more.items()]
        its = np.concatenate([place, *of_kind]).astype(np.int64)
        self._sizes = np.bincount(its)
        self._means = np.bincount(its, values) / self._sizes
        free = max(len(values) - len(sizes), 1)
        self._within = float(((values - self._means[its]) ** 2).sum()) / free
        noise = self._within * float((1.0 / self._sizes).mean())
        self._mean = float(self._means.mean())
        self._between = max(float(self._means.var()) - noise, 0.0)
        #: runs beyond one of each kind
        self.repeated = len(work) - len(sizes)
        # around their own mean they vary less than around the truth
        wider = math.sqrt(len(work) / max(self.repeated, 1))
        factors = np.exp((ended - self._means[place]) * wider)
        began, ends, since = self._instants(sizes)
        entered = factors * seen_from(began, ends, since)
        order = ends.argsort(kind="stable")
        #: in the order in which the runs ended
        self.factors, self._entered = factors[order], entered[order]

    def _instants(self, sizes: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        began, ended = (
            np.concatenate([getattr(kept, name)[-FEW:] for kept in self._kinds.values()])
            for name in ("began", "ended")
        )
        since = [
            kept.ended[-FEW] if len(kept.work) > FEW else -math.inf for kept in self._kinds.values()
        ]
        return began, ended, np.repeat(since, sizes)

    @property
    def is_certain(self) -> bool:
        """All runs of a kind took the same."""
        return bool(np.ptp(self.factors) <= 1e-9 * self.factors.max())

    def time_of(self, name: str) -> tuple[float, float]:
        """Return a kind's time (s at speed 1), and the standard deviation of its logarithm."""
        place = self._place[name]
        noise = self._within / float(self._sizes[place])
        share = self._between / max(self._between + noise, 1e-300)
        location = self._mean + share * (float(self._means[place]) - self._mean)
        return math.exp(location), math.sqrt(share * noise)

    def with_running(self, running: Running) -> YoungKinds:
        """Return what is known with attempts that run, at the length that is to be expected.

        Long ones end late (one step of expectation and maximisation, as of a line).
        """
        found, going = self.survival(running), dict[str, list[float]]()
        for name, work in zip(running.names, running.work.tolist(), strict=True):
            time, _ = self.time_of(name)
            longer = found.longer_than(work / time, EVENLY)
            if longer is not None:
                going.setdefault(name, []).append(math.log(time) + float(np.log(longer).mean()))
        return YoungKinds(self._kinds, going)

    def survival(self, running: Running) -> Survival:
        """Return the distribution of the factors; attempts that run have outlived their bounds."""
        times = np.array([self.time_of(name)[0] for name in running.names])
        bounds = running.work / np.maximum(times, 1e-300)
        return survival(self.factors, self._entered, bounds, np.zeros(len(bounds)))
