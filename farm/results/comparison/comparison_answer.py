"""The first sentence on a comparison or a sweep: which setting is best for what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from farm.results.comparison.compared_metrics import PER_MONTH, Metric, metrics_named, readable
from farm.results.comparison.compared_values import ComparedRuns, PairComparison, SweptSettings
from farm.results.comparison.differences import setting_name
from farm.results.comparison.significance import ends_of
from farm.results.formatting import (
    after_caveat,
    readable_percent,
    spoken_in,
    spoken_span,
    spoken_unit,
)
from farm.results.money import Currency, is_money, readable_cost, readable_monthly
from farm.results.summary.answer import known_run_times
from farm.scenario import TwinErrors

WAIT, COST, RESPONSE = "waiting_time mean", "cost", "response_time mean"
RUNS = "runs_per_hour"
SHORTER, LONGER = ("better", "shorter", "less"), ("worse", "longer", "more")
UNKNOWN = "; with one run of each the noise is unknown"
FEW = 10
FEW_SEEDS = "; more seeds (--replications) may tell more settings apart"
"""Said where fewer than ``FEW`` seeds left a difference within the noise."""
POLICY = "scheduling.policy"
"""The axis of a sweep over policies."""
OF_JOBS = (
    "waiting_time",
    "response_time",
    "stretch",
    "matrix_response_time",
    "pipeline_response_time",
    "pipelines succeeded",
    "fairness_index",
)
"""Metrics of what jobs get; that fewer idle builders cost less is no news."""
STILL = ("same", "noise", "small")
STATISTICS = ("mean", "p50", "p95", "max")
[MEAN_WAIT] = metrics_named([WAIT], "metric")


class Choice(NamedTuple):
    """A setting that may be chosen: its mean wait (seconds), what that is worth, and its cost.

    Instead of the mean wait it may have another metric, ``of``.
    """

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
    of: Metric = MEAN_WAIT
    #: what its builders cost in a month; None: in builder-hours it is not told
    per_month: float | None = None
    currency: Currency = None

    @property
    def what(self) -> str:
        """The metric as it is said: mean wait."""
        base, _, statistic = self.of.name.partition(" ")
        words = {"waiting_time": "wait"}.get(base, base.replace("_", " "))
        if statistic in STATISTICS:
            return f"{statistic} {words}"
        return f"{words} {statistic}".strip()

    @property
    def text(self) -> str:
        """The value as it is said: 4 min."""
        return spoken_span(self.wait) if self.of.unit == "s" else readable(self.wait, self.of.unit)

    def are(self, jobs: str) -> str:
        """Return how it changes: ``jobs wait less``, or ``the cost is lower``."""
        if self.what.endswith(" wait"):
            return f"jobs {jobs}"
        less, more = ("higher", "lower") if self.of.better == "higher" else ("lower", "higher")
        worth = {"wait less": less, "wait longer": more}.get(jobs, "no worse")
        return f"the {self.what} is {worth}"


class ComparisonAnswer(NamedTuple):
    """The sentence on several choices, and the choice that it recommends or describes."""

    text: str
    #: None: none of them, or the base itself
    choice: Choice | None = None


def answer_of_choices(choices: Sequence[Choice]) -> ComparisonAnswer:
    """Return which choice is best; the first is the base.

    The best waits least among those that cost no more than the base. If none of these waits less,
    the cheapest that waits no longer is; what waits less for more, or costs less and waits longer,
    is called a trade.
    """
    base, *others = choices
    no_dearer = [choice for choice in others if choice.cost <= base.cost or not choice.costs_other]
    cheaper = [choice for choice in others if choice.cost < base.cost and choice.costs_other]
    shorter = [choice for choice in others if choice.verdict in SHORTER]
    unharmed = [choice for choice in cheaper if choice.verdict not in LONGER]
    free = [choice for choice in no_dearer if choice in shorter]
    if free:
        best = min(free, key=_by_wait)
        if len(others) == 1:
            return ComparisonAnswer(_about(best, base, "wait less"), best)
        less = ""
        if best in cheaper:
            less = f", and costs {_share(best, base)} less{_money(best, base)}"
        no_more = "" if base.of.name == COST else " that costs no more"
        text = f"{best.name} is the best{no_more}{less}: {_waits(best, base)}"
        return ComparisonAnswer(text, best)
    if unharmed:
        best = min(unharmed, key=_by_cost)
        return ComparisonAnswer(_cheaper(best, base), best)
    if shorter:
        best = min(shorter, key=_by_wait)
        return ComparisonAnswer(f"it is a trade: {_about(best, base, 'wait less')}", best)
    if cheaper:
        best = min(cheaper, key=_by_wait)
        return ComparisonAnswer(f"it is a trade: {_about(best, base, 'wait longer')}", best)
    worse = [choice for choice in others if choice.verdict in LONGER]
    if worse:
        least = min(worse, key=_by_wait)
        text = f"{base.name} stays the best" if len(worse) == len(others) else "nothing is better"
        return ComparisonAnswer(f"{text}: {_waits(base, least, 'with')} {least.name}")
    alike = min(others, key=_by_wait)
    if all(choice.verdict == "same" for choice in others):
        what = "the waits" if base.what.endswith(" wait") else f"the {base.what}"
        return ComparisonAnswer(f"nothing changes {what}: {_alike(alike, base)}")
    what = "wait" if base.what.endswith(" wait") else base.what
    return ComparisonAnswer(f"no {what} differs by more than noise: {_alike(alike, base)}")


def _by_wait(one: Choice) -> tuple[float, float]:
    return (-one.wait if one.of.better == "higher" else one.wait, one.cost)


def _by_cost(one: Choice) -> tuple[float, float]:
    return (one.cost, one.wait)


def _cheaper(choice: Choice, base: Choice) -> str:
    """Return that a choice costs less than the base, where the difference of waits is no loss."""
    money = _money(choice, base)
    text = f"{choice.name} costs {_share(choice, base)} less than {base.name}{money}"
    if choice.wait <= base.wait and choice.are("").strip() == "jobs":
        return f"{text}, and jobs wait no longer: {_waits(choice, base)}"
    what = "waits" if choice.what.endswith(" wait") else choice.what
    verb = "do" if what == "waits" else "does"
    return f"{text}; the {what} {verb} not differ by more than noise: {_alike(choice, base)}"


def _about(one: Choice, base: Choice, jobs: str) -> str:
    """Return how jobs wait with a choice, and at what cost."""
    cost = ", at the same cost as with"
    if one.costs_other:
        less = "less" if one.cost < base.cost else "more"
        cost = f", at {_share(one, base)} {less} cost{_money(one, base)} than with"
    if one.of.name == COST:
        cost = " than with"
    none = one.of is MEAN_WAIT and not one.wait and not base.wait
    waits = "no job waits" if none else _waits(one, base)
    return f"with {one.name} {one.are(jobs)}{cost} {base.name}: {waits}"


def _money(one: Choice, base: Choice) -> str:
    """Return what is saved or spent in a month, if the pools have prices."""
    if one.per_month is None or base.per_month is None or one.per_month == base.per_month:
        return ""
    difference = one.per_month - base.per_month
    saved = "a saving of " if difference < 0 else ""
    text = readable_monthly(abs(difference), one.currency, signed=difference > 0)
    return f" ({saved}{text})"


def _share(one: Choice, base: Choice) -> str:
    if not base.cost:
        return f"{one.cost:,.2f}"
    return readable_percent(abs(one.cost / base.cost - 1))


def _waits(one: Choice, other: Choice, instead: str = "") -> str:
    return f"{one.what} {one.text}{_interval(one)} instead of {other.text} {instead}".rstrip()


def _interval(one: Choice) -> str:
    """Return the interval of a value that was just said, in its unit."""
    if one.low is None or one.high is None or one.low == one.high:
        return ""
    ends = max(0.0, one.low), one.high
    if one.of.unit == "s":
        _, length = spoken_unit(one.wait)
        texts = [spoken_in(end, length) for end in ends]
    else:
        texts = [readable(end, one.of.unit) for end in ends]
    return f" (95 %: {texts[0]} to {texts[1]})"


def _alike(one: Choice, base: Choice) -> str:
    if not one.wait and not base.wait and one.of is MEAN_WAIT:
        return "no job waits"
    return f"{one.what} {one.text}{'' if one.text == base.text else f' against {base.text}'}"


def answer_of_sweep(sweep: SweptSettings, metric: Metric = MEAN_WAIT) -> str:
    """Return the first sentence on a sweep, by a metric and cost; where no job starts, so."""
    caveat = "" if sweep.twin is None else TwinErrors.model_validate(sweep.twin).caveat
    answer = sweep.not_comparable or _answer_of_sweep(sweep, metric)
    if sweep.twin is not None:
        answer += known_run_times(sweep.axes.get(POLICY, ()))
    return after_caveat(caveat, answer)


def _answer_of_sweep(sweep: SweptSettings, metric: Metric) -> str:
    choices = list(choices_of_sweep(sweep, metric))
    few = len(sweep.seeds) < FEW and any(one.verdict == "noise" for one in choices)
    noise = UNKNOWN if len(sweep.seeds) == 1 else FEW_SEEDS if few else ""
    if not choices:
        return "no job started" if metric is MEAN_WAIT else f"no setting has a {metric.name}"
    if len(choices) == 1:
        one = choices[0]
        seeds = "with one seed" if len(sweep.seeds) == 1 else f"over {len(sweep.seeds)} seeds"
        cost = ""
        if metric.name != COST:
            cost = f", cost {readable_cost(one.cost, sweep.currency)}"
            if one.per_month is not None:
                cost += f" ({readable_monthly(one.per_month, sweep.currency)})"
        return f"{one.what} {one.text}{_interval(one)} {seeds}{cost}"
    if metric.better is None:  # none is the best
        return f"{choices[0].what} " + ", ".join(f"{one.text} with {one.name}" for one in choices)
    answer = answer_of_choices(choices)
    worse = "" if answer.choice is None else _worse_in_sweep(sweep, answer.choice)
    return f"{answer.text}{worse}{noise}"


def best_setting(sweep: SweptSettings, metric: Metric) -> tuple[str, ...] | None:
    """Return the setting that the answer on a sweep recommends or describes; else its baseline.

    None: no setting has the metric.
    """
    choices = list(choices_of_sweep(sweep, metric))
    if not choices:
        return None
    best = choices[0]
    if len(choices) > 1 and metric.better is not None and not sweep.not_comparable:
        best = answer_of_choices(choices).choice or best
    return next(
        tuple(row.settings.values())
        for row in sweep.rows
        if setting_name(row.settings, sweep.scenario) == best.name
    )


def _worse_in_sweep(sweep: SweptSettings, choice: Choice) -> str:
    """Return in which other metrics the setting of the answer is clearly worse."""
    rows = [row for row in sweep.rows if setting_name(row.settings, sweep.scenario) == choice.name]
    return _worse_metrics([(row.metric, row.relative, row.verdict) for row in rows], choice.of.name)


def _worse_in_comparison(comparison: ComparedRuns, choice: Choice) -> str:
    """Return in which other metrics the run of the answer is worse."""
    pair = next(pair for pair in comparison.pairs if pair.other_name == choice.name)
    return _worse_metrics(
        [(found.metric, found.relative, found.verdict) for found in pair.metrics], choice.of.name
    )


def _worse_metrics(rows: Iterable[tuple[str, float | None, str | None]], main_metric: str) -> str:
    """Return which metrics of what jobs get are worse, the worst first.

    Args:
        rows: of each metric its name, relative difference, and verdict.
        main_metric: the metric of which the answer speaks already.
    """
    worse: dict[str, float] = {}
    for name, relative, verdict in rows:
        if name == main_metric or relative is None or not name.startswith(OF_JOBS):
            continue
        [metric] = metrics_named([name], "metric")
        if metric.better is not None and _worth(verdict or "", metric) in LONGER:
            worse[name] = relative
    by_kind: dict[str, list[str]] = {}
    for name, relative in sorted(worse.items(), key=lambda item: -abs(item[1])):
        kind, _, statistic = name.partition(" ")
        value = readable_percent(relative, signed=True)
        by_kind.setdefault(kind.replace("_", " "), []).append(f"{statistic} {value}".strip())
    texts = [
        f"{kind} {' and '.join(filter(None, (', '.join(values[:-1]), values[-1])))}"
        for kind, values in by_kind.items()
    ]
    return f"; but {', '.join(texts)}" if texts else ""


def choices_of_sweep(sweep: SweptSettings, metric: Metric = MEAN_WAIT) -> Iterator[Choice]:
    """Yield the settings that have the metric, the baseline first (of several the first)."""
    costs = {tuple(row.settings.values()): row for row in sweep.rows if row.metric == COST}
    per_month = {
        tuple(row.settings.values()): row.mean
        for row in sweep.rows
        if row.metric == PER_MONTH and is_money(sweep.currency)
    }
    waits = [row for row in sweep.rows if row.metric == metric.name and row.mean is not None]
    bases = [row for row in waits if row.baseline is None]
    of_cost = metric.name == COST
    for row in [*bases[:1], *(one for one in waits if one is not bases[0])] if bases else ():
        cost, first = costs[tuple(row.settings.values())], costs[tuple(bases[0].settings.values())]
        apart = abs((cost.mean or 0.0) - (first.mean or 0.0))
        differs = apart > sweep.relevant * abs(first.mean or 0.0) and cost.verdict != "noise"
        name, worth = setting_name(row.settings, sweep.scenario), _worth(row.verdict or "", metric)
        spent, ends = 0.0 if of_cost else cost.mean or 0.0, ends_of(row.interval)
        by_month = per_month.get(tuple(row.settings.values()))
        yield Choice(
            name,
            row.mean or 0.0,
            *ends,
            worth,
            spent,
            differs and not of_cost,
            metric,
            by_month,
            sweep.currency,
        )


def _worth(verdict: str, metric: Metric) -> str:
    """Return a verdict; a direction as what it is worth: less is better."""
    down, up = ("less", "more") if metric.better == "lower" else ("more", "less")
    return {"cheaper": down, "less": down, "dearer": up, "more": up}.get(verdict, verdict)


def answer_of_comparison(comparison: ComparedRuns) -> str:
    """Return the first sentence on a comparison.

    Of a live run and its simulation: how well they agree.
    """
    twins = [TwinErrors.model_validate(pair.twin) for pair in comparison.pairs if pair.twin]
    caveat = next((twin.caveat for twin in twins if twin.caveat), "")
    apart = next((pair.not_comparable for pair in comparison.pairs if pair.not_comparable), "")
    if apart:
        return after_caveat(caveat, apart)
    return after_caveat(caveat, _answer_of_comparison(comparison) + _runs_an_hour(comparison))


def _runs_an_hour(comparison: ComparedRuns) -> str:
    """Return how much users get done, of runs in which that depends on the farm."""
    if len(comparison.pairs) > 1:
        return ""
    [pair] = comparison.pairs
    for metric in pair.metrics:
        if metric.metric == RUNS and metric.base is not None and metric.other is not None:
            base, other = readable(metric.base, "ratio"), readable(metric.other, "ratio")
            if base == other:
                return f"; users get {base} runs an hour with either"
            return f"; users get {other} runs an hour with {pair.other_name} instead of {base}"
    return ""


def _answer_of_comparison(comparison: ComparedRuns) -> str:
    first = comparison.pairs[0]
    if len(comparison.pairs) == 1 and len(set(first.worlds)) == 2:
        apart = first.agreement.mean_response_relative
        if apart is None:
            return f"{first.other_name} and {first.base_name} have no response times to compare"
        shorter = "shorter" if apart < 0 else "longer"
        than = f"{shorter} in {first.other_name} than in {first.base_name}"
        return f"mean response time is {readable_percent(abs(apart))} {than}"
    choices = list(choices_of_comparison(comparison))
    if len(choices) < 2:
        return "no job started in both runs"
    noise = UNKNOWN if any(one.low is None for one in choices[1:]) else ""
    moved = next((one for one in map(_moved, comparison.pairs) if one), "")
    answer = answer_of_choices(choices)
    worse = "" if answer.choice is None else _worse_in_comparison(comparison, answer.choice)
    if not moved:
        return f"{answer.text}{worse}{noise}"
    if all(one.verdict in STILL and not one.costs_other for one in choices[1:]):
        alike = _alike(min(choices[1:], key=_by_wait), choices[0])
        stays = "is" if " against " in alike else "stays"
        of_all = alike.replace("mean wait", f"the mean wait of all jobs {stays}", 1)
        return f"{moved}; {of_all}{noise}"
    return f"{answer.text}{worse}; {moved}{noise}"


def _moved(pair: PairComparison) -> str:
    """Return which parts of the jobs gain and lose, where all jobs together wait as before."""
    if next(one.verdict for one in pair.metrics if one.metric == WAIT) not in STILL:
        return ""
    clear = [one for one in pair.parts if one.verdict in ("better", "worse")]
    clear = [one for one in clear if one.of == clear[0].of]
    ends = [min(clear, key=lambda one: one.difference or 0.0)] if clear else []
    ends += [max(clear, key=lambda one: one.difference or 0.0)] if len(clear) > 1 else []
    texts = [
        f"{one.name} {'wait less' if one.verdict == 'better' else 'wait longer'} "
        f"({spoken_span(one.other or 0.0)} instead of {spoken_span(one.base or 0.0)})"
        for one in ends
    ]
    return f"with {pair.other_name} jobs of {' and those of '.join(texts)}" if texts else ""


def choices_of_comparison(comparison: ComparedRuns) -> Iterator[Choice]:
    """Yield the base and the others, those that have a mean wait."""
    for number, pair in enumerate(comparison.pairs):
        found = {one.metric: one for one in pair.metrics}
        wait, cost, per_month = found[WAIT], found[COST], found[PER_MONTH]
        if not is_money(comparison.currency):
            per_month = msgspec.structs.replace(per_month, base=None, other=None)
        if wait.base is None:
            return
        if not number:
            yield Choice(
                pair.base_name,
                wait.base,
                None,
                None,
                "",
                cost.base or 0.0,
                False,
                per_month=per_month.base,
                currency=comparison.currency,
            )
        if wait.other is None:
            continue
        base = wait.base
        low, high = (None if end is None else base + end for end in ends_of(wait.interval))
        if wait.verdict == "same":
            low = high = wait.other
        yield Choice(
            pair.other_name,
            wait.other,
            low,
            high,
            wait.verdict or "",
            cost.other or 0.0,
            cost.verdict not in ("same", "noise", "small", None),
            per_month=per_month.other,
            currency=comparison.currency,
        )


def frontier(choices: Sequence[Choice]) -> list[str]:
    """Return the names of the settings that no other beats in both wait and cost."""
    best, names = math.inf, []
    for one in sorted(choices, key=_by_cost):
        if one.wait < best:
            best = one.wait
            names.append(one.name)
    return names
