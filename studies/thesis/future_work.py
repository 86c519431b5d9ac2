"""The thesis's future work (6.4), each question with one figure and one paragraph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from farm.core.contention.laws import THESIS_TABLE, ContentionLaw, LinearSlowdown, LoadLimits
from farm.core.errors import InputError
from farm.core.pools.spec import PoolSpec
from farm.core.rules import HeavyLightOptions
from farm.results.figures.lines import Figure
from farm.results.figures.page import Section, Table
from farm.scenario.distributions import Distribution
from farm.scenario.load import load_scenario
from farm.workload import build_jobs
from studies.thesis.evaluation import PAGE_16, OnStep, numbers
from studies.thesis.job_sets import ALPHA, SEED, Draw, Floats, JobSet, marked, model_sets
from studies.thesis.model import (
    MAKESPAN,
    MATRIX_RESPONSE,
    METRICS,
    POLICY_OF,
    RESPONSE,
    Cases,
    Plays,
    Setup,
    nodes,
    paired_ratio,
    play_cases,
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


def future_work(runs: int, trace: Path | None, on_step: OnStep = lambda _: None) -> list[Section]:
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
    ticks: tuple[str, ...] = (),
    *,
    more: Table | None = None,
) -> Section:
    names = ticks or tuple(f"{x:g}" for x in plays.xs)
    best = [(plays.best(x, measure), x) for x in plays.xs]
    told = "; ".join(
        f"{name}: {policy} ({plays.ratio(policy, x, measure):.2f} of Random's)"
        for name, (policy, x) in zip(names, best, strict=True)
    )
    kind = METRICS[measure]
    lines = {
        policy: [(x, plays.ratio(policy, x, measure)) for x in plays.xs] for policy in POLICY_OF
    }
    heading = f"{kind.capitalize()}, as a ratio to Random's"
    return Section(
        title,
        [f"{text} Best in {kind}, by {axis}: {told}."],
        [Figure(heading, lines, (axis, "ratio"), ticks=ticks).draw()],
        [
            *([more] if more else []),
            *(numbers(name.capitalize(), plays, m, axis, ticks) for m, name in enumerate(METRICS)),
        ],
    )


def _distributions(runs: int) -> Section:
    forms = {
        "normal": {"normal": {"mean": MEAN, "std": MEAN / 3}},
        "lognormal": {"lognormal": {"mean": MEAN, "std": 2 * MEAN}},
        "short": {"normal": {"mean": MEAN / 4, "std": MEAN / 16}},
        "long": {"normal": {"mean": 4 * MEAN, "std": MEAN}},
    }
    quantiles = {
        name: Distribution.model_validate(form).quantile_function() for name, form in forms.items()
    }

    def by(*shares: tuple[str, float]) -> Draw:
        """Draw the form of each job, by their shares."""

        def draw(draws: np.random.RandomState, shape: tuple[int, int]) -> Floats:
            names = draws.choice([n for n, _ in shares], shape, p=[s for _, s in shares])
            numbers = draws.random_sample(shape)
            made = np.empty(shape)
            for name, _ in shares:
                chosen = names == name
                made[chosen] = np.maximum(list(map(quantiles[name], numbers[chosen])), 0.01)
            return made

        return draw

    bimodal = ("short", 0.8), ("long", 0.2)
    sets = {
        "Pareto": model_sets(runs),
        "normal": model_sets(runs, by(("normal", 1.0))),
        "lognormal": model_sets(runs, by(("lognormal", 1.0))),
        "bimodal": model_sets(runs, by(*bimodal)),
        "mixed": model_sets(
            runs, by(("normal", 0.4), ("lognormal", 0.4), ("short", 0.16), ("long", 0.04))
        ),
    }
    cases: Cases = {float(n): (some, nodes(SLOTS, PAGE_16)) for n, some in enumerate(sets.values())}
    return _section(
        "6.4.1 Other distributions",
        f"""Service times of one mean ({MEAN:.1f}s) from other distributions: normal (standard
        deviation a third of the mean), lognormal (twice the mean), bimodal (four fifths around a
        quarter of the mean, one fifth around four times the mean) and a mixture of all three. The
        variance is infinite for Pareto alone.""",
        play_cases(cases),
        MATRIX_RESPONSE,
        "distribution",
        tuple(sets),
    )


def _heterogeneous(sets: Sequence[JobSet]) -> Section:
    speeds = (1.0, 0.75, 0.5, 0.25)

    def setup(slow: float, *, by_speed: bool = False) -> Setup:
        pools = (("fast", 2.0 - slow), ("slow", slow))
        made = (PoolSpec(name=n, slots=SLOTS, builders=1, speed=speed) for n, speed in pools)
        return Setup(tuple(made), by_speed=by_speed)

    plays = play_cases({slow: (sets, setup(slow)) for slow in speeds})
    some = sets[:MAX_REFERENCE_SETS]
    fastest = play_cases(
        {slow: (some, setup(slow, by_speed=True)) for slow in speeds}, ["LJF", "SJF"]
    )

    def by_fastest(policy: str, slow: float) -> str:
        blind = plays.of(policy, slow, MAKESPAN)[: len(some)]
        return f"{policy} {paired_ratio(fastest.of(policy, slow, MAKESPAN), blind):.2f}"

    aside = "; ".join(
        f"{slow:g}: {by_fastest('LJF', slow)}, {by_fastest('SJF', slow)}" for slow in speeds
    )
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


def _memory_bus(sets: Sequence[JobSet]) -> Section:
    chances = np.random.RandomState(SEED).random_sample((len(sets), len(sets[0])))
    setup = nodes(SLOTS, ContentionLaw(THESIS_TABLE, THESIS_TABLE))
    shares = (0.0, 0.1, 0.2, 0.4, 0.6)
    cases = {share: (marked(sets, "memory_heavy", chances < share), setup) for share in shares}
    return _section(
        "6.4.3 Memory bus",
        """A second resource: jobs that load the memory bus, drawn at random, slow each other down
        by the table of page 16, and their factor is multiplied by the processor's.""",
        play_cases(cases),
        MATRIX_RESPONSE,
        "share of jobs that load the bus",
    )


