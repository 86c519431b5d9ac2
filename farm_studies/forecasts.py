"""How true forecasts of dispatches are: twelve loads, against the formula and two naive rules.

Every load is simulated, and its jobs are forecast at their submission as a farm tells its users:
by rollouts, with the range that past errors have made of theirs, and by Launchpad's formula. Both
stand in the run's event log, from which they are scored as ``farm admin score`` does, beside two
forecasts that need no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

import msgspec

from farm.assembly import estimator_named, laws_of, make_rules, make_scheduler
from farm.core.commands import Command
from farm.core.driver import World
from farm.core.events import Event
from farm.core.scheduler import Scheduler
from farm.forecasts.dispatch.at_submission import EstimatingWorld, Forecaster
from farm.forecasts.dispatch.formula_at_submission import FormulaForecaster
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.training import Learner
from farm.results.estimate_scores import Accuracy, Score, score
from farm.results.figures.line_charts import Figure
from farm.results.figures.page import PageSection, PageTable, made_by, page
from farm.results.formatting import readable_span
from farm.results.log.reader import Entry
from farm.sim.rollouts.rollout_forecaster import RolloutForecaster
from farm.sim.setting import Setting
from farm.sim.simulation import Simulation
from farm.upstream.launchpad import LAUNCHPAD
from farm_studies.forecast_loads import ForecastLoad, loads
from provisioner.from_scenario import algorithms_of

#: rollouts of an estimate
ROLLOUTS = 20
#: seeds of each load
RUNS = 3
#: between which shares of the ranges are to hold
AIM = (0.75, 0.85)
TITLE = "How true forecasts are at submission"
OURS = "rollout"
HEAD = (
    "load",
    "run times",
    "jobs",
    "wait",
    "bias",
    "error",
    "formula",
    "last waits",
    "throughput",
    "P10 - P90",
    "ranges",
    "score ÷ wait",
)
PART_HEAD = ("jobs", "forecasts", "bias", "error", "P10 - P90")
#: the ends of the horizons of a forecast, as words
HORIZONS = {
    0.0: "below 1 min",
    60.0: "1 to 5 min",
    300.0: "5 to 30 min",
    1800.0: "30 to 120 min",
    7200.0: "beyond 120 min",
}


class ForecastOutcome(msgspec.Struct, frozen=True):
    """One load by one source of run times: the scores of each seed."""

    load: str
    run_times: str
    rollouts: tuple[Score, ...]
    formula: tuple[Score, ...]
    last_waits: tuple[Score, ...]
    throughput: tuple[Score, ...]

    @property
    def is_nearest(self) -> bool:
        """Whether rollouts err less than the three others."""
        others = (self.formula, self.last_waits, self.throughput)
        error = mean_of(self.rollouts, "relative_error")
        errors = [mean_of(one, "relative_error") for one in others]
        return error is not None and all(other is None or error < other for other in errors)

    @property
    def holds(self) -> bool:
        """Whether about as many ranges held as should."""
        share = mean_of(self.rollouts, "within_p10_p90")
        return share is not None and AIM[0] <= share <= AIM[1]


def mean_of(scores: Iterable[Accuracy], name: str) -> float | None:
    """Return the mean of a measure over runs; None: it is of none of them."""
    known = [value for one in scores if (value := getattr(one, name)) is not None]
    return fmean(known) if known else None


def play(load: ForecastLoad, rollouts: int = ROLLOUTS) -> list[ForecastOutcome]:
    """Play a load once, and return how true its forecasts were, by source of run times."""
    scenario = load.scenario
    algorithms = algorithms_of(scenario)
    forecasters: list[Forecaster] = []
    learners = []
    for name in load.run_times:
        learned = RuntimeDistribution(estimator_named(name, scenario))
        learners.append(Learner(learned, laws_of(scenario)))
        forecasters.append(
            RolloutForecaster(
                Setting.of(scenario, make_rules(scenario), algorithms),
                learned,
                name,
                seed=scenario.seed,
                count=rollouts,
            )
        )
        forecasters.append(FormulaForecaster(LAUNCHPAD, name, learned))
    entries: list[Entry] = []

    def around(world: World, scheduler: Scheduler) -> World:
        return EstimatingWorld(world, scheduler, forecasters, every=load.every, learners=learners)

    def observe(event: Event, commands: Sequence[Command]) -> None:
        entries.append(Entry(event, list(commands), len(entries)))

    simulation = Simulation.of(
        scenario, scheduler=make_scheduler(scenario), algorithms=algorithms, around=around
    )
    simulation.play([observe])
    scores = {(one.rules, one.run_times): one for one in score(entries, naive=True)}
    return [
        ForecastOutcome(
            load=load.name,
            run_times=name,
            rollouts=(scores[OURS, name],),
            formula=(scores[LAUNCHPAD.name, name],),
            last_waits=(scores["last-waits", ""],),
            throughput=(scores["throughput", ""],),
        )
        for name in load.run_times
    ]


def compare(
    runs: int = RUNS, on_load: Callable[[str], None] = lambda _: None
) -> list[ForecastOutcome]:
    """Play all loads by as many seeds; ``on_load`` is called with the name of each before."""
    found: list[ForecastOutcome] = []
    for load in loads():
        played = []
        for number in range(runs):
            on_load(f"{load.name}, {number + 1} of {runs}")
            seed = {"seed": load.scenario.seed + number}
            scenario = load.scenario.model_copy(update=seed)
            played.append(play(msgspec.structs.replace(load, scenario=scenario)))
        found.extend(map(_together, zip(*played, strict=True)))
    return found


def _together(outcomes: Sequence[ForecastOutcome]) -> ForecastOutcome:
    """Return the runs of one load and one source of run times as one outcome."""
    return ForecastOutcome(
        load=outcomes[0].load,
        run_times=outcomes[0].run_times,
        rollouts=tuple(its for one in outcomes for its in one.rollouts),
        formula=tuple(its for one in outcomes for its in one.formula),
        last_waits=tuple(its for one in outcomes for its in one.last_waits),
        throughput=tuple(its for one in outcomes for its in one.throughput),
    )


def row_of(one: ForecastOutcome) -> tuple[str, ...]:
    """Return the row of an outcome: means over its runs."""
    ours = one.rollouts
    jobs = sum(its.scored for its in ours)
    wait = mean_wait(ours)
    interval_score = mean_of(ours, "interval_score_time")
    others = (one.formula, one.last_waits, one.throughput)
    return (
        one.load,
        one.run_times,
        f"{jobs:,}",
        readable_span(wait),
        _signed(mean_of(ours, "relative_bias")),
        _percent(mean_of(ours, "relative_error")),
        *(_percent(mean_of(its, "relative_error")) for its in others),
        _percent(mean_of(ours, "within_p10_p90")),
        _percent(sum(its.intervals for its in ours) / jobs if jobs else None),
        f"{interval_score / wait:.2f}" if interval_score is not None and wait else "-",
    )


def mean_wait(scores: Sequence[Score]) -> float | None:
    """Return the mean wait of the jobs that were forecast, seconds."""
    waits = [
        one.mean_absolute_error_time / one.relative_error
        for one in scores
        if one.relative_error and one.mean_absolute_error_time is not None
    ]
    return fmean(waits) if waits else None


def parts_of(outcomes: Sequence[ForecastOutcome]) -> list[tuple[str, ...]]:
    """Return a row for each horizon over all loads, and for platforms and levels of single ones."""
    rows = []
    scores = [its for one in outcomes for its in one.rollouts]
    for low, name in HORIZONS.items():
        bins = [(its.count, its) for one in scores for its in one.by_horizon if its.low == low]
        rows.append((name, *_part(bins)))
    for outcome in outcomes:
        rows.extend(_own_parts(outcome))
    return rows


def _own_parts(outcome: ForecastOutcome) -> Iterable[tuple[str, ...]]:
    """Yield the rows of a load's platforms and levels, if it has several."""
    name = f"{outcome.load}, {outcome.run_times}"
    platforms = [its for one in outcome.rollouts for its in one.by_platform]
    names = sorted({its.platform for its in platforms})
    for platform in names if len(names) > 1 else ():
        yield (
            f"{name}: {platform}",
            *_part([(p.scored, p) for p in platforms if p.platform == platform]),
        )
    of_levels = [its for one in outcome.rollouts for its in one.by_level]
    levels = sorted({its.level for its in of_levels})
    for level in levels if len(levels) > 1 else ():
        yield (
            f"{name}: level {level}",
            *_part([(u.scored, u) for u in of_levels if u.level == level]),
        )


