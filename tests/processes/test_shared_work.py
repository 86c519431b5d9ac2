"""Calls shared by processes: the same results, in order, and a clear end."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from farm.core.errors import InputError, RunError
from farm.processes import shared_work
from farm.processes.shared_work import SharedWork

#: not of this module, so that the other process imports no tests
MISTAKE = "from farm.core.errors import InputError; raise InputError('pols')"


@pytest.fixture(autouse=True)
def _shared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_work, "WORTH_SHARING", 0.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def test_processes_are_shared_by_all_calls_and_kept_for_the_next() -> None:
    """Each result has the place of its call; the processes are reused."""
    here = os.getpid()
    with SharedWork() as work:
        found = dict(work.done([partial(pow, 2, n) for n in range(4)]))
        assert found == {0: 1, 1: 2, 2: 4, 3: 8}
        assert here not in dict(work.done([os.getpid])).values()


def test_a_killed_process_is_one_message() -> None:
    """Whether it was short of memory or killed by hand: no traceback, no waiting."""
    calls = [partial(signal.raise_signal, signal.SIGKILL)] * 2
    with SharedWork() as work, pytest.raises(RunError, match="a process that played runs was kill"):
        list(work.done(calls))


def test_an_exception_in_a_call_is_raised() -> None:
    """A user's mistake keeps its own message."""
    with SharedWork() as work, pytest.raises(InputError, match="pols"):
        list(work.done([partial(exec, MISTAKE)] * 2))
