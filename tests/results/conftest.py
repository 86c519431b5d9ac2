"""Hand-made histories: events and commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from farm.core.commands import (
    IGNORED,
    NO_COMMANDS,
    Command,
    EndJob,
    RequestBuilder,
    RequeueJob,
    RetireBuilder,
    StartJob,
)
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    CancelRequested,
    Event,
    FarmOpened,
    JobFinished,
    JobsSubmitted,
    JobStarted,
)
from farm.core.model import Builder, Cause, Job, Platform
from farm.results.log.writer import EventLogWriter

History = list[tuple[Event, Sequence[Command]]]
LINUX = Platform("amd64", True)


def job(name: str, service_time: float = 10.0, **more: Any) -> Job:
    """Return a job for the linux builders."""
    return Job(id=name, service_time=service_time, platform=LINUX, **more)


def builder(name: str, index: int, **more: Any) -> Builder:
    """Return a linux builder of one slot."""
    return Builder(id=name, pool="linux", index=index, processors=("amd64",), **more)


@pytest.fixture
def history() -> History:
    """Two builders and one that never works; five jobs: a, b, c run, d is cancelled, b tried twice.

    Seconds: a arrives at 0, waits 0, runs 10. b arrives at 0, its builder b2 is lost at 6, it is
    requeued and runs on b1 from 10 to 30. c arrives (as meant) at 5, submitted 6, runs on b1 30
    to 40 and fails. d arrives at 7 and is cancelled while it waits, at 20.
    """
    a = job("a", attributes={"team": "red"}, declared_time=9.0)
    b = job("b", 20.0, matrix="m1", attributes={"team": "blue"})
    c = job("c", 10.0, arrived_at=5.0, matrix="m1", attributes={"team": "red"})
    d = job("d", 5.0, attributes={"team": "blue"})
    why: dict[str, Any] = {"reason": "cancelled by request", "cause": Cause.REQUESTED}
    cancelled = EndJob(d, "cancelled", 0, 7.0, 20.0, **why)
    why = {"reason": "exit 1", "cause": Cause.FAILED, "pool": "linux"}
    failed = EndJob(c, "failed", 1, 6.0, 40.0, 30.0, 30.0, "b1", 0, **why)
    ended: dict[str, Any] = {"builder": "b1", "slot": 0, "pool": "linux"}
    end_a = EndJob(a, "succeeded", 1, 0.0, 10.0, 0.0, 0.0, **ended)
    end_b = EndJob(b, "succeeded", 2, 0.0, 30.0, 10.0, 10.0, **ended)
    one, two, idle = builder("b1", 0), builder("b2", 1), builder("b3", 2, takes_jobs=False)
    return [
        (FarmOpened(0.0), [RequestBuilder(two)]),
        (BuilderJoined(0.0, one), NO_COMMANDS),
        (BuilderJoined(0.0, two), NO_COMMANDS),
        (JobsSubmitted(0.0, (a, b)), [StartJob(a, 1, "b1", 0), StartJob(b, 1, "b2", 0)]),
        (JobStarted(0.0, "a", 1, "b1"), NO_COMMANDS),
        (JobStarted(1.0, "b", 1, "b2"), NO_COMMANDS),
        (BuilderLost(6.0, "b2"), [RequeueJob("b", 1, "b2", "its builder was lost")]),
        (JobsSubmitted(6.0, (c,)), NO_COMMANDS),
        (JobsSubmitted(7.0, (d,)), NO_COMMANDS),
        (BuilderJoined(8.0, idle), NO_COMMANDS),
        (JobFinished(10.0, "a", 1, "b1", "succeeded"), [end_a, StartJob(b, 2, "b1", 0)]),
        (JobStarted(10.0, "b", 2, "b1"), NO_COMMANDS),
        (JobFinished(11.0, "b", 1, "b2", "succeeded"), IGNORED),
        (CancelRequested(20.0, ("d",)), [cancelled]),
        (JobFinished(30.0, "b", 2, "b1", "succeeded"), [end_b, StartJob(c, 1, "b1", 0)]),
        (JobStarted(30.0, "c", 1, "b1"), NO_COMMANDS),
        (JobFinished(40.0, "c", 1, "b1", "failed", "exit 1"), [failed, RetireBuilder("b1")]),
        (BuilderRetired(40.0, "b1"), NO_COMMANDS),
    ]


@pytest.fixture
def tell() -> Callable[[Any, History], Any]:
    """Play a history to an observer, which is returned."""

    def told(observer: Any, history: History) -> Any:
        for event, commands in history:
            observer(event, commands)
        return observer

    return told


@pytest.fixture
def log(tmp_path: Path, history: History, tell: Callable[[Any, History], Any]) -> Path:
    """Write the history to a log."""
    with EventLogWriter(tmp_path / "events.jsonl") as writer:
        tell(writer, history)
    return tmp_path / "events.jsonl"
