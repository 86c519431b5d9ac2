"""What holds for the records of every source: copies are found, and clocks that are off."""

from __future__ import annotations

import math

import pytest

from farm.records import sifting
from farm.records.attempt import Attempt
from farm.records.reading import Reading
from farm.records.sifting import CLOCK_OFF, sifted
from farm.records.spellings import OTHER_SPELLING
from tests.fixtures.attempts import HOUR, MONDAY, attempt


@pytest.mark.parametrize("apart", ["submitted_at", "started_at", "finished_at"])
def test_rows_that_share_an_id_are_not_all_compared(apart: str, monkeypatch: pytest.MonkeyPatch):
    """A table whose id is a constant is read in time, by whichever of its times differ."""
    compared: list[Attempt] = []
    is_copy = sifting._is_copy

    def counted(one: Attempt, other: Attempt, *, unique_ids: bool) -> bool:
        compared.append(one)
        return is_copy(one, other, unique_ids=unique_ids)

    monkeypatch.setattr(sifting, "_is_copy", counted)
    times = {"submitted_at": 0.0, "started_at": 3 * HOUR, "finished_at": 6 * HOUR}
    rows = [
        attempt(1, MONDAY, eligible_at=None, **{
            name: MONDAY + at + (20.0 * number if name == apart else 0.0)
            for name, at in times.items()
        })
        for number in range(400)
    ]  # fmt: skip
    reading = Reading([])

    kept = sifted([*rows, rows[7]], reading, math.inf)

    assert len(kept) == 400
    assert reading.left_out["that came twice"] == 1
    assert len(compared) < 3 * len(rows)


def records(*, overflow_from: float, ahead: float = 0.0) -> list[Attempt]:
    """Return 2,000 jobs on three runners, with an hour of long waits, and 12 jobs on a fourth."""
    rows = []
    for number in range(2000):
        at = MONDAY + 120.0 * number
        waited = 1800.0 if 40 * HOUR <= at - MONDAY < 40.5 * HOUR else 5.0
        rows.append(attempt(number, at, at + waited, at + waited + 60, runner=f"r-{number % 3}"))
    for number in range(12):
        at = MONDAY + overflow_from + 120.0 * number
        starts = at + 1500.0 + ahead
        rows.append(attempt(2000 + number, at, starts, starts + 60, runner="overflow"))
    return rows


@pytest.mark.parametrize(
    ("overflow_from", "ahead", "moved"),
    [(40 * HOUR, 0.0, 0), (20 * HOUR, 0.0, 12), (40 * HOUR, HOUR, 12), (90 * HOUR, 0.0, 0)],
    ids=["long queue", "none beside waited", "longer than the queue", "none beside"],
)
def test_a_runner_that_only_a_long_queue_had_keeps_its_clock(
    overflow_from: float, ahead: float, moved: int
):
    """Its waits are the records' longest, and true: those of others then were as long."""
    reading = Reading([])

    kept = sifted(records(overflow_from=overflow_from, ahead=ahead), reading, math.inf)

    assert reading.noted[CLOCK_OFF] == moved
    assert sum(one.waited is None for one in kept) == moved


@pytest.mark.parametrize(("apart", "runners"), [(60.0, 1), (30.0, 2)])
def test_names_in_other_capitals_are_one_machine(apart: float, runners: int):
    """An agent and its host spell a name differently: each was idle while the other worked.

    Two that run jobs at once are two.
    """
    rows = [
        attempt(
            number, MONDAY + apart * number, MONDAY + apart * number, MONDAY + apart * number + 50,
            runner=("BOX-1", "box-1")[number % 2],
        )
        for number in range(20)
    ]  # fmt: skip
    reading = Reading([])

    kept = sifted(rows, reading, math.inf)

    assert len({one.runner for one in kept}) == runners
    assert reading.noted[OTHER_SPELLING] == (20 if runners == 1 else 0)
