"""What one more submission costs when every job is given a dispatch estimate.

With so many jobs waiting on two platforms and 200 busy builders, jobs are submitted one by one:
"submit" is the scheduler alone, "estimate" what the formula's answer adds to it between two
sweeps of the queue, "sweep" the pass that brings all estimates up to date (live: every few
seconds, in steps). Processor microseconds, the median of five laps.

    python benchmarks/estimate_updates.py [JOBS …]
"""

from __future__ import annotations

import gc
import statistics
import sys
import time

from farm.core.events import BuilderJoined, JobsSubmitted
from farm.core.model import Builder, Job, Platform
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.dispatch import RULES
from farm.forecasts.dispatch.by_formula import FormulaGiver
from farm.forecasts.runtime import make_estimator

PLATFORMS = (Platform("amd64", True), Platform("arm64", True))
BUILDERS = 200
LAP = 500


def filled(waiting: int) -> Scheduler:
    """Return a scheduler with all builders busy and so many jobs waiting."""
    scheduler = Scheduler(SchedulingRules(), make_estimator("declared"))
    for index in range(BUILDERS):
        processor = str(PLATFORMS[index % 2].processor)
        builder = Builder(id=f"b{index}", pool="p", index=index, processors=(processor,))
        scheduler.handle(BuilderJoined(0.0, builder))
    scheduler.handle(JobsSubmitted(0.0, tuple(job(n) for n in range(waiting + BUILDERS))))
    return scheduler


def job(number: int) -> Job:
    """Return the n-th job."""
    return Job(
        id=f"j{number}",
        service_time=60.0 + number % 97,
        declared_time=60.0 + number % 97,
        platform=PLATFORMS[number % 2],
    )


def measure(waiting: int) -> tuple[float, float, float]:
    """Return microseconds of a submission, of its estimate, and of a sweep."""
    scheduler = filled(waiting)
    submits, gives, sweeps = [], [], []
    number = waiting + BUILDERS
    for lap in range(5):
        giver = FormulaGiver(RULES["farm"], "declared", refresh=1e9, swept_at_most=0)
        began = time.process_time()
        for _ in giver.prepare(scheduler, 1.0):
            pass
        sweeps.append(time.process_time() - began)
        names = [job(number + n) for n in range(LAP)]
        number += LAP
        began = time.process_time()
        for new in names:
            scheduler.handle(JobsSubmitted(2.0 + lap, (new,)))
        submits.append((time.process_time() - began) / LAP)
        states = [scheduler.jobs[new.id] for new in names]
        began = time.process_time()
        for state in states:
            giver.give(scheduler, [state], 2.0 + lap)
        gives.append((time.process_time() - began) / LAP)
    return tuple(statistics.median(times) * 1e6 for times in (submits, gives, sweeps))  # type: ignore[return-value]


def main() -> None:
    """Print a line for each number of waiting jobs."""
    gc.disable()  # as in a simulation
    print("waiting     submit   estimate      sweep  (us)")
    for waiting in [int(word) for word in sys.argv[1:]] or [1_000, 10_000, 100_000, 1_000_000]:
        submit, give, sweep = measure(waiting)
        print(f"{waiting:>9,} {submit:8.1f} {give:10.1f} {sweep:10,.0f}")


if __name__ == "__main__":
    main()
