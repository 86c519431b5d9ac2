"""Dispatch estimates of a whole queue, and of single jobs from its table.

Run: ``python -m benchmarks.dispatch_estimate [--jobs 1000,10000,…] [--platforms 50]``.

"sweep" is the part that a live scheduler pays when it keeps its queue as columns; "with its
arithmetic" is one estimate as ``admin estimate --job`` prints it; "at submission" is one for a job
that is about to be queued.
"""

import argparse
import random
import statistics
import time

from farm.forecasts.dispatch.builder_pools import BuilderPools
from farm.forecasts.dispatch.job_estimate import estimate_at
from farm.forecasts.dispatch.launchpad_formula import RULES, QueueEstimates, WaitingColumns
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobView

SAMPLE = 100
REPEATS = 3


def farm(waiting: int, platforms: int, builders: int = 500, seed: int = 1) -> FarmView:
    """Make a farm: half of the builders busy, a tenth of the jobs platform-independent."""
    rng = random.Random(seed)
    kinds = [(f"p{i // 2}", bool(i % 2)) for i in range(platforms)]
    machines = tuple(
        BuilderView(f"b{i}", (kinds[i % platforms][0],), kinds[i % platforms][1])
        for i in range(builders)
    )
    busy = tuple(
        JobView(i, f"r{i}", *kinds[i % platforms], 0.0, 600.0, "running", f"b{i}", 300.0)
        for i in range(0, builders, 2)
    )
    queue = []
    for i in range(builders, builders + waiting):
        name, virtual = rng.choice(kinds)
        processor = None if rng.random() < 0.1 else name
        score, run_time = float(rng.randrange(5000)), float(rng.randrange(10, 5000))
        queue.append(JobView(i, f"j{i}", processor, virtual, score, run_time))
    return FarmView(machines, busy + tuple(queue))


def measure(waiting: int, platforms: int, rules_name: str) -> list[str]:
    view, rules = farm(waiting, platforms), RULES[rules_name]
    laps: dict[str, list[float]] = {"sort": [], "columns": [], "sweep": []}
    for _ in range(REPEATS):
        start = time.perf_counter()
        jobs = view.waiting()
        sorted_at = time.perf_counter()
        columns = WaitingColumns.of(jobs)
        laid_out_at = time.perf_counter()
        queue = QueueEstimates(columns, BuilderPools(view.builders, view.jobs, rules), rules)
        end = time.perf_counter()
        laps["sort"].append(sorted_at - start)
        laps["columns"].append(laid_out_at - sorted_at)
        laps["sweep"].append(end - laid_out_at)
    places = random.Random(2).sample(range(waiting), SAMPLE)
    start = time.perf_counter()
    explained = [estimate_at(jobs, queue, place).estimate_s for place in places]
    each = (time.perf_counter() - start) / SAMPLE
    start = time.perf_counter()
    plain = [queue.new_job(jobs[place].platform, place) for place in places]
    submission = (time.perf_counter() - start) / SAMPLE
    assert explained == plain
    parts = [statistics.median(lap) for lap in laps.values()]
    total = sum(parts)
    return [
        f"{waiting:,}",
        *(f"{part:.3f}" for part in (*parts, total)),
        f"{1e6 * total / waiting:.2f}",
        f"{1e6 * each:.0f}",
        f"{1e6 * submission:.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", default="1000,10000,100000,1000000")
    parser.add_argument("--platforms", type=int, default=50)
    parser.add_argument("--rules", choices=RULES, default="launchpad")
    options = parser.parse_args()
    print(
        f"{options.platforms} platforms, 500 builders, rules {options.rules}; median of {REPEATS}"
    )
    print(
        "waiting jobs | sort s | columns s | sweep s | total s | µs/job"
        " | with its arithmetic µs | at submission µs"
    )
    for waiting in map(int, options.jobs.split(",")):
        print(" | ".join(measure(waiting, options.platforms, options.rules)), flush=True)


if __name__ == "__main__":
    main()
