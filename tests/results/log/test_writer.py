"""The event log: its lines are the promised ones, and bad files are refused clearly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm.core.commands import NO_COMMANDS, EndJob, StartJob
from farm.core.errors import InputError
from farm.core.events import JobFinished, JobsSubmitted, PriorityChanged
from farm.core.model import Cause, Job
from farm.results.log.reader import read_log
from farm.results.log.writer import EventLogWriter


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines as another program would read them."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_begin_with_time_and_kind(log: Path) -> None:
    """Tools that read the log line by line rely on these two keys in front."""
    assert all(list(line)[:2] == ["at_s", "event"] for line in lines(log))


def test_seconds_carry_their_unit(log: Path) -> None:
    """A reader must not have to guess units: no key of a span or an instant lacks its _s."""
    keys = {key for line in lines(log) for key in line}
    assert not {key for key in keys if key == "at" or key.endswith(("_at", "_time"))}
    assert {"service_time_s", "declared_time_s", "arrived_at_s", "submitted_at_s"} <= keys


def test_a_finished_job_is_one_line_with_its_details(log: Path) -> None:
    """The end that a report caused is on the report's own line, once."""
    [finished] = [x for x in log.read_text().splitlines() if '"job-finished","job":"a"' in x]
    assert finished == (
        '{"at_s":10.0,"event":"job-finished","job":"a","attempt":1,"builder":"b1",'
        '"outcome":"succeeded","ended":true,"submitted_at_s":0.0,"dispatched_at_s":0.0,'
        '"started_at_s":0.0,"slot":0,"cause":"finished"}'
    )


def test_exactly_one_line_ends_each_job(log: Path) -> None:
    """Counting ended lines counts jobs; one cancelled while it waits has a kind of its own."""
    ended = {line["job"]: line for line in lines(log) if line.get("ended")}
    assert sorted(line["job"] for line in lines(log) if line.get("ended")) == ["a", "b", "c", "d"]
    (cancelled,) = [line for line in lines(log) if line["event"] == "job-cancelled"]
    assert cancelled == ended["d"]
    assert (cancelled["outcome"], cancelled["finished_at_s"]) == ("cancelled", 20.0)


def test_an_end_without_its_report_is_marked_decided(tmp_path: Path) -> None:
    """A job that fails because its builders were lost differs from a failed attempt."""
    job = Job(id="j", service_time=1.0)
    with EventLogWriter(tmp_path / "log") as writer:
        writer(JobsSubmitted(0.0, (job,)), NO_COMMANDS)
        writer(
            PriorityChanged(1.0, "j"),
            [EndJob(job, "failed", 3, 0.0, 1.0, reason="lost thrice", cause=Cause.LOST)],
        )
    assert (tmp_path / "log").read_text().splitlines()[-1] == (
        '{"at_s":1.0,"event":"job-finished","job":"j","outcome":"failed","attempts":3,'
        '"submitted_at_s":0.0,"finished_at_s":1.0,"reason":"lost thrice","cause":"lost",'
        '"ended":true,"decided":true}'
    )


def test_batches_and_stale_events_are_marked(log: Path) -> None:
    """The grouping of a submission decides dispatch order; a late report does not count."""
    batches = [x.get("batch") for x in lines(log) if x["event"] == "job-submitted"]
    assert batches == [1, 1, None, None]
    (line,) = [line for line in lines(log) if line.get("ignored")]
    assert (line["event"], line["job"], line["at_s"]) == ("job-finished", "b", 11.0)


def test_a_job_changed_on_its_way_reads_back(tmp_path: Path) -> None:
    """A job whose priority changed is dispatched as it is now, not as it was submitted."""
    job = Job(id="j", service_time=1.0)
    now = msgspec.structs.replace(job, level=3)
    end = EndJob(now, "succeeded", 1, 0.0, 2.0, 1.0, 1.0, "b", 0)
    with EventLogWriter(tmp_path / "log") as writer:
        writer(JobsSubmitted(0.0, (job,)), NO_COMMANDS)
        writer(PriorityChanged(1.0, "j", level=3), [StartJob(now, 1, "b", 0)])
        writer(JobFinished(2.0, "j", 1, "b", "succeeded"), [end])
    commands = [command for entry in read_log(tmp_path / "log") for command in entry.commands]
    assert commands == [StartJob(now, 1, "b", 0), end]


def test_the_same_history_gives_the_same_bytes(tmp_path: Path, history: Any, tell: Any) -> None:
    """Two runs with one seed are compared byte for byte, however they are buffered."""
    for name, limit in (("one", 1), ("two", 4096)):
        with EventLogWriter(tmp_path / name, limit) as writer:
            tell(writer, history)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_buffer_is_bounded_and_a_log_kept(tmp_path: Path, history: Any, tell: Any) -> None:
    """A long run must not hold its log in memory; a second run must not overwrite the first."""
    writer = EventLogWriter(tmp_path / "log", 4)
    tell(writer, history)
    assert (tmp_path / "log").read_bytes().count(b"\n") >= len(history)
    writer.close()
    writer.close()
    with pytest.raises(InputError, match="exists already"):
        EventLogWriter(tmp_path / "log")


def test_a_truncated_last_line_is_left_out(log: Path) -> None:
    """The log of a killed run is still worth reading."""
    whole = list(read_log(log))
    log.write_bytes(log.read_bytes()[:-20])
    back = list(read_log(log))
    assert [entry.event for entry in back] == [entry.event for entry in whole[:-1]]
    assert [entry.cut for entry in back] == [False] * (len(back) - 1) + [True]


@pytest.mark.parametrize(
    ("garbage", "says"),
    [
        (b'{"at_s": 1.0, "event"\n', "line 3"),
        (b'{"at_s": 1.0, "event": "job-strated", "job": "a"}\n', "unknown event 'job-strated'"),
        (b'{"at_s": "one", "event": "job-started"}\n', "at_s"),
        (b"\xff\xfe\n", "line 3"),
        (
            b'{"at_s":1,"event":"job-dispatched","job":"x","attempt":1,"builder":"","slot":0}\n',
            "'x' was never submitted",
        ),
    ],
)
def test_a_garbled_line_is_named(log: Path, garbage: bytes, says: str) -> None:
    """A damaged file is refused with the number of the line, not with a traceback."""
    raw = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*raw[:2], garbage, *raw[2:]]))
    with pytest.raises(InputError, match="line 3") as caught:
        list(read_log(log))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"at_s":1.0,"event":"builder-drained","builder":"b"}\n', "no event led to"),
        (None, "cannot read the event log"),
    ],
)
def test_no_log_is_refused(tmp_path: Path, content: str | None, says: str) -> None:
    """A command without its event has no place; no such file is one clear message."""
    if content is not None:
        (tmp_path / "log").write_text(content)
    with pytest.raises(InputError, match=says):
        list(read_log(tmp_path / "log"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_one_message(tmp_path: Path, history: Any) -> None:
    """A run that cannot be recorded says why instead of ending with a traceback."""
    writer = EventLogWriter(tmp_path / "log", 1)
    writer._file.close()
    writer._file = Path("/dev/full").open("wb")  # noqa: SIM115 - the writer closes it
    with pytest.raises(InputError, match="No space left"):
        writer(*history[0])
    with pytest.raises(InputError, match="No space left"):
        writer.close()
    assert writer._file.closed
