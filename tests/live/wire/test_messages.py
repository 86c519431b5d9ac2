"""What goes over the wire: round trips, versions, sizes, and nothing else."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from farm.core.commands import CancelJob, LoseBuilder, RetireBuilder, StartJob
from farm.core.contention.laws import ContentionLaw, LinearSlowdown, LoadLimits, SlowdownTable
from farm.core.events import (
    AlarmRang,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    CancelRequested,
    DrainRequested,
    JobFinished,
    JobsSubmitted,
    JobStarted,
    LoadReported,
    PoolPlanned,
    PriorityChanged,
    SchedulingChanged,
    SlotCleaned,
    UndrainRequested,
)
from farm.core.model import Builder, Cause, Job, Platform
from farm.live.redis.keys import STREAMS
from farm.live.wire import messages as wire
from farm.live.wire.messages import VERSION, Envelope, MessageError
from farm.live.wire.report_checks import flaw_of, flaw_of_envelope, flaw_of_message, readable

JOB = Job(id='j"1', service_time=3.5, platform=Platform("amd64", True), attributes={"user": "ü"})
REPORTS = (
    JobsSubmitted(0.0, (JOB,)),
    wire.LoadDone(),
    CancelRequested(0.0, jobs=("a",), invocation=("u", "b")),
    PriorityChanged(0.0, "a", level=2),
    SchedulingChanged(0.0, "sjf", 2.0, {"web": 2.0}),
    DrainRequested(0.0, "linux-*", retire=True),
    UndrainRequested(0.0, "*"),
    wire.HostUp(4711, own=True),
    wire.Beat((("a", 1), ("b", 2)), ("x",), ("y",)),
    wire.HostLeft(),
    BuilderJoined(0.0, Builder(id="b", pool="p", index=1)),
    BuilderRetired(0.0, "b"),
    BuilderLost(0.0, "b", "its lifetime is over"),
    JobStarted(0.0, "a", 1, "b"),
    JobFinished(0.0, "a", 1, "b", "failed", "why"),
    SlotCleaned(0.0, "b", 0),
    LoadReported(0.0, "b", 0.5, overloaded=True),
    wire.Watch("p", "token", closely=True),
    wire.Plan("p", serial=3, desired=5, start=2, why="work waits"),
    wire.GiveUpBuilder("b", "boot timed out"),
    wire.Ask("job", "a", "reply:1"),
)
COMMANDS = (
    StartJob(JOB, 1, "b", 0),
    CancelJob("a", 1, "b", "r"),
    wire.Play(
        builder=Builder(id="b", pool="p", index=1, lifetime=3600.0),
        boot_time=3.0,
        law=ContentionLaw(SlowdownTable((1.0, 1.4)), LinearSlowdown(1, 0.4), "max"),
        load_limits=LoadLimits(1.5, 1.0),
    ),
    RetireBuilder("b"),
    LoseBuilder("b"),
    wire.Reset("x"),
)


def test_reports_survive_the_wire():
    """Every kind of report comes out as it went in."""
    for report in REPORTS:
        envelope = Envelope(VERSION, "host", "life", 7, (report,))
        stream = wire.stream_of(report)
        assert wire.decode_envelope(wire.encode(envelope), stream) == envelope
        drain = {"reports"} if isinstance(report, DrainRequested) else set()
        for other in {*STREAMS} - {stream} - drain:  # each accepts only its own
            with pytest.raises(MessageError, match="Invalid value"):
                wire.decode_envelope(wire.encode(envelope), other)
    assert {type(report) for report in REPORTS} == set(get_args(wire.Report))


def test_an_excused_loss_is_written_as_earlier_releases_read_it():
    """A provisioner and a scheduler of two releases agree on which builders were asked to leave."""
    given_up = wire.GiveUpBuilder("b", "its container ended", excused=True)
    text = wire.encode(Envelope(VERSION, "provisioner", "life", 1, (given_up,)))
    assert msgspec.json.decode(text)["reports"][0]["left"] is True


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_commands_survive_the_wire(command):
    """Every kind of command comes out of a task's argument as it went in."""
    value = msgspec.json.decode(wire.encode(command))
    assert wire.convert_command(value, VERSION, type(command)) == command
    assert {type(command) for command in COMMANDS} == set(wire.TASK_NAMES)


