"""A bundle is written whole, read back as it was, and shows no names if so wished."""

from __future__ import annotations

import gzip
import hashlib
from datetime import UTC
from pathlib import Path

import msgspec
import pytest

from farm.core.errors import InputError, TraceError
from farm.records import Bundle, import_files, load_records
from farm.records.bundle import JOBS, anonymized, read_bundle, write_bundle

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