def _part(parts: Sequence[tuple[int, Accuracy]]) -> tuple[str, ...]:
    """Return the cells of some jobs: means, each by its number of jobs."""
    count = sum(jobs for jobs, _ in parts)
    means = []
    for name in ("relative_bias", "relative_error", "within_p10_p90"):
        known = [(jobs, value) for jobs, its in parts if (value := getattr(its, name)) is not None]
        total = sum(jobs for jobs, _ in known)
        means.append(sum(jobs * value for jobs, value in known) / total if total else None)
    return f"{count:,}", _signed(means[0]), _percent(means[1]), _percent(means[2])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.0f} %"


def answer(outcomes: Sequence[ForecastOutcome]) -> str:
    """Return the comparison in two sentences."""
    holding = sum(one.holds for one in outcomes)
    nearest = sum(one.is_nearest for one in outcomes)
    told = sum(its.intervals for one in outcomes for its in one.rollouts)
    jobs = sum(its.scored for one in outcomes for its in one.rollouts)
    held = mean_of((its for one in outcomes for its in one.rollouts), "within_p10_p90")
    return (
        f"P10 to P90 held {_percent(held)} of the jobs (80 % is right), "
        f"{100 * AIM[0]:.0f} to {100 * AIM[1]:.0f} % in {holding} of {len(outcomes)} rows; "
        f"{_percent(told / jobs if jobs else None)} of the jobs were told one. "
        f"The forecasts came nearer than the formula and than two naive rules "
        f"in {nearest} of {len(outcomes)} rows."
    )