def test_a_play_command_survives_as_text():
    """A container's argument; with the version, which is not part of the command."""
    play = COMMANDS[2]
    assert wire.decode_play(wire.encode_play(play)) == play
    for text, said in (
        ('{"builder": {}}', "version None"),
        ("[]", "malformed"),
        (f'{{"v": {VERSION}, "builder": {{"id": "b"}}}}', "malformed Play"),
    ):
        with pytest.raises(MessageError, match=said):
            wire.decode_play(text)


@pytest.mark.parametrize("event", [PoolPlanned(0.0, "p", 1, 1, 1, 1), AlarmRang(0.0)])
def test_events_that_are_not_reported_are_refused(event):
    """Events of the scheduler's own process do not come over the wire."""
    with pytest.raises(MessageError, match="malformed"):
        wire.decode_envelope(wire.encode(Envelope(VERSION, "host", "life", 1, (event,))), "plans")


def test_another_version_is_refused_by_name():
    """A host and a scheduler of different releases report it instead of misunderstanding."""
    old = Envelope(VERSION + 1, "host", "life", 1, ())
    with pytest.raises(MessageError, match=f"version {VERSION + 1}.*version {VERSION}"):
        wire.decode_envelope(wire.encode(old), "reports")
    future = b'{"v": 99, "reports": [{"event": "never heard of"}]}'
    with pytest.raises(MessageError, match="version 99"):
        wire.decode_envelope(future, "reports")
    with pytest.raises(MessageError, match="version None"):
        wire.convert_command({"builder": "b"}, None, RetireBuilder)
    with pytest.raises(MessageError, match="version 2"):
        wire.convert_command({"builder": "b"}, 2, RetireBuilder)


@pytest.mark.parametrize("size_of", ["written", "read"])
def test_large_messages_are_refused(size_of, monkeypatch):
    """The size is bounded before anything is parsed, and before anything is sent."""
    monkeypatch.setattr(wire, "MAX_BYTES", 100)
    if size_of == "written":
        with pytest.raises(MessageError, match="at most 100"):
            wire.encode(RetireBuilder("b" * 200))
    else:
        with pytest.raises(MessageError, match="at most 100"):
            wire.decode_envelope(b" " * 101, "reports")


