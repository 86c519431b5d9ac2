"""Compares the provisioning algorithms on the same week of jobs.

Each runs the week twice: on a farm without faults, and on one with ``TROUBLES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from farm.app.sweeps.execution import SeededRun, play_all
from farm.core.errors import InputError
from farm.results.comparison.comparison_answer import Choice, answer_of_choices
from farm.results.figures.page import PageSection, PageTable, made_by, page
from farm.results.formatting import readable_percent, readable_ratio, readable_span
from farm.results.report.comparison_figures import trade_off_chart
from farm.results.summary.figures import Figures
from farm.scenario import Scenario
from farm.scenario.load import load_scenario

WEEK = Path(__file__).with_name("firefox_week.yaml")
POOL = "pools.linux"
#: options of each beside min 0 and max; otherwise the algorithm's defaults
OPTIONS: Mapping[str, Mapping[str, object]] = {
    "fixed": {"builders": 45},
    "manual": {"capacity": {0: 25, 8: 45, 13: 60, 19: 40, 22: 25}},
    "taskcluster": {"interval": "10s"},
    "keda": {"list_length": 1, "length": "waiting+running"},
    "target-wait": {"objective": "5m"},
    "arc": {"interval": "10s"},
    "buildkite": {"instance_buffer": 2},
    "gitlab": {"idle_count": 4, "idle_time": "15m"},
    "buildbarn": {"interval": "1m"},
    "jenkins": {},
    "predictive": {},
}
#: they stop no builder themselves: an idle one is retired after this time
IDLE_TIMEOUT = {"taskcluster": "15m", "jenkins": "15m"}
#: builders that never take a job, boot slowly, are lost (spot), and signals that are late and wrong
TROUBLES: Mapping[str, object] = {
    "failure_rate": 0.03,
    "boot_delay": {"lognormal": {"median": "1m", "sigma": 1.0}},
    "losses": {"rate": "0.02/h"},
    "idle_timeout": "15m",  # otherwise builders that never take a job would stay forever
    "signals": {"delay": "1m", "wrong": 0.001, "kills": True},
}
TROUBLED = (
    "With troubles, 3 % of the builders never take a job, boots take a minute more at the median, "
    "a builder is lost every 50 hours, and idle ones go after 15 minutes. The provisioner sees "
    "queue and busy builders a minute late or, once in a thousand looks, nothing at all; builders "
    "that it then stops are killed with their jobs."
)
HEAD = ("algorithm", "farm", "mean wait", "p95 wait", "cost", "idle", "churn", "lost", "done")
TITLE = "Every autoscaler on one week"


class AlgorithmOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """An algorithm's results for the week; times in seconds."""

    algorithm: str
    troubles: bool
    mean_wait: float
    p95_wait: float
    cost: float
    idle_share: float
    #: builders that joined, per hundred jobs
    churn: float
    #: attempts that were lost with their builder
    lost_attempts: int
    succeeded: int
    submitted: int


def play(
    trace: Path | None = None, progress: Callable[[int, int], None] = lambda *_: None
) -> list[AlgorithmOutcome]:
    """Simulate the week, or a trace, with every algorithm, on all processors.

    A trace is simulated completely, on the pool of the week.
    """
    names = [(name, troubles) for name in OPTIONS for troubles in (False, True)]
    runs = [SeededRun(one, one.seed) for one in (_scenario(*name, trace) for name in names)]
    found = play_all(runs, lambda done: progress(done, len(runs)))
    return [_outcome(*name, one) for name, one in zip(names, found, strict=True)]


def _scenario(name: str, troubles: bool, trace: Path | None) -> Scenario:
    changes: dict[str, object] = {
        f"{POOL}.provisioner": {"algorithm": name, "max": 120, **OPTIONS[name]},
        f"{POOL}.idle_timeout": IDLE_TIMEOUT.get(name),
    }
    if troubles:
        changes |= {f"{POOL}.{key}": value for key, value in TROUBLES.items()}
    if trace is not None:
        if not trace.is_file():
            raise InputError(f"--trace: no such file: {trace}")
        changes |= {"workload": [{"trace": {"path": str(trace.absolute())}}], "phases": None}
    return load_scenario(WEEK, changes=changes)


def _outcome(name: str, troubles: bool, summary: Figures) -> AlgorithmOutcome:
    jobs = summary.jobs
    return AlgorithmOutcome(
        algorithm=name,
        troubles=troubles,
        mean_wait=summary.waiting_time.mean or 0.0,
        p95_wait=summary.waiting_time.p95 or 0.0,
        cost=summary.cost or 0.0,
        idle_share=summary.idle_share or 0.0,
        churn=100.0 * summary.builders.joined / max(1, jobs.submitted),
        lost_attempts=summary.attempts - jobs.succeeded - jobs.failed,
        succeeded=jobs.succeeded,
        submitted=jobs.submitted,
    )


def choices(outcomes: Sequence[AlgorithmOutcome]) -> list[Choice]:
    """Return what may be chosen on a farm; a pool of a fixed size is the base."""
    base = outcomes[0]
    return [
        Choice(
            one.algorithm,
            one.mean_wait,
            None,
            None,
            "" if one is base else "shorter" if one.mean_wait < base.mean_wait else "longer",
            one.cost,
            one.cost != base.cost,
        )
        for one in outcomes
    ]


def document(outcomes: Sequence[AlgorithmOutcome]) -> str:
    """Return the study as a page."""
    played = (
        f"{outcomes[0].submitted:,} jobs, one pool of at most 120 builders that boot in 2 minutes, "
        "the same for every algorithm. Nearer to the lower left is better: less wait, less cost. "
        "Churn is builders that joined for a hundred jobs, lost are attempts, done is the share of "
        "jobs that succeeded."
    )
    sections = []
    for name, troubles, told in (("", False, played), ("With troubles", True, TROUBLED)):
        of = [one for one in outcomes if one.troubles == troubles]
        found = choices(of)
        rows = [HEAD, *map(row_of, of)]  # all on the same farm, which the heading says
        head, *rows = [(name, *figures) for name, _, *figures in rows]
        table = PageTable("", head, rows)
        answer = f"{answer_of_choices(found)}."
        sections.append(PageSection(name, [answer, told], trade_off_chart(found), [table]))
    return page(TITLE, sections, {"outcomes": outcomes}, under=made_by())


def row_of(one: AlgorithmOutcome) -> tuple[str, ...]:
    """Return an outcome as text."""
    return (
        one.algorithm,
        "troubled" if one.troubles else "well",
        readable_span(one.mean_wait),
        readable_span(one.p95_wait),
        readable_ratio(one.cost),
        readable_percent(one.idle_share),
        readable_ratio(one.churn),
        f"{one.lost_attempts:,}",
        readable_percent(one.succeeded / max(1, one.submitted)),
    )
