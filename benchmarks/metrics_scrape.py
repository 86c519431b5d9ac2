"""What metrics and estimates cost, and how long they delay dispatch, with 10,000 waiting jobs.

The farm has 1,000 builders of two slots, all busy, in one pool or in 20 pools of 20 platforms. A
scrape and the estimates of a submission are measured whole; what the scheduler's thread does
without interruption (a publication, the beginning of a sweep of the queue, one of its steps) is a
pause of dispatch. Processor milliseconds of one thread, as the farm's process has its collector
set.

    python -m benchmarks.metrics_scrape [WAITING …]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import starmap

from prometheus_client import generate_latest

from farm.core.commands import Command
from farm.core.events import BuilderJoined, Event, JobFinished, JobsSubmitted
from farm.core.model import Builder, Job, Platform
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.dispatch.formula_at_submission import FormulaForecaster
from farm.forecasts.dispatch.launchpad_formula import RULES
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.live.run import rare_collections
from farm.metrics.exporter import registry_of
from farm.metrics.farm_metrics import FarmMetrics

BUILDERS, WAITING, REPEATS = 1_000, 10_000, 5


class Farm:
    """A busy farm and its metrics."""

    def __init__(self, rules: SchedulingRules, waiting: int, platforms: int) -> None:
        self.scheduler = Scheduler(rules, RuntimeDistribution(make_estimator("declared")))
        self.metrics = FarmMetrics(self.scheduler, monotonic=lambda: 0.0, in_steps=True)
        for number in range(BUILDERS):
            kind = number % platforms
            name, cpu = f"b{number}", f"cpu-{kind}"
            builder = Builder(id=name, pool=f"p-{kind}", index=number, processors=(cpu,), slots=2)
            self.tell(BuilderJoined(0.0, builder))
        jobs = tuple(self.job(n, platforms) for n in range(waiting + 2 * BUILDERS))
        self.tell(JobsSubmitted(1.0, jobs))

    @staticmethod
    def job(number: int, platforms: int) -> Job:
        """Return the n-th job."""
        return Job(
            id=f"j{number}",
            service_time=60.0 + number % 600,
            declared_time=60.0 + number % 600,
            platform=Platform(f"cpu-{number % platforms}", True),
            attributes={"team": f"team-{number % 30}", "user": f"user-{number % 300}"},
        )

    def tell(self, event: Event) -> None:
        """Handle an event, observed."""
        self.metrics.observe(event, self.scheduler.handle(event))

    def look(self) -> list[float]:
        """Sweep the waiting jobs; return how long the beginning and each step took."""
        lap = Lap()
        look = self.metrics._gauges.look_closely(3.0)
        lap.add()
        more = True
        while more:
            more = look.step()
            lap.add()
        return lap.times

    def sweep(self) -> list[float]:
        """Prepare a submission's estimate; return how long the beginning and each step took."""
        lap = Lap()
        steps = FormulaForecaster(RULES["launchpad"], "declared").prepare(self.scheduler, [], 3.0)
        lap.add()
        for _ in steps:
            lap.add()
        lap.add()
        return lap.times


class Lap:
    """Processor milliseconds of this thread from one call of ``add`` to the next."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._began = time.thread_time()

    def add(self) -> None:
        """Note the time since the last call."""
        self.times.append(1000 * (time.thread_time() - self._began))
        self._began = time.thread_time()


def timed(action: Callable[[], object]) -> float:
    """Return the processor milliseconds of this thread."""
    lap = Lap()
    action()
    lap.add()
    return lap.times[0]


def whole(name: str, action: Callable[[], object]) -> str:
    """Measure a function."""
    times = [timed(action) for _ in range(4 * REPEATS)]
    return f"  {name:<28} {statistics.median(times):8.2f} ms, at most {max(times):.2f}"


def in_steps(name: str, action: Callable[[], list[float]]) -> str:
    """Measure a function that works in steps."""
    laps = [action() for _ in range(REPEATS)]
    steps = sorted(step for lap in laps for step in lap[1:])
    return (
        f"  {name:<28} {statistics.median(map(sum, laps)):8.2f} ms in {len(laps[0])} steps: the "
        f"first {statistics.median(lap[0] for lap in laps):.2f}, of the others 99 % within "
        f"{steps[int(0.99 * len(steps))]:.2f}, at most {steps[-1]:.2f}"
    )


def measure(name: str, rules: SchedulingRules, waiting: int, platforms: int) -> None:
    """Print the times of one farm."""
    farm = Farm(rules, waiting, platforms)
    metrics = farm.metrics
    metrics.publish(2.0, at_once=True)
    while metrics.step():
        pass
    metrics.publish(2.5, at_once=True)
    registry = registry_of(metrics.readings)
    size = len(generate_latest(registry))
    print(f"{name}, {waiting:,} jobs wait for {platforms} platform(s), {BUILDERS:,} builders")
    print(whole(f"scrape, {size / 1000:.0f} kB", lambda: generate_latest(registry)))
    metrics._next_close_look = float("inf")
    print(whole("publication, twice a second", lambda: metrics.publish(3.0, at_once=True)))
    print(in_steps("close look, every 5 s or more", farm.look))
    print(in_steps("sweep for a submission", farm.sweep))
    running = [(s.job.id, s.slot) for s in farm.scheduler.jobs.values() if s.slot is not None]
    events = [
        JobFinished(4.0, job, 1, slot.builder.builder.id, "succeeded")
        for job, slot in running[:1_000]
    ]
    answers: list[tuple[Event, Sequence[Command]]] = []
    decided = timed(lambda: answers.extend((e, farm.scheduler.handle(e)) for e in events))
    counted = timed(lambda: deque(starmap(metrics.observe, answers), maxlen=0))
    print(f"  a job's end: {decided:.1f} µs to decide, {counted:.1f} µs to count", flush=True)
    given = FormulaForecaster(RULES["launchpad"], "declared", refresh=1e9, swept_at_most=0)
    for _ in given.prepare(farm.scheduler, [], 5.0):
        pass
    jobs = [farm.job(number, platforms) for number in range(10**8, 10**8 + 1_000)]
    decided = timed(lambda: [farm.scheduler.handle(JobsSubmitted(6.0, (job,))) for job in jobs])
    states = [farm.scheduler.jobs[job.id] for job in jobs]
    estimated = timed(lambda: [given.forecast(farm.scheduler, [state], 6.0) for state in states])
    print(f"  a submission: {decided:.1f} µs to decide, {estimated:.1f} µs to estimate", flush=True)


def main() -> None:
    """Measure each farm."""
    path = PathExtractor(["team", "user"])
    with rare_collections():
        for waiting in [int(word) for word in sys.argv[1:]] or [WAITING]:
            for platforms in (1, 20):
                measure("fifo", SchedulingRules(), waiting, platforms)
                fair = SchedulingRules(path=path, make_queue=FairShareQueue)
                measure("fair share", fair, waiting, platforms)


if __name__ == "__main__":
    main()
