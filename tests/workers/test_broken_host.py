"""Errors inside a builder host: it ends and is replaced, and never lives on in silence."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.core.commands import StartJob
from farm.core.model import Builder, Job
from farm.emulation.behaviour import BuilderBehaviour
from farm.live.settings import LiveSettings
from farm.live.wire.messages import Play
from farm.live.wire.reporter import Reporter
from farm.plugins.own_behaviours import OwnBehaviours
from tests.fixtures.processes import until
from workers import lifecycle
from workers.host import BuilderHost
from workers.host_agenda import HostAgenda
from workers.journal import AttemptJournal, read_journals


class DefectError(Exception):
    """What an action of the agenda raises."""


def broken(*_: object) -> None:
    """Fail."""
    raise DefectError


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[type[BaseException]]:
    """Return the errors that ended threads from now on."""
    found: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: found.append(args.exc_type))
    return found


def test_an_action_that_raises_ends_the_agenda(ended: list[type[BaseException]]) -> None:
    """As its thread does, the host ends."""
    agenda = HostAgenda(threading.RLock())
    agenda.start()
    agenda.after(0.02, broken)
    until(lambda: ended == [DefectError], "its end")
    agenda.stop(30.0)


def test_an_action_that_raises_in_another_thread_ends_the_agenda_too(
    ended: list[type[BaseException]],
) -> None:
    """What a command of Celery's thread finds due was lost in silence: a heartbeat, for example."""
    agenda = HostAgenda(threading.RLock())
    agenda.start()
    with pytest.raises(DefectError), agenda.turn():
        agenda.put(time.monotonic(), 0, 0, broken)
    until(lambda: ended == [DefectError], "its end")
    agenda.stop(30.0)


def test_a_host_ends_with_its_threads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By SIGTERM, as when it is asked to leave; its log has the reason."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *args: sent.append(args))
    monkeypatch.setattr(threading, "excepthook", lifecycle.end_with_thread)
    thread = threading.Thread(target=broken)
    thread.start()
    thread.join(30.0)
    assert sent == [(os.getpid(), signal.SIGTERM)]
    assert "Defect" in caplog.text


def break_agenda(host: BuilderHost, _: pytest.MonkeyPatch) -> None:
    """Let the agenda's thread end in a moment."""
    host._agenda.after(0.1, broken)


def break_reporter(_: BuilderHost, patch: pytest.MonkeyPatch) -> None:
    """Let the reporter's thread end with the next report."""
    patch.setattr(Reporter, "_add", broken)


@pytest.mark.parametrize("break_down", [break_agenda, break_reporter])
@pytest.mark.parametrize("is_leaving", [False, True], ids=["working", "leaving"])
def test_a_broken_host_does_not_wait_for_its_attempts(
    monkeypatch: pytest.MonkeyPatch,
    ended: list[type[BaseException]],
    break_down: Callable[[BuilderHost, pytest.MonkeyPatch], None],
    *,
    is_leaving: bool,
) -> None:
    """No thread ends them, or reports it: it was silent for all of its drain time."""
    settings = LiveSettings(redis_url="redis://127.0.0.1:1/0", drain_time=3600.0)
    monkeypatch.setattr(Reporter, "_add", lambda *_: None)
    host = BuilderHost(settings, pid=1)
    host.start()
    host.play(Play(builder=Builder(id="b", pool="p", index=1)))
    host.start_attempt(StartJob(Job(id="j", service_time=7200.0), 1, "b", 0))
    closing = threading.Thread(target=host.close, daemon=True)
    if is_leaving:
        closing.start()
        until(lambda: host._leaving, "leaving")
    break_down(host, monkeypatch)
    until(lambda: ended == [DefectError], "its end")
    if not is_leaving:
        closing.start()
    closing.join(30.0)
    assert not closing.is_alive()


def test_a_journal_on_a_full_disk_has_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the host's agenda."""
    journal = AttemptJournal(str(tmp_path), "h")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        journal.began("a", 1, "b")
        journal.ended("a", 1, "b", "succeeded")
    journal.began("c", 1, "b")
    assert [entry.job for entry in read_journals(tmp_path)] == ["c"]
    assert len(caplog.messages) == 1
    assert "it cannot be written: [Errno 28] No space left on device" in caplog.text


# --- Which of the user's behaviours a host's builders have ----------------------------------------


def test_a_behaviour_is_looked_up_once_and_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A farm that names another behaviour for the same pool gets that one from the same host."""
    booted: list[str] = []

    def behaviour(name: str) -> type[BuilderBehaviour]:
        def boot_time(_: BuilderBehaviour) -> float:
            booted.append(name)
            return 1.0

        return type(name, (BuilderBehaviour,), {"boot_time": boot_time})

    mine = types.ModuleType("mine")
    mine.__dict__.update(First=behaviour("First"), Second=behaviour("Second"))
    monkeypatch.setitem(sys.modules, "mine", mine)
    made: list[str] = []

    class Counted(OwnBehaviours):
        def __init__(self, name: str, where: str) -> None:
            made.append(name)
            super().__init__(name, where)

    monkeypatch.setattr("workers.host.OwnBehaviours", Counted)
    host = BuilderHost(LiveSettings(), 1)
    for index, name in enumerate(("First", "First", "Second")):
        builder = Builder(id=f"p-{index}", pool="p", index=index)
        host.play(Play(builder=builder, behaviour=f"mine:{name}"))
    assert booted == ["First", "First", "Second"]
    assert made == ["mine:First", "mine:Second"]
