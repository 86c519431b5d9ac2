"""Traces: what is read, selected, refused; and the project's table, written and read."""

import csv
import gzip
import io
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import farm
from farm.core.errors import FarmError, ScenarioError, TraceError
from farm.core.model import Job, Platform
from farm.records import table_reader
from farm.records.trace_columns import COLUMNS
from farm.records.traces import FORMATS, csv_table, swf
from farm.records.traces.csv_table import RECORDED, write_csv
from farm.records.traces.trace_records import Records
from farm.scenario import TraceOptions
from farm.workload import build_jobs, read_trace
from tests.fixtures.examples import examples

from .conftest import ScenarioOf, Write

DAT = [(0, 1500), (1000, 20), (1000, 30), (60000, 5000), (90000, 1)]

SWF = """\
; Version: 2.2
; MaxJobs: 7
; Note: one
; Note: two

 1    0 -1   10.5  4 -1 -1  4   60 -1  1  3  1  7  0  2 -1 -1
 2    5 -1    0    1 -1 -1 -1   -1 -1  0 -1 -1 -1 -1 -1 -1 -1
 3    7 -1   -1    1 -1 -1 -1   -1 -1  1  3  1  7  1  2 -1 -1
 4   -1 -1    9    1 -1 -1 -1   -1 -1  1  3  1  7  1  2 -1 -1
 5    8 -1    0    0 -1 -1 -1   -1 -1  5  3  1  7  1  2 -1 -1
 6   20  3   30    1 -1 -1 -1   -1 -1 -1  4  2  8  1  1  1 10
"""


def dat(*pairs: tuple[int, int]) -> bytes:
    """Return the bytes of a firefox-ci trace."""
    return b"".join(struct.pack(">II", *pair) for pair in pairs)


def read(path: Path, format: str | None = None, **options: Any) -> list[Job]:  # noqa: A002
    """Read a trace with these options."""
    return list(read_trace(path, format, TraceOptions.model_validate(options)))


NUMBERS = st.one_of(
    st.sampled_from(["-1", "0", "7", "7.0", "+5", "007", ".5", "1_0", "1e3", "-0", "1e400", "1,2"]),
    st.integers(-1, 2**70).map(str),
    st.floats(0, 1e17).map(repr),
)
ODD = {
    "swf": st.one_of(NUMBERS, st.sampled_from(["nan", "x", "null", "[1", "\xa01", "1\x002", ""])),
    "csv": st.one_of(NUMBERS, st.sampled_from(["", "", "x", " 5", "a/b", '{"a":"b"}'])),
}
"""Cells of any form: most are numbers."""
ORDINARY = {
    "attributes": st.sampled_from(["", '{"a":"b"}', '{"a":"c","b":"d"}']),
    "outcome": st.sampled_from(["failed", "succeeded", "cancelled"]),
    "platform": st.sampled_from(["", "amd64/virtual", "any/native"]),
    "service_time_s": st.sampled_from(["1", "2.5", ""]),
    "started_at_s": st.sampled_from(["4", "7.25", ""]),
    **dict.fromkeys(("heavy", "memory_heavy", "fails"), st.sampled_from(["", "true", "0"])),
}


@st.composite
def files(draw: st.DrawFn, kind: str) -> bytes:
    """Draw a table of a few columns and rows; up to two of its cells are of any form."""
    lines = ["; Version: 2", f"; Preemption: {draw(st.sampled_from(['No', 'Double']))}", ""]
    cells = [st.sampled_from(["-1", "0", "1", "2", "3"])] * 18
    blanks = st.sampled_from(["   ", " ", "\t"])
    if kind == "csv":
        some = draw(st.lists(st.sampled_from([*COLUMNS, *RECORDED]), unique=True, max_size=6))
        names = [*dict.fromkeys(["submitted_at_s", "service_time_s", *some]), *some[:1]]
        names = names[: len(names) - draw(st.sampled_from([0, 1, 1, 1]))]
        cells = [ORDINARY.get(name, st.sampled_from(["1", "2"])) for name in names]
        blanks, lines = st.just(","), [",".join(names)]
    rows = draw(st.lists(st.tuples(*cells).map(list), max_size=6))
    for row in draw(st.lists(st.sampled_from(rows), max_size=2)) if rows else ():
        row[draw(st.integers(0, len(row) - 1))] = draw(ODD[kind])
    for row in rows:
        quoted = [f'"{one.replace(chr(34), 2 * chr(34))}"' if '"' in one else one for one in row]
        lines.append(draw(blanks).join(quoted))
        if kind == "swf":
            lines += draw(st.sampled_from([[], [], [""], ["  ; said"], ["\t"]]))
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines).encode()


