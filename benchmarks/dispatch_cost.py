"""What a dispatch costs, by waiting jobs and invocations; contention with sixteen slots.

Run ``python -m benchmarks.dispatch_cost [--quick]``. The whole scheduler is measured, not the queue
alone: each step ends one job (which dispatches the next) and submits
another, so that the number that wait stays the same. Processor microseconds per step, the best
of five laps. ``growth`` is the cost ÷ that of a tenth of the jobs.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from farm.core.commands import StartJob
from farm.core.contention.laws import THESIS_TABLE, ContentionLaw, LoadLimits
from farm.core.contention.progress import Progress
from farm.core.dispatching.heavy_light import heavy_share
from farm.core.events import BuilderJoined, JobFinished, JobsSubmitted
from farm.core.model import Builder, Job
from farm.core.policies import POLICIES, PolicyOptions
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import HeavyLightOptions, SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.oracle import Oracle

BUILDERS = 100
STEPS = 1000
LAPS = 5


def rules(balancer: str, invocations: int) -> SchedulingRules:
    """Longest job first; fair share if there are several invocations."""
    said: dict[str, Any] = {"policy": POLICIES["ljf"](PolicyOptions())}
    if invocations:
        said |= {"make_queue": FairShareQueue, "path": PathExtractor(["user", "build"])}
    if balancer == "heavy-light":
        limits = LoadLimits(0.5, 0.25)
        said["heavy_light"] = HeavyLightOptions(limits=limits, measure=heavy_share)
    return SchedulingRules(by_speed=balancer == "fastest", **said)


class Bench:
    def __init__(self, waiting: int, invocations: int, balancer: str) -> None:
        self.dice = random.Random(1)
        self.invocations = max(1, invocations)
        self.scheduler = Scheduler(rules(balancer, invocations), Oracle())
        self.running: dict[str, tuple[int, str]] = {}
        self.made = 0
        for number in range(BUILDERS):
            speed = 1.0 + number % 4 if balancer == "fastest" else 1.0
            builder = Builder(id=f"b{number}", pool="p", index=number, slots=4, speed=speed)
            self.tell(BuilderJoined(0.0, builder))
        self.tell(JobsSubmitted(0.0, tuple(self.jobs(waiting + 4 * BUILDERS))))
        self.at = 0.0

    def jobs(self, count: int) -> Iterator[Job]:
        for _ in range(count):
            self.made += 1
            number = self.dice.randrange(self.invocations)
            yield Job(
                id=f"j{self.made}",
                service_time=self.dice.expovariate(0.01),
                heavy=self.made % 5 == 0,
                attributes={"user": f"u{number // 100}", "build": f"b{number}"},
            )

    def tell(self, event: Any) -> None:
        for command in self.scheduler.handle(event):
            if type(command) is StartJob:
                self.running[command.job.id] = (command.attempt, command.builder)

    def lap(self) -> float:
        arrivals = list(self.jobs(STEPS))
        ending = self.dice.sample(list(self.running), min(STEPS, len(self.running)))
        gc.collect()
        began = time.process_time()
        for step, job in enumerate(arrivals):
            self.at += 1.0
            name = ending[step] if step < len(ending) else next(iter(self.running))
            attempt, builder = self.running.pop(name)
            self.tell(JobFinished(self.at, name, attempt, builder, "succeeded"))
            self.tell(JobsSubmitted(self.at, (job,)))
        return (time.process_time() - began) / STEPS * 1e6

    def best(self) -> float:
        return min(self.lap() for _ in range(LAPS))


def dispatching(sizes: tuple[int, ...]) -> None:
    print("balancer      invocations    waiting   step µs   growth")
    cases = [("jenkins", n) for n in (0, 1, 100, 10_000, 100_000)]
    for balancer, invocations in [*cases, ("heavy-light", 0), ("fastest", 0)]:
        before = None
        for waiting in sizes:
            if invocations > waiting:
                continue
            cost = Bench(waiting, invocations, balancer).best()
            growth = f"{cost / before:8.2f}" if before else ""
            shown = f"{invocations:,}" if invocations else "no tree"
            print(f"{balancer:<12} {shown:>12} {waiting:>10,} {cost:9.1f} {growth}", flush=True)
            before = cost
            gc.collect()


def contention() -> None:
    print("\nslots   start and finish µs (thesis law, a fifth heavy)")
    law = ContentionLaw(THESIS_TABLE)
    for slots in (1, 4, 16, 64):
        cost = timed(lambda: exchange(Progress(law), slots), 20_000)  # noqa: B023 - called at once
        print(f"{slots:>5} {cost:>10.2f}", flush=True)


def exchange(progress: Progress[int], slots: int) -> None:
    """Keep ``slots`` jobs running while twenty thousand end."""
    dice = random.Random(1)
    for number in range(slots):
        progress.start(0.0, number, dice.expovariate(1.0), heavy=number % 5 == 0, slot=number)
    for number in range(slots, slots + 20_000):
        finish = progress.next_finish()
        assert finish is not None
        at, token = finish
        progress.stop(at, token)
        progress.start(at, number, dice.expovariate(1.0), heavy=number % 5 == 0)


def timed(work: Callable[[], object], count: int) -> float:
    laps = []
    for _ in range(LAPS):
        began = time.process_time()
        work()
        laps.append((time.process_time() - began) / count * 1e6)
    return min(laps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave the million out")
    quick = parser.parse_args().quick
    gc.disable()
    dispatching((10_000, 100_000) if quick else (10_000, 100_000, 1_000_000))
    contention()


if __name__ == "__main__":
    main()
