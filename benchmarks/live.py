"""Live jobs per second, end to end, against plain Celery with no-op tasks.

The farm: jobs that take no time are submitted to a live farm of 40 builders, scheduled one by
one, sent to builder hosts, started, finished, booked. Plain Celery: the same number of worker
processes of the same pool (solo) on the same server run no-op tasks that were queued
beforehand; nothing is recorded. They take turns, so the ratio holds on a noisy machine.

    python -m benchmarks.live [--jobs N] [--hosts 1,2] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import redis

from farm.core.model import Job, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.live.live_options import LiveOptions
from farm.live.redis.server import choose_server
from farm.live.run import Watchers, run_live
from farm.results.table.recorder import Recorder

PLATFORM = Platform("amd64", True)
BUILDERS = 40
ROOT = Path(__file__).resolve().parent.parent


def farm_rate(url: str, jobs: int, hosts: int) -> float:
    """Return jobs per second from the first submission to the last booking."""
    batch = tuple(
        Job(id=f"job-{n}", service_time=0.0, platform=PLATFORM, arrived_at=0.0) for n in range(jobs)
    )
    recorder = Recorder()
    pools = [PoolSpec(name="pool", processors=("amd64",), builders=BUILDERS)]
    ended = run_live(
        Scheduler(SchedulingRules(), make_estimator("declared"), pools),
        pools,
        iter([(0.0, batch)]),
        LiveOptions(redis_url=url, hosts=hosts, prefix="benchmark:farm:"),
        Watchers(observe=recorder),
    )
    done = sum(end.outcome == "succeeded" for end in recorder.ends)
    if done != jobs:
        raise SystemExit(f"{done} of {jobs} jobs succeeded")
    return jobs / ended.wall_time


def celery_rate(url: str, jobs: int, workers: int) -> float:
    """Return tasks per second from the first task done to the last."""
    os.environ["BENCHMARK_REDIS_URL"] = url
    from benchmarks.plain_celery import QUEUE, nothing  # noqa: PLC0415 - reads the variable

    client = redis.Redis.from_url(url)
    client.delete(QUEUE)
    for number in range(jobs):
        nothing.delay({"id": f"job-{number}", "service_time": 0.0, "attempt": 1})
    celery = [sys.executable, "-m", "celery", "--quiet", "-A", "benchmarks.plain_celery"]
    options = ["worker", "--pool=solo", "--without-gossip", "--without-mingle", "-l", "ERROR"]
    processes = [
        subprocess.Popen(
            [*celery, *options, "-n", f"plain{n}"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for n in range(workers)
    ]
    try:
        began = ended = None
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            done = jobs - int(client.llen(QUEUE))
            if done and began is None:
                began, first = time.monotonic(), done
            if done >= jobs:
                ended = time.monotonic()
                break
            time.sleep(0.01)
        if began is None or ended is None:
            raise SystemExit("plain Celery did not drain its queue in two minutes")
        return (jobs - first) / (ended - began)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(20)


def main() -> None:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--hosts", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with choose_server(None) as server:
        for hosts in map(int, options.hosts.split(",")):
            ours, theirs = [], []
            for _ in range(options.rounds):
                ours.append(farm_rate(server.url, options.jobs, hosts))
                theirs.append(celery_rate(server.url, options.jobs, hosts))
            ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
            print(
                f"{hosts} worker process(es), {options.jobs:,} no-op jobs, {BUILDERS} builders: "
                f"farm {statistics.median(ours):,.0f} jobs/s, plain Celery "
                f"{statistics.median(theirs):,.0f} tasks/s, ratio {ratio:.2f} "
                f"(median of {options.rounds})"
            )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
