"""No parser raises anything but the project's own errors on any input, nor hangs.

A few inputs of each in the fast tests, a hundred thousand in all in the slow ones. All come from
good inputs that a seed corrupts, so a failure is the same every time.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import struct
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import msgspec
import pytest

from farm.app.jobs.sources import parse_lines
from farm.app.long_running.snapshots import image_of_text
from farm.core import events
from farm.core.commands import CancelJob, LoseBuilder, RetireBuilder, StartJob
from farm.core.errors import FarmError
from farm.core.model import Builder, Job, Platform
from farm.core.state.snapshot import FarmSnapshot
from farm.forecasts.dispatch.state_file import parse_state
from farm.live.operating.answers import FarmImage
from farm.live.redis.keys import STREAMS, Stream
from farm.live.wire import messages as wire
from farm.live.wire.inbox import InboxEntry
from farm.live.wire.messages import UNSTAMPED, VERSION, Envelope
from farm.live.wire.report_checks import flaw_of_envelope, flaw_of_message
from farm.scenario.file.document import parse_document
from farm.scenario.load import parse_scenario
from farm.units import parse_rate, parse_time
from farm.workload import read_trace
from tests.fixtures.door import Door
from tests.fuzz.mutation import spoilt
from tests.test_statefile import GOOD as STATE

JOB = Job(
    id="j", service_time=3.5, platform=Platform("amd64", True), matrix="m", attributes={"user": "u"}
)
BUILDER = Builder(id="linux-1", pool="linux", index=1, processors=("amd64",))
REPORTS: list[wire.Report] = [
    wire.HostUp(pid=1, room=2, pool="linux"),
    wire.Beat(held=(("j", 1),), builders=("linux-1",), retiring=(), leaving=True),
    wire.Beat(held=(("j", 1),), builders=("linux-1",), after="a", until="z"),
    wire.HostLeft(),
    events.BuilderJoined(UNSTAMPED, BUILDER),
    events.BuilderRetired(UNSTAMPED, "linux-1"),
    events.BuilderLost(UNSTAMPED, "linux-1", "why"),
    events.JobStarted(UNSTAMPED, "j", 1, "linux-1"),
    events.JobFinished(UNSTAMPED, "j", 1, "linux-1", "succeeded"),
    events.SlotCleaned(UNSTAMPED, "linux-1", 0),
    events.LoadReported(UNSTAMPED, "linux-1", 0.5, True),
    events.JobsSubmitted(UNSTAMPED, (JOB, msgspec.structs.replace(JOB, id="k"))),
    wire.LoadDone(),
    events.CancelRequested(UNSTAMPED, ("j",), "m", ("u",), "r"),
    events.PriorityChanged(UNSTAMPED, "j", 1, 2.0, 3),
    events.SchedulingChanged(UNSTAMPED, "sjf", 2.0, {"web": 2.0}),
    events.DrainRequested(UNSTAMPED, "linux-*", retire=True),
    events.UndrainRequested(UNSTAMPED, "*"),
    wire.Watch("linux", "token"),
    wire.Plan("linux", 1, 2, 1, 1),
    wire.GiveUpBuilder("linux-1", "why"),
    wire.Ask("job", "j", "token"),
]
COMMANDS: list[wire.HostCommand] = [
    StartJob(JOB, 1, "linux-1", 0),
    CancelJob("j", 1, "linux-1", "r"),
    wire.Play(builder=BUILDER, boot_time=3.0),
    RetireBuilder("linux-1"),
    LoseBuilder("linux-1"),
    wire.Reset("x"),
]
EXAMPLES = Path(__file__).parents[2] / "examples"
CSV = b"""\
submitted_at_s,service_time_s,job_id,platform,level,heavy,attributes
0,1,a,amd64/virtual,1,true,{}
1,2,b,any/native,0,false,
"""
SNAPSHOT = FarmSnapshot(at=0.0, waiting=(), running=(), builders=(), pools=(), serial=0)
SWF = b"; Version: 2.2\n; MaxProcs: 4\n" + b"".join(
    b"%d %d 0 5 1 -1 -1 1 9 -1 1 7 1 1 1 -1 -1 -1\n" % (n, n) for n in range(1, 6)
)
DAT = b"".join(struct.pack(">II", n * 10, 100 + n) for n in range(6))


class Doors:
    """The scheduler's intake with the scheduler behind it: accepted reports are decided on."""

    def __init__(self) -> None:
        self.door = Door()
        self.door.hear("host", wire.HostUp(), life="life")
        self.door.want("linux", 1)
        self.seq = 10

    def take(self, stream: Stream, data: bytes) -> None:
        envelope = wire.decode_envelope(data, stream)
        if flaw_of_envelope(envelope) is not None:
            return
        door = self.door
        door.at += 0.01
        # numbered anew: the same good one, corrupted, would count as a repetition
        self.seq += 1
        envelope = msgspec.structs.replace(envelope, seq=self.seq)
        door.protocol.receive([InboxEntry(stream, "1-1", envelope, data)], inf, door.at, door.at)
        door.settle()
        door.out.events.clear()
        door.hosts.compare({}, door.at)


def _envelopes() -> dict[Stream, list[bytes]]:
    found: dict[Stream, list[bytes]] = {name: [] for name in STREAMS}
    for report in REPORTS:
        envelope = Envelope(VERSION, "host", "life", 2, (report,))
        found[wire.stream_of(report)].append(wire.encode(envelope))
    return found


