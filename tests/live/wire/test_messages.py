"""What goes over the wire: round trips, versions, sizes, and nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.model import Builder, Job, Platform
from farm.live.wire import messages as wire
from farm.live.wire.job_limits import flaw_of
from farm.live.wire.messages import VERSION, Envelope, MessageError

JOB = Job(id='j"1', service_time=3.5, platform=Platform("amd64", True), attributes={"user": "ü"})
REPORTS = (
    wire.Submit((JOB,)),
    wire.LoadDone(),
    wire.Cancel(jobs=("a",), invocation=("u", "b")),
    wire.ChangePriority("a", level=2),
    wire.Drain("linux-*", retire=True),
    wire.Undrain("*"),
    wire.HostUp(4711, own=True),
    wire.Beat((("a", 1), ("b", 2)), ("x",), ("y",)),
    wire.HostLeft(),
    wire.BuilderUp(Builder(id="b", pool="p", index=1)),
    wire.BuilderGone("b"),
    wire.Started("a", 1, "b"),
    wire.Finished("a", 1, "b", "failed", "why"),
    wire.Cleaned("b", 0),
    wire.Load("b", 0.5, overloaded=True),
    wire.Watch("p", "token", closely=True),
    wire.Plan("p", serial=3, desired=5, start=2, why="work waits"),
    wire.GiveUpBuilder("b", "boot timed out"),
    wire.Ask("job", "a", "reply:1"),
)
ORDERS = (
    wire.StartAttempt(v=VERSION, job=JOB, attempt=1, builder="b", slot=0),
    wire.CancelAttempt(v=VERSION, job="a", attempt=1, builder="b", reason="r"),
    wire.Play(
        v=VERSION,
        builder=Builder(id="b", pool="p", index=1),
        boot_time=3.0,
        contention={"slowdown": [1.0, 1.4]},
    ),
    wire.Retire(v=VERSION, builder="b"),
    wire.Reset(v=VERSION, life="x"),
)


def test_reports_survive_the_wire():
    """Every kind of report comes out as it went in."""
    envelope = Envelope(VERSION, "host", "life", 7, REPORTS)
    assert wire.decode_envelope(wire.encode(envelope)) == envelope
    assert {type(report) for report in REPORTS} == set(wire.Report.__args__)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
def test_orders_survive_the_wire(order):
    """Every kind of order comes out of a task's argument as it went in."""
    value = msgspec.json.decode(wire.encode(order))
    assert wire.convert_order(value, type(order)) == order
    assert type(order) in wire.TASK_NAMES


def test_another_version_is_refused_by_name():
    """A host and a scheduler of different releases say so instead of misunderstanding."""
    old = Envelope(VERSION + 1, "host", "life", 1, ())
    with pytest.raises(MessageError, match=f"version {VERSION + 1}.*version {VERSION}"):
        wire.decode_envelope(wire.encode(old))
    future = b'{"v": 99, "reports": [{"r": "never heard of"}]}'
    with pytest.raises(MessageError, match="version 99"):
        wire.decode_envelope(future)
    with pytest.raises(MessageError, match="version None"):
        wire.convert_order({"builder": "b"}, wire.Retire)
    with pytest.raises(MessageError, match="version 3"):
        wire.convert_order({"v": 3, "builder": "b"}, wire.Retire)


@pytest.mark.parametrize("size_of", ["written", "read"])
def test_large_messages_are_refused(size_of, monkeypatch):
    """The size is bounded before anything is parsed, and before anything is sent."""
    monkeypatch.setattr(wire, "MAX_BYTES", 100)
    if size_of == "written":
        with pytest.raises(MessageError, match="at most 100"):
            wire.encode(wire.Retire(v=VERSION, builder="b" * 200))
    else:
        with pytest.raises(MessageError, match="at most 100"):
            wire.decode_envelope(b" " * 101)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_garbage_is_refused_and_nothing_worse(data: bytes):
    """No bytes from the wire lead to anything but a MessageError."""
    with pytest.raises(MessageError):
        wire.decode_envelope(data)


def test_deep_json_is_refused():
    """A deeply nested message does not exhaust the stack."""
    deep = b'{"v":1,"sender":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(MessageError):
        wire.decode_envelope(deep)


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
        ({"threads": 0}, "threads 0"),
        ({"kind": "a\x1b[31mb"}, "kind 'a\\x1b[31mb' has control characters"),
        ({"attributes": {"user": "x" * 1_000_000}}, "attribute user of 1000000 characters"),
        ({"attributes": {"\n": "x"}}, "attribute name '\\n' has control characters"),
        ({"platform": Platform("\x00", True)}, "processor '\\x00' has control characters"),
    ],
)
def test_unacceptable_jobs_are_named(change, said: str):
    """What makes a submitted job unacceptable is said in words."""
    assert said in (flaw_of(msgspec.structs.replace(JOB, **change)) or "")
    assert flaw_of(JOB) is None
