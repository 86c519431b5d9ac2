"""``farm plan``: how many builders are needed to meet an objective, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from farm.app.forecasts.capacity import plan_pools
from farm.app.runs.advice import advice_on_scenario
from farm.app.sweeps.axes import parse_axis
from farm.core.errors import InputError
from farm.results.figures.chart import time_unit
from farm.results.figures.line_charts import KINDS, Figure, write_figures
from farm.results.figures.page import made_by
from farm.results.formatting import after_caveat, sentence
from farm.results.money import is_money, readable_cost, readable_monthly, unit_of_cost
from farm.results.output_file import check_output
from farm.results.summary.objectives import Term, check_pools, parse_objective
from farm.scenario import Scenario, load_scenario
from farm.scenario.model import NOT_DISTINGUISHABLE
from farm.sim.capacity_planning import (
    CONFIDENCE,
    MOST_BUILDERS,
    REPLICATIONS,
    PlanOptions,
    Point,
    SizePlan,
    Tried,
    pools_to_size,
)
from farm.terminal.cells import folding, numbers
from farm.terminal.error_messages import on_interrupt
from farm.terminal.options import AsJson, Overrides, Plot, Quiet, ScenarioFile, as_typed
from farm.terminal.output import note, print_json, progress, remark, shared_progress
from farm.terminal.tables import Listing
from farm.units import format_roughly, many

NEAREST = 5
"""Rows of the table without --all."""


def plan(
    scenario: ScenarioFile,
    slo: Annotated[str, typer.Option(metavar="OBJECTIVE")],
    sets: Overrides = None,
    vary: Annotated[list[str] | None, typer.Option(metavar="KEY=V1,V2")] = None,
    replications: Annotated[
        int, typer.Option("--replications", "-n", min=1, max=1000)
    ] = REPLICATIONS,
    confidence: float = CONFIDENCE,
    most: Annotated[int, typer.Option(min=1)] = MOST_BUILDERS,
    price: Annotated[list[str] | None, typer.Option(metavar="[POOL=]PRICE")] = None,
    plot: Plot = None,
    every: Annotated[bool, typer.Option("--all")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find the smallest pools with which a scenario meets an objective.

    Exit code 1: no size meets it. Only fixed pools are sized; if all pools have a provisioner,
    they are planned as fixed ones. With --vary the cheapest of the given settings is chosen
    instead, such as min, max, ratio and idle time-out of provisioned pools.

    Args:
        slo: For example 'p95(waiting_time) < 5m', several joined by and: mean p50 p90 p95 p99 max
            of waiting_time response_time stretch matrix_response_time pipeline_response_time;
            p95(linux.waiting_time): of the jobs that the pool linux can run; waiting_time.p95 is
            p95(waiting_time). Or of a figure of the farm: cost < 100, utilization > 0.6 …, as for
            --check. Of a farm's records: farm doctor --objective.
        vary: Try these settings instead of sizes: pools.*.provisioner.max=10,20
            pools.linux.idle_timeout=5m,15m …; repeatable.
        replications: Simulations per size, with common seeds; one where nothing is drawn.
        confidence: Confidence level at which the mean over replications meets the objective.
        most: Maximum number of builders in a pool.
        price: Price of a builder-hour. Default: the pool's. Repeatable.
        every: Show all that was tried, not only the five nearest to the answer.

    Examples:
        farm plan mine.yaml --slo 'p95(waiting_time) < 5m'
        farm plan mine.yaml --slo 'mean(waiting_time) < 1m' --plot curve.svg
        farm plan mine.yaml --slo 'p95(waiting_time) < 5m' --vary pools.linux.idle_timeout=5m,15m
    """
    terms = parse_objective(slo)
    if not 0.5 <= confidence < 1:
        raise InputError(f"--confidence: found {confidence:g}; allowed: from 0.5, below 1")
    check_output(plot, KINDS, "--plot")
    wanted = load_scenario(scenario, sets or (), on_step=partial(remark, quiet=quiet or as_json))
    check_pools(terms, wanted.pools)
    wanted = _priced(wanted, price or ())
    axes = [parse_axis(text) for text in vary or ()]
    names = [axis.key for axis in axes] or [pool.name for pool in pools_to_size(wanted)]
    total = math.prod(len(axis.values) for axis in axes) if axes else None
    so_far = "nothing was tried"
    with (
        on_interrupt(lambda: f"{so_far}; nothing is kept; the same command begins again"),
        progress("simulating the first size", silent=quiet or as_json) as update,
    ):
        tried = 0

        def show_point(point: Point) -> None:
            nonlocal tried, so_far
            tried += 1
            share = f"{tried} of {total} settings" if total else many(tried, "size")
            met = "meets" if point.met else "misses"
            so_far = f"{share} tried: {_named(names, point.sizes)} {met} it"
            update(description=so_far, **({"completed": tried, "total": total} if total else {}))

        def show_run(tried_now: Tried, done: int, of: int) -> None:
            before = f"{so_far}; " if tried else ""
            size = f"{_named(names, tried_now)}: {done} of {many(of, 'replication')}"
            update(description=f"{before}{size}")

        options = PlanOptions(
            replications=replications, confidence=confidence, most=most, on_run=show_run
        )
        found = plan_pools(wanted, terms, options, show_point, axes)
    if plot is not None:
        _plot(found, terms, plot, wanted, options)
    if as_json:
        document = _as_json(found, terms, options)
        print_json(document, pretty=True)
    else:
        _print(found, terms, options, every=every)
        if not quiet:
            _show_advice(wanted, as_typed(scenario, sets))
        if plot is not None:
            note(f"Curves written to {plot}")
    remark(*(f"warning: {warning}" for warning in found.warnings))
    raise typer.Exit(0 if found.best is not None else 1)


