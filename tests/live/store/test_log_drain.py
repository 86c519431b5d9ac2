"""The thread that moves a farm's event log from Redis to the disk."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import closing
from pathlib import Path

import pytest

from farm.live.redis.connection import connect
from farm.live.redis.server import choose_server
from farm.live.store.log_drain import (
    EVENTS,
    LOCK,
    POSITION,
    LogDrain,
    Position,
    position_in,
)
from farm.processes.locks import locked
from tests.fixtures.processes import await_gone, until
from tests.worlds.stepwise import Clock, Leader

pytestmark = pytest.mark.live


def test_a_disk_that_refuses_the_lock_is_tried_again(server, client, keys, tmp_path: Path, caplog):
    """The thread ended there, with a traceback, and the log was never written again."""
    client.xadd(keys.log, {"l": b"a line\n"})
    (tmp_path / LOCK).mkdir()  # nothing can be opened there
    with LogDrain(server.url, keys, tmp_path) as drain:
        until(lambda: "cannot be written" in caplog.text, "saying it")
        assert "Is a directory" in drain.trouble
        (tmp_path / LOCK).rmdir()
        until(lambda: not drain.trouble, "the log")
    assert (tmp_path / EVENTS).read_bytes() == b"a line\n"
    assert len([line for line in caplog.messages if "cannot be written" in line]) == 1


def test_the_end_waits_for_an_earlier_scheduler_to_let_the_log_go(
    server, client, keys, tmp_path: Path
):
    """What was committed since it was deposed was left in the server, whose data may be lost."""
    client.xadd(keys.log, {"l": b"a line\n"})
    released = threading.Event()

    def hold() -> None:
        with locked(tmp_path / LOCK):
            held.set()
            released.wait(5.0)

    held = threading.Event()
    earlier = threading.Thread(target=hold)
    earlier.start()
    held.wait(5.0)
    timer = threading.Timer(0.3, released.set)
    with LogDrain(server.url, keys, tmp_path):
        timer.start()
    earlier.join()
    assert (tmp_path / EVENTS).read_bytes() == b"a line\n"


def test_the_end_waits_for_a_server_that_is_started_again(keys, tmp_path: Path, caplog):
    """It ended just then, and its data were lost before the next start: so were the last lines."""
    with choose_server(None, data=tmp_path / "redis") as server:
        drain = LogDrain(server.url, keys, tmp_path).__enter__()
        until((tmp_path / LOCK).exists, "the thread")
        with closing(connect(server.url, "test")) as client:
            client.xadd(keys.log, {"l": b"a line\n"})
        os.kill(server.pid, signal.SIGTERM)
        await_gone([server.pid])
        end = threading.Thread(target=drain.__exit__, args=(None, None, None))
        end.start()
        until(lambda: "cannot be written" in caplog.text, "a try without the server")
        server.revive()
        end.join()
    assert (tmp_path / EVENTS).read_bytes() == b"a line\n"


def test_a_log_that_another_scheduler_keeps_is_left_before_the_end_is_over(
    server, keys, tmp_path: Path, monkeypatch
):
    """One that came by the lock at the last moment had no time left to move anything."""
    monkeypatch.setattr("farm.live.store.log_drain.END_TIMEOUT", 2.0)
    with locked(tmp_path / LOCK), LogDrain(server.url, keys, tmp_path) as drain:
        pass
    assert not drain._thread.is_alive()


def test_a_log_whose_position_cannot_be_read_is_left_as_it_is(
    server, client, keys, tmp_path: Path, caplog, monkeypatch
):
    """It was cut off at its beginning; new lines stay on the server."""
    monkeypatch.setattr("farm.live.store.log_drain.AWAY_TIMEOUT", 0.0)
    client.xadd(keys.log, {"l": b"new\n"})
    (tmp_path / EVENTS).write_bytes(b"old\n")
    (tmp_path / POSITION).write_bytes(b"")
    with LogDrain(server.url, keys, tmp_path):
        until(lambda: "position: garbled" in caplog.text, "saying it")
    assert (tmp_path / EVENTS).read_bytes() == b"old\n"
    assert client.xlen(keys.log) == 1


def test_lines_wait_as_long_as_moving_them_costs(server, client, keys, tmp_path: Path, monkeypatch):
    """Not for a fixed time: what the disk has not yet is lost with a server and its scheduler."""
    monkeypatch.setattr("farm.live.store.log_drain.WAIT", 600.0)
    with LogDrain(server.url, keys, tmp_path) as drain:
        for number in range(1, 4):
            client.xadd(keys.log, {"l": b"a line\n", "n": number})
            drain.wake()
            until(lambda: not client.xlen(keys.log), "the log")


def test_two_failures_around_one_commit_leave_each_line_once_and_whole(
    server, client, keys, tmp_path: Path, monkeypatch
):
    """Lines that are cut off still counted in the size of the log: the next cut came too late."""
    keep, failures = LogDrain._keep, iter([None, OSError, None, OSError, None])

    def fail_at_times(drain: LogDrain, position: Position) -> None:
        if (error := next(failures)) is not None:
            raise error("a disk that fails")
        keep(drain, position)

    monkeypatch.setattr(LogDrain, "_keep", fail_at_times)
    drain = LogDrain(server.url, keys, tmp_path)
    for number in range(1, 4):
        client.xadd(keys.log, {"l": f"line {number}\n", "n": number})
        while not drain._try_to_move():
            pass
    drain._close()
    assert (tmp_path / EVENTS).read_text() == "line 1\nline 2\nline 3\n"
    assert position_in(tmp_path) == Position(3, (tmp_path / EVENTS).stat().st_size)
    assert next(failures, None) is None


def test_an_event_log_that_cannot_be_written_is_part_of_the_farms_status(
    server, client, keys, tmp_path: Path
):
    """It was told in the scheduler's log only; farm status and its exit code said that all is well.

    Also while an earlier scheduler, which is paused, does not let go of it.
    """
    leader = Leader(client, keys, Clock(), log=lambda: b"a line\n")
    assert leader.world.status().log_trouble is None
    (tmp_path / POSITION).mkdir()
    with LogDrain(server.url, keys, tmp_path) as drain:
        leader.world._store.keep_log(drain)
        leader.world.commits.commit()
        until(lambda: "Is a directory" in (leader.world.status().log_trouble or ""), "saying it")
        (tmp_path / POSITION).rmdir()
        until(lambda: leader.world.status().log_trouble == "", "the log")
    with locked(tmp_path / LOCK):
        drain = LogDrain(server.url, keys, tmp_path).__enter__()
        leader.world._store.keep_log(drain)
        until(lambda: "another process" in (leader.world.status().log_trouble or ""), "saying it")
    drain.__exit__()
    assert drain.trouble == ""
