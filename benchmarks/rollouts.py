"""Rollouts per second from a snapshot of many waiting jobs, and what one estimate costs.

    python -m benchmarks.rollouts [JOBS] [BUILDERS]

The farm: JOBS waiting jobs (10,000) of 50 kinds on two platforms, BUILDERS builders (200), all
busy; run times by the last three of the kind, with the observed spread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from farm.assembly import make_rules, make_scheduler, pool_specs
from farm.core.events import BuilderJoined, JobsSubmitted
from farm.core.model import Builder, Job, Platform
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import FarmSnapshot, snapshot_of
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.scenario import Scenario, parse_scenario
from farm.sim.rollouts.rollout import Fork, rollouts
from farm.workload import stream


def scenario_of(builders: int, **scheduling: object) -> Scenario:
    half = builders // 2
    return parse_scenario(
        {
            "pools": [
                {"name": "one", "platform": {"processor": "a"}, "builders": half},
                {"name": "two", "platform": {"processor": "b"}, "builders": builders - half},
            ],
            "workload": [
                {
                    "arrivals": {
                        "platform": {"processor": "a"},
                        "count": 1,
                        "every": "1s",
                        "service_time": {"constant": "1s"},
                    }
                }
            ],
            "scheduling": {"runtime_estimates": "last-3", **scheduling},
        }
    )


def waiting_farm(scenario: Scenario, jobs: int) -> tuple[Scheduler, RuntimeDistribution]:
    """Return the scheduler of a busy farm with this many waiting jobs, and what it has learned."""
    dice = stream(1, "benchmark")
    run_times = RuntimeDistribution(make_estimator("last-3"))
    scheduler = make_scheduler(scenario, estimator=run_times)
    index = 0
    for pool, processor in (("one", "a"), ("two", "b")):
        for number in range(scenario.pools[0].builders or 0):
            index += 1
            builder = Builder(
                id=f"{pool}-{number + 1}", pool=pool, index=index, processors=(processor,)
            )
            scheduler.handle(BuilderJoined(0.0, builder))
    some = Builder(id="x", pool="one", index=0)
    made = []
    for number in range(jobs + index):
        kind = dice.randrange(50)
        job = Job(
            id=f"job-{number}",
            service_time=dice.lognormvariate(6, 1),
            platform=Platform("ab"[number % 2], True),
            kind=f"kind-{kind}",
            attributes={"user": str(number % 7)},
        )
        made.append(job)
        if number < 2000:
            run_times.learn(job, some, job.service_time, "succeeded")
    scheduler.handle(JobsSubmitted(0.0, tuple(made)))
    return scheduler, run_times


def farm_of(scenario: Scenario, jobs: int) -> tuple[FarmSnapshot, RuntimeDistribution]:
    """Return the same as a snapshot."""
    scheduler, run_times = waiting_farm(scenario, jobs)
    return snapshot_of(scheduler, 100.0), run_times


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    builders = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    began = time.perf_counter()
    scenario = scenario_of(builders)
    snapshot, run_times = farm_of(scenario, jobs)
    print(f"{len(snapshot.waiting)} waiting, {len(snapshot.running)} running")
    began = time.perf_counter()
    text = msgspec.json.encode(snapshot)
    encoded = time.perf_counter() - began
    began = time.perf_counter()
    msgspec.json.decode(text, type=FarmSnapshot)
    decoded = time.perf_counter() - began
    print(f"as JSON {len(text) / 1e6:.1f} MB: written in {encoded:.3f} s, read in {decoded:.3f} s")
    fork = partial(fork_of, scenario, snapshot, run_times)
    _time("queues only, with loading", fork, 200)
    _time("queues only", fork, 200)
    _time("queues only", fork, 1000)
    _time("whole simulation, one process", fork, 10, fast=False, processes=1)
    _time("whole simulation, two processes", fork, 40, fast=False, processes=2)
    other = scenario_of(builders, fair_share=["user"])
    fair = partial(fork_of, other, snapshot, run_times, rekey=True)
    _time("fair share by user, two processes", fair, 20, processes=2)


def fork_of(
    scenario: Scenario, snapshot: FarmSnapshot, run_times: RuntimeDistribution, rekey: bool = False
) -> Fork:
    """Return the farm under the pools and rules of a scenario."""
    return Fork(
        snapshot=snapshot,
        pools=tuple(pool_specs(scenario)),
        rules=make_rules(scenario),
        run_times=run_times,
        rekey=rekey,
    )


def _time(what: str, fork: Callable[[], Fork], count: int, **more: Any) -> None:
    began, used = time.perf_counter(), time.process_time()
    found = rollouts(fork, count=count, **more)
    spent, used = time.perf_counter() - began, time.process_time() - used
    last = float(found.wait_quantile(0.5)[-1])
    print(
        f"{what}: {count} rollouts in {spent:.2f} s, {count / spent:.1f} per second;"
        f" {used:.2f} s of CPU time in this process"
        f" (the last job waits {last:.0f} s)"
    )


if __name__ == "__main__":
    main()
