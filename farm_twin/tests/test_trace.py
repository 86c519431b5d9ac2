"""The commands on bundles: what they print and write, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from farm.records.bundle import read_bundle, write_bundle
from farm_twin.tests.records.test_parts import HOURLY


@pytest.fixture(autouse=True)
def records(tmp_path: Path) -> None:
    """Put a bundle of 48 hourly jobs into the working directory."""
    write_bundle(tmp_path / "mine", HOURLY)


def test_show_lists_what_is_there(farm):
    """Counts, rates and times as they were recorded; the same as JSON."""
    told = farm("admin", "trace", "show", "mine")
    assert told.code == 0, told.err
    assert "ann (16), bob (16), eve (16)" in told.out
    assert "kept 48 of 50: 2 skipped" in told.out
    found = json.loads(farm("admin", "trace", "show", "mine", "--json").out)
    assert found["manifest"]["zone"] == "UTC"
    [one] = found["contents"]["platforms"]
    assert (one["platform"], one["attempts"], one["runners"], one["slots"]) == (
        "linux,x64",
        48,
        3,
        3,
    )
    assert one["arrivals_per_hour"] == pytest.approx(48 / 47)
    assert (one["waits"]["mean"], one["wait_p95"], one["censored"]) == (60, 60, 0)
    assert one["service_times"]["p50"] == 600


def test_waits_that_were_broken_off_are_told(farm, tmp_path: Path):
    """They count as longer, and as such they are named."""
    broken = [
        replace(one, started_at=None, finished_at=one.arrived_at + 3600, result="cancelled")
        for one in HOURLY.attempts[:24]
    ]
    less = replace(HOURLY, attempts=[*broken, *HOURLY.attempts[24:]])
    write_bundle(tmp_path / "less", less)
    found = json.loads(farm("admin", "trace", "show", "less", "--json").out)
    [one] = found["contents"]["platforms"]
    assert (one["censored"], one["waits"]["count"], one["waits"]["p95"]) == (24, 24, 60)
    assert (one["wait_p50"], one["wait_p95"]) == (60, None)
    assert one["results"] == {"cancelled": 24, "succeeded": 24}


def test_a_part_more_of_it_and_both_together(farm, tmp_path: Path):
    """Each command writes a bundle that the next one reads."""
    for words in (
        ("slice", "mine", "--from", "12h", "--to", "2026-11-03T00:00", "-o", "half"),
        ("slice", "mine", "--where", "platform=linux,x64,user=ann", "-o", "hers"),
        ("scale", "half", "--arrivals", "2", "--seed", "7", "-o", "more"),
        ("merge", "half", "hers", "-o", "both"),
    ):
        done = farm("admin", "trace", *words)
        assert done.code == 0, done.err
        assert done.out == ""
    counts = {name: len(read_bundle(tmp_path / name).attempts) for name in ("half", "hers", "more")}
    assert counts == {"half": 12, "hers": 16, "more": 24}
    assert len(read_bundle(tmp_path / "both").manifest.history) == 3
    doctor = json.loads(farm("doctor", "half", "--json").out)
    assert doctor["figures"]["platforms"][0]["arrivals_per_hour"] == pytest.approx(12 / 11)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "."), ".: is a folder, and not a bundle; allowed: one that farm import"),
        (("shw", "mine"), "No such command 'shw'. Did you mean 'show'? (farm admin trace --help)"),
        (("slice", "mine", "-o", "x"), "slice: found no part; allowed: --from, --to, --where, or"),
        (("slice", "mine", "-o", "mine", "--to", "1h"), "mine: exists already; allowed: a new"),
        (("slice", "mine", "-o", "x", "--where", "ann"), "--where: found 'ann'; allowed: NAME="),
        (("scale", "mine", "-o", "x", "--arrivals", "-1"), "--arrivals: found -1; allowed: 0.001"),
        (("merge", "mine", "-o", "x"), "merge: found 1 bundle; allowed: two or more"),
    ],
)
def test_a_mistake_is_one_sentence(farm, tmp_path: Path, words, message):
    """Exit code 2, and nothing is written."""
    told = farm("admin", "trace", *words)
    assert told.code == 2
    assert told.err.startswith(f"error: {message}")
    assert told.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_fit_writes_a_workload_for_any_farm(farm, tmp_path: Path):
    """A scenario has it by ``extends``, and is played."""
    done = farm("admin", "trace", "fit", "mine", "-o", "load.yaml")
    assert done.code == 0, done.err
    pools = "pools: [{name: p, platform: {processor: 'linux,x64'}, builders: 2}]\n"
    (tmp_path / "own.yaml").write_text(f"extends: load.yaml\n{pools}")
    played = json.loads(farm("simulate", "own.yaml", "--json").out)
    assert 20 < played["jobs"]["succeeded"] < 80
