"""What is written as a source's records is read back as the same attempts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm import simulate
from farm.app.recorded.attempts import attempts_of
from farm.records import load_records
from farm.records.attempt import Attempt
from farm.records.sources import SOURCES, export_attempts
from farm.results.run_directory import load_run

START = 1_793_610_000
NO_RUNNERS = ("bazel", "kueue")
NO_PLATFORMS = ("jenkins",)


@st.composite
def jobs(draw: st.DrawFn) -> list[Attempt]:
    """Draw attempts that every source can tell: all started, at whole seconds, and ended."""
    made = []
    for number in range(draw(st.integers(1, 12))):
        at = START + draw(st.integers(0, 100_000))
        started_at = at + draw(st.integers(0, 50_000))
        made.append(
            Attempt(
                id=f"{number:03}",
                submitted_at=at,
                eligible_at=at,
                started_at=started_at,
                finished_at=started_at + draw(st.integers(1, 10_000)),
                result=draw(st.sampled_from(["succeeded", "failed"])),
                runner=draw(st.sampled_from(["host/r1", "host/r2"])),
                platform=draw(st.sampled_from(["os=linux", "os=mac"])),
                kind=f"job-{number}",
                matrix=draw(st.sampled_from(["", "m1", "m2"])),
                user="ada",
            )
        )
    return made


@pytest.mark.parametrize("source", SOURCES)
@given(found=jobs())
def test_the_same_jobs_through_any_format(tmp_path_factory, source, found):
    """Waits, run times, results, names and, where the format has them, platforms and runners."""
    path: Path = tmp_path_factory.mktemp("records") / "log.json"
    export_attempts(source, found, path)
    read = load_records([path]).attempts
    told = sorted(_told(one, source) for one in read)
    assert told == sorted(_told(one, source) for one in found)


def _told(one: Attempt, source: str) -> tuple[object, ...]:
    times = [one.eligible_at, one.started_at, one.finished_at]
    return (
        one.kind,
        *(None if at is None else round(at, 3) for at in times),
        one.result,
        "" if source in NO_PLATFORMS else one.platform,
        "" if source in NO_RUNNERS else one.runner,
    )


LOSSES = {
    "seed": 1,
    "pools": [{"name": "p", "builders": 3, "losses": {"rate": "2/h"}}],
    "workload": [{"arrivals": {"every": "3m", "count": 60, "service_time": "5m",
                               "attributes": {"user": ["ada", "bob"]}}}],
    "scheduling": {"retries": 9, "max_builders_lost": 0},
}  # fmt: skip


@pytest.mark.parametrize("source", ["github", "gitlab", "buildkite", "taskcluster", "slurm"])
def test_every_attempt_of_a_run(tmp_path: Path, source: str):
    """Those that were lost with their builder, too; and whose job it was."""
    run = simulate(LOSSES, out=tmp_path / "run")
    attempts = attempts_of(load_run(tmp_path / "run"))
    lost = [one for one in attempts if one.result == "lost"]
    assert len(attempts) == sum(run.jobs["attempts"]) > 60
    assert {one.user for one in attempts} == {"ada", "bob"}
    export_attempts(source, attempts, tmp_path / "log.json")
    read = load_records([tmp_path / "log.json"]).attempts
    assert sorted(one.attempt for one in read) == sorted(one.attempt for one in attempts)
    assert {one.user for one in read} == {"ada", "bob"}
    wanted = "failed" if source == "github" else "lost"  # which has no word for it
    assert sum(one.result == wanted for one in read) == len(lost) > 0
