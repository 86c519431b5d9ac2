"""``taskcluster``: a datastore.json for the pages of the Taskcluster simulator."""

from __future__ import annotations

from pathlib import Path

from farm.results.run_directory import Run
from farm.results.taskcluster_event_store import event_store
from farm.scenario import parse_scenario
from farm.scenario.file.document import parse_document


def export(run: Run, out: Path) -> int:
    """Write the file; return the number of jobs."""
    begin, end = run_phase(run.scenario_text)
    store = event_store(run.entries(), begin, end)
    out.write_text(store.to_json(), encoding="utf-8")
    return sum(event[1] == "task-created" for event in store.events)


def run_phase(scenario_text: str) -> tuple[float, float]:
    """Return the begin and end of a scenario's run phase, farm seconds (without phases: all)."""
    phases = parse_scenario(parse_document(scenario_text, "scenario.yaml")).phases
    if phases is None:
        return 0.0, float("inf")
    return phases.ramp_up, phases.ramp_up + phases.run
