"""Dates and numbers as other countries write them: read where a column shows how."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from farm.core.errors import TraceError
from farm.records.foreign_columns import time_of
from farm.records.notation import notation_of
from farm.records.traces.foreign_table import read
from farm_twin.importing import import_files


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("02.11.2026 08:00:00", "2026-11-02T08:00:00"),
        ("2.11.26 8:00", "2026-11-02T08:00:00"),
        ("02.11.2026, 08:00:00,250", "2026-11-02T08:00:00.250000"),
        ("2026/11/02 8:00:00 PM", "2026-11-02T20:00:00"),
        ("2026-11-02 12:30 a.m.", "2026-11-02T00:30:00"),
        ("2026-11-02 24:00:00", "2026-11-03T00:00:00"),
        ("02-Nov-26 08:00", "2026-11-02T08:00:00"),
        ("Mon Nov  2 08:00:00 UTC 2026", "2026-11-02T08:00:00+00:00"),
        ("Nov 2, 2026 8:00:00 AM", "2026-11-02T08:00:00"),
        ("2026-11-02T08:00Z[UTC]", "2026-11-02T08:00:00+00:00"),
        ("2 Nov 2026 08:00 +0100", "2026-11-02T08:00:00+01:00"),
    ],
)
def test_dates_that_can_only_be_one_are_read(written: str, meant: str):
    """Each of them refused the table that it was in."""
    assert time_of(written).isoformat() == meant


@pytest.mark.parametrize(
    ("cells", "plain"),
    [
        (["13/02/2026 08:00", "02/03/2026 08:00"], ["2026-02-13 08:00", "2026-03-02 08:00"]),
        (["02-13-2026", "03-02-2026"], ["2026-02-13", "2026-03-02"]),
        # days that follow each other, not the same day of each month
        (["09/02/2026", "10/02/2026", "12/02/2026"], ["2026-02-09", "2026-02-10", "2026-02-12"]),
        (["11/2/26 8:00 AM", "11/2/26 9:00 AM"], ["2026-11-02 8:00 AM", "2026-11-02 9:00 AM"]),
        (["1.400,5", "300"], ["1400.5", "300"]),
        (["12,5", "1.400"], ["12.5", "1400"]),
        (["1,400", "300"], ["1400", "300"]),
        (["1,400,500", "1,300"], ["1400500", "1300"]),
        (["0,532", "1,300"], ["0.532", "1.300"]),
        (["1'400.5", "1'300"], ["1400.5", "1300"]),
        (["1.4", "1.300"], ["1.4", "1.300"]),
        (["1.4", "1,300"], ["1.4", "1300"]),
        ([*30 * ["1.400"], *5 * ["300"]], [*30 * ["1400"], *5 * ["300"]]),
        ([*30 * ["1.400"], *5 * ["0"]], [*30 * ["1.400"], *5 * ["0"]]),
        # one odd cell does not make the others unreadable
        ([*20 * ["13/02/2026"], "02/13/2026"], [*20 * ["2026-02-13"], "2026-13-02"]),
    ],
)
def test_a_column_shows_how_its_cells_are_written(cells: list[str], plain: list[str]):
    """No cell alone says whether 1,400 is more than a thousand."""
    notation = notation_of({"duration": cells})
    assert [notation.plain(cell) for cell in cells] == plain


def test_a_trace_of_its_own_time_has_no_dates():
    """Seconds, ten hours after it began, are no days of a spreadsheet: jobs run longer than one."""
    seconds = [f"{40_000 + number / 7:.6f}" for number in range(50)]
    ends = [f"{float(second) + 30:.6f}" for second in seconds]
    assert not notation_of({"submitted": seconds, "started": seconds, "finished": ends}).dates
    assert notation_of({"submitted": seconds, "started": seconds, "finished": seconds}).dates


def table(folder: Path, cells: str) -> Path:
    """Write a table of German columns."""
    path = folder / "jobs.csv"
    path.write_text(f"id;angelegt;begonnen;dauer\n{cells}")
    return path


NAMES = {"submitted": "angelegt", "started": "begonnen", "duration": "dauer"}


def test_a_german_table_is_read_by_each_reader(tmp_path: Path):
    """The doctor's reader and a scenario's read the same jobs, and say what they took it for."""
    cells = "1;02.11.2026 08:00:00;02.11.2026 08:00:30;1.400,5\n"
    path = table(tmp_path, cells + "2;02.11.2026 08:01:00;02.11.2026 24:00:00;300\n")

    bundle = import_files([path], "csv", NAMES, UTC)
    records = read(path, NAMES)

    assert [(one.waited, one.ran) for one in bundle.attempts] == [(30.0, 1400.5), (57540.0, 300.0)]
    assert bundle.manifest.noted["with numbers read with a decimal comma"] == 2
    assert records.service.tolist() == [1400.5, 300.0]
    assert "all are with numbers read with a decimal comma" in records.notes


@pytest.mark.parametrize(
    ("cells", "asked", "told"),
    [
        (
            "1;02/11/2026 08:00:00;02/11/2026 08:00:30;90\n",
            "the day or the month may be first; allowed: --column submitted_dmy=NAME",
            "submitted_dmy",
        ),
        (
            "1;2026-11-02 08:00:00;2026-11-02 08:00:30;1,400\n",
            "the comma may be a decimal one; allowed: --column duration_comma=NAME",
            "duration_point",
        ),
    ],
)
def test_where_no_column_shows_it_the_user_is_asked(
    cells: str, asked: str, told: str, tmp_path: Path
):
    """A guess would move jobs by months, or make them a thousand times shorter."""
    path = table(tmp_path, cells)
    if "," in cells:
        path.write_text(path.read_text().replace(";", "\t"))
    for reader in (lambda names: import_files([path], "csv", names, UTC), lambda n: read(path, n)):
        with pytest.raises(TraceError, match=asked):
            reader(NAMES)
    names = {ours: theirs for ours, theirs in NAMES.items() if not told.startswith(ours)}
    names[told] = NAMES[told.partition("_")[0]]
    [attempt] = import_files([path], "csv", names, UTC).attempts
    assert (attempt.waited, attempt.ran) == (30.0, 1400.0 if "point" in told else 90.0)
    assert read(path, names).service.tolist() == [attempt.ran]
