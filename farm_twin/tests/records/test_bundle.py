"""A bundle is written whole, read back as it was, and shows no names if so wished."""

from __future__ import annotations

import gzip
import hashlib
import json
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm import simulate
from farm.core.errors import InputError, TraceError
from farm.records.attempt import Attempt
from farm.records.bundle import JOBS, Bundle, read_bundle, write_bundle
from farm.results.run_directory import load_run
from farm_twin.bundles.anonymizing import anonymized
from farm_twin.importing import import_files, load_records
from farm_twin.run_attempts import attempts_of
from farm_twin.sources import SOURCES, export_attempts
from farm_twin.tests.records.test_traps import github
from tests.fixtures.attempts import attempt

DATA = Path(__file__).parent / "data"


@pytest.fixture
def bundle() -> Bundle:
    """The bundle of the five jobs of GitHub's."""
    return import_files([DATA / "github.json"])


def test_a_bundle_is_read_as_it_was_written(bundle: Bundle, tmp_path: Path):
    """The same attempts, and the same bytes from the same files."""
    for name in ("one", "two"):
        write_bundle(tmp_path / name, bundle)
    again = load_records([tmp_path / "one"])
    assert again.attempts == bundle.attempts
    assert (tmp_path / "one" / JOBS).read_bytes() == (tmp_path / "two" / JOBS).read_bytes()
    found = (tmp_path / "one" / JOBS).read_bytes()
    assert again.manifest.sha256[JOBS] == hashlib.sha256(found).hexdigest()
    [source] = again.manifest.files
    content = (DATA / "github.json").read_bytes()
    assert source.sha256 == hashlib.sha256(content).hexdigest()
    assert (again.manifest.kept, again.manifest.read) == (3, 5)


def test_runners_are_seen_in_their_jobs(bundle: Bundle):
    """From the first start to the last end, with as many slots as they ran jobs at once."""
    assert [(one.runner, one.slots, one.jobs) for one in bundle.runners()] == [
        ("r-8", 1, 1),
        ("r-7", 1, 1),
    ]


def test_an_anonymous_bundle_has_no_name_but_labels(bundle: Bundle, tmp_path: Path):
    """The same names are the same hashes within it, and its times stay."""
    write_bundle(tmp_path / "b", anonymized(bundle))
    text = gzip.decompress((tmp_path / "b" / JOBS).read_bytes()).decode()
    text += (tmp_path / "b" / "manifest.json").read_text()
    for name in ("r-7", "r-8", "lint", "main", "CI", "github.json"):
        assert f'"{name}"' not in text
    assert "linux,self-hosted" in text
    found = load_records([tmp_path / "b"])
    assert [one.waited for one in found.attempts] == [one.waited for one in bundle.attempts]
    assert len({one.runner for one in found.attempts if one.runner}) == 2


def test_an_anonymous_bundle_has_no_text_of_an_unreadable_record(tmp_path: Path):
    """Why it cannot be read has its path and its words: a bundle that is handed on has neither."""
    jobs = [github(id=number, run_id=number) for number in range(12)]
    jobs[3]["created_at"] = "by ann"
    (tmp_path / "secret.json").write_text(json.dumps({"jobs": jobs}))
    bundle = import_files([tmp_path / "secret.json"])
    assert "by ann" in str(bundle.manifest.left_out)
    assert anonymized(bundle).manifest.left_out == {"that could not be read": 1}


def test_a_write_that_fails_leaves_nothing(bundle: Bundle, tmp_path: Path):
    """Neither the bundle nor its draft."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_bundle(tmp_path / "file" / "b", bundle)
    broken = msgspec.structs.replace(bundle, attempts=[*bundle.attempts, object()])
    with pytest.raises(TypeError):
        write_bundle(tmp_path / "b", broken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_damaged_bundle_is_one_message(bundle: Bundle, tmp_path: Path):
    """With the file and the line."""
    write_bundle(tmp_path / "b", bundle)
    (tmp_path / "b" / JOBS).write_bytes(gzip.compress(b'{"id": 1}\n'))
    with pytest.raises(TraceError, match=r"jobs.jsonl.gz, line 1: "):
        read_bundle(tmp_path / "b")
    with pytest.raises(InputError, match="found a bundle beside"):
        load_records([tmp_path / "b", DATA / "github.json"])


def test_a_zone_is_that_of_the_window():
    """Its instants are the same."""
    bundle = import_files([DATA / "slurm.txt"], zone=UTC)
    assert bundle.manifest.begins == "2026-11-02T08:00:00.000+00:00"
    assert bundle.manifest.zone == "UTC"


# --- What is written as a source's records is read back as the same attempts ----------------------

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
        finished_at = started_at + draw(st.integers(1, 10_000))
        known = {
            "result": draw(st.sampled_from(["succeeded", "failed"])),
            "runner": draw(st.sampled_from(["host/r1", "host/r2"])),
            "platform": draw(st.sampled_from(["os=linux", "os=mac"])),
            "matrix": draw(st.sampled_from(["", "m1", "m2"])),
            "kind": f"job-{number}",
            "user": "ada",
        }
        made.append(attempt(number, at, started_at, finished_at, **known))
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


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("result", ["failed", "cancelled", "lost"])
def test_what_did_not_succeed_is_not_read_as_a_success(source: str, result: Any, tmp_path: Path):
    """A format without a word for it has one for a failure."""
    found = attempt(1, START, START + 5, START + 65, result=result, kind="a", runner="r")
    export_attempts(source, [found], tmp_path / "log.json")
    [one] = load_records([tmp_path / "log.json"]).attempts
    assert one.result in (result, "failed")


LOSSES = {
    "seed": 1,
    "pools": [{"name": "p", "builders": 3, "losses": {"rate": "2/h"}}],
    "workload": [{"arrivals": {"every": "3m", "count": 60, "service_time": "5m",
                               "attributes": {"user": ["ada", "bob"]}, "level": [0, 2]}}],
    "scheduling": {"retries": 9, "max_builders_lost": 0},
}  # fmt: skip


@pytest.mark.parametrize("source", ["github", "gitlab", "buildkite", "taskcluster", "slurm"])
def test_every_attempt_of_a_run(tmp_path: Path, source: str):
    """Those that were lost with their builder, too; whose job it was, and how urgent."""
    run = simulate(LOSSES, out=tmp_path / "run")
    attempts = attempts_of(load_run(tmp_path / "run"))
    lost = [one for one in attempts if one.result == "lost"]
    assert len(attempts) == sum(run.jobs["attempts"]) > 60
    assert {one.user for one in attempts} == {"ada", "bob"}
    export_attempts(source, attempts, tmp_path / "log.json")
    records = load_records([tmp_path / "log.json"])
    read = records.attempts
    assert sorted(one.attempt for one in read) == sorted(one.attempt for one in attempts)
    assert {one.user for one in read} == {"ada", "bob"}
    levels = {0, 2} if source in ("buildkite", "taskcluster") else {0}  # others have no word for it
    assert {one.level for one in read} == levels
    assert {one.level for one in anonymized(records).attempts} == levels
    wanted = "failed" if source == "github" else "lost"  # which has no word for it
    assert sum(one.result == wanted for one in read) == len(lost) > 0
