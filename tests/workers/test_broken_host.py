"""Errors inside a builder host: it ends and is replaced, and never lives on in silence."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from workers import lifecycle
from workers.agenda import Agenda
from workers.journal import AttemptJournal, read_journals


class DefectError(Exception):
    """What an action of the agenda raises."""


def broken(_: float = 0.0) -> None:
    """Fail."""
    raise DefectError


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[type[BaseException]]:
    """Return the errors that ended threads from now on."""
    found: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: found.append(args.exc_type))
    return found


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until this holds, for 30 seconds at most."""
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_action_that_raises_ends_the_agenda(ended: list[type[BaseException]]) -> None:
    """As its thread does, the host ends."""
    agenda = Agenda(threading.RLock())
    agenda.start()
    agenda.after(0.02, broken)
    wait_for(lambda: ended == [DefectError])
    agenda.stop(30.0)


def test_an_action_that_raises_in_another_thread_ends_the_agenda_too(
    ended: list[type[BaseException]],
) -> None:
    """What a command of Celery's thread finds due was lost in silence: a heartbeat, for example."""
    agenda = Agenda(threading.RLock())
    agenda.start()
    with pytest.raises(DefectError), agenda.turn():
        agenda.put(time.monotonic(), 0, 0, broken)
    wait_for(lambda: ended == [DefectError])
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