def _priced(scenario: Scenario, texts: Sequence[str]) -> Scenario:
    """Return the scenario with these prices of a builder-hour; raises InputError."""
    prices = {pool.name: pool.price for pool in scenario.pools}
    names = list(prices)
    for text in sorted(texts, key=lambda one: "=" in one):  # a price for all, then exceptions
        pool, _, amount = text.rpartition("=")
        try:
            price = float(amount)
        except ValueError:
            price = -1.0
        if not 0 <= price < float("inf") or (pool and pool not in names):
            raise InputError(
                f"--price: found {text!r}; allowed: PRICE or POOL=PRICE, a number from 0 up; "
                f"pools: {', '.join(names)}"
            )
        prices.update(dict.fromkeys([pool] if pool else names, price))
    pools = [one.model_copy(update={"price": prices[one.name]}) for one in scenario.pools]
    return scenario.model_copy(update={"pools": tuple(pools)})


def _named(names: Sequence[str], sizes: Tried) -> str:
    return ", ".join(f"{name} {size}" for name, size in zip(names, sizes, strict=True))


def _print(found: SizePlan, terms: Sequence[Term], options: PlanOptions, *, every: bool) -> None:
    answer = _answer(found, terms, options)
    note(answer if found.best is None else Text(answer, "bold"))
    note(_table(found, terms, options, every=every))
    if found.twin is not None:
        note(str(found.twin))


def _answer(found: SizePlan, terms: Sequence[Term], options: PlanOptions) -> str:
    caveat = "" if found.twin is None else found.twin.caveat
    return after_caveat(caveat, _size(found, terms, options))


def _size(found: SizePlan, terms: Sequence[Term], options: PlanOptions) -> str:
    """Return which size the objective needs, or why none was found."""
    objective = " and ".join(map(str, terms))
    if found.best is None:
        return f"{objective}: {found.why}"
    needs = _named(found.pools, found.best.sizes)
    if not _settings(found):
        sizes = zip(found.best.sizes, found.pools, strict=True)
        needs = " and ".join(many(int(size), f"{pool} builder") for size, pool in sizes)
    times = found.replications
    often = "one simulation" if times == 1 else f"{times} replications"
    return (
        f"{objective} needs {needs} ({options.confidence:.0%} confidence, {often}): "
        f"{found.best.builder_hours:.1f} builder-hours{_money(found.best, found.currency)}"
    )


def _show_advice(scenario: Scenario, typed: str) -> None:
    """Say what would shorten the waits most for its cost as the farm is now."""
    with shared_progress("finding where builders are short") as on_share:
        advice = advice_on_scenario(scenario, on_share, typed=typed)
    if advice.sentence:
        note(f"As it is, with seed {scenario.seed}: {sentence(advice.sentence)}")
    if advice.why_not:
        note(f"What would help the farm as it is now is not told: {advice.why_not}.")


def _money(best: Point, currency: str | None) -> str:
    """Return what the size costs, if the pools have prices."""
    if not is_money(currency):
        return ""
    cost = readable_cost(best.cost, currency)
    return f", {cost} ({readable_monthly(best.cost_per_month, currency)})"


