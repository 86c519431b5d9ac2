"""Figures 4.1 and 5.1 to 5.12, tables 5.1 and 5.2, and the result table, from simulations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from farm.core.contention.laws import THESIS_TABLE
from farm.core.model import Job
from farm.results.figures.line_charts import Figure
from farm.results.figures.page import PageSection, PageTable
from farm.sim.engines import Case, ends_of_cases
from farm_studies.thesis.job_sets import RUNS, JobSet, jenkins_sets, model_sets
from farm_studies.thesis.model import (
    ALL,
    MAKESPAN,
    MATRIX_RESPONSE,
    METRICS,
    PAGE_16,
    RESPONSE,
    SECONDS,
    STRETCH,
    THROUGHPUT,
    UNAGED,
    Plays,
    nodes,
    play_cases,
    pool,
    setting_of,
)

#: slots of a builder in section 5.3, and of all builders together in section 5.1
MODEL_SLOTS = tuple(map(float, range(1, 17)))
JENKINS_SLOTS = (5.0, 10.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0)
#: the range of slots of tables 5.1, 5.2 and the result table (section 5.3)
TABLE_SLOTS = MODEL_SLOTS[4:15]
#: section 5.4, of response time, makespan and matrix response time
THESIS_SAYS = {
    "LJF": ("Bad", "Best", "Good"),
    "SJF": ("Best", "Bad", "Worst"),
    "Random": ("Medium", "Medium", "Bad"),
    "FIFO": ("Bad", "Medium", "Medium"),
    "LJF-aging": ("Bad", "Medium", "Good"),
    "SJF-aging": ("Bad", "Bad", "Medium"),
}
#: measures that the thesis names (3.2) and does not draw
NAMED_ONLY = {"Mean stretch": STRETCH, "Throughput, jobs per second": THROUGHPUT}
SINGLE, SEVERAL = "a single matrix", "five matrices, 30 s apart"
OnStep = Callable[[str], None]
SlowdownByCount = Callable[[int], float]
"""From the number of heavy jobs on a builder to the slowdown of every job there."""


class Evaluation(msgspec.Struct, frozen=True):
    """The simulations of chapter 5; cases are numbers of slots."""

    single: Plays
    several: Plays
    plain: Plays
    slowed: Plays
    #: section 5.2: the slowdown of the reference job, by the number of heavy jobs beside it
    overload: tuple[float, ...]


def evaluate(runs: int, on_step: OnStep = lambda _: None) -> Evaluation:
    """Simulate chapter 5, the model on ``runs`` job sets (at most 1000)."""
    on_step("section 5.1 in virtual time")
    single, several = _jenkins(1, UNAGED), _jenkins(5, ALL)
    sets = model_sets(runs)
    on_step("the model without slowdown")
    plain = play_cases({x: (sets, nodes(x)) for x in MODEL_SLOTS})
    on_step("the model with slowdown")
    slowed = play_cases({x: (sets, nodes(x, PAGE_16)) for x in MODEL_SLOTS})
    return Evaluation(single, several, plain, slowed, _overload())


def _jenkins(matrices: int, policies: Sequence[str]) -> Plays:
    """Simulate section 5.1; return the mean of each test's runs but the first."""
    plays = play_asleep(jenkins_sets(matrices), JENKINS_SLOTS, policies)
    means = {
        cell: found.reshape(-1, RUNS, len(METRICS))[:, 1:].mean(axis=1)
        for cell, found in plays.numbers.items()
    }
    return msgspec.structs.replace(plays, numbers=means)


def play_asleep(sets: Sequence[JobSet], slots: Sequence[float], policies: Sequence[str]) -> Plays:
    """Simulate section 5.1: sleeping jobs slow nothing down, so one builder is enough."""
    return play_cases({x: (sets, [pool(x)]) for x in slots}, policies, aging="linear")


def _overload() -> tuple[float, ...]:
    """Run the job of section 5.2 beside heavy ones of four threads on a builder of 8 threads."""
    machine = setting_of([pool(11, {"threads": {"cores": 8, "heavy_threads": 4}})], "FIFO")
    stress = [Job(id=f"stress-{n}", service_time=100.0, heavy=True) for n in range(10)]
    last = Job(id="bc", service_time=1.0)
    ends = ends_of_cases({n: Case([[*stress[:n], last]], machine) for n in range(11)})
    return tuple(float(found[0, -1]) for found in ends.values())


def sections(found: Evaluation) -> list[PageSection]:
    """Return the thesis's figures and tables, section by section."""
    measured = [
        _measured(
            "5.1.5 Single matrix",
            """Ten matrices of 100 jobs that sleep, four runs of each test; the first is discarded
            and the other three are averaged, as in the thesis. In virtual time the runs of a test
            differ only in the order in which a matrix enters the queue and in the weights of
            Random.""",
            found.single,
            {"Figure 5.1": MAKESPAN, "Figure 5.2": RESPONSE},
        ),
        _measured(
            "5.1.6 Consecutive matrices",
            """Each test has five of the ten matrices, 30 s apart, each of the ten once the
            first.""",
            found.several,
            {"Figure 5.3": MAKESPAN, "Figure 5.4": MATRIX_RESPONSE, "Figure 5.5": RESPONSE},
        ),
        _measured(
            "5.3 Simulation model, without slowdown",
            "Two builders; four matrices of 25 jobs, all released at once.",
            found.plain,
            {"Figure 5.7": MAKESPAN, "Figure 5.8": RESPONSE, "Figure 5.9": MATRIX_RESPONSE},
            _spread("Table 5.1: standard deviation without slowdown", found.plain),
        ),
        _measured(
            "5.3 Simulation model, with slowdown",
            "The same jobs; the longest fifth is heavy and slows its builder down (page 16).",
            found.slowed,
            {"Figure 5.10": MAKESPAN, "Figure 5.11": RESPONSE, "Figure 5.12": MATRIX_RESPONSE},
            _spread("Table 5.2: standard deviation with slowdown", found.slowed),
        ),
    ]
    return [
        PageSection("4.3 Risk of overload", charts=[_figure_4_1().draw()]),
        *measured[:2],
        _load_testing(found),
        *measured[2:],
        PageSection("5.4 Summary of results", tables=[_result_table(found.plain, found.slowed)]),
    ]


