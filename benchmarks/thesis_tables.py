"""The tables of docs/thesis.md: the thesis's model by policy and slots, medians over job sets.

Run ``python benchmarks/thesis_tables.py [--runs N] [--slots 1,2,4,…]``. Four matrices of 25 jobs,
Pareto(1.161), two builders, the 20 longest of 100 heavy; drawn from NumPy's legacy generator with
seed 1161, so that the numbers are the same everywhere.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from statistics import fmean, median

import numpy as np
import numpy.typing as npt

from farm.core.commands import Command, EndJob
from farm.core.contention.laws import THESIS_TABLE, ContentionLaw
from farm.core.driver import drive
from farm.core.events import Event
from farm.core.model import Job
from farm.core.policies import POLICIES, KeyFunction, PolicyOptions
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.oracle import Oracle
from farm.sim.world import SimulatedWorld

#: name in the table -> policy (random: the drawn permutation, as scores)
NAMES = {
    "ljf": "ljf",
    "sjf": "sjf",
    "random": "score",
    "fifo": "fifo",
    "ljf-aging": "ljf-aging",
    "sjf-aging": "sjf-aging",
}
METRICS = ("makespan", "mean response time", "mean matrix response time")
PER_MATRIX = 25
Floats = npt.NDArray[np.float64]
Numbers = tuple[float, float, float]
Cell = tuple[str, int]
"""A policy of the table, and the slots of a builder."""


def job_sets(runs: int) -> list[tuple[Job, ...]]:
    """Draw the job sets (all thousand, so that a permutation does not depend on ``runs``)."""
    draws = np.random.RandomState(1161)
    times = draws.pareto(1.161, (1000, 100)) + 1.0
    sets = []
    for row in times:
        heavy = row > np.sort(row)[-21]
        place = np.argsort(draws.permutation(100))
        sets.append(
            tuple(
                Job(
                    id=str(n),
                    service_time=float(row[n]),
                    matrix=str(n // PER_MATRIX),
                    heavy=bool(heavy[n]),
                    score=-float(place[n]),
                )
                for n in range(100)
            )
        )
    return sets[:runs]


def pool_of(slots: int, slowdown: bool) -> PoolSpec:
    """Return the thesis's two builders."""
    law = ContentionLaw(THESIS_TABLE) if slowdown else None
    return PoolSpec(name="node", slots=slots, builders=2, law=law)


def policy_of(name: str) -> KeyFunction:
    """Return a policy of the table."""
    return POLICIES[NAMES[name]](PolicyOptions(aging="matrix"))


def play(jobs: Sequence[Job], name: str, slots: int, slowdown: bool) -> Numbers:
    """Play one job set by the scheduler itself; return the three metrics."""
    ended: dict[str, float] = {}

    def observe(_: Event, commands: Sequence[Command]) -> None:
        for command in commands:
            if type(command) is EndJob:
                ended[command.job.id] = command.finished_at

    pool = pool_of(slots, slowdown)
    world = SimulatedWorld([pool], iter([(0.0, tuple(jobs))]))
    drive(Scheduler(SchedulingRules(policy=policy_of(name)), Oracle(), [pool]), world, observe)
    return metrics([ended[job.id] for job in jobs], jobs)


def metrics(ended: Sequence[float] | Floats, jobs: Sequence[Job]) -> Numbers:
    """Return the three metrics of one play; the jobs of a matrix stand side by side."""
    at = np.asarray(ended)
    last = np.maximum.reduceat(at, range(0, len(jobs), PER_MATRIX))
    return float(at.max()), fmean(at.tolist()), fmean(last.tolist())


def plays(what: tuple[tuple[Job, ...], tuple[int, ...], bool, bool]) -> dict[Cell, Numbers]:
    """Play one job set under every policy, on builders of each number of slots."""
    jobs, slots, slowdown, fast = what
    if not fast:
        return {(n, count): play(jobs, n, count, slowdown) for count in slots for n in NAMES}
    from farm.sim.fast.load import load_of  # noqa: PLC0415 - Numba, where it is installed
    from farm.sim.fast.play import play as play_fast  # noqa: PLC0415 - likewise

    found: dict[Cell, Numbers] = {}
    for name in NAMES:
        load = load_of(policy_of(name), Oracle(), jobs)
        for count in slots:
            played = play_fast(load, [pool_of(count, slowdown)], SchedulingRules())
            if played is None:
                raise RuntimeError("jobs were given up")
            found[name, count] = metrics(played.farm.jobs["finished_at"], jobs)
    return found


def print_tables(each: Sequence[dict[Cell, Numbers]], slots: Sequence[int], slowdown: bool) -> None:
    """Print the medians over the job sets, with the geometric mean of the ratios to random."""
    found = {cell: list(zip(*(one[cell] for one in each), strict=True)) for cell in each[0]}
    for place, metric in enumerate(METRICS):
        print(f"\n### {metric}, {'with' if slowdown else 'without'} slowdown")
        print("| slots | " + " | ".join(NAMES) + " |")
        print("|---:|" + "---:|" * len(NAMES))
        for count in slots:
            random = found["random", count][place]
            cells = []
            for name in NAMES:
                values = found[name, count][place]
                pairs = zip(values, random, strict=True)
                ratio = math.exp(fmean(math.log(one / other) for one, other in pairs))
                cells.append(f"{median(values):.1f} ({ratio:.2f})")
            print(f"| {count} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Play everything, and say what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="job sets, at most 1000")
    parser.add_argument("--slots", default="1,2,4,6,8,12,16", help="slots of a builder")
    parser.add_argument("--engine", choices=("fast", "reference"), default="fast")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    said = parser.parse_args()
    sets = job_sets(said.runs)
    slots = tuple(int(count) for count in said.slots.split(","))
    fast = said.engine == "fast" and find_spec("numba") is not None
    for slowdown in (False, True):
        began = time.monotonic()
        work = [(jobs, slots, slowdown, fast) for jobs in sets]
        with ProcessPoolExecutor(said.processes, get_context("spawn")) as pool:
            each = list(pool.map(plays, work, chunksize=max(1, len(work) // 50)))
        spent, count = time.monotonic() - began, len(each) * len(slots) * len(NAMES)
        print_tables(each, slots, slowdown)
        print(f"\n{count:,} simulations in {spent:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