def by_row(path: Path) -> Records:
    """Read a file row by row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swf, "by_column", lambda _: None)
        patch.setattr(csv_table, "by_column", float)  # ValueError: it is no number
        return FORMATS[path.suffix[1:]].read(path)


def content(reader: Callable[[Path], Records], path: Path) -> object:
    """Return all that a reader says of a file: its records, or the message."""
    try:
        found = reader(path)
    except TraceError as error:
        return str(error)
    details = {name: one.tolist() for name, one in found.details.items()}
    width = None if found.width is None else found.width.tolist()
    happened = repr([one if one is None else one.tolist() for one in found.happened or ()])
    times = found.arrived.tobytes(), found.service.tobytes()
    return times, found.ids, details, width, found.left_out, happened


@pytest.mark.parametrize("kind", ["swf", "csv"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_columns_are_read_as_rows_are(kind: str, tmp_path: Path, data: Any) -> None:
    """Both give the same records of every file, and the same message on one that is wrong."""
    path = tmp_path / f"t.{kind}"
    path.write_bytes(data.draw(files(kind)))
    assert content(FORMATS[kind].read, path) == content(by_row, path)


@given(
    rows=st.lists(
        st.lists(st.sampled_from(["", "a", "1", '"', '""', 'x "y"', "a,b", "l\nm", "r\r\ns", "''"]),
                 min_size=3, max_size=3), min_size=1, max_size=9),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    size=st.sampled_from([1, 9, 1000]), blank=st.booleans(),
)  # fmt: skip
def test_blocks_have_the_cells_of_the_table(
    rows: list[list[str]], end: str, quoting: Any, size: int, blank: bool
) -> None:
    """Wherever they end: in quotes there may be commas, quotes and new lines."""
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator=end, quoting=quoting).writerows(rows)
    text = file.getvalue() + (end if blank else "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_reader, "BLOCK", size)
        found = list(table_reader.blocks(text, ","))
    assert [list(row) for block in found for row in zip(*block, strict=True)] == rows
    assert table_reader.plain_columns("\n".join(["a,b", '"x","y"', 'c,5" d']), ",") is None


def test_regular_files_are_read_by_column(write: Write) -> None:
    """Else the former test would compare rows with rows."""
    numbers = swf.by_column(SWF[SWF.index(" 1 ") :].encode())
    assert numbers is not None
    assert numbers.shape == (6, 18)
    text = 'submitted_at_s,service_time_s,kind\n1,2,"x, ""y"""\n3,4,\n'
    cells = [["submitted_at_s", "1", "3"], ["service_time_s", "2", "4"], ["kind", 'x, "y"', ""]]
    assert list(csv_table.by_column(text)) == [cells]


def test_firefox_ci(write: Write) -> None:
    """Milliseconds become seconds, records are numbered."""
    jobs = read(write("pool.dat", dat(*DAT)))
    assert [(job.id, job.arrived_at, job.service_time) for job in jobs] == [
        ("000001", 0.0, 1.5),
        ("000002", 1.0, 0.02),
        ("000003", 1.0, 0.03),
        ("000004", 60.0, 5.0),
        ("000005", 90.0, 0.001),
    ]
    assert jobs[0].declared_time == 1.5


@pytest.mark.parametrize(
    ("options", "arrivals"),
    [
        ({"jobs": 2}, [0.0, 1.0]),
        ({"window": ["1s", "90s"]}, [0.0, 0.0, 59.0]),
        ({"window": ["1s", "90s"], "jobs": 2, "time_scale": 2}, [0.0, 0.0]),
        ({"window": ["30s", "2d"], "time_scale": 0.5}, [15.0, 30.0]),
        ({"time_scale": 3}, [0.0, 3.0, 3.0, 180.0, 270.0]),
        ({"window": ["2m", "2d"]}, []),
    ],
)
def test_selection(write: Write, options: dict[str, Any], arrivals: list[float]) -> None:
    """First the window, moved to 0; then the first jobs; then arrivals are stretched."""
    assert [job.arrived_at for job in read(write("a.dat", dat(*DAT)), **options)] == arrivals


