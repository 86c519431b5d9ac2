"""In which order jobs were started: what the records show of it, and what else is tried."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from farm.columns import Floats
from farm.core.queues.fair_share.node_score import weight
from farm.core.queues.fair_share.path_keys import ATTRIBUTE_PREFIX, flaw_of_key
from farm.records.attempt import Attempt
from farm_twin.twins.pool_shapes import PoolLoad

Order = Mapping[str, Any]
"""The section ``scheduling`` of a scenario; {}: by arrival."""
Places = npt.NDArray[np.intp]

MOST_INVOCATIONS, MOST_WEIGHTED = 1000, 6
"""Values of a column that may be whom a job is charged to, and teams whose weight is tried."""
WEIGHTS, CLEARLY = (1.0, 2.0, 0.5, 3.0, 4.0, 1.5, 0.25, 5.0, 0.2, 10.0, 0.1), 0.8
"""Weights of a team, the usual first, and the share of what is amiss without one up to which a team
has it, and by arrival up to which jobs have another order."""
RATIOS, SAME = (1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0), 0.005
"""Weights that may do as well as the one found, and by how much more they may leave amiss."""
CHOICES, MOST_CHOICES, MOST_JOBS = 15, 500, 10_000
"""Starts while others waited from which an order shows, those that are looked at, and of how many
jobs."""
FIRST, EXPLAINED_BY = 0.04, 0.3
"""Mean share of the waiting jobs that an order would have started first, up to which jobs are
started in it: it is 0 for their own, and a half for one that has nothing to do with it. Or which
part of that by arrival: run times may be expected other than they are."""
ROUNDING = 0.5
"""Seconds by which the end that made room may be recorded after the choice."""


class _Choice(NamedTuple):
    """A start while others of its level waited: these by place, in order of arrival."""

    taken: int
    others: Places


def as_recorded(order: Order) -> Order:
    """Return the order of a replay whose jobs have their recorded starts as scores.

    Free runners are taken as in ``order``: the one idle longest by a fair share, of a team's own.
    """
    return {"policy": "score", **({"balancer": "longest-idle"} if "fair_share" in order else {})}


def _columns(attempts: Sequence[Attempt]) -> Iterator[tuple[str, list[str]]]:
    """Yield the columns with which jobs may be charged to someone, as a scenario names them.

    With their values. A level is none: it orders the jobs by itself.
    """
    names = {key for one in attempts for key in one.attributes}
    for name in ("user", *sorted(names - {"user", "level"})):
        values = [one.traits.get(name, "") for one in attempts]
        if 1 < len(set(values)) <= MOST_INVOCATIONS:
            yield name if flaw_of_key(name) is None else f"{ATTRIBUTE_PREFIX}{name}", values


def order_seen(load: PoolLoad, pickup: float) -> Order | None:
    """Return the order that the choices among waiting jobs show, whatever sized the pool.

    None: they show none, or are too few. ``pickup``: from a choice to the start, seconds.
    """
    choices = list(_choices(load, pickup))
    if len(choices) < CHOICES:
        return None
    by_arrival = _amiss(choices, load.arrived)
    if by_arrival <= SAME:
        return {}
    found: list[tuple[float, Order]] = [
        (CLEARLY * by_arrival, {}),
        (_amiss(choices, load.ran), {"policy": "sjf"}),
        (_amiss(choices, -load.ran), {"policy": "ljf"}),
    ]
    for name, values in _columns(load.attempts):
        found.append(_Turns(choices, load, values, pickup).order(name))
    amiss, order = min(found, key=itemgetter(0))
    return order if amiss <= max(FIRST, EXPLAINED_BY * by_arrival) else None


def weights_alike(load: PoolLoad, order: Order, pickup: float) -> Iterator[str]:
    """Yield, for each team with a weight, between which weights the choices would be the same."""
    choices, columns = list(_choices(load, pickup)), dict(_columns(load.attempts))
    if (given := order.get("weights")) and choices:
        turns = _Turns(choices, load, columns[order["fair_share"][0]], pickup)
        for name in given:
            low, high = turns.alike(name, given)
            if low < high:
                yield f"{name} may have any weight from {low:g} to {high:g}: starts are the same"


def _choices(load: PoolLoad, pickup: float) -> Iterator[_Choice]:
    arrived, waited = load.arrived[:MOST_JOBS], load.waited[:MOST_JOBS]
    levels = np.array([one.level for one in load.attempts[:MOST_JOBS]])
    started = arrived + waited
    # of those that started at once none is known to be chosen first
    _, number, count = np.unique(started, return_inverse=True, return_counts=True)
    places = np.flatnonzero((waited > pickup) & (count[number] == 1))
    for place in places[:: max(1, len(places) // MOST_CHOICES)].tolist():
        last = np.searchsorted(arrived, started[place] - pickup, side="right")
        later = (started[:last] > started[place]) & (levels[:last] == levels[place])
        if later.any():
            yield _Choice(place, np.flatnonzero(later))


def _amiss(choices: Sequence[_Choice], key: Floats) -> float:
    """Return the mean share of the others that had a smaller key than the job that was started."""
    return float(np.mean([(key[one.others] < key[one.taken]).mean() for one in choices]))


class _Turns:
    """The choices as a fair share's: of the team that runs least for its weight, by arrival.

    Of teams alike the one that started a job least recently has its turn.
    """

    def __init__(
        self, choices: Sequence[_Choice], load: PoolLoad, values: Sequence[str], pickup: float
    ) -> None:
        names, team = np.unique(values, return_inverse=True)
        self.names, count = names.tolist(), len(names)
        taken = np.array([one.taken for one in choices])
        started = load.arrived + load.waited
        at = started[taken]
        columns = []
        for number in range(count):
            own = team == number
            begins, ends = np.sort(started[own]), np.sort((started + load.ran)[own])
            before = np.searchsorted(begins, at)
            last = np.append(-np.inf, begins)[before]
            columns.append((before - np.searchsorted(ends, at - pickup + ROUNDING), last))
        running, last = np.array(columns).transpose(1, 2, 0)
        waiting = np.array([np.bincount(team[one.others], minlength=count) for one in choices])
        for row, one in enumerate(choices):
            # a team without any jobs is forgotten: it is new when the next one arrives
            first = np.full(count, -np.inf)
            some = np.append(one.others[::-1], one.taken)
            first[team[some]] = load.arrived[some]
            last[row] = np.where(running[row] > 0, last[row], np.maximum(last[row], first))
        self._running, self._last, self._waiting = running, last, waiting
        self._team = team[taken][:, None]
        self._older = np.array(
            [(one.others[team[one.others] == team[one.taken]] < one.taken).sum() for one in choices]
        )
        self._commonest = np.argsort(-np.bincount(team), kind="stable")[:MOST_WEIGHTED].tolist()

    def order(self, name: str) -> tuple[float, Order]:
        """Return the share amiss, and the order with the weights that explain the choices best."""
        weights = np.ones(len(self.names))
        amiss = self._amiss(weights)
        for _ in range(2 * MOST_WEIGHTED):
            # of those that explain as much the first one, as users would write it
            tried = [(round(self._amiss(one), 2), one) for one in self._weighed(weights)]
            least, best = min(tried, key=itemgetter(0))
            if least >= CLEARLY * amiss:
                break
            amiss, weights = least, best
        if len(weights) <= MOST_WEIGHTED:  # only their ratios count
            weights = weights / weights.min()
        given = zip(self.names, weights.tolist(), strict=True)
        chosen = {name: one for name, one in given if name and one != 1}
        return amiss, {"fair_share": [name], **({"weights": chosen} if chosen else {})}

    def alike(self, name: str, given: Mapping[str, float]) -> tuple[float, float]:
        """Return between which weights of a team, of ``RATIOS``, as much is explained."""
        weights = np.array([given.get(one, 1.0) for one in self.names])
        least, place = self._amiss(weights), self.names.index(name)
        found = float(weights[place])

        def explains(ratio: float) -> bool:
            weights[place] = ratio
            return self._amiss(weights) <= least + SAME

        low = min((found, *takewhile(explains, [one for one in RATIOS[::-1] if one < found])))
        return low, max((found, *takewhile(explains, [one for one in RATIOS if one > found])))

    def _weighed(self, weights: Floats) -> Iterator[Floats]:
        for share in WEIGHTS:
            for number in self._commonest:
                changed = weights.copy()
                changed[number] = share
                yield changed

    def _amiss(self, weights: Floats) -> float:
        # rounded as the farm rounds them: that decides which team goes first at 2 to 1
        scales = [weight(round(-100 * math.log2(one))) for one in weights.tolist()]
        score = (self._running + 1) * [factor * 2.0**power for power, factor in scales]
        own = np.take_along_axis(score, self._team, 1)
        last = np.take_along_axis(self._last, self._team, 1)
        first = np.where(score == own, self._last < last, score < own)
        count = (first * self._waiting).sum(axis=1) + self._older
        return float((count / self._waiting.sum(axis=1)).mean())
