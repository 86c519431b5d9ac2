"""Columns and cells of tables: what is mapped or known by its name, and how values are written."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path

import pytest

from farm.core.errors import TraceError
from farm.records.attempt import Attempt
from farm.records.traces.foreign_table import read
from farm_twin.importing import import_files
from farm_twin.sources import tables

HEADER = "id,asked_at,started_at,finished_at,runner,platform,queue"
TIMES = "2026-11-02T09:00:00Z,2026-11-02T09:00:10Z,2026-11-02T09:01:00Z"
ROW = f"7,{TIMES},m1,linux,q"


def only_attempt(folder: Path, text: str, **fields: str) -> Attempt:
    """Return the attempt of a table with one row."""
    path = folder / "jobs.csv"
    path.write_text(text)
    [attempt] = import_files([path], "csv", fields).attempts
    return attempt


def test_a_mapping_adds_to_the_columns_that_are_known_by_name(tmp_path: Path):
    """One --column made all others unknown: no job had an end, a runner or a platform."""
    attempt = only_attempt(tmp_path, f"{HEADER}\n{ROW}\n", submitted="asked_at")

    assert (attempt.waited, attempt.ran) == (10.0, 50.0)
    assert (attempt.id, attempt.runner, attempt.platform) == ("7", "m1", "linux")
    # what nothing is known of is no attribute of each job
    assert attempt.attributes == {}


def test_a_mapping_adds_to_a_trace_of_such_a_table(tmp_path: Path):
    """The trace of a scenario knows the columns that the doctor knows."""
    path = tmp_path / "jobs.csv"
    path.write_text(f"{HEADER}\n{ROW}\n")

    records = read(path, {"submitted": "asked_at"})

    assert records.service.tolist() == [50.0]
    assert str(records.details["platform"].values[0]) == "linux/virtual"
    assert records.happened is not None
    assert records.happened.waited.tolist() == [10.0]


def test_what_is_mapped_is_not_looked_for_by_name(tmp_path: Path):
    """Where a column has the name of a time but is another one, the user has the last word."""
    text = f"started_at,begun,finished_at\n{TIMES}\n"

    attempt = only_attempt(tmp_path, text, submitted="started_at", started="begun")

    assert (attempt.waited, attempt.ran) == (10.0, 50.0)


def test_a_time_that_two_columns_are_called_after_is_none_of_them(tmp_path: Path):
    """A guess between them would be as wrong as it is silent."""
    text = f"asked_at,start_time,started_at\n{TIMES}\n"

    with pytest.raises(TraceError, match="found no column for started"):
        only_attempt(tmp_path, text, submitted="asked_at")


def test_a_column_may_stand_for_two_times(tmp_path: Path):
    """Jobs that could start when they were submitted: the second was "found no column"."""
    fields = {"submitted": "asked_at", "eligible": "asked_at", "kind": "queue", "matrix": "queue"}

    attempt = only_attempt(tmp_path, f"{HEADER}\n{ROW}\n", **fields)

    assert attempt.submitted_at == attempt.eligible_at
    assert (attempt.kind, attempt.matrix) == ("q", "q")


def test_a_member_of_json_may_stand_for_two_times_too(tmp_path: Path):
    """The same mapping works whatever the records are written in."""
    path = tmp_path / "jobs.jsonl"
    path.write_text(json.dumps(dict(zip(HEADER.split(","), ROW.split(","), strict=True))))

    bundle = import_files([path], "jsonl", {"submitted": "asked_at", "eligible": "asked_at"})

    [attempt] = bundle.attempts
    assert (attempt.submitted_at, attempt.waited) == (attempt.eligible_at, 10.0)


ENDS = "submitted,started,finished,runner"


def values_of(folder: Path, cells: str, header: str = ENDS) -> Attempt:
    """Return the attempt that a row of these cells makes, where the zone is known."""
    path = folder / "jobs.csv"
    path.write_text(f"{header}\n{cells}\n")
    [attempt] = import_files([path], "csv", zone=UTC).attempts
    return attempt


@pytest.mark.parametrize(
    "written",
    [
        "00:06:40",
        "0:06:40.0",
        "PT6M40S",
        "pt400s",
        "6 min 40 sec",
        "6m40s",
        "400",
        "6 minutes, 40 s",
    ],
)
def test_run_times_are_read_as_other_programs_write_them(written: str, tmp_path: Path):
    """Seconds and 6m40s alone were read: a table of them was refused whole."""
    row = f'2026-11-02T09:00:00Z,2026-11-02T09:00:00Z,"{written}"'

    attempt = values_of(tmp_path, row, "submitted,started,duration")

    assert attempt.ran == 400.0


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_tables_are_read_as_spreadsheets_encode_them(encoding: str, tmp_path: Path):
    """One name with an umlaut refused the table; each reader of tables reads all of them."""
    path = tmp_path / "jobs.csv"
    path.write_bytes(f"{ENDS}\n{TIMES},b\u00fccher\n".encode(encoding))

    [attempt] = import_files([path], "csv").attempts
    records = read(path)

    assert attempt.runner == "b\u00fccher"
    assert records.happened is not None
    assert records.happened.runners is not None
    assert records.happened.runners.tolist() == ["b\u00fccher"]


def test_a_quote_that_is_not_closed_costs_its_row(tmp_path: Path):
    """It made one cell of all that followed, and the table was refused."""
    rows = [f"{TIMES},m{number}" for number in range(20)]
    rows[3] = rows[3].replace("m3", '"m3')
    rows[5] = rows[5].replace("m5", '"m5\n, of two lines"')
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([ENDS, *rows, ""]))

    bundle = import_files([path])

    runners = {one.runner for one in bundle.attempts}
    assert runners == {f"m{number}" for number in range(20) if number not in (3, 5)} | {
        "m5\n, of two lines"
    }
    assert "record 4: not a row of a table" in str(bundle.manifest.left_out)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("created_at,queued_ms,duration_ms", "2026-11-02T09:00:00Z,10000,50000"),
        ("Created At,Queue Time (min),Duration [h]", "2026-11-02T09:00:00Z,0.1666667,0.0138889"),
        ("\n  \n# by hand\nsubmitted;started;duration", "46328.37500000;46328.37511574;50"),
    ],
)
def test_what_columns_say_by_their_names_and_values(header: str, row: str, tmp_path: Path):
    """Spans in the queue were taken for instants, and a spreadsheet's days for seconds."""
    path = tmp_path / "jobs.csv"
    path.write_text(f"{header}\n" + 3 * f"{row}\n")

    first, *_ = import_files([path], "csv", zone=UTC).attempts
    records = read(path)

    assert (first.submitted_at, first.waited, first.ran) == (
        1_793_610_000.0,
        pytest.approx(10.0, abs=0.01),
        pytest.approx(50.0, abs=0.01),
    )
    assert records.happened is not None
    assert records.happened.waited.tolist() == pytest.approx(3 * [10.0], abs=0.01)


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda job: {"job": job, "runner": {"name": "m"}},
        lambda job: {"data": [{**job, "runner": "m"}], "next": None},
        lambda job: {"hits": {"hits": [{"_source": {**job, "agent": "m"}}]}},
        lambda job: {"7": job, "8": dict.fromkeys(job)},
        lambda job: {name: {"$date": at} for name, at in job.items()},
        lambda job: {**job, "submittedAt": "/Date(1793610000000)/"},
    ],
)
def test_rows_of_json_are_found_in_what_is_around_them(wrapped, tmp_path: Path):
    """An answer with its rows in a list was one row without any known column."""
    submitted, started, finished = TIMES.split(",")
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(wrapped({"submittedAt": submitted, "started_at": started,
                                        "finished_at": finished})))  # fmt: skip

    [attempt] = import_files([path]).attempts

    assert (attempt.waited, attempt.ran) == (10.0, 50.0)


