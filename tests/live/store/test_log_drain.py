"""The thread that moves a farm's event log from Redis to the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.live.store.log_drain import EVENTS, LOCK, LogDrain

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
