"""Records of what is no queue of slots are refused in words, in every command that judges them."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from farm.core.errors import TraceError
from farm.records.bundle import with_capacity
from farm_twin.diagnosis.occupancy import refuse_more_than_slots, unlike_slots
from farm_twin.tests.diagnosis.test_figures import START
from tests.conftest import Said
from tests.fixtures.attempts import attempt, bundle_of

COLUMNS = ("submitted", "started", "finished", "slots")
WORDS = [word for name in COLUMNS for word in ("--column", f"{name}={name}")]


def table(path: Path, rows: Iterable[tuple[float, ...]]) -> Path:
    """Write a table of jobs."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return path


def a_cluster() -> list[tuple[float, ...]]:
    """Return jobs of one to four nodes: six in an hour, but ten for four hours of a hundred."""
    rows: list[tuple[float, ...]] = []
    for hour in range(100):
        at = START + hour * 3600
        some = (4, 2, 4) if 40 <= hour < 44 else (4, 2)
        rows += [(at - 600 * (hour % 7), at, at + 3600, nodes) for nodes in some]
    return rows


@pytest.mark.parametrize("command", ["doctor", "twin", "report"])
def test_more_runs_than_was_told(command: str, tmp_path, farm: Callable[..., Said]):
    """One sentence with the share of the time, exit 2, and nothing is written."""
    path = table(tmp_path / "log.csv", a_cluster())
    place, told = path, [*WORDS, "--slots", "8"]
    if command == "report":
        place, told = tmp_path / "bundle", []
        assert farm("import", "csv", path, *WORDS, "--slots", "8", "-o", place).code == 0
    out = [] if command == "doctor" else ["-o", tmp_path / "out.html"]
    said = farm(command, place, *told, *out, *([] if command == "report" else ["--quiet"]))
    assert (said.code, said.out) == (2, "")
    assert said.err.strip() == (
        "error: not believable: 4% of the time more is running than the capacity told: up to 10 "
        "slots of 8"
    )
    assert not (tmp_path / "out.html").exists()


@pytest.mark.parametrize("slots", [None, 10.0])
def test_enough_slots_are_no_contradiction(slots: float | None):
    """Nor is none told."""
    rows = [attempt(n, a, s, f, slots=int(nodes)) for n, (a, s, f, nodes) in enumerate(a_cluster())]
    refuse_more_than_slots(with_capacity(bundle_of(rows), slots))
    with pytest.raises(TraceError):
        refuse_more_than_slots(with_capacity(bundle_of(rows), 9.0))


def test_clocks_of_whole_seconds_show_no_more_than_there_was():
    """A job that ends in the second in which the next one starts did not run beside it."""
    jobs = [attempt(n, START, START + 10 * n, START + 10 * n + 11) for n in range(50)]
    refuse_more_than_slots(with_capacity(bundle_of(jobs), 1.0))


def parts_of_a_slot(path: Path) -> Path:
    """Write a table of jobs of a fraction of a processor, of one, and of eight."""
    draw = random.Random(1)
    rows, at = [], START
    for _ in range(300):
        at += draw.expovariate(1 / 600)
        started = at + draw.expovariate(1 / 400)
        rows.append((at, started, started + 9000, draw.choice([0.1, 0.22, 0.46, 1, 1, 1, 8])))
    return table(path, rows)


def test_parts_of_a_slot_are_a_matter_of_placement(tmp_path, farm: Callable[..., Said]):
    """Of jobs that take unlike parts of a builder there is no verdict."""
    said = farm("doctor", parts_of_a_slot(tmp_path / "log.csv"), *WORDS, "--quiet")
    assert "cannot tell: p95 wait" in said.out
    assert "from 0.1 to 8: where they fit in (placement) decides" in said.out


@pytest.mark.slow
def test_parts_of_a_slot_make_no_twin(tmp_path, farm: Callable[..., Said]):
    """The search finds none that waits as they did, says why, and writes none that is strict."""
    path = parts_of_a_slot(tmp_path / "log.csv")
    said = farm("twin", path, *WORDS, "-o", tmp_path / "mine.yaml", "--quiet", "--strict")
    assert said.code == 2
    assert "(placement) decides over waits" in said.out + said.err
    assert not (tmp_path / "mine.yaml").exists()


def test_jobs_that_all_take_as_many_slots_are_a_queue():
    """Eight processors each are one place each."""
    slots = np.full(50, 8.0)
    assert unlike_slots(slots) == ""
    slots[0] = 16.0
    assert unlike_slots(slots) == ""
    slots[:4] = 16.0
    assert unlike_slots(slots).startswith("8% of the jobs took another number of slots")
