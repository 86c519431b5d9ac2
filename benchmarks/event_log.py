"""How fast an event log is written from the compiled loop's notes, read back, and audited.

    python -m benchmarks.event_log [JOBS]

JOBS (300,000) with exponential service times arrive on 100 builders; code is compiled before.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from farm.app.recorded.auditing import audit_run
from farm.app.runs.simulated_run import simulated_run
from farm.assembly import estimator_of, make_rules
from farm.results.log.reader import read_log
from farm.scenario import Scenario, parse_scenario
from farm.sim.engines import CompiledRun, chosen
from farm.sim.garbage import no_garbage_collection
from farm.sim.setting import Setting
from farm.workload import build_jobs

ROUNDS = 3


def scenario_of(jobs: int) -> Scenario:
    """Return the queue M/M/100 at a load of 0.9."""
    arrivals = {
        "poisson": {"rate": "90/s"},
        "count": jobs,
        "service_time": {"exponential": {"mean": "1s"}},
    }
    return parse_scenario(
        {"pools": [{"name": "pool", "builders": 100}], "workload": [{"arrivals": arrivals}]}
    )


def spent(what: str, jobs: int, work: Callable[[], Any], rounds: int = ROUNDS) -> None:
    """Print the CPU time of a function, min and median."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        with no_garbage_collection():
            work()
        times.append(time.process_time() - began)
    least, middle = min(times), sorted(times)[len(times) // 2]
    print(f"{what}: {1e6 * least / jobs:.1f}, {1e6 * middle / jobs:.1f} us a job", end="")
    print(f" (min, median); {jobs / middle:,.0f} a second", flush=True)


def main() -> None:
    """Write, read and audit."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    scenario = scenario_of(jobs)
    load = build_jobs(scenario)
    setting = Setting.of(scenario, make_rules(scenario))
    played = chosen(setting, estimator_of(scenario), load, engine="fast", log_below=math.inf)
    assert isinstance(played, CompiledRun)
    assert played.log is not None
    log = played.log
    with tempfile.TemporaryDirectory() as folder:
        path, run = Path(folder) / "events.jsonl", Path(folder) / "run"

        def write() -> None:
            with path.open("wb") as file:
                file.writelines(log)

        spent("written", jobs, write)
        print(f"  {path.stat().st_size / jobs:.0f} bytes a job")
        spent("read back as events and commands", jobs, lambda: deque(read_log(path), maxlen=0))
        simulated_run(scenario, out=run, engine="fast")
        spent("audited and replayed", jobs, lambda: audit_run(run), rounds=1)


if __name__ == "__main__":
    main()
