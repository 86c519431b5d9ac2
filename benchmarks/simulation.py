"""Simulated jobs per second: this farm against SimPy and against a bare heap loop.

All simulate the same M/M/c queue (Poisson arrivals, exponential service times, load 0.8) with the
same random numbers and keep each job's waiting time. The heap loop knows nothing but the queue;
SimPy has one process a job and one Resource (or a PriorityResource and a record of each job); the
farm has every feature on: platforms, slots, policies, balancer, attempts, records. It is run by the
scheduler, and by the compiled loop if it is built (`make kernel`). They take turns in one
process, so that the ratios hold on a noisy machine; CPU time is measured, garbage collection keeps
its settings.

    python -m benchmarks.simulation [--jobs N] [--builders C] [--growth]
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any

import msgspec
import numpy as np
import simpy

from farm.core.model import Job, Platform
from farm.core.policies import fifo
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.results.table.recorder import Recorder
from farm.sim.fast.job_arrays import JobArrays, load_of
from farm.sim.fast.kernel import native
from farm.sim.fast.play import PlayedFarm
from farm.sim.fast.play import play as play_fast
from farm.sim.setting import Setting
from farm.sim.simulation import play
from farm.sim.world import SimulatedWorld
from farm.workload.blocks import Block, JobColumns, Names

FAST = native.is_there()
LOAD = 0.8
PLATFORM = Platform("amd64", True)


def draws(jobs: int, builders: int) -> Iterator[tuple[float, float]]:
    """Yield (interarrival time, service time): the same for all."""
    rng = random.Random(1)
    rate = LOAD * builders
    for _ in range(jobs):
        yield rng.expovariate(rate), rng.expovariate(1.0)


def farm_run(jobs: int, builders: int) -> float:
    """Return the mean waiting time on the farm."""

    def arrivals() -> Iterator[tuple[float, tuple[Job, ...]]]:
        at = 0.0
        for number, (gap, service) in enumerate(draws(jobs, builders)):
            at += gap
            yield (
                at,
                (Job(id=f"job-{number}", service_time=service, platform=PLATFORM, arrived_at=at),),
            )

    pools = [PoolSpec(name="pool", processors=("amd64",), builders=builders)]
    world = SimulatedWorld(pools, arrivals())
    recorder = Recorder()
    play(Scheduler(SchedulingRules(), make_estimator("declared"), pools), world, [recorder])
    ends = recorder.ends
    return sum((e.started_at or 0.0) - e.submitted_at for e in ends) / len(ends)


def fast_run(jobs: int, builders: int) -> float:
    """Return the mean waiting time on the farm, run by the compiled loop; with its jobs."""
    at, made = 0.0, []
    for number, (gap, service) in enumerate(draws(jobs, builders)):
        at += gap
        job = Job(id=f"job-{number}", service_time=service, platform=PLATFORM, arrived_at=at)
        made.append(job)
    played = fast_play(load_of(fifo.key, make_estimator("declared"), made), builders)
    columns = played.farm.jobs
    return float((columns["dispatched_at"] - columns["submitted_at"]).mean())


def fast_play(load: JobArrays, builders: int) -> PlayedFarm:
    """Run a load that is in columns already, once."""
    pools = [PoolSpec(name="pool", processors=("amd64",), builders=builders)]
    played = play_fast(load, Setting(pools, SchedulingRules()))
    if played is None:
        raise RuntimeError("jobs were given up")
    return played


def kernel(jobs: int, builders: int, rounds: int) -> None:
    """Print how fast the compiled loop alone is, and one that has a backlog of all jobs at once."""
    dice = np.random.default_rng(1)
    arrivals = np.cumsum(dice.exponential(1 / (LOAD * builders), jobs))
    services = dice.exponential(1.0, jobs)
    for name, instants in (("M/M", arrivals), ("backlog, M/M", np.zeros(jobs))):
        names = Names.by("job-{}".format, np.arange(jobs))
        made = JobColumns([Block({"id": names, "arrived_at": instants, "service_time": services})])
        made.hold()
        load = load_of(fifo.key, make_estimator("declared"), made)
        spent = []
        for _ in range(rounds):
            fresh = msgspec.structs.replace(load, columns=load.columns.copy())
            began = time.process_time()
            fast_play(fresh, builders)
            spent.append(time.process_time() - began)
        cost = [f"{1e6 * one / jobs:.3f}" for one in (min(spent), statistics.median(spent))]
        print(f"  {jobs:>9,} jobs, {name}/{builders}: {', '.join(cost)} us a job (min, median)")


def simpy_run(jobs: int, builders: int) -> float:
    """Return the mean waiting time in SimPy."""
    env = simpy.Environment()
    pool = simpy.Resource(env, builders)
    waits: list[float] = []

    def job(service: float) -> Generator[simpy.Event]:
        arrived = env.now
        with pool.request() as request:
            yield request
            waits.append(env.now - arrived)
            yield env.timeout(service)

    def source() -> Generator[simpy.Event]:
        for gap, service in draws(jobs, builders):
            yield env.timeout(gap)
            env.process(job(service))

    env.process(source())
    env.run()
    return sum(waits) / len(waits)


def simpy_like_run(jobs: int, builders: int) -> float:
    """Return the mean waiting time in SimPy, with the minimum of the farm's work for a job.

    That is a queue in policy order, builders to choose from, and a record of each job.
    """
    env = simpy.Environment()
    pool = simpy.PriorityResource(env, builders)
    free = list(range(builders))
    records: list[tuple[str, int, float, float, float]] = []

    def job(name: str, key: Any, service: float) -> Generator[simpy.Event]:
        arrived = env.now
        with pool.request(priority=key) as request:
            yield request
            builder = heapq.heappop(free)
            started = env.now
            yield env.timeout(service)
            heapq.heappush(free, builder)
        records.append((name, builder, arrived, started, env.now))

    def source() -> Generator[simpy.Event]:
        for number, (gap, service) in enumerate(draws(jobs, builders)):
            yield env.timeout(gap)
            env.process(job(f"job-{number}", (0, 0.0, number), service))

    env.process(source())
    env.run()
    return sum(started - arrived for _, _, arrived, started, _ in records) / len(records)


def heap_run(jobs: int, builders: int) -> float:
    """Return the mean waiting time by a loop over one heap."""
    stream = draws(jobs, builders)
    gap, service = next(stream)
    arrives_at, waited, served = gap, 0.0, 0
    ends: list[float] = []
    queue: deque[tuple[float, float]] = deque()
    while served < jobs:
        if ends and ends[0] <= arrives_at:
            at = heapq.heappop(ends)
            if queue:
                came, work = queue.popleft()
                waited += at - came
                heapq.heappush(ends, at + work)
            served += 1
        else:
            at = arrives_at
            if len(ends) < builders:
                heapq.heappush(ends, at + service)
            else:
                queue.append((at, service))
            upcoming = next(stream, None)
            if upcoming is None:
                arrives_at = float("inf")
            else:
                arrives_at, service = at + upcoming[0], upcoming[1]
    return waited / jobs


def seconds(run: Callable[[int, int], float], jobs: int, builders: int) -> tuple[float, float]:
    """Return (CPU seconds, mean waiting time)."""
    began = time.process_time()
    mean = run(jobs, builders)
    return time.process_time() - began, mean


def compare(jobs: int, builders: int, rounds: int) -> None:
    """Print jobs per second of the three, and the farm's ratios."""
    runs = {
        "farm": farm_run,
        **({"farm, fast engine": fast_run} if FAST else {}),
        "SimPy": simpy_run,
        "SimPy, priorities and records": simpy_like_run,
        "heap loop": heap_run,
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    means: dict[str, float] = {}
    for _ in range(rounds):
        for name, run in runs.items():
            spent, means[name] = seconds(run, jobs, builders)
            times[name].append(spent)
    if max(means.values()) - min(means.values()) > 1e-9 * jobs:
        raise SystemExit(f"the three do not agree: {means}")
    print(f"M/M/{builders}, {jobs:,} jobs, median of {rounds} rounds")
    for name, laps in times.items():
        middle = statistics.median(laps)
        ratio = middle / statistics.median(times["farm"])
        print(f"  {name:30} {jobs / middle:12,.0f} jobs/s   farm is {ratio:5.2f}x")


def growth(builders: int) -> None:
    """Print the farm's cost per job from 10k to 1M jobs, as a ratio to 10k."""
    base = None
    print(f"cost per job, M/M/{builders}")
    for jobs in (10_000, 100_000, 1_000_000):
        spent = min(seconds(farm_run, jobs, builders)[0] for _ in range(3 if jobs < 1e6 else 1))
        cost = spent / jobs
        base = base or cost
        print(f"  {jobs:>9,} jobs: {cost * 1e6:6.2f} us   {cost / base:4.2f}x")


def main() -> None:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--builders", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--growth", action="store_true", help="only the cost per job by size")
    options = parser.parse_args()
    if FAST:
        fast_run(100, options.builders)  # the object is loaded
    if not options.growth:
        compare(options.jobs, options.builders, options.rounds)
        compare(options.jobs, 5, options.rounds)
    growth(options.builders)
    if FAST:
        print("cost per job, the compiled loop alone, columns made before")
        for jobs in (10_000, 100_000, 1_000_000, 10_000_000):
            kernel(jobs, options.builders, options.rounds)


if __name__ == "__main__":
    main()
