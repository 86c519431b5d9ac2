"""What a candidate of a twin costs, by the algorithm that sizes its pool.

    python -m benchmarks.twin_candidates [JOBS] [CANDIDATES]

JOBS (100,000) of five minutes on average, by hours of the day, on up to 44 runners of one slot;
each algorithm with CANDIDATES (3) boot times. The jobs' columns are made once, as in a search.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from farm.core.model import Job, Platform
from farm.scenario import parse_scenario
from farm.sim.engines import OneLoad
from farm.testing import small_scenario
from provisioner.from_scenario import algorithms_of

MOST, BOOT_TIME, MEAN = 44, 75.0, 300.0
LIMITS: dict[str, Any] = {"min": 0, "max": MOST}
STAYS = {"idle_timeout": 480.0}
ONCE = {"uses": 1}
#: by what is told of it: keys of the pool, and of its provisioner
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fixed": ({"builders": MOST}, {}),
    "manual": ({}, {"algorithm": "manual", "capacity": {0: 30, 8: MOST, 18: 36}, "max": MOST}),
    "taskcluster": (STAYS, {"algorithm": "taskcluster", **LIMITS}),
    "target-wait": (STAYS, {"algorithm": "target-wait", "objective": 200.0, **LIMITS}),
    "keda": ({}, {"algorithm": "keda", "list_length": 2, **LIMITS}),
    "gitlab": ({}, {"algorithm": "gitlab", "idle_time": 300.0, **LIMITS}),
    "jenkins": (STAYS, {"algorithm": "jenkins", **LIMITS}),
    "buildkite": ({}, {"algorithm": "buildkite", **LIMITS}),
    "buildbarn": ({}, {"algorithm": "buildbarn", **LIMITS}),
    "predictive": ({}, {"algorithm": "predictive", **LIMITS}),
    "arc, one job each": (ONCE, {"algorithm": "arc", **LIMITS}),
    "hosted": (ONCE, {"algorithm": "arc", "max": 1_000_000, "interval": 0.1}),
}


def jobs_of(count: int) -> list[Job]:
    """Return jobs that come at 0.3 to 1.1 times what the runners can do, by the time of day."""
    rng = np.random.default_rng(7)
    at = np.cumsum(rng.exponential(MEAN / MOST / 1.1, 3 * count))
    share = (0.7 + 0.4 * np.sin(at / 86_400 * 2 * np.pi)) / 1.1
    kept = at[rng.random(len(at)) < share][:count]
    ran = rng.lognormal(np.log(MEAN) - 0.32, 0.8, count)
    return [
        Job(id=str(n), arrived_at=arrived, service_time=took, declared_time=took,
            platform=Platform(processor="x"))
        for n, (arrived, took) in enumerate(zip(kept.tolist(), ran.tolist(), strict=True))
    ]  # fmt: skip


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    candidates = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    load = OneLoad(jobs_of(count))
    for name, (pool, provisioner) in WAYS.items():
        spent = []
        for number in range(candidates):
            given = {"name": "p", "platform": {"processor": "x"}, "inter_job_time": 2.0, **pool}
            if provisioner:
                given["provisioner"] = provisioner
            if name not in ("fixed", "manual"):
                given["boot_time"] = BOOT_TIME + number
            began = time.process_time()
            scenario = parse_scenario(small_scenario(given))
            waits = load.waits(scenario, algorithms_of(scenario))
            spent.append(time.process_time() - began)
        print(
            f"{name}: {100 * min(spent):.1f} s of CPU time for 100, mean wait {waits.mean():.0f} s"
        )


if __name__ == "__main__":
    main()
