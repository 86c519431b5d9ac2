"""Requests for the end of a process, by signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from farm.processes.signals import REQUESTS, StopRequest, stop_on_signals

#: SIGTERM comes before every line of the wait, wherever that is written
INTERRUPTED = """
import signal, sys
from farm.processes.signals import stop_on_signals

def interrupt(frame, event, argument):
    signal.raise_signal(signal.SIGTERM)
    return interrupt

stop = stop_on_signals()
assert not stop.wait(0.0)
sys.settrace(interrupt)
asked = stop.wait(60.0)
sys.settrace(None)
assert asked
"""


@pytest.fixture
def stop() -> Iterator[StopRequest]:
    """Signals ask for the end, until the test has ended."""
    before = {kind: signal.getsignal(kind) for kind in REQUESTS}
    yield stop_on_signals()
    for kind, handler in before.items():
        signal.signal(kind, handler)


def test_a_signal_ends_a_wait(stop: StopRequest) -> None:
    """At once, and every later one."""
    assert not stop.wait(0.0)
    assert not stop.is_set()
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    assert stop.wait(60.0)
    timer.join()
    os.kill(os.getpid(), signal.SIGINT)
    assert stop.wait(60.0)
    assert stop.is_set()


def test_a_signal_in_the_midst_of_a_wait_does_not_block_the_process() -> None:
    """It waited for a lock that was held by the very thread in which its handler ran."""
    subprocess.run([sys.executable, "-c", INTERRUPTED], check=True, timeout=60)