def test_swf(write: Write) -> None:
    """Every -1 is unknown; jobs without submit or run time, or that never ran, are left out."""
    jobs = read(write("log.swf", SWF))
    assert [(job.id, job.arrived_at, job.service_time) for job in jobs] == [
        ("1", 0.0, 10.5),
        ("2", 5.0, 0.0),
        ("6", 20.0, 30.0),
    ]
    first, second, last = jobs
    assert (first.declared_time, first.kind, first.fails) == (60.0, "executable-7", False)
    assert first.attributes == {
        "user": "user-3", "group": "group-1", "project": "executable-7", "queue": "queue-0",
        "partition": "partition-2",
    }  # fmt: skip
    assert (second.declared_time, second.kind, second.fails) == (0.0, "job", True)
    assert second.attributes == {}
    assert (last.declared_time, last.platform) == (30.0, Platform())


def test_an_imported_trace_keeps_its_recorded_waits(write: Write) -> None:
    """Field 3 of SWF: in the table that is made of it, and read from there."""
    path = write("log.swf", SWF)
    known = swf.read(path)
    assert known.happened is not None
    write_csv(read(path), path.with_suffix(".csv"), known.happened)
    again = csv_table.read(path, path.with_suffix(".csv").read_text()).happened
    assert again is not None
    np.testing.assert_array_equal(again.waited, known.happened.waited)
    np.testing.assert_array_equal(again.ran, known.happened.ran)


def test_swf_fields_are_mapped_as_configured(write: Write) -> None:
    """A scenario says which field becomes which part of the job."""
    fields = {
        "platform": "partition", "level": "queue", "threads": "processors", "team": "group",
        "kind": "none", "project": "none", "matrix": "user",
    }  # fmt: skip
    first, second, _ = read(write("log.swf", SWF), fields=fields)
    assert (first.platform, first.level, first.threads) == (Platform("partition-2"), 0, 4)
    assert (first.kind, first.matrix) == ("job", "user-3")
    assert first.attributes["team"] == "group-1"
    assert "project" not in first.attributes
    assert second.platform == Platform()
    forced = read(write("log.swf", SWF), fields=fields, platform={"processor": "x"})
    assert {job.platform for job in forced} == {Platform("x")}


def test_swf_may_be_compressed_and_unsorted(write: Write) -> None:
    """Gzip is recognised by its first bytes; jobs come by arrival, ties in the file's order."""
    lines = [f"{n} {at} -1 1 1" + " -1" * 13 for n, at in ((1, 50), (2, 3), (3, 3))]
    packed = gzip.compress("\r\n".join(lines).encode())
    for name, format_ in (("log.swf.gz", None), ("log", "swf")):
        assert [job.id for job in read(write(name, packed), format_)] == ["2", "3", "1"]


def test_what_an_swf_file_may_also_hold(write: Write) -> None:
    """A byte-order mark before the header; no processors, which are not a number of threads."""
    lines = "\ufeff; Version: 2.2\n1 0 -1 1 0" + " -1" * 13
    (job,) = read(write("a.swf", lines.encode()), fields={"threads": "processors"})
    assert job.threads == 1


def test_swapped_jobs_count_once(write: Write) -> None:
    """Parts are added up; a summary of them is left out."""
    tail = " -1" * 7
    line = "{} {} -1 {} 1 -1 -1 -1 -1 -1 {}" + tail
    parts = [line.format(1, 0, 10, 2), line.format(1, -1, 5, 3), line.format(2, 4, 7, 1)]
    summary = ["; Preemption: Double", line.format(1, 0, 99, 1)]
    found = [(job.id, job.service_time) for job in read(write("a.swf", "\n".join(parts)))]
    doubled = [
        (job.id, job.service_time) for job in read(write("b.swf", "\n".join(summary + parts)))
    ]
    assert found == doubled == [("1", 15.0), ("2", 7.0)]