def _load_testing(found: Evaluation) -> PageSection:
    line = {"reference job": [(float(k), times) for k, times in enumerate(found.overload)]}
    axes = ("heavy jobs beside it", "times as long")
    return PageSection(
        "5.2 Load testing",
        [
            """A reference job of one thread beside heavy jobs of four threads each on a builder of
            8 threads, which share it evenly. The thesis measured this with bc and stress; farm
            calibrate measures it on a machine at hand."""
        ],
        [Figure("Figure 5.6: the reference job", line, axes).draw()],
    )


def _measured(
    title: str, words: str, plays: Plays, places: Mapping[str, int], *tables: PageTable
) -> PageSection:
    """Draw medians over the job sets, a line for each policy; the tables have all numbers."""
    charts = [
        Figure(
            f"{name}: {METRICS[measure]} (median)",
            {p: [(x, plays.median(p, x, measure)) for x in plays.xs] for p in plays.policies},
            ("slots", "seconds"),
        ).draw()
        for name, measure in places.items()
    ]
    kept = [numbers(name, plays, m, "slots") for name, m in {**places, **NAMED_ONLY}.items()]
    return PageSection(title, [words], charts, [*kept, *tables])


def numbers(
    title: str, plays: Plays, measure: int, axis: str, ticks: Sequence[str] = ()
) -> PageTable:
    """Put medians, means and paired ratios to Random side by side."""

    def cell(policy: str, x: float) -> str:
        of = (policy, x, measure)
        return f"{plays.median(*of):.4g}; {plays.mean(*of):.4g}; {plays.ratio(*of):.3f}"

    rows = [
        (name, *(cell(policy, x) for policy in plays.policies))
        for name, x in zip(ticks or plays.names, plays.xs, strict=True)
    ]
    heading = f"{title}: median; mean; geometric mean of the ratios to Random on the same jobs"
    return PageTable(heading, (axis, *plays.policies), rows, folded=True)


def expected_slowdown(slots: int, heavy_fraction: float, slowdown: SlowdownByCount) -> float:
    """Return f(n, p), the slowdown to expect on a builder whose slots are filled at random (4.3).

    Each of n slots holds a heavy job with probability p: jobs are drawn with replacement from a
    randomly ordered queue. Two misprints of the thesis are corrected. Its eq. 4.2 has
    (p - 1)^(n-k), where a binomial probability has (1 - p)^(n-k). Its eq. 4.3 sums from k = 1,
    which omits the time in which no heavy job runs; from k = 0 on, f(1, 0.2) = 1.
    """
    light_fraction = 1 - heavy_fraction
    return math.fsum(
        slowdown(k) * math.comb(slots, k) * heavy_fraction**k * light_fraction ** (slots - k)
        for k in range(slots + 1)
    )


def _figure_4_1() -> Figure:
    slowdown = THESIS_TABLE.slowdown
    lines = {
        f"p = {p:g}": [(n, expected_slowdown(int(n), p, slowdown)) for n in MODEL_SLOTS]
        for p in (0.1, 0.2, 0.3, 0.4, 0.5)
    }
    return Figure("Figure 4.1: slowdown to expect, f(n, p)", lines, ("slots", "slowdown"))


def spread(plays: Plays, policy: str, measure: int) -> tuple[float, float]:
    """Return standard deviation and interquartile range, averaged over 5 to 15 slots."""
    found = [plays.of(policy, x, measure) for x in TABLE_SLOTS]
    quartiles = [np.subtract(*np.percentile(one, (75, 25))) for one in found]
    return float(np.mean([one.std() for one in found])), float(np.mean(quartiles))


def _spread(title: str, plays: Plays) -> PageTable:
    rows = [
        (policy, *("{:.1f} ({:.1f})".format(*spread(plays, policy, m)) for m in SECONDS))
        for policy in ALL
    ]
    heading = f"{title} (interquartile range), seconds, mean over 5 to 15 slots"
    return PageTable(heading, ("policy", *METRICS[:3]), rows)


def _result_table(*both: Plays) -> PageTable:
    """Rank the policies by their paired ratios to Random, over both models and 5 to 15 slots."""

    def ratio(policy: str, measure: int) -> float:
        return float(np.mean([one.ratio(policy, x, measure) for one in both for x in TABLE_SLOTS]))

    def cell(policy: str, measure: int, word: str) -> str:
        own, *ratios = (ratio(one, measure) for one in (policy, *ALL))
        return f"{word}; {1 + sum(other < own for other in ratios)} of 6 ({own:.2f})"

    measures = (RESPONSE, MAKESPAN, MATRIX_RESPONSE)
    rows = [
        (policy, *(cell(policy, m, word) for m, word in zip(measures, words, strict=True)))
        for policy, words in THESIS_SAYS.items()
    ]
    return PageTable(
        "Result table: what the thesis says; our rank, and the mean ratio to Random, 5 to 15 slots",
        ("policy", *(METRICS[m] for m in measures)),
        rows,
    )