def _command(data: bytes) -> None:
    """Return a task's body, as Celery decodes it (including NaN)."""
    (value, version), kind = json.loads(data), StartJob
    if isinstance(value, list) and len(value) == 2:
        value, number = value
        kind = list(wire.TASK_NAMES)[number % len(wire.TASK_NAMES)] if number else kind
    flaw_of_message(wire.convert_command(value, version, kind))


def _scenario(data: bytes) -> None:
    parse_scenario(parse_document(data.decode(), "x.yaml"), EXAMPLES, "x.yaml")


def _scenarios() -> list[bytes]:
    texts = [path.read_bytes() for path in sorted(EXAMPLES.glob("*.yaml"))]
    return [text for text in texts if b"extends:" not in text]


def _trace(name: str, folder: Path) -> Callable[[bytes], None]:
    path = folder / name

    def read(data: bytes) -> None:
        path.write_bytes(gzip.compress(data, 1) if data[:1] != b"\x1f" and "gz" in name else data)
        for _ in zip(range(1000), read_trace(path), strict=False):
            pass

    return read


def _bodies() -> list[bytes]:
    kinds = list(wire.TASK_NAMES)
    return [
        json.dumps([[json.loads(wire.encode(c)), kinds.index(type(c))], VERSION]).encode()
        for c in COMMANDS
    ]


#: parser -> good inputs, what reads them, what it may raise, and how many in the slow tests
Case = tuple[list[bytes], Callable[[bytes], object], tuple[type[Exception], ...], int]


def _cases(folder: Path) -> dict[str, Case]:
    doors = Doors()
    cases: dict[str, Case] = {
        f"the stream {stream}": (
            good, lambda data, name=stream: doors.take(name, data), (FarmError,), 10_000,
        )
        for stream, good in _envelopes().items()
    }  # fmt: skip
    house = (FarmError,)
    text = (FarmError, UnicodeDecodeError)
    snapshot = msgspec.json.encode(FarmImage(snapshot=SNAPSHOT, scenario={}))
    packed = gzip.compress(SWF)
    play = [wire.encode_play(c).encode() for c in COMMANDS if isinstance(c, wire.Play)]
    line = b'{"service_time_s": 5, "job_id": "a", "platform": "amd64/virtual", "threads": 2}'
    return cases | {
        # what is no JSON, or of another form, never gets this far: Celery's consumer drops it
        "a Celery task": (
            _bodies(), _command, (FarmError, ValueError, TypeError, RecursionError), 11_500,
        ),
        "FARM_PLAY": (play, lambda data: wire.decode_play(data.decode()), text, 4_000),
        "a scenario": (
            _scenarios(), _scenario, text, 1_000,
        ),
        "a state file": (
            [json.dumps(STATE).encode()], lambda data: parse_state(data.decode(), "x"), text, 7_500,
        ),
        "a snapshot": ([snapshot], lambda data: image_of_text(data.decode(), "x"), text, 5_000),
        "JSON lines": (
            [line], lambda data: list(parse_lines(data.decode().split("\n"), "x", "p", None)),
            text, 6_000,
        ),
        "a csv table": ([CSV], _trace("a.csv", folder), house, 4_000),
        "a packed csv table": ([CSV], _trace("a.csv.gz", folder), house, 2_000),
        "an SWF log": ([SWF], _trace("a.swf", folder), house, 4_000),
        "a spoilt gzip": ([packed], _trace("b.swf.gz", folder), house, 3_000),
        "a record file": ([DAT], _trace("a.dat", folder), house, 3_000),
        "a duration": (
            [b"1h30m", b"90s", b"2d", b"0.5"], lambda data: parse_time(data.decode()),
            (ValueError,), 4_000,
        ),
        "a rate": (
            [b"0.5/s", b"30 / m"], lambda data: parse_rate(data.decode()), (ValueError,), 2_000,
        ),
    }  # fmt: skip


NAMES = list(_cases(Path()))
HANGS = 10.0
"""Processor time (s) after which an input counts as one that does not end; not a speed."""


def _try(name: str, folder: Path, count: int | None) -> None:
    good, read, allowed, most = _cases(folder)[name]
    for data in good:
        read(data)  # else the test would test nothing
    for number, data in enumerate(spoilt(good, count or most, name)):
        began = time.process_time()
        try:
            with contextlib.suppress(*allowed):
                read(data)
        except Exception as error:
            raise AssertionError(f"input {number}: {data[:300]!r}") from error
        assert time.process_time() - began < HANGS, f"input {number} hangs: {data[:300]!r}"


@pytest.mark.parametrize("name", NAMES)
def test_corrupted_inputs_are_refused_with_a_message(name: str, tmp_path: Path):
    """Some of each."""
    _try(name, tmp_path, 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_thousand_corrupted_inputs(name: str, tmp_path: Path):
    """All parsers together."""
    _try(name, tmp_path, None)


def test_they_are_a_hundred_thousand():
    """The number of inputs of the slow tests, in all."""
    assert sum(case[3] for case in _cases(Path()).values()) >= 100_000


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path):
    """A hundred megabytes of zeros: no more than a tenth of them is ever in memory."""
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(bytes(100_000_000), 1))
    with pytest.raises(FarmError, match="unpacks to more than"):
        list(read_trace(path))