JOBS = [
    Job(id="a", service_time=1 / 3, arrived_at=0.1, declared_time=2.0, platform=Platform("x", True),
        kind="test", level=2, score=-1.5, priority=-7, matrix="m", action="act", heavy=True,
        memory_heavy=True, size=1e12, fails=True, mode="stress", threads=4,
        attributes={"user": "Ada, \"the\" 1st\né", "team": ""}),
    Job(id="b/2", service_time=0.0, arrived_at=0.1, declared_time=0.0,
        platform=Platform(None, False)),
    *(Job(id=f"{text}{at}", service_time=1.0, declared_time=2.0, arrived_at=float(at), kind=text,
          platform=Platform("x", True))
      for at, text in enumerate(["=1+1", "+x", "-x", "@x", "'=x", "''-x", "'x"], 1)),
]  # fmt: skip


def test_the_table_round_trips(tmp_path: Path) -> None:
    """Written jobs read back the same, to the last bit."""
    assert write_csv(JOBS, tmp_path / "t.csv") == len(JOBS)
    assert list(read_trace(tmp_path / "t.csv")) == JOBS
    needs = {"needs": ("a", "b/2:ended"), "needs_delay": 0.1}
    needing = [*JOBS[:-1], replace(JOBS[-1], **needs)]
    write_csv(needing, tmp_path / "t.csv", needs=True)
    assert list(read_trace(tmp_path / "t.csv")) == needing


def test_no_spreadsheet_runs_a_name(tmp_path: Path) -> None:
    """A formula is written behind an apostrophe, in tables of jobs and a run's; numbers stay."""
    write_csv([job for job in JOBS if job.platform.needs_virtual], tmp_path / "t.csv")
    result = farm.simulate({
        "name": "f", "pools": [{"name": "p", "platform": {"processor": "x"}, "builders": 1}],
        "workload": [{"trace": {"path": str(tmp_path / "t.csv")}}],
    })  # fmt: skip
    result.save(tmp_path / "run")
    for table in (tmp_path / "t.csv", tmp_path / "run/jobs.csv"):
        with table.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert {"'=1+1", "'@x", "''=x", "'x"} <= set(cells)
        assert not [cell for cell in cells if re.match(r"[=+@]|-(?![0-9.]+$)", cell)]
    back = farm.open_run(tmp_path / "run").jobs
    assert back["kind"].tolist() == result.jobs["kind"].tolist()
    assert [job.kind for job in read_trace(tmp_path / "run/jobs.csv")] == back["kind"].tolist()