def calibration_figures(outcomes: Sequence[ForecastOutcome]) -> list[Figure]:
    """Return for each load which share of the jobs was dispatched by each quantile."""
    figures = []
    for name in dict.fromkeys(one.load for one in outcomes):
        lines: dict[str, list[tuple[float, float]]] = {"ideal": [(0.0, 0.0), (1.0, 1.0)]}
        for one in outcomes:
            if one.load == name:
                lines[one.run_times] = _calibration(one.rollouts)
        axes = ("quantile of the forecast", "share dispatched by then")
        figures.append(Figure(name, {key: line for key, line in lines.items() if line}, axes))
    return figures


def _calibration(scores: Sequence[Score]) -> list[tuple[float, float]]:
    """Return the mean share over runs that was dispatched by each level."""
    shares: dict[float, list[float]] = {}
    for one in scores:
        for its in one.calibration:
            shares.setdefault(its.level, []).append(its.observed)
    return [(level, fmean(observed)) for level, observed in shares.items()]


def document(outcomes: Sequence[ForecastOutcome]) -> str:
    """Return the comparison as a page."""
    words = (
        "Each row is a load by one source of run times, means over seeds. Error: the sum of "
        "absolute errors ÷ the sum of waits, of the forecasts, of Launchpad's formula, of the "
        "median of the last 20 waits, and of the jobs ahead ÷ the throughput of the last 20 ends. "
        "P10 - P90 should hold 80 % of the jobs; ranges: which of them were told one. Score: "
        "Winkler's interval score as a share of the mean wait, less is better."
    )
    sections = [
        PageSection(
            "", [answer(outcomes), words], tables=[PageTable("", HEAD, [*map(row_of, outcomes)])]
        ),
        PageSection(
            "By horizon, platform and level",
            ["How long the forecast wait was; and the parts of loads that have several."],
            tables=[PageTable("", PART_HEAD, parts_of(outcomes))],
        ),
        PageSection(
            "Calibration",
            ["On the straight line, as many jobs are dispatched by a quantile as it says."],
            charts=[figure.draw() for figure in calibration_figures(outcomes)],
        ),
    ]
    return page(TITLE, sections, {"outcomes": list(outcomes)}, under=made_by())
