"""What metrics cost: a scrape, a publication, an observed fact, with 10,000 waiting jobs.

The farm has 1,000 builders in 20 pools of 20 platforms, all of them busy.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from prometheus_client import generate_latest

from farm.core.events import BuilderJoined, JobFinished, JobsSubmitted
from farm.core.fair_share.keys import path_extractor
from farm.core.fair_share.queue import FairShareQueue
from farm.core.model import Builder, Job, Platform
from farm.core.rules import SchedulingRules
from farm.core.runtime_estimators import make_estimator
from farm.core.scheduler import Scheduler
from farm.metrics.exporter import registry_of
from farm.metrics.farm_metrics import FarmMetrics

BUILDERS, WAITING, PLATFORMS = 1_000, 10_000, 20


def busy_farm(rules: SchedulingRules) -> tuple[Scheduler, FarmMetrics, list[tuple[str, str]]]:
    scheduler = Scheduler(rules, make_estimator("oracle"))
    metrics = FarmMetrics(scheduler, monotonic=lambda: 0.0)
    for number in range(BUILDERS):
        kind = number % PLATFORMS
        builder = Builder(
            id=f"b{number}", pool=f"pool-{kind}", index=number, processors=(f"cpu-{kind}",), slots=2
        )
        tell(scheduler, metrics, BuilderJoined(0.0, builder))
    jobs = tuple(
        Job(
            id=f"j{number}",
            service_time=60.0 + number % 600,
            platform=Platform(f"cpu-{number % PLATFORMS}", True),
            attributes={"team": f"team-{number % 30}", "user": f"user-{number % 300}"},
        )
        for number in range(WAITING + 2 * BUILDERS)
    )
    tell(scheduler, metrics, JobsSubmitted(1.0, jobs))
    running = [
        (state.job.id, state.slot.builder.builder.id)
        for state in scheduler.jobs.values()
        if state.slot is not None
    ]
    return scheduler, metrics, running


def tell(scheduler: Scheduler, metrics: FarmMetrics, event) -> None:
    metrics.observe(event, scheduler.handle(event))


def timed(action: Callable[[], object], repeats: int = 20) -> str:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        times.append(1000 * (time.perf_counter() - began))
    return f"median {statistics.median(times):7.2f} ms, most {max(times):7.2f} ms"


def measure(name: str, rules: SchedulingRules) -> None:
    scheduler, metrics, running = busy_farm(rules)
    waiting = sum(lane.waiting for lane in scheduler.dispatcher.matching.lanes)
    metrics.publish_now(2.0)
    registry = registry_of(metrics.readings)
    size = len(generate_latest(registry))
    print(f"{name}: {waiting:,} waiting jobs, {len(scheduler.builders):,} builders")
    print(f"  scrape ({size:,} bytes)   {timed(lambda: generate_latest(registry))}")
    metrics._next_close_look = float("inf")
    print(f"  publish, twice a second {timed(lambda: metrics.publish_now(3.0))}")
    print(f"  estimates, every 5 s+   {timed(lambda: metrics._gauges.look_closely(3.0), 5)}")
    events = [JobFinished(4.0, job, 1, builder, "succeeded") for job, builder in running[:1_000]]
    began = time.perf_counter()
    answers = [(event, scheduler.handle(event)) for event in events]
    middle = time.perf_counter()
    for event, commands in answers:
        metrics.observe(event, commands)
    ended = time.perf_counter()
    per = 1e6 / len(events)
    print(
        f"  a job's end: {per * (middle - began):.1f} µs to decide, "
        f"{per * (ended - middle):.1f} µs to count"
    )


def main() -> None:
    measure("fifo", SchedulingRules())
    path = path_extractor(["team", "user"])
    measure("fair share", SchedulingRules(path=path, make_queue=FairShareQueue))


if __name__ == "__main__":
    main()
