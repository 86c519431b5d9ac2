"""Which jobs of a source are submitted, and when; without a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.app.jobs.sources import of_file, streamed
from farm.core.model import Platform

AMD64 = Platform("amd64", True)
LINES = '{"service_time_s": 1, "job_id": "a"}\n{"service_time_s": 1, "job_id": "b"}\n'


def test_only_the_first_jobs_of_json_lines(tmp_path: Path):
    """As with a trace: ``submit FILE --jobs 1``."""
    path = tmp_path / "jobs.jsonl"
    path.write_text(LINES)
    found = [list(of_file(path, None, jobs, None, AMD64)) for jobs in (1, 3, None)]
    assert [[job.id for job in jobs] for jobs in found] == [["a"], ["a", "b"], ["a", "b"]]


def test_nothing_is_read_after_the_last_job_of_a_pipe(monkeypatch: pytest.MonkeyPatch):
    """``submit - --jobs 1`` ends although the pipe stays open."""

    def lines() -> Iterator[str]:
        yield LINES.splitlines()[0]
        pytest.fail("reads on")

    monkeypatch.setattr("farm.app.jobs.sources.standard_input", lines)
    assert [job.id for job in streamed(1, AMD64)] == ["a"]
