"""The first sentence on a comparison or a sweep: which setting is best for what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from farm.results.formatting import readable_percent, spoken_in, spoken_span, spoken_unit

if TYPE_CHECKING:
    from farm.results.comparison.comparison import Comparison
    from farm.results.comparison.sweep import Sweep

WAIT, COST, RESPONSE = "waiting_time mean", "cost", "response_time mean"
SHORTER, LONGER = ("better", "shorter"), ("worse", "longer")
UNKNOWN = "; with one run of each the noise is unknown"


class Choice(NamedTuple):
    """A setting that may be chosen: its mean wait (seconds), what that is worth, and its cost."""

    name: str
    wait: float
    #: of the mean wait; None: its noise is unknown
    low: float | None
    high: float | None
    #: of the wait, against the base's; empty: of the base
    verdict: str
    cost: float
    #: its difference of cost from the base is relevant
    costs_other: bool


def answer_of_choices(choices: Sequence[Choice]) -> str:
    """Return which choice is best; the first is the base.

    The best waits least among those that cost no more than the base. If none of these waits less,
    the cheapest that waits no longer, then what costs more, is named.
    """
    base, *others = choices
    no_dearer = [one for one in others if one.cost <= base.cost or not one.costs_other]
    cheaper = [one for one in others if one.cost < base.cost and one.costs_other]
    shorter = [one for one in others if one.verdict in SHORTER]
    unharmed = [one for one in cheaper if one.verdict not in LONGER]
    if best := min((one for one in no_dearer if one in shorter), key=_by_wait, default=None):
        if len(others) > 1:
            less = f", and costs {_share(best, base)} less" if best in cheaper else ""
            return f"{best.name} is the best that costs no more{less}: {_waits(best, base)}"
        return _told(best, base, "wait less")
    if best := min(unharmed, key=_by_cost, default=None):
        return _told(best, base, "wait no longer")
    if best := min(shorter, key=_by_wait, default=None):
        return _told(best, base, "wait less")
    if best := min(cheaper, key=_by_wait, default=None):
        return _told(best, base, "wait longer")
    if worse := [one for one in others if one.verdict in LONGER]:
        least = min(worse, key=_by_wait)
        said = f"{base.name} stays the best" if len(worse) == len(others) else "nothing is better"
        return f"{said}: {_waits(base, least, 'with')} {least.name}"
    alike = min(others, key=_by_wait)
    if all(one.verdict == "same" for one in others):
        return f"nothing changes the waits: {_alike(alike, base)}"
    return f"no wait differs by more than noise: {_alike(alike, base)}"


def _by_wait(one: Choice) -> tuple[float, float]:
    return (one.wait, one.cost)


def _by_cost(one: Choice) -> tuple[float, float]:
    return (one.cost, one.wait)


def _told(one: Choice, base: Choice, jobs: str) -> str:
    """Return how jobs wait with a choice, and at what cost."""
    cost = "the same cost as"
    if one.costs_other:
        cost = f"{_share(one, base)} {'less' if one.cost < base.cost else 'more'} cost than"
    waits = "no job waits" if not one.wait and not base.wait else _waits(one, base)
    return f"with {one.name} jobs {jobs}, at {cost} with {base.name}: {waits}"


def _share(one: Choice, base: Choice) -> str:
    if not base.cost:
        return f"{one.cost:,.2f}"
    return readable_percent(abs(one.cost / base.cost - 1))


def _waits(one: Choice, other: Choice, instead: str = "") -> str:
    interval = _interval(one)
    against = spoken_span(other.wait, one.wait)
    if instead:
        return f"mean wait {spoken_span(one.wait)}{interval} instead of {against} {instead}"
    return f"mean wait {spoken_span(one.wait)} instead of {against}{interval}"


def _interval(one: Choice) -> str:
    if one.low is None or one.high is None or one.low == one.high:
        return ""
    _, length = spoken_unit(one.wait)
    return f" ({spoken_in(max(0.0, one.low), length)} to {spoken_in(one.high, length)})"


def _alike(one: Choice, base: Choice) -> str:
    if not one.wait and not base.wait:
        return "no job waits"
    said, against = spoken_span(one.wait), spoken_span(base.wait)
    return f"mean wait {said}{'' if said == against else f' against {against}'}"


def answer_of_sweep(sweep: Sweep) -> str:
    """Return the first sentence on a sweep, by mean wait and cost; where no job starts, so."""
    choices = list(choices_of_sweep(sweep))
    noise = UNKNOWN if len(sweep.seeds) == 1 else ""
    if not choices:
        return "no job started"
    if len(choices) == 1:
        one = choices[0]
        seeds = "with one seed" if noise else f"over {len(sweep.seeds)} seeds"
        return f"mean wait {spoken_span(one.wait)}{_interval(one)} {seeds}, cost {one.cost:,.3g}"
    return answer_of_choices(choices) + noise


def choices_of_sweep(sweep: Sweep) -> Iterator[Choice]:
    """Yield the settings that have a mean wait, the baseline first (of several the first)."""
    costs = {tuple(row.settings.values()): row for row in sweep.rows if row.metric == COST}
    waits = [row for row in sweep.rows if row.metric == WAIT and row.mean is not None]
    bases = [row for row in waits if row.baseline is None]
    for row in [*bases[:1], *(one for one in waits if one is not bases[0])] if bases else ():
        cost, first = costs[tuple(row.settings.values())], costs[tuple(bases[0].settings.values())]
        apart = abs((cost.mean or 0.0) - (first.mean or 0.0))
        yield Choice(
            setting_name(row.settings, sweep.scenario),
            row.mean or 0.0,
            None if row.interval is None else row.interval.low,
            None if row.interval is None else row.interval.high,
            row.verdict or "",
            cost.mean or 0.0,
            apart > sweep.relevant * abs(first.mean or 0.0) and cost.verdict != "noise",
        )


def setting_name(settings: dict[str, str], otherwise: str = "") -> str:
    """Return how a setting is called: ``sjf, 14 builders``; without axes ``otherwise``."""
    return ", ".join(_value_name(*one) for one in settings.items()) or otherwise


def _value_name(axis: str, value: str) -> str:
    """Return a value, with the last word of its key if it is a number or a time."""
    word = axis.rpartition(".")[2].replace("_", " ")
    return f"{value} {word}" if value[:1].isdigit() or value[:1] in "+-" else value


def answer_of_comparison(comparison: Comparison) -> str:
    """Return the first sentence on a comparison.

    Of a live run and its simulation: how well they agree.
    """
    first = comparison.pairs[0]
    if len(comparison.pairs) == 1 and len(set(first.worlds)) == 2:
        apart = first.agreement.mean_response_relative
        if apart is None:
            return f"{first.other} and {first.base} have no response times to compare"
        share = readable_percent(apart, signed=True)
        return f"mean response time differs by {share} in {first.other} from {first.base}"
    choices = list(choices_of_comparison(comparison))
    if len(choices) < 2:
        return "no job started in both runs"
    noise = UNKNOWN if any(one.low is None for one in choices[1:]) else ""
    return answer_of_choices(choices) + noise


def choices_of_comparison(comparison: Comparison) -> Iterator[Choice]:
    """Yield the base and the others, those that have a mean wait."""
    for number, pair in enumerate(comparison.pairs):
        found = {one.metric: one for one in pair.metrics}
        wait, cost = found[WAIT], found[COST]
        if wait.base is None:
            return
        if not number:
            yield Choice(pair.base, wait.base, None, None, "", cost.base or 0.0, False)
        if wait.other is None:
            continue
        low, high = (
            (None, None)
            if wait.interval is None
            else (wait.base + wait.interval.low, wait.base + wait.interval.high)
        )
        if wait.verdict == "same":
            low = high = wait.other
        yield Choice(
            pair.other, wait.other, low, high, wait.verdict or "", cost.other or 0.0,
            cost.verdict not in ("same", "noise", "small", None),
        )  # fmt: skip


def frontier(choices: Sequence[Choice]) -> list[str]:
    """Return the names of the settings that no other beats in both wait and cost."""
    best, names = math.inf, []
    for one in sorted(choices, key=_by_cost):
        if one.wait < best:
            best = one.wait
            names.append(one.name)
    return names
