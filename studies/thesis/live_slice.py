"""A slice of section 5.1 on a real farm at high speed, beside the same jobs in virtual time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from farm.app.api import run
from farm.core.model import Job
from farm.results.figures.page import Section, Table
from studies.thesis.evaluation import SEVERAL, SINGLE, OnStep, asleep
from studies.thesis.job_sets import RUNS, JobSet, jenkins_sets
from studies.thesis.model import (
    ALL,
    METRICS,
    POLICY_OF,
    UNAGED,
    Plays,
    measured,
    play_cases,
    service_times,
)

SLOTS = 20.0
#: farm seconds in a real one
SPEED = 30.0
#: farm seconds between two runs of a test
PAUSE = 10.0


def live_slice(on_step: OnStep = lambda _: None) -> Section:
    """Run one test of each kind under every policy, four runs each, on a farm with 20 slots."""
    return Section(
        "5.1 on a real farm",
        [
            f"""One of the ten tests of each sort, the one with the least work, on {SLOTS:g} slots
            of a real farm: Redis, Celery builders, jobs that sleep, {SPEED:g} farm seconds in a
            second. Four runs follow each other on one farm; the first is discarded. Beside them
            the same jobs in virtual time. A dispatch takes a real farm some milliseconds, on a busy
            machine many more, and each is worth {SPEED:g} of farm time."""
        ],
        tables=[
            _table(SINGLE, 1, UNAGED, on_step),
            _table(SEVERAL, 5, ALL, on_step),
        ],
    )


def _table(title: str, matrices: int, policies: Sequence[str], on_step: OnStep) -> Table:
    sets = jenkins_sets(matrices)
    tests = [sets[first : first + RUNS] for first in range(0, len(sets), RUNS)]
    test = min(tests, key=lambda runs: sum(job.service_time for job in runs[0]))
    simulated = play_cases({SLOTS: (test, asleep(SLOTS))}, policies)
    rows = []
    for policy in policies:
        on_step(f"{policy} on a real farm, {title}")
        rows.append((policy, *_compared(_live(test, policy, simulated), simulated, policy)))
    return Table(
        f"{title}, seconds (throughput: per second): live; in virtual time; live ÷ virtual",
        ("policy", *METRICS),
        tuple(rows),
    )


def _compared(live: np.ndarray, simulated: Plays, policy: str) -> Iterator[str]:
    """Yield a cell for each measure, means over all runs but the first."""
    for measure in range(len(METRICS)):
        real = live[1:, measure].mean()
        virtual = simulated.of(policy, SLOTS, measure)[1:].mean()
        yield f"{real:.4g}; {virtual:.4g}; {real / virtual:.3f}"


def _live(test: list[JobSet], policy: str, simulated: Plays) -> np.ndarray:
    """Run a test's runs, one after the other, on a new farm; (runs, measures) seconds."""
    apart = simulated.of(policy, SLOTS, 0).max() * 1.1 + PAUSE
    result = run(
        {
            "version": 1,
            "name": "thesis",
            "pools": [{"name": "node", "builders": 1, "slots": int(SLOTS)}],
            "workload": [{"arrivals": {"every": 1, "count": 1, "service_time": 1}}],
            "scheduling": {"policy": POLICY_OF[policy], "runtime_estimates": "oracle"},
            "live": {"speed": SPEED},
        },
        jobs=[
            _moved(job, number, number * apart) for number, jobs in enumerate(test) for job in jobs
        ],
    )
    ended = dict(zip(result.jobs["job_id"], result.jobs["finished_at_s"], strict=True))
    ends = [[ended[f"{n}-{job.id}"] - n * apart for job in jobs] for n, jobs in enumerate(test)]
    return np.concatenate(
        [
            measured(jobs, service_times([jobs]), np.array([own]))
            for jobs, own in zip(test, ends, strict=True)
        ]
    )


def _moved(job: Job, number: int, by: float) -> Job:
    """Return a job as one of a later run."""
    return msgspec.structs.replace(
        job,
        id=f"{number}-{job.id}",
        matrix=f"{number}-{job.matrix}",
        arrived_at=(job.arrived_at or 0.0) + by,
    )