def _shown(found: SizePlan, *, every: bool) -> list[Point]:
    """Return what is listed, the cheapest first: all, or the nearest to the answer."""
    points = sorted(found.points, key=lambda one: (one.cost, one.bounds))
    best = len(points) if found.best is None else points.index(found.best)
    first = min(max(0, best - NEAREST // 2), max(0, len(points) - NEAREST))
    return points if every else points[first : first + NEAREST]


def _settings(found: SizePlan) -> bool:
    """Return whether settings were tried rather than sizes."""
    return any(isinstance(size, str) for size in found.points[0].sizes)


def _table(found: SizePlan, terms: Sequence[Term], options: PlanOptions, *, every: bool) -> Listing:
    """Lay out what was tried, the cheapest first; pools and keys share one column."""
    shown = _shown(found, every=every)
    rest = len(found.points) - len(shown)
    judged = [
        name
        for term in terms
        for name in (
            " ".join(filter(None, (term.pool, term.statistic, term.metric))),
            f"{options.confidence:.0%} {'above' if term.above else 'below'}",
        )
    ]
    first = "settings" if _settings(found) else "builders"
    return Listing(
        (*folding(first), *numbers(*judged, "mean wait", "hours", "cost", "meets it")),
        (
            _row(point, terms, _hidden(found, point, terms), best=point == found.best)
            for point in shown
        ),
        caption=f"{many(rest, 'other')} tried: --all" if rest else "",
        first_to_go=("hours", "mean wait", *judged[1::2], "cost"),
        title=f"{' + '.join(found.pools)}: what was tried, the cheapest first",
    )


def _hidden(found: SizePlan, point: Point, terms: Sequence[Term]) -> str | None:
    """Return the verdict on a point of a twin that is as near to a limit as its own errors."""
    twin = found.twin
    near = twin is not None and any(
        twin.hide(term.limit, bound - term.limit) for bound, term in _pairs(point, terms)
    )
    return NOT_DISTINGUISHABLE if near else None


def _row(point: Point, terms: Sequence[Term], hidden: str | None, *, best: bool) -> list[Text]:
    judged = zip(terms, point.means, point.bounds, strict=True)
    cells = [
        " + ".join(map(str, point.sizes)),
        *(term.show(value) for term, mean, bound in judged for value in (mean, bound)),
        format_roughly(point.mean_wait),
        f"{point.builder_hours:.1f}",
        f"{point.cost:.2f}",
        ", ".join(filter(None, ("best" if best else "yes" if point.met else "no", hidden))),
    ]
    return [Text(cell, style="bold" if best else "") for cell in cells]


def _as_json(found: SizePlan, terms: Sequence[Term], options: PlanOptions) -> dict[str, object]:
    return {
        "objective": [str(term) for term in terms],
        "replications": found.replications,
        "confidence": options.confidence,
        **({} if found.currency is None else {"currency": found.currency}),
        "best": None if found.best is None else _point_json(found, found.best, terms),
        "why": found.why,
        "points": [_point_json(found, point, terms) for point in found.points],
        **({} if found.twin is None else {"twin": found.twin.model_dump(exclude_none=True)}),
        "warnings": found.warnings,
    }


def _point_json(found: SizePlan, point: Point, terms: Sequence[Term]) -> dict[str, object]:
    return {
        "settings" if _settings(found) else "builders": dict(
            zip(found.pools, point.sizes, strict=True)
        ),
        "statistics": [
            {
                "name": term.name,
                "mean": mean,
                "lower_bound" if term.above else "upper_bound": bound,
                "limit": term.limit,
            }
            for term, mean, bound in zip(terms, point.means, point.bounds, strict=True)
        ],
        "mean_waiting_time_s": point.mean_wait,
        "builder_hours": point.builder_hours,
        "cost": point.cost,
        "cost_per_month": point.cost_per_month,
        "met": point.met,
        **({} if found.twin is None else {"verdict": _hidden(found, point, terms)}),
    }


def _plot(
    found: SizePlan, terms: Sequence[Term], path: Path, scenario: Scenario, options: PlanOptions
) -> None:
    """Draw for each term its value over the cost, for the Pareto-optimal points."""
    # values far beyond the limit would squeeze the rest of the curve
    near = [
        point
        for point in found.points
        if all(term.above or bound <= 20 * term.limit for bound, term in _pairs(point, terms))
    ]
    shown = sorted(near or found.points, key=lambda one: (one.cost, one.bounds))
    figures = []
    for place, term in enumerate(terms):
        frontier: list[Point] = []
        for point in shown:
            gain = point.bounds[place] - frontier[-1].bounds[place] if frontier else 0.0
            if not frontier or (gain > 0.0 if term.above else gain < 0.0):
                frontier.append(point)
        most = max(term.limit, *(p.bounds[place] for p in frontier if p.bounds[place] < math.inf))
        unit, size = time_unit(most) if term.is_time else ("", 1.0)
        lines = {
            f"{options.confidence:.0%} {'above' if term.above else 'below'}": [
                (p.cost, p.bounds[place] / size) for p in frontier
            ],
            "mean of replications": [(p.cost, p.means[place] / size) for p in frontier],
            "limit": [(one.cost, term.limit / size) for one in (shown[0], shown[-1])],
        }
        if found.best is not None:
            lines["best"] = [(found.best.cost, found.best.bounds[place] / size)]
        axes = (
            f"cost ({unit_of_cost(found.currency)})",
            f"{term.name} ({unit})" if unit else term.name,
        )
        figures.append(Figure(str(term), lines, axes))
    origin = f"{made_by()}, seeds from {scenario.seed} on"
    words = [f"{_answer(found, terms, options)}.", origin]
    write_figures(path, figures, "--plot", f"Plan of {scenario.name}", words)


def _pairs(point: Point, terms: Sequence[Term]) -> Iterator[tuple[float, Term]]:
    return zip(point.bounds, terms, strict=True)
