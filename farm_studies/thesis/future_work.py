"""The thesis's future work (6.4), each question with one figure and one paragraph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.contention.laws import THESIS_TABLE
from farm.core.errors import InputError
from farm.results.figures.line_charts import Figure
from farm.results.figures.page import PageSection, PageTable
from farm.scenario.distributions import Distribution
from farm.scenario.load import load_scenario
from farm.workload import build_jobs
from farm_studies.thesis.evaluation import OnStep, numbers
from farm_studies.thesis.job_sets import ALPHA, SEED, Draw, JobSet, marked, model_sets, pareto
from farm_studies.thesis.model import (
    ALL,
    MAKESPAN,
    MATRIX_RESPONSE,
    METRICS,
    PAGE_16,
    RESPONSE,
    SECONDS,
    Plays,
    Pool,
    farm_of,
    nodes,
    paired_ratio,
    play_cases,
    pool,
)

#: slots of each builder wherever something else is varied
SLOTS = 6
#: sets that are enough for a question, and those that the scheduler itself simulates where the
#: compiled loop does not cover it; fewer where every change of load is reported
MAX_SETS, MAX_REFERENCE_SETS, MAX_REPORTING_SETS = 200, 30, 10
#: of the thesis's Pareto distribution; the others get the same
MEAN = ALPHA / (ALPHA - 1)
#: the utilizations at which a trace is simulated
UTILIZATIONS = (0.5, 0.7, 0.9, 1.1, 1.5)
#: recorded jobs, unless others are given: fifteen commits to this project at their times, each with
#: the test files of the packages that it changed; a file takes as long as it took when measured
OWN_CI = Path(__file__).with_name("own_ci.csv")


def future_work(
    runs: int, trace: Path | None, on_step: OnStep = lambda _: None
) -> list[PageSection]:
    """Simulate each question on ``runs`` job sets, at most 200, and the jobs of a trace."""
    recorded = recorded_jobs(trace or OWN_CI)
    on_step("the future work")
    runs = min(runs, MAX_SETS)
    sets = model_sets(runs)
    return [
        _distributions(runs),
        _heterogeneous(sets),
        _memory_bus(sets),
        *_failures(sets[:MAX_REFERENCE_SETS]),
        _slowdown(sets),
        _released_apart(runs),
        _load_index(sets[:MAX_REPORTING_SETS]),
        recorded,
    ]


def _section(
    title: str,
    text: str,
    plays: Plays,
    measure: int,
    axis: str,
    ticks: Sequence[str] = (),
    more: Sequence[PageTable] = (),
) -> PageSection:
    kind = METRICS[measure]
    best = "; ".join(
        f"{name}: {policy} ({plays.ratio(policy, x, measure):.2f} of Random's)"
        for name, x in zip(ticks or plays.names, plays.xs, strict=True)
        for policy in [plays.best(x, measure)]
    )
    lines = {p: [*zip(plays.xs, plays.ratios(p, measure), strict=True)] for p in ALL}
    heading = f"{kind.capitalize()}, as a ratio to Random's"
    chart = Figure(heading, lines, (axis, "ratio"), ticks=ticks).draw()
    every = [numbers(name.capitalize(), plays, m, axis, ticks) for m, name in enumerate(METRICS)]
    return PageSection(
        title, [f"{text} Best in {kind}, by {axis}: {best}."], [chart], [*more, *every]
    )


def _distributions(runs: int) -> PageSection:
    forms = {
        "normal": {"normal": {"mean": MEAN, "std": MEAN / 3}},
        "lognormal": {"lognormal": {"mean": MEAN, "std": 2 * MEAN}},
        "short": {"normal": {"mean": MEAN / 4, "std": MEAN / 16}},
        "long": {"normal": {"mean": 4 * MEAN, "std": MEAN}},
    }
    quantiles = {
        name: Distribution.model_validate(form).quantile_function() for name, form in forms.items()
    }

    def by(**shares: float) -> Draw:
        """Draw the form of each job, by their shares."""

        def draw(draws: np.random.RandomState, shape: tuple[int, int]) -> Floats:
            names = draws.choice([*shares], shape, p=[*shares.values()])
            numbers, made = draws.random_sample(shape), np.empty(shape)
            for name in shares:
                chosen = names == name
                made[chosen] = np.maximum(list(map(quantiles[name], numbers[chosen])), 0.01)
            return made

        return draw

    draws = {
        "Pareto": pareto,
        "normal": by(normal=1.0),
        "lognormal": by(lognormal=1.0),
        "bimodal": by(short=0.8, long=0.2),
        "mixed": by(normal=0.4, lognormal=0.4, short=0.16, long=0.04),
    }
    cases = {
        float(n): (model_sets(runs, draw), nodes(SLOTS, PAGE_16))
        for n, draw in enumerate(draws.values())
    }
    return _section(
        "6.4.1 Other distributions",
        f"""Service times of one mean ({MEAN:.1f}s) from other distributions: normal (standard
        deviation a third of the mean), lognormal (twice the mean), bimodal (four fifths around a
        quarter of the mean, one fifth around four times the mean) and a mixture of all three. The
        variance is infinite for Pareto alone.""",
        play_cases(cases),
        MATRIX_RESPONSE,
        "distribution",
        [*draws],
    )


def _heterogeneous(sets: Sequence[JobSet]) -> PageSection:
    def both(slow: float) -> list[Pool]:
        return [{**pool(SLOTS, speed=2 - slow), "name": "fast"}, pool(SLOTS, speed=slow)]

    some = sets[:MAX_REFERENCE_SETS]
    farms = {slow: both(slow) for slow in (1.0, 0.75, 0.5, 0.25)}
    plays = play_cases({slow: (sets, farm) for slow, farm in farms.items()})
    fastest = play_cases(
        {slow: (some, farm) for slow, farm in farms.items()}, ["LJF", "SJF"], balancer="fastest"
    )

    def by_fastest(policy: str, slow: float) -> str:
        blind = plays.of(policy, slow, MAKESPAN)[: len(some)]
        return f"{policy} {paired_ratio(fastest.of(policy, slow, MAKESPAN), blind):.2f}"

    aside = "; ".join(f"{x:g}: {by_fastest('LJF', x)}, {by_fastest('SJF', x)}" for x in farms)
    return _section(
        "6.4.2 Heterogeneous machines",
        f"""Two builders whose speeds add up to 2, the load balancer blind to speed, as Jenkins is.
        The balancer fastest gives each job to the builder that is expected to end it first, free
        now or later; makespan by it ÷ makespan without, by speed of the slower builder
        ({len(some)} sets): {aside}.""",
        plays,
        MAKESPAN,
        "speed of the slower builder",
    )


def _memory_bus(sets: Sequence[JobSet]) -> PageSection:
    chances = np.random.RandomState(SEED).random_sample((len(sets), len(sets[0])))
    farm = nodes(SLOTS, {**PAGE_16, "memory": THESIS_TABLE.factors})
    cases = {
        share: (marked(sets, "memory_heavy", chances < share), farm)
        for share in (0.0, 0.1, 0.2, 0.4, 0.6)
    }
    return _section(
        "6.4.3 Memory bus",
        """A second resource: jobs that load the memory bus, drawn at random, slow each other down
        by the table of page 16, and their factor is multiplied by the processor's.""",
        play_cases(cases),
        MATRIX_RESPONSE,
        "share of jobs that load the bus",
    )


