"""No case is skipped: everything in a case file is read by a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

#: system -> the keys of its files that hold cases
READ = {
    "boinc": {"cases"},
    "buildbarn": {"upstream", "derived"},
    "launchpad": {"cases", "score_cases", "judge_failure_cases", "estimate_duration_cases"},
    "taskcluster": {"manual", "manual_trace", "pools", "ties"},
    "thesis": {"golden_runs", "tables"},
}
#: keys that tests read as a whole, or that explain the rest
BESIDES = {"conventions", "constants", "eras", "meta", "origins", "score_rules"}
#: what the farm does not have, and documents
NOT_OURS = {("buildbarn", "size_class"): "the fair-share tree knows no size classes"}


def system_of(path: Path, document: Any) -> str:
    """Return the system to which a file belongs, as conftest.py finds it."""
    assert isinstance(document, dict), f"{path}: found no object; allowed: an object with cases"
    named = (path.name, str(document.get("format", "")))
    systems = [system for system in READ for name in named if name.startswith(system)]
    assert systems, f"{path}: neither name nor format begins with one of {', '.join(READ)}"
    return systems[0]


def holds_objects(value: Any) -> bool:
    """Say whether this could be cases: a list with objects, or a mapping to such things."""
    if isinstance(value, dict):
        return any(isinstance(entry, dict) or holds_objects(entry) for entry in value.values())
    return isinstance(value, list) and any(isinstance(entry, dict) for entry in value)


@pytest.mark.conformance("*")
def test_file(path: Path, document: Any) -> None:
    """A file has a system, cases, and no list of cases that no test reads."""
    system = system_of(path, document)
    assert any(document.get(key) for key in READ[system]), (
        f"{path}: holds no cases; allowed: {', '.join(sorted(READ[system]))}"
    )
    others = {key for key in document if holds_objects(document[key])} - READ[system] - BESIDES
    foreign = {key for key in others if (system, key) in NOT_OURS}
    assert not others - foreign, (
        f"{path}: no test reads {', '.join(sorted(others - foreign))};"
        f" known: {', '.join(sorted(READ[system]))}"
    )
    if foreign:
        pytest.skip("; ".join(f"{key}: {NOT_OURS[system, key]}" for key in sorted(foreign)))


def test_table_of_keys(request: pytest.FixtureRequest) -> None:
    """The table above lists what the tests of this run read, so that a missing test is noticed."""
    markers = [m for item in request.session.items for m in item.iter_markers("conformance")]
    read = {(m.args[0], m.args[1].split(".")[0]) for m in markers if len(m.args) > 1}
    assert read <= {(system, key) for system, keys in READ.items() for key in keys}
