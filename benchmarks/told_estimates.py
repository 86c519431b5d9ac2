"""What a live farm's rollouts cost: the scheduler's thread, and the process that makes them.

    python -m benchmarks.told_estimates [--jobs 100,300,900] [--builders 50]

All waiting jobs are asked about together, as when they were submitted in bulk, ten times.
"pause" is the longest turn of the scheduler's thread (snapshot, statistics, request; the reply),
"µs/job" the processor time of both processes for each job. All times are processor time.
"""

from __future__ import annotations

import argparse
import threading
import time

import psutil

from benchmarks.rollouts import scenario_of, waiting_farm
from farm.app.forecasts.rollout_service import RolloutService

REPEATS = 10
LONG = 60.0


def measure(jobs: int, builders: int) -> str:
    scenario = scenario_of(builders)
    scheduler, run_times = waiting_farm(scenario, jobs)
    woken = threading.Event()
    service = RolloutService(scenario, run_times, "last-3")
    program = service._conversation.program
    service.attach(scheduler, lambda: 100.0, woken.set)
    names = [state.job.id for state in scheduler.jobs.values() if state.slot is None]
    pauses: list[float] = []
    taken: list[float] = []
    try:
        for _ in range(REPEATS):
            spent = psutil.Process(program.pid).cpu_times() if program.pid else None
            began = time.thread_time()
            ticket = service.ask(names, LONG)
            assert ticket is not None, "too dear"
            pauses.append(time.thread_time() - began)
            here = pauses[-1]
            while not ticket.answered:
                woken.wait(LONG)
                woken.clear()
                began = time.thread_time()
                assert ticket.done or time.monotonic() < ticket._until
                here += time.thread_time() - began
            after = psutil.Process(program.pid).cpu_times()
            if spent is not None:
                there = after.user + after.system - spent.user - spent.system
                taken.append(1e6 * (here + there) / len(names))
            while service._conversation.is_busy:
                time.sleep(0.005)
    finally:
        service.close()
    return (
        f"{len(names)} waiting, {builders} builders: pause {1000 * max(pauses[1:]):.1f} ms, "
        f"{min(taken[1:]):.0f} to {max(taken[1:]):.0f} µs/job in bulk"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default="100,300,900")
    parser.add_argument("--builders", type=int, default=50)
    given = parser.parse_args()
    for jobs in given.jobs.split(","):
        print(measure(int(jobs), given.builders), flush=True)


if __name__ == "__main__":
    main()