def _failures(sets: Sequence[JobSet]) -> list[PageSection]:
    text = (
        "Some of the hundred jobs fail when they end, and a failure ends the rest of its matrix "
        "(fail-fast); the matrix response time is then the time to that verdict "
        f"({len(sets)} sets). "
    )
    return [
        _section(title, text + which, _failing(sets, grows), MATRIX_RESPONSE, "failing jobs of 100")
        for grows, title, which in (
            (False, "6.4.4 Failures and fail-fast", "Every job is as likely to fail."),
            (
                True,
                "6.1.1 Failure rates that grow with length",
                "The chance to fail is proportional to the job's length, as longer jobs test more.",
            ),
        )
    ]


def _failing(sets: Sequence[JobSet], grows: bool) -> Plays:
    order = np.array([_failing_first(jobs, n, grows) for n, jobs in enumerate(sets)])
    cases = {
        count: (marked(sets, "fails", order < count), nodes(SLOTS, PAGE_16))
        for count in (0.0, 1.0, 2.0, 5.0, 10.0)
    }
    return play_cases(cases, fail_fast=True)


def _failing_first(jobs: JobSet, number: int, grows: bool) -> Floats:
    """Return each job's place in the order in which they are made to fail."""
    weights = np.array([job.service_time if grows else 1.0 for job in jobs])
    times = np.random.RandomState(SEED + number).exponential(size=len(jobs)) / weights
    return np.argsort(np.argsort(times)).astype(float)


