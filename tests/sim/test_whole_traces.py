"""Whole recorded traces, and very many jobs, through the simulated farm, with the auditor."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from pathlib import Path

import pytest

from farm.core.commands import EndJob
from farm.results.audit.auditor import Auditor
from farm.scenario import parse_scenario
from farm.sim.simulation import Simulation
from farm.testing import small_scenario

pytestmark = pytest.mark.slow

FOLDER = Path(os.environ.get("FARM_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
FOUND = [*FOLDER.rglob("*.dat"), *FOLDER.rglob("*.swf*")] if FOLDER.is_dir() else []
#: larger ones show the auditor nothing more, and tests/conformance plays them
TRACES = sorted(path for path in FOUND if path.stat().st_size < 500_000)
#: slots that keep up with the trace's load
BUILDERS = 800
JOBS = 250_000


class Counter:
    """Count how jobs ended, and the longest queue; remember nothing else."""

    def __init__(self) -> None:
        self.ended: dict[str, int] = {}

    def __call__(self, _: object, commands: Sequence[object]) -> None:
        for command in commands:
            if type(command) is EndJob:
                self.ended[command.outcome] = self.ended.get(command.outcome, 0) + 1


@pytest.mark.skipif(not TRACES, reason="no traces: set FARM_TRACES to a folder that holds some")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_every_job_of_a_trace_succeeds_once(path: Path):
    """A fixed pool completes the whole trace; no promise is broken."""
    trace = {"path": str(path), "platform": {"processor": "amd64"}}
    scenario = parse_scenario(small_scenario({"builders": BUILDERS}, {"trace": trace}))
    auditor, counter = Auditor(), Counter()
    Simulation.of(scenario).play([auditor, counter])
    auditor.close()
    assert counter.ended.keys() <= {"succeeded", "failed", "cancelled"}
    assert sum(counter.ended.values()) == len(auditor.jobs) > 100
    if path.suffix == ".dat":
        assert counter.ended == {"succeeded": len(auditor.jobs)}


def test_many_jobs_in_little_memory():
    """Jobs are made as they arrive and forgotten when they end: memory is what waits and runs."""
    load = {
        "poisson": {"rate": "70/s"},
        "count": JOBS,
        "service_time": {"exponential": {"mean": "1s"}},
    }
    scenario = parse_scenario(small_scenario({"builders": 20, "slots": 4}, load))
    counter = Counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    simulation = Simulation.of(scenario)
    simulation.play([counter])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert counter.ended == {"succeeded": JOBS}
    assert simulation.scheduler.jobs == {}
    assert grown < 0.15 * JOBS, "kilobytes on Linux"