def test_run_times_of_days_are_read(tmp_path: Path):
    """As Slurm writes them, and ISO 8601."""
    for written in ("1-02:03:04", "P1DT2H3M4S"):
        row = f"2026-11-02T09:00:00Z,2026-11-02T09:00:00Z,{written}"
        assert values_of(tmp_path, row, "submitted,started,duration").ran == 93784.0


@pytest.mark.parametrize(
    "start",
    [
        "2026-11-02 09:00:10 +0000 UTC",
        "2026-11-02 10:00:10.000000000 +0100 CET",
        '"Mon, 02 Nov 2026 09:00:10 GMT"',
        "20261102090010",
        "1793610010",
        "1793610010000",
        "1793610010000000",
        "1793610010000000000",
    ],
)
def test_an_instant_is_read_as_other_programs_write_it(start: str, tmp_path: Path):
    """Also in microseconds, and as digits, which were read as milliseconds of the year 2612."""
    attempt = values_of(tmp_path, f"1793610000,{start},1793610060,m1")

    assert attempt.waited == 10.0


def test_a_leap_second_is_the_one_after_it(tmp_path: Path):
    """No clock here has it, and the row is sound."""
    row = "2026-12-31T23:59:00Z,2026-12-31T23:59:60Z,2027-01-01T00:01:00Z,m1"

    assert values_of(tmp_path, row).waited == 60.0


@pytest.mark.parametrize("number", ["261102080000", "99999999999999999999"])
def test_a_number_of_no_year_is_refused(number: str, tmp_path: Path):
    """Two digits of the year would be an answer in wrong units."""
    with pytest.raises(TraceError, match="of a year from 1990 to 2100"):
        values_of(tmp_path, f"{number},{number},{number},m1")


