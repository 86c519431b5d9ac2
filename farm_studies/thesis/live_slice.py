"""A slice of section 5.1 on a real farm at high speed, beside the same jobs in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from farm.app.api import run
from farm.columns import Floats
from farm.results.figures.page import PageSection, PageTable
from farm_studies.thesis.evaluation import SEVERAL, SINGLE, OnStep, play_asleep
from farm_studies.thesis.job_sets import RUNS, JobSet, jenkins_sets
from farm_studies.thesis.model import (
    ALL,
    MAKESPAN,
    METRICS,
    UNAGED,
    farm_of,
    measured,
    pool,
    service_times,
)

SLOTS = 20.0
#: farm seconds in a real one
SPEED = 30.0
#: farm seconds between two runs of a test
PAUSE = 10.0


def live_slice(on_step: OnStep = lambda _: None) -> PageSection:
    """Run one test of each kind under every policy, four runs each, on a farm with 20 slots."""
    return PageSection(
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


def _table(title: str, matrices: int, policies: Sequence[str], on_step: OnStep) -> PageTable:
    sets = jenkins_sets(matrices)
    tests = [sets[first : first + RUNS] for first in range(0, len(sets), RUNS)]
    test = min(tests, key=lambda runs: sum(job.service_time for job in runs[0]))
    simulated = play_asleep(test, [SLOTS], policies)
    rows = []
    for policy in policies:
        on_step(f"{policy} on a real farm, {title}")
        virtual = simulated.numbers[policy, SLOTS]
        live = _live(test, policy, apart=virtual[:, MAKESPAN].max() * 1.1 + PAUSE)
        means = zip(live[1:].mean(axis=0), virtual[1:].mean(axis=0), strict=True)
        rows.append((policy, *(f"{a:.4g}; {b:.4g}; {a / b:.3f}" for a, b in means)))
    return PageTable(
        f"{title}, seconds (throughput: per second): live; in virtual time; live ÷ virtual",
        ("policy", *METRICS),
        rows,
    )


def _live(test: Sequence[JobSet], policy: str, apart: float) -> Floats:
    """Run a test's runs on a new farm, one after the other; return (runs by measures)."""
    moved = [
        msgspec.structs.replace(
            job,
            id=f"{number}-{job.id}",
            matrix=f"{number}-{job.matrix}",
            arrived_at=(job.arrived_at or 0.0) + number * apart,
        )
        for number, jobs in enumerate(test)
        for job in jobs
    ]
    result = run(farm_of([pool(SLOTS)], policy), jobs=moved, speed=SPEED)
    ended = dict(zip(result.jobs["job_id"], result.jobs["finished_at_s"], strict=True))
    ends = np.array([ended[job.id] for job in moved]).reshape(len(test), -1)
    ends -= apart * np.arange(len(test))[:, np.newaxis]
    return measured(test[0], service_times(test), ends)
