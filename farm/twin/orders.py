"""In which order jobs were started: what the records show of it, and what else is tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from farm.records.attempt import Attempt
from farm.results.table.columns import Floats
from farm.twin.pools import Load

Order = Mapping[str, Any]
"""The section ``scheduling`` of a scenario; {}: by arrival."""
Places = npt.NDArray[np.intp]

MOST_INVOCATIONS, MOST_WEIGHTED = 1000, 6
"""Values of a column that may be whom a job is charged to, and teams whose weight is tried."""
CHOICES, MOST_CHOICES, MOST_JOBS = 50, 1000, 10_000
"""Starts while others waited from which an order shows, those that are looked at, and of how many
jobs."""
FIRST = 0.04
"""Mean place of the jobs started in an order, as a share of those that waited, up to which jobs are
started in it: it is 0 for their own order, and a half for one that has nothing to do with it."""


def orders_of(attempts: Sequence[Attempt]) -> Iterator[Order]:
    """Yield the orders in which jobs may have been started, that of arrival first."""
    yield {}
    yield {"policy": "sjf"}
    yield {"policy": "ljf"}
    for name, _ in _columns(attempts):
        yield {"fair_share": [name]}


def _columns(attempts: Sequence[Attempt]) -> Iterator[tuple[str, list[str]]]:
    """Yield the columns with which jobs may be charged to someone, with their values."""
    names = {key for one in attempts for key in one.attributes}
    for name in ("user", *sorted(names - {"user"})):
        values = [one.traits.get(name, "") for one in attempts]
        if 1 < len(set(values)) <= MOST_INVOCATIONS:
            yield name, values


def order_seen(load: Load, pickup: float) -> Order | None:
    """Return the order that the choices among waiting jobs show, whatever sized the pool.

    A fair share shows by the column with the fewest values within which jobs start by arrival.
    None: they show none. ``pickup``: from a choice to the start, seconds.
    """
    choices = list(_choices(load, pickup))
    if len(choices) < CHOICES:
        return None
    together = np.zeros(len(load.ran), np.intp)
    if _place(choices, load.arrived, together) <= FIRST:
        return None  # what overtakes is little, and has another reason
    for policy, key in (("sjf", load.ran), ("ljf", -load.ran)):
        if _place(choices, key, together) <= FIRST:
            return {"policy": policy}
    shares = []
    for name, values in _columns(load.attempts):
        found, numbers = np.unique(values, return_inverse=True)
        if _place(choices, load.arrived, numbers) <= FIRST:
            shares.append((len(found), name))
    return {"fair_share": [min(shares)[1]]} if shares else None


def _choices(load: Load, pickup: float) -> Iterator[Places]:
    """Yield the jobs that waited when one of them was started: that one first."""
    arrived, waited = load.arrived[:MOST_JOBS], load.waited[:MOST_JOBS]
    started = arrived + waited
    places = np.flatnonzero(waited > pickup)
    for place in places[:: max(1, len(places) // MOST_CHOICES)].tolist():
        last = np.searchsorted(arrived, started[place] - pickup, side="right")
        some = np.flatnonzero(started[:last] >= started[place])
        if len(some := some[some != place]):
            yield np.concatenate([[place], some])


def _place(choices: Sequence[Places], key: Floats, group: Places) -> float:
    """Return the mean place of the jobs that were started among those of their group, by a key."""
    found = []
    for choice in choices:
        some = choice[group[choice] == group[choice[0]]]
        if len(some) > 1:
            found.append((key[some[1:]] < key[some[0]]).mean())
    return float(np.mean(found)) if len(found) >= CHOICES else 1.0


def weighted(order: Order, attempts: Sequence[Attempt]) -> Iterator[Order]:
    """Yield a fair share's order with one team's share doubled or halved, or more."""
    keys, known = order.get("fair_share", ()), order.get("weights", {})
    if len(keys) != 1:
        return
    counts = Counter(one.traits.get(keys[0], "") for one in attempts)
    for name, _ in counts.most_common(MOST_WEIGHTED):
        for weight in (0.25, 0.5, 2.0, 3.0, 4.0):
            if name and known.get(name, 1.0) != weight:
                yield {**order, "weights": {**known, name: weight}}