def _failures(sets: Sequence[JobSet]) -> list[Section]:
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
    setup = msgspec.structs.replace(nodes(SLOTS, PAGE_16), fail_fast=True)
    order = np.array([_failing_first(jobs, n, grows) for n, jobs in enumerate(sets)])
    counts = (0.0, 1.0, 2.0, 5.0, 10.0)
    return play_cases({k: (marked(sets, "fails", order < k), setup) for k in counts})


def _failing_first(jobs: JobSet, number: int, grows: bool) -> Floats:
    """Return each job's place in the order in which they are made to fail."""
    weights = np.array([job.service_time if grows else 1.0 for job in jobs])
    times = np.random.RandomState(SEED + number).exponential(size=len(jobs)) / weights
    return np.argsort(np.argsort(times)).astype(float)


def _slowdown(sets: Sequence[JobSet]) -> Section:
    slopes = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)
    cases: Cases = {
        slope: (sets, nodes(SLOTS, ContentionLaw(LinearSlowdown(1.0, slope)))) for slope in slopes
    }
    return _section(
        "6.4.4 Varying slowdown",
        "Each heavy job beyond the first on a builder slows it down by so much; page 16 has 0.4.",
        play_cases(cases),
        MATRIX_RESPONSE,
        "slowdown by a further heavy job",
    )


def _released_apart(runs: int) -> Section:
    cases: Cases = {
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


def _load_index(sets: Sequence[JobSet]) -> Section:
    limits = LoadLimits(overloaded_at=1.4, room_at=1.0)
    blind = {x: nodes(x, PAGE_16) for x in (2, 4, 8, 16)}

    def reporting(setup: Setup) -> Setup:
        """Return the farm with builders that report their load, and a scheduler that listens."""
        pools = tuple(msgspec.structs.replace(pool, load_limits=limits) for pool in setup.pools)
        rule = HeavyLightOptions(limits=limits, heavy_first=True)
        return msgspec.structs.replace(setup, pools=pools, heavy_light=rule)

    without = play_cases({x: (sets, setup) for x, setup in blind.items()})
    plays = play_cases({x: (sets, reporting(setup)) for x, setup in blind.items()})

    def change(policy: str, x: float) -> str:
        """Return each of the thesis's measures, divided by the same without reports."""
        cells = ((policy, x, m) for m in (MAKESPAN, RESPONSE, MATRIX_RESPONSE))
        return "; ".join(f"{paired_ratio(plays.of(*c), without.of(*c)):.2f}" for c in cells)

    rows = tuple((str(x), *(change(policy, x) for policy in POLICY_OF)) for x in blind)
    told = ", ".join(f"{x:g} slots: {change('Random', x)}" for x in blind)
    return _section(
        "7.1 Dynamic load index",
        f"""Two queues, one for heavy jobs: a builder that reports a slowdown of 1.4 or more gets
        light jobs only, until it reports none; heavy ones go first otherwise. Random's makespan,
        mean response and mean matrix response time, divided by the same without ({len(sets)} sets),
        {told}.""",
        plays,
        RESPONSE,
        "slots",
        more=Table(
            "Makespan; mean response time; mean matrix response time: with ÷ without the index",
            ("slots", *POLICY_OF),
            rows,
        ),
    )


def recorded_jobs(path: Path) -> Section:
    """Simulate recorded jobs at several utilizations; the random weights are drawn."""
    scenario = load_scenario(
        {
            "version": 1,
            "name": "trace",
            "pools": [{"name": "node", "builders": 1}],
            "workload": [{"trace": {"path": str(path.resolve()), "platform": {}}}],
        }
    )
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
    cases: Cases = {
        share: (
            [jobs],
            Setup((PoolSpec(name="node", builders=1, slots=count),), aging="linear"),
        )
        for share, count in slots.items()
    }
    told = ", ".join(f"{share:g} with {count}" for share, count in slots.items())
    return _section(
        "6.4.5 Real jobs",
        f"""{path.name}: {len(jobs):,} recorded jobs with their arrivals, on slots such that
        the utilization is {told}; a job of no matrix is a matrix of its own.""",
        play_cases(cases),
        RESPONSE,
        "utilization",
    )
