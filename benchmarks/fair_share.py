"""What the fair-share tree costs, by waiting jobs and invocations.

Run ``python benchmarks/fair_share.py [--quick]``. The steady state is measured: a thousand slots
run; each step ends one job and dispatches the next, and a new job arrives so that the number that
wait stays the same. Times are microseconds of one process, the best of five laps.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable

from farm.core.model import Builder, Job
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.state import BuilderState, JobState, PoolCounts, Slot

SLOTS = 1000
STEPS = 2000
LAPS = 5


def paths(invocations: int) -> list[tuple[str, ...]]:
    """Two levels: users with up to a hundred builds each."""
    users = max(1, invocations // 100)
    return [(f"u{n % users}", f"b{n}") for n in range(invocations)]


def make(serial: int, where: list[tuple[str, ...]], dice: random.Random) -> JobState:
    estimate = dice.expovariate(0.01)
    return JobState(
        Job(id=f"j{serial}", service_time=estimate, priority=dice.choice((0, 0, 0, 100))),
        serial=serial,
        key=(0, -estimate, serial),
        submitted_at=0.0,
        estimated_time=estimate,
        lane=None,
        path=dice.choice(where),
    )


class Bench:
    def __init__(self, waiting: int, invocations: int) -> None:
        self.dice = random.Random(1)
        self.where = paths(invocations)
        self.queue = FairShareQueue((60.0, 60.0))
        self.serial = 0
        self.at = 0.0
        self.states = self.fresh(waiting)
        self.add_time = self.timed(lambda: [self.queue.add(s, 0.0) for s in self.states], waiting)
        builder = BuilderState(
            Builder(id="b", pool="p", index=0, slots=SLOTS), 0.0, None, PoolCounts("p")
        )
        self.slots = [Slot(builder, number) for number in range(SLOTS)]
        self.running: dict[Slot, JobState] = {}

    def fresh(self, count: int) -> list[JobState]:
        self.serial += count
        return [make(self.serial - n, self.where, self.dice) for n in range(count)]

    @staticmethod
    def timed(work: Callable[[], object], count: int) -> float:
        began = time.perf_counter()
        work()
        return (time.perf_counter() - began) / count * 1e6

    def dispatch(self, slot: Slot) -> None:
        state = self.queue.choose(slot, self.at)
        assert state is not None
        self.queue.dispatched(state, slot, self.at)
        self.running[slot] = state

    def steady(self) -> tuple[float, float]:
        """Return the cost of a dispatch (choose and carry out) and of a whole step."""
        for slot in self.slots:
            self.dispatch(slot)
        laps = [self.lap(self.fresh(STEPS)) for _ in range(LAPS)]
        dispatches, steps = zip(*laps, strict=True)
        return min(dispatches), min(steps)

    def lap(self, arrivals: list[JobState]) -> tuple[float, float]:
        spent = 0.0
        began = time.perf_counter()
        for step, arrival in enumerate(arrivals):
            self.at += 1.0
            slot = self.slots[step % SLOTS]
            self.queue.ended(self.running[slot], slot, self.at, completed=True)
            self.queue.add(arrival, self.at)
            before = time.perf_counter()
            self.dispatch(slot)
            spent += time.perf_counter() - before
        return spent / STEPS * 1e6, (time.perf_counter() - began) / STEPS * 1e6

    def remove(self) -> float:
        gone = self.dice.sample(self.queue.listing.waiting_in(), STEPS * LAPS // 4)
        laps = [gone[lap::LAPS] for lap in range(LAPS)]
        return min(
            self.timed(lambda: [self.queue.remove(state, self.at) for state in lap], len(lap))  # noqa: B023
            for lap in laps
        )

    def page(self) -> float:
        return self.timed(lambda: self.queue.listing.children((), "queued", limit=100), 1) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave the million out")
    sizes = (10_000, 100_000) if parser.parse_args().quick else (10_000, 100_000, 1_000_000)
    gc.disable()
    print("waiting   invocations   dispatch µs   step µs   add µs   remove µs   page of 100, ms")
    for waiting in sizes:
        for invocations in (1, 10, 100, 1_000, 10_000, 100_000):
            if invocations > waiting:
                continue
            bench = Bench(waiting, invocations)
            dispatch, step = bench.steady()
            print(
                f"{waiting:>9,} {invocations:>11,} {dispatch:>13.1f} {step:>9.1f}"
                f" {bench.add_time:>8.1f} {bench.remove():>11.1f} {bench.page():>18.2f}",
                flush=True,
            )
            del bench
            gc.collect()


if __name__ == "__main__":
    main()
