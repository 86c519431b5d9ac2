"""What sacct prints: rows that are hard to take apart, and what a job had of its cluster."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from farm.core.errors import TraceError
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle
from farm_twin.importing import import_files

HEADER = "JobIDRaw|JobName|Partition|Submit|Eligible|Start|End|State|AllocCPUS|NodeList"


def row(number: int, name: str = "build", nodes: str = "n1", **changed: str) -> str:
    """Return a row of a job that waited for a minute and ran for five."""
    cells = {
        "JobIDRaw": str(number),
        "JobName": name,
        "Partition": "gpu",
        "Submit": f"2026-11-02T09:{number:02}:00",
        "Eligible": f"2026-11-02T09:{number:02}:00",
        "Start": f"2026-11-02T09:{number + 1:02}:00",
        "End": f"2026-11-02T09:{number + 6:02}:00",
        "State": "COMPLETED",
        "AllocCPUS": "4",
        "NodeList": nodes,
        **changed,
    }
    return "|".join(cells.values())


def bundle_of(folder: Path, *lines: str) -> Bundle:
    """Return what lines of sacct tell."""
    path = folder / "sacct.txt"
    path.write_text("\n".join(lines) + "\n")
    return import_files([path], zone=UTC)


def attempts_of(folder: Path, *lines: str) -> list[Attempt]:
    """Return the attempts that lines of sacct tell of."""
    return bundle_of(folder, *lines).attempts


@pytest.mark.parametrize("name", ["a|b", "|", "a|b|c|", "2026|2027"])
def test_a_bar_in_a_name_is_part_of_it(name: str, tmp_path: Path):
    """Sacct does not quote: one such name stopped the import of all jobs."""
    [first, second] = attempts_of(tmp_path, HEADER, row(1, name), row(2))

    assert first.kind == name
    assert (first.waited, first.ran, first.runner) == (60.0, 300.0, "n1")
    assert second.kind == "build"


def test_a_bar_and_a_line_break_in_the_last_column_are_passed_over(tmp_path: Path):
    """A command line has both; the job is read, and what is left of its text is no row."""
    lines = [f"{row(number)}|sbatch run.sh" for number in range(20)]
    lines[3] = f"{row(3)}|sh -c 'a | b\nsleep 5'"

    bundle = bundle_of(tmp_path, f"{HEADER}|SubmitLine", *lines)

    assert len(bundle.attempts) == 20
    [reason] = bundle.manifest.left_out
    assert "could not be read" in reason
    assert "found 1 fields" in reason


def test_a_line_break_before_the_last_column_joins_two_lines(tmp_path: Path):
    """A row with fewer fields than the header continues in the next line."""
    [attempt] = attempts_of(tmp_path, HEADER, row(1, "two\nlines"))

    assert (attempt.kind, attempt.ran) == ("two lines", 300.0)


def test_rows_that_cannot_be_read_are_left_out_counted_and_shown(tmp_path: Path):
    """One odd value in a file of sound rows refused it whole."""
    rows = [row(number) for number in range(20)]
    rows[7] = row(7, End="soon")

    bundle = bundle_of(tmp_path, HEADER, *rows)

    assert len(bundle.attempts) == 19
    [(reason, count)] = bundle.manifest.left_out.items()
    assert count == 1
    assert "record 8: End: found 'soon'" in reason


def test_a_file_of_rows_that_cannot_be_read_is_refused(tmp_path: Path):
    """With the first of them: it is not what it is read as, or an option is missing."""
    rows = [row(number, End="soon" if number < 3 else "2026-11-02T10:00:00") for number in range(9)]

    with pytest.raises(TraceError, match="record 1: End: found 'soon'"):
        bundle_of(tmp_path, HEADER, *rows)


def test_a_job_without_nodes_never_started(tmp_path: Path):
    """Older versions give a job that was cancelled in the queue its end as its start."""
    cancelled = row(1, nodes="None assigned", State="CANCELLED by 7", Start="2026-11-02T09:40:00",
                    End="2026-11-02T09:40:00")  # fmt: skip

    [attempt] = attempts_of(tmp_path, HEADER, cancelled)

    assert (attempt.started_at, attempt.result) == (None, "cancelled")
    assert attempt.finished_at is not None


@pytest.mark.parametrize(
    ("column", "value", "slots"),
    [
        ("NCPUS", "12", 12),
        ("AllocTRES", "billing=12,cpu=12,mem=4G,node=1", 12),
        ("ReqCPUS", "3", 3),
        ("Elapsed", "00:05:00", 1),
    ],
)
def test_processors_are_known_by_each_of_their_columns(
    column: str, value: str, slots: int, tmp_path: Path
):
    """Jobs of twelve processors counted as one each, and a full cluster looked idle."""
    header = HEADER.replace("AllocCPUS", column)

    bundle = bundle_of(tmp_path, header, row(1, AllocCPUS=value))

    assert [attempt.slots for attempt in bundle.attempts] == [slots]
    assert bool(bundle.manifest.noted) == (column == "Elapsed")


def test_no_node_of_a_job_on_several_is_its_runner(tmp_path: Path):
    """Nor is it of other jobs: while a part of the large job ran there, it would look idle."""
    several, beside, apart = attempts_of(
        tmp_path, HEADER, row(1, nodes="n[1-2]"), row(2, nodes="n2"), row(3, nodes="n3")
    )

    assert [several.runner, beside.runner, apart.runner] == ["", "", "n3"]