@given(
    st.lists(
        st.builds(
            Job,
            id=st.uuids().map(str),
            service_time=st.floats(0, 1e300),
            declared_time=st.floats(0, 1e300),
            arrived_at=st.floats(0, 1e300),
            platform=st.builds(Platform, st.sampled_from(["amd64", "a/b"]), st.booleans()),
            kind=st.text(min_size=1).filter(lambda t: "\0" not in t and t.isprintable()),
            score=st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != 0),
            attributes=st.dictionaries(st.text(), st.text()),
            heavy=st.booleans(),
        ),
        min_size=1,
        max_size=5,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_jobs_survive_the_table(tmp_path: Path, jobs: list[Job]) -> None:
    """Whatever texts and numbers jobs carry, the table keeps them."""
    write_csv(jobs, tmp_path / "t.csv")
    assert list(read_trace(tmp_path / "t.csv")) == sorted(jobs, key=lambda job: job.arrived_at or 0)


def test_a_runs_jobs_are_a_trace(write: Write) -> None:
    """jobs.csv of a run can be run again; cancelled jobs that never ran are left out."""
    path = write(
        "jobs.csv",
        "job_id,matrix,invocation,platform,submitted_at_s,outcome,builder,service_time_s,new\n"
        "a,m,u,amd64/virtual,3,failed,x,5,?\n"
        "b,,u,amd64/virtual,4,cancelled,,,?\n"
        "c,,u,any/native,1,succeeded,x,2,?\n",
    )
    first, second = read(path)
    assert (first.id, first.platform, first.fails) == ("c", Platform(None, False), False)
    assert (second.id, second.matrix, second.fails) == ("a", "m", True)


BAD = [
    ("a.dat", b"", "a.dat: found no records"),
    ("a.dat", dat(*DAT) + b"abc", "a.dat: record 6: found 3 of its 8 bytes; the file is truncated"),
    ("a.dat", dat((5, 1), (9, 1), (7, 1)), "a.dat: record 3: created at 7ms, before the record"),
    ("a.swf", "1 2 3", "a.swf:1: found 3 fields; allowed: 18"),
    ("a.swf", SWF + "7 " * 17 + "x", "a.swf:12: think_time (field 18): found 'x'; allowed: a num"),
    ("a.swf", SWF + "nan " * 18, "a.swf:12: job (field 1): found 'nan'; allowed: a number"),
    ("a.swf", "; only: header", "a.swf: found no job with a known submit and run time"),
    ("a.swf.gz", gzip.compress(SWF.encode())[:-9], "a.swf.gz: damaged or truncated gzip"),
    ("a.csv", "", "a.csv: is empty; allowed: a line that names the columns, then the jobs"),
    ("a.csv", "submitted_at_s,service_time_s\n", "a.csv: found no jobs"),
    ("a.csv", "submitted_at_s,service_time\n1,2", "a.csv:1: found no column service_time_s; did"),
    ("a.csv", "submitted_at_s,service_time_s\n1,2\n1", "a.csv:3: found 1 values; the header has 2"),
    ("a.csv", "submitted_at_s,service_time_s\n1,x", "a.csv:2: service_time_s: found 'x'; allowed"),
    ("a.csv", "submitted_at_s,service_time_s\n-1,2", "a.csv:2: submitted_at_s: found '-1'; allowe"),
    ("a.csv", "submitted_at_s,service_time_s\n1,inf", "a.csv:2: service_time_s: found 'inf'"),
    ("a.csv", "submitted_at_s,service_time_s\n1,", "a.csv:2: service_time_s: found nothing; this"),
    ("a.csv", "submitted_at_s,service_time_s,job_id\n1,2,a\n1,2,a", "a.csv: job_id: found 'a' twi"),
    ("a.csv", "submitted_at_s,service_time_s,heavy\n1,2,maybe", "a.csv:2: heavy: found 'maybe'; a"),
    ("a.csv", "submitted_at_s,service_time_s,level\n1,2,1.5", "a.csv:2: level: found '1.5'; allow"),
    ("a.csv", "submitted_at_s,service_time_s,priority\n1,2,3e9", "a.csv:2: priority: found '3e9'"),
    ("a.csv", "submitted_at_s,service_time_s,attributes\n1,2,{", "a.csv:2: attributes: found '{'"),
    ("a.csv", "submitted_at_s,service_time_s,platform\n1,2,a/b", "a.csv:2: platform: found 'a/b'"),
    ("a.csv", b"\x81", "a.csv: byte 0 is not UTF-8 text"),
    ("a.xyz", "", "a.xyz: format: cannot be guessed; allowed: firefox-ci, swf, csv"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BAD)
def test_garbled_traces_name_record_or_line(
    write: Write, name: str, content: bytes | str, message: str
) -> None:
    """One clear message: the file, its record or line, what was found, what is allowed."""
    path = write(name, content)
    with pytest.raises(TraceError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path.parent}/{message}")


def test_files_that_cannot_be_opened(tmp_path: Path, write: Write) -> None:
    """No such file, a folder, an unknown format, an unknown field."""
    with pytest.raises(TraceError, match=r"no\.dat: no such file"):
        read(tmp_path / "no.dat")
    with pytest.raises(TraceError, match=r"bundle: no such file"):
        read(tmp_path / "bundle")
    with pytest.raises(TraceError, match="cannot be read"):
        read(tmp_path, "swf")
    with pytest.raises(TraceError, match="format: found 'sfw'; did you mean swf"):
        read(tmp_path / "no.dat", "sfw")
    with pytest.raises(
        TraceError, match=r"a\.swf: job 9: queue: found 1000000000000; allowed: a whole n"
    ):
        read(write("a.swf", "9 0 -1 5 1" + " -1" * 9 + " 1e12 -1 -1 -1"), fields={"level": "queue"})
    with pytest.raises(TraceError, match=r"fields\.team: found 'grup'; did you mean group"):
        read(write("a.swf", SWF), fields={"team": "grup"})
    for name in ("a.dat", "datastore.json", "b.json"):
        with pytest.raises(TraceError, match=r"found with format .*; allowed: with swf, csv"):
            read(write(name, dat(*DAT)), fields={"kind": "nonsense"})


@given(st.sampled_from(sorted(FORMATS)), st.binary(max_size=200))
@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_a_trace_or_a_clear_error(
    tmp_path: Path, format_: str, content: bytes
) -> None:
    """No bytes make a reader raise anything but the project's own errors."""
    (tmp_path / "any").write_bytes(content)
    with suppress(FarmError):
        list(read_trace(tmp_path / "any", format_))


@given(
    st.sampled_from(["swf", "csv"]),
    st.text(alphabet='0123456789 -.,;:\n\t"eEinfaNx{}/', max_size=200),
    st.booleans(),
)
@examples(500, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_trace_or_a_clear_error(
    tmp_path: Path, format_: str, text: str, headed: bool
) -> None:
    """The same for nearly valid text."""
    head = {"csv": "submitted_at_s,service_time_s,level,platform\n", "swf": SWF}[format_]
    (tmp_path / "any").write_text(head * headed + text)
    with suppress(FarmError):
        list(read_trace(tmp_path / "any", format_))


def test_trace_sources_of_a_scenario(scenario_of: ScenarioOf, write: Write) -> None:
    """Ids get the file's name and the trace's own numbers; the only pool's platform is theirs."""
    write("log.swf", SWF)
    write("pool.dat", dat(*DAT))
    jobs = list(build_jobs(scenario_of({"trace": {"path": "log.swf", "fails": 1.0}},
                                       {"trace": {"path": "pool.dat", "jobs": 1}})))  # fmt: skip
    assert [job.id for job in jobs] == ["log-000001", "pool-000001", "log-000002", "log-000006"]
    assert {job.platform for job in jobs} == {Platform("amd64", True)}
    assert [job.fails for job in jobs] == [True, False, True, True]


def test_traces_take_traits_too(scenario_of: ScenarioOf, write: Write) -> None:
    """A trace without users gets some; the longest share of it is heavy."""
    write("pool.dat", dat(*DAT))
    trace = {"path": "pool.dat", "attributes": {"user": "ada"}, "heavy": {"longest": 0.4}}
    jobs = list(build_jobs(scenario_of({"trace": trace})))
    assert {job.attributes["user"] for job in jobs} == {"ada"}
    assert [job.heavy for job in jobs] == [True, False, False, True, False]


def test_the_only_table_keeps_its_ids(scenario_of: ScenarioOf, write: Write) -> None:
    """An imported trace names its jobs as before."""
    write("t.csv", "job_id,submitted_at_s,service_time_s\nalpha,1,2\n")
    assert [job.id for job in build_jobs(scenario_of({"trace": {"path": "t.csv"}}))] == ["alpha"]


def test_platforms_in_a_trace_are_checked(scenario_of: ScenarioOf, write: Write) -> None:
    """A job that no pool could run is reported before the run starts, also from a trace."""
    write("t.csv", "submitted_at_s,service_time_s,platform\n1,2,sparc/virtual\n")
    with pytest.raises(ScenarioError, match="found jobs for sparc/virtual that no pool could ever"):
        build_jobs(scenario_of({"trace": {"path": "t.csv"}}))
    allowed = scenario_of({"trace": {"path": "t.csv"}}, allow_unrunnable=True)
    assert len(list(build_jobs(allowed))) == 1
    with pytest.raises(TraceError, match="found no job in the window"):
        build_jobs(scenario_of({"trace": {"path": "t.csv", "window": [5, 6]}}))


@pytest.mark.parametrize(
    ("name", "count", "mean"),
    [
        ("firefox-ci/gecko-t-t-linux-large.dat", 106233, 1221.4907),
        ("firefox-ci/gecko-t-t-win10-64.dat", 34698, 1331.4239),
        ("firefox-ci/mobile-3-decision.dat", 295, 92.3055),
        ("NASA-iPSC-1993-3.1-cln.swf.gz", 18239, None),
    ],
)
def test_recorded_traces(traces: Path, name: str, count: int, mean: float | None) -> None:
    """The real traces are read completely."""
    jobs = list(read_trace(traces / name))
    assert len(jobs) == len({job.id for job in jobs}) == count
    if mean is not None:
        assert sum(job.service_time for job in jobs) / count == pytest.approx(mean, rel=1e-6)
