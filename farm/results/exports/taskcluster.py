"""``taskcluster``: a datastore.json, as the Taskcluster simulator writes and its pages read it."""

from __future__ import annotations

from pathlib import Path

from farm.results.event_store import event_store
from farm.results.run_directory import Run
from farm.scenario import parse_scenario
from farm.scenario.file.document import parse_document


def export(run: Run, out: Path) -> int:
    """Write the file; return how many jobs it has."""
    begin, end = run_phase(run.scenario_text)
    store = event_store(run.entries(), begin, end)
    out.write_text(store.to_json(), encoding="utf-8")
    return sum(event[1] == "task-created" for event in store.events)


def run_phase(scenario_text: str) -> tuple[float, float]:
    """Return the farm seconds between which a scenario's run counts (without phases: all)."""
    phases = parse_scenario(parse_document(scenario_text, "scenario.yaml")).phases
    if phases is None:
        return 0.0, float("inf")
    return phases.ramp_up, phases.ramp_up + phases.run
