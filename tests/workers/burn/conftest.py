"""What the tests of burning share: a burner of their own, and a look at the process table."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workers.burn.burners import Burners, BurnSettings, Burnt

#: far below any real core: a "second" of work is a few milliseconds, whatever the machine does
TINY = {"cpu": 4.0, "memory": 40.0, "stress_ng": 20.0}
#: real seconds within which something must have happened, however loaded the machine
PATIENCE = 60.0


class Fire:
    """Burners and how their jobs ended."""

    def __init__(self, burner: str = "own", rates: dict[str, float] | None = None) -> None:
        settings = BurnSettings(burner=burner, rates=TINY if rates is None else rates)
        self.burners = Burners(settings)
        self.told: queue.Queue[Burnt] = queue.Queue()

    def start(self, mode: str, seconds: float | None, threads: int = 1, **more) -> int:
        return self.burners.start(mode, seconds, threads, self.told.put, **more)

    def burn_for_ever(self, threads: int = 1, mode: str = "stress", **more) -> list[int]:
        """Start a job without an end and return its process ids once all of them work."""
        number = self.start(mode, None, threads, **more)
        assert self.burners.await_burning(number, PATIENCE)
        pids = processes_under(self.burners.pid or 0)
        assert len(pids) >= threads
        return pids

    def end(self) -> Burnt:
        return self.told.get(timeout=PATIENCE)


@pytest.fixture
def fire() -> Iterator[Callable[..., Fire]]:
    """Make burners that are put out after the test."""
    made: list[Fire] = []

    def make(**settings) -> Fire:
        made.append(Fire(**settings))
        return made[-1]

    yield make
    for one in made:
        one.burners.close()


def state_and_parent(pid: int) -> tuple[str, int]:
    """Return a process's state and its parent; Z and 0 when there is none."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return "Z", 0
    return state, int(parent)


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not merely unburied."""
    return state_and_parent(pid)[0] != "Z"


def processes_under(root: int) -> list[int]:
    """Return the live processes that descend from this one."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        state, parent = state_and_parent(int(folder.name))
        if state != "Z":
            parents[int(folder.name)] = parent
    found, front = [], {root}
    while front := {pid for pid, parent in parents.items() if parent in front}:
        found += sorted(front)
    return found


def await_gone(pids: list[int]) -> None:
    """Wait until none of them is left."""
    deadline = time.monotonic() + PATIENCE
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)
