"""The thread that moves a farm's event log from Redis to the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.live.store.log_drain import EVENTS, LOCK, OLDER, POSITION, LogDrain

pytestmark = pytest.mark.live


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until this holds, for 30 seconds at most."""
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_disk_that_refuses_the_lock_is_tried_again(server, client, keys, tmp_path: Path, caplog):
    """The thread ended there, with a traceback, and the log was never written again."""
    client.xadd(keys.log, {"l": b"a line\n"})
    (tmp_path / LOCK).mkdir()  # nothing can be opened there
    with LogDrain(server.url, keys, tmp_path):
        wait_for(lambda: any("cannot be written" in line for line in caplog.messages))
        (tmp_path / LOCK).rmdir()
        wait_for((tmp_path / EVENTS).exists)
    assert (tmp_path / EVENTS).read_bytes() == b"a line\n"
    assert len([line for line in caplog.messages if "cannot be written" in line]) == 1


def test_a_log_whose_position_cannot_be_read_is_kept(server, client, keys, tmp_path: Path, caplog):
    """It was cut off at its beginning."""
    client.xadd(keys.log, {"l": b"new\n"})
    (tmp_path / EVENTS).write_bytes(b"old\n")
    (tmp_path / POSITION).write_bytes(b"")
    with LogDrain(server.url, keys, tmp_path):
        wait_for(lambda: (tmp_path / EVENTS).exists() and (tmp_path / EVENTS).stat().st_size > 0)
    assert (tmp_path / EVENTS).read_bytes() == b"new\n"
    assert (tmp_path / OLDER).read_bytes() == b"old\n"
    assert any("the log is kept in events.1.jsonl" in line for line in caplog.messages)