@example(b'{"v":3,"sender":' + b"[" * 10_000 + b"]" * 10_000 + b"}")
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_garbage_is_refused_with_a_message_error(data: bytes):
    """No bytes from the wire, however deep, lead to anything but a MessageError."""
    for stream in STREAMS:
        with pytest.raises(MessageError):
            wire.decode_envelope(data, stream)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": ""}, "0 characters"),
        ({"id": "x" * 300}, "300 characters"),
        ({"id": "a\nb"}, "control characters"),
        ({"service_time": -1.0}, "service_time -1.0"),
        ({"service_time": float("inf")}, "service_time inf"),
        ({"declared_time": float("nan")}, "declared_time nan"),
        ({"size": -1.0}, "size -1.0"),
        ({"score": float("nan")}, "score nan"),  # JSON would have null, and refuse the message
        ({"level": 10**30}, "level 1000"),
        ({"threads": 0}, "threads 0; allowed: a whole number, from 1 to 256"),
        ({"threads": 257}, "threads 257; allowed: a whole number, from 1 to 256"),
        ({"mode": "burn"}, "mode burn; allowed: timed, stress"),
        ({"arrived_at": -1.0}, "arrived_at -1.0; allowed: a finite number, 0"),
        ({"kind": "a\x1b[31mb"}, "kind 'a\\x1b[31mb' has control characters"),
        ({"attributes": {"user": "x" * 1_000_000}}, "attribute user of 1000000 characters"),
        ({"attributes": {"\n": "x"}}, "attribute name '\\n' has control characters"),
        ({"platform": Platform("\x00", True)}, "processor '\\x00' has control characters"),
    ],
)
def test_unacceptable_jobs_are_named(change, said: str):
    """The message says why a submitted job is unacceptable."""
    assert said in (flaw_of(msgspec.structs.replace(JOB, **change)) or "")
    assert flaw_of(JOB) is None


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (JobStarted(0.0, "", 1, "b"), "JobStarted: job of 0 characters"),
        (JobFinished(0.0, "a", 0, "b", "failed"), "JobFinished: attempt 0; allowed: from 1 to"),
        (SlotCleaned(0.0, "b", -1), "SlotCleaned: slot -1"),
        (BuilderJoined(0.0, Builder(id="b" * 300, pool="p", index=1)), "builder id of 300"),
        (BuilderJoined(0.0, Builder(id="b", pool="p", index=-2)), "builder index -2"),
        (CancelRequested(0.0, jobs=("a\n",)), "jobs 'a\\n' has control characters"),
        (CancelRequested(0.0, cause=Cause.LOST), "cause lost; allowed: requested"),
        (CancelRequested(0.0, invocation=("x",) * 65), "65 invocation: up to 64"),
        (SchedulingChanged(0.0, weights={"a": 0.0}), "weight a 0.0; allowed: above 0"),
        (SchedulingChanged(0.0, aging_factor=-1.0), "aging_factor -1.0; allowed: from 0"),
        (JobStarted(0.0, "a", 1, "b", -1.0), "JobStarted: expected_time -1.0"),
        (wire.Beat(held=(("a", 1),), done=(1.5,)), "Beat: done 1.5; allowed: from 0 to 1"),
        (wire.HostUp(room=-1), "HostUp: room -1"),
        (wire.HostUp(incarnation="x" * 2000), "HostUp: incarnation of 2000 characters"),
        (wire.Watch("p", ""), "Watch: token of 0 characters"),
        (wire.Plan("p", 1, 5, start=10**6), "Plan: start 1000000"),
        (wire.Plan("p", 1, 5, token="\x1b[2J"), "Plan: token '\\x1b[2J' has control characters"),
        (StartJob(msgspec.structs.replace(JOB, threads=0), 1, "b", 0), "StartJob: job threads 0"),
        (wire.Play(builder=Builder(id="b", pool="p", index=1), boot_time=-1.0), "boot_time -1.0"),
        (
            wire.Play(
                builder=Builder(id="b", pool="p", index=1),
                law=ContentionLaw(LinearSlowdown(1, float("nan"))),
            ),
            "Play: law cpu slope nan; allowed: a finite number",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unacceptable_messages_are_named(message, said: str):
    """The message says which value of a report or command is unacceptable."""
    assert said in (flaw_of_message(message) or "")


@pytest.mark.parametrize("message", [*REPORTS, *COMMANDS], ids=lambda one: type(one).__name__)
def test_good_messages_have_no_flaw(message):
    """Every kind, with ordinary values."""
    assert flaw_of_message(message) is None
    assert flaw_of_envelope(Envelope(VERSION, "host", "life", 7, (message,))) is None


def test_reasons_are_shortened_and_not_refused():
    """What a host says of an end is for people: the end itself must be believed."""
    long = "\x1b" * 5000
    assert flaw_of_message(JobFinished(0.0, "a", 1, "b", "failed", long)) is None
    assert flaw_of_message(wire.GiveUpBuilder("b", long)) is None
    assert flaw_of_message(CancelJob("a", 1, "b", long)) is None
    assert flaw_of_message(wire.Plan("p", 1, 5, why=long)) is None
    assert len(readable(long)) < 5000
    assert readable(long).isprintable()


def test_a_new_field_is_bounded_by_its_type():
    """A field that is added to a job needs no edit of the limits."""

    class Coloured(Job, frozen=True, kw_only=True):
        colour: str = "red"
        shades: tuple[str, ...] = ()
        depth: int = 0

    assert flaw_of(Coloured(id="a", service_time=1.0)) is None
    for field, value in {"colour": "x" * 2000, "shades": ("\n",), "depth": 10**12}.items():
        assert f"job a: {field} " in (
            flaw_of(Coloured(id="a", service_time=1.0, **{field: value})) or ""
        )