def test_a_job_that_ran_took_more_than_no_slots(tmp_path: Path):
    """Of jobs that took none, no number of slots was too small; one that never ran had none."""
    header = "submitted,started,finished,slots"
    with pytest.raises(TraceError, match="slots: found '0'; allowed: a number above 0"):
        values_of(tmp_path, "1793610000,1793610000,1793610060,0", header)
    assert values_of(tmp_path, "1793610000,,1793610060,0", header).slots == 1


@pytest.mark.parametrize(
    "nothing", ["", "0", "-1", "-", "NULL", "\\N", "NaT", "NA", "n/a", "None", "nan"]
)
def test_what_programs_write_for_none_is_none(nothing: str, tmp_path: Path):
    """A job that was cancelled in the queue had started in 1970, and was left out for it."""
    runner = "" if nothing in ("0", "-1") else nothing

    attempt = values_of(tmp_path, f"1793610000,{nothing},1793610060,{runner}")

    assert (attempt.started_at, attempt.finished_at) == (None, 1793610060.0)
    assert (attempt.result, attempt.runner) == ("cancelled", "")


def test_the_beginning_of_the_records_own_time_is_an_instant(tmp_path: Path):
    """Where there are no dates, 0 is when the first job came."""
    attempt = values_of(tmp_path, "0,0,60,m1")

    assert (attempt.waited, attempt.ran) == (0.0, 60.0)


@pytest.mark.parametrize(
    ("before", "row", "separator"),
    [
        ("# exported by hand\n", ROW, ","),
        ("sep=;\n", ROW, ";"),
        ("", ROW, "|"),
        ("", f"{ROW}\n{HEADER.replace('asked_at', 'submitted_at')}", ","),
        ("", f"{ROW},", ","),
    ],
)
def test_what_stands_around_a_table_is_passed_over(
    before: str, row: str, separator: str, tmp_path: Path
):
    """Comments and the separator above it, its header again, a separator at each end."""
    table = f"{HEADER.replace('asked_at', 'submitted_at')}\n{row}\n".replace(",", separator)
    path = tmp_path / "jobs.csv"
    path.write_text(before + table)

    [attempt] = import_files([path]).attempts

    assert (attempt.waited, attempt.ran, attempt.id) == (10.0, 50.0, "7")
    assert read(path).service.tolist() == [50.0]


def test_rows_with_another_number_of_cells_are_left_out(tmp_path: Path):
    """One such row refused the file; the message has its number."""
    rows = [f"{1793610000 + n},{1793610010 + n},{1793610060 + n},m1" for n in range(20)]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([ENDS, *rows[:5], "1793610000,odd,row", *rows[5:]]))

    bundle = import_files([path])

    assert len(bundle.attempts) == 20
    assert "record 6: found 3 values; allowed: 4" in str(bundle.manifest.left_out)


@pytest.mark.parametrize(
    "form",
    [
        "{day}T09:{minute:02}:00.5Z",
        "{minute}.25",
        "{day} 09:{minute:02}Z",
        "17936100{minute:02}.125",
        "202611020900{minute:02}",
    ],
)
def test_rows_are_read_together_as_they_are_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
):
    """The doctor of a large table would say something else than that of its first rows."""
    odd = {7: "", 11: "-", 12: "0", 30: "2026-02-30T09:00:00Z"}
    lines = ["id,submitted,started,finished,result,runner,slots,team"]
    for number in range(20):
        times = [form.format(day="2026-11-02", minute=number + later) for later in (1, 2, 9)]
        times[number % 3] = odd.get(number, times[number % 3])
        lines.append(f"j{number},{','.join(times)},ok,{'-' if number % 2 else 'm'},2, t ")
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(lines) + "\n")

    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 4)
    together = import_files([path], "csv", zone=UTC)
    monkeypatch.setattr(tables._Table, "_attempts_together", lambda *_: None)
    one_by_one = import_files([path], "csv", zone=UTC)

    assert together.attempts == one_by_one.attempts
    assert together.manifest == one_by_one.manifest


def test_seconds_with_thousandths_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They have as many characters as 20261102090000: large tables were looked at row by row."""
    instants = "1793610000.125,1793610010.250,1793610060.500"
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(["submitted,started,finished", instants, instants, instants]))

    looked_at = []
    make = tables._attempt
    monkeypatch.setattr(
        tables, "_attempt", lambda row, reading: (looked_at.append(row), make(row, reading))[1]
    )

    assert [attempt.waited for attempt in import_files([path]).attempts] == [10.125] * 3
    assert len(looked_at) == 1  # the first row shows which columns there are