def _slowdown(sets: Sequence[JobSet]) -> PageSection:
    cases = {
        slope: (sets, nodes(SLOTS, {"linear": {"threshold": 1, "slope": slope}}))
        for slope in (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)
    }
    return _section(
        "6.4.4 Varying slowdown",
        "Each heavy job beyond the first on a builder slows it down by so much; page 16 has 0.4.",
        play_cases(cases),
        MATRIX_RESPONSE,
        "slowdown by a further heavy job",
    )


def _released_apart(runs: int) -> PageSection:
    cases = {
        apart: (model_sets(runs, jobs_apart=apart), nodes(SLOTS, PAGE_16))
        for apart in (0.0, 0.01, 0.1, 0.5, 1.0)
    }
    return _section(
        "4.2.1 Jobs of a matrix released apart",
        """Jenkins releases a matrix's jobs one after the other, so the first slots are filled in
        the order of arrival, whatever the policy. All four matrices begin at once here.""",
        play_cases(cases),
        MAKESPAN,
        "seconds between jobs of a matrix",
    )


def _load_index(sets: Sequence[JobSet]) -> PageSection:
    cases = {x: (sets, nodes(x, PAGE_16)) for x in (2.0, 4.0, 8.0, 16.0)}
    without, plays = (
        play_cases(cases),
        play_cases(
            cases, balancer="heavy-light", heavy_light={"load": "reported", "heavy_first": True}
        ),
    )

    def change(policy: str, x: float) -> str:
        """Return each of the thesis's measures, divided by the same without reports."""
        cells = ((policy, x, m) for m in SECONDS)
        return "; ".join(f"{paired_ratio(plays.of(*c), without.of(*c)):.2f}" for c in cells)

    index = PageTable(
        "Makespan; mean response time; mean matrix response time: with ÷ without the index",
        ("slots", *ALL),
        [(f"{x:g}", *(change(policy, x) for policy in ALL)) for x in cases],
    )
    told = ", ".join(f"{x:g} slots: {change('Random', x)}" for x in cases)
    return _section(
        "7.1 Dynamic load index",
        f"""Two queues, one for heavy jobs: a builder that reports a slowdown of 1.4 or more gets
        light jobs only, until it reports none; heavy ones go first otherwise. Random's makespan,
        mean response and mean matrix response time, divided by the same without ({len(sets)} sets),
        {told}.""",
        plays,
        RESPONSE,
        "slots",
        more=[index],
    )


def recorded_jobs(path: Path) -> PageSection:
    """Simulate recorded jobs at several utilizations; the random weights are drawn."""
    trace = {"trace": {"path": str(path.resolve()), "platform": {}}}
    scenario = load_scenario({**farm_of([pool(1)], "FIFO"), "name": "trace", "workload": [trace]})
    recorded = list(build_jobs(scenario))
    ranks = np.random.RandomState(SEED).permutation(len(recorded)).tolist()
    jobs = tuple(
        msgspec.structs.replace(job, score=-float(rank), level=0, fails=False)
        for job, rank in zip(recorded, ranks, strict=True)
    )
    arrivals = [job.arrived_at or 0.0 for job in jobs]
    work, span = sum(job.service_time for job in jobs), max(arrivals[-1] - arrivals[0], 1e-9)
    if not work:
        raise InputError(f"--trace: {path}: found no run times; allowed: jobs that take time")
    slots = {share: max(1, round(work / span / share)) for share in UTILIZATIONS}
    cases = {share: ([jobs], [pool(count)]) for share, count in slots.items()}
    told = ", ".join(f"{share:g} with {count}" for share, count in slots.items())
    return _section(
        "6.4.5 Real jobs",
        f"""{path.name}: {len(jobs):,} recorded jobs with their arrivals, on slots such that
        the utilization is {told}; a job of no matrix is a matrix of its own.""",
        play_cases(cases, aging="linear"),
        RESPONSE,
        "utilization",
    )
