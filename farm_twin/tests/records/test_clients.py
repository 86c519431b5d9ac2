"""The records that the client libraries of each system write tell the same farm."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest

from farm.records.bundle import with_capacity, write_bundle
from farm_twin.diagnosis.diagnose import diagnose
from farm_twin.first_scenario import scenario_of_trace
from farm_twin.importing import import_files
from farm_twin.sources import LOGS, SOURCES, TABLES
from farm_twin.tests.records.clients import CLIENTS, RUN, RUNNERS, Ran, jobs

WRITERS = [(source, writer) for source, writers in CLIENTS.items() for writer in writers]
WITHOUT_RUNNERS = {"bazel", "kueue", "swf", "batsim"}
"""What has no machines: how many there are, the user says."""


def test_there_are_clients_of_each_source():
    """At least two: a shape that one alone writes is not the system's."""
    assert CLIENTS.keys() == {*SOURCES, *LOGS, *TABLES}
    assert all(len(writers) >= 2 for source, writers in CLIENTS.items() if source in SOURCES)


@pytest.mark.parametrize(
    ("source", "writer"), WRITERS, ids=[writer.__name__ for _, writer in WRITERS]
)
def test_what_a_client_writes_is_read(
    source: str, writer: Callable[[list[Ran]], str], tmp_path: Path
):
    """Its jobs, waits and machines are those that were written, and so is why they wait."""
    known = jobs()
    path = tmp_path / "records"
    path.write_text(writer(known))

    bundle = import_files([path], zone=UTC)

    assert bundle.manifest.source == source
    assert [(one.waited, one.ran) for one in bundle.attempts] == [
        (one.began - one.came, RUN) for one in known
    ]
    if not WITHOUT_RUNNERS & {source, writer.__name__}:
        runners = [one.runner.rpartition("/")[2] for one in bundle.attempts]
        assert runners == [one.runner for one in known]
    else:
        bundle = with_capacity(bundle, RUNNERS)
    [verdict] = diagnose(bundle, None, 300.0).verdicts
    assert verdict.kind == "short of servers"
    write_bundle(tmp_path / "mine", bundle)
    text, _ = scenario_of_trace(tmp_path / "mine", "mine", None)
    assert f"builders: {RUNNERS} " in text
