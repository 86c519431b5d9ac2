"""What the tests of burning share: a burner, and a look at the process table."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator

import psutil
import pytest

from farm.processes.identity import began_at
from workers.burn.burning_jobs import Burners, BurnSettings, Burnt

#: far below any real core: a "second" of work is a few milliseconds on any machine
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

    def burn_forever(self, threads: int = 1, mode: str = "stress", **more) -> list[int]:
        """Start a job without an end and return its process ids once all of them work."""
        number = self.start(mode, None, threads, **more)
        assert self.burners.await_burning(number, PATIENCE)
        pids = processes_under(self.burners.pid or 0)
        assert len(pids) >= threads
        return pids

    def burn_beside(self, threads: int, mode: str = "stress") -> tuple[int, list[int]]:
        """Start a job without an end; return its number, and its process ids once they work."""
        before = set(processes_under(self.burners.pid or 0))
        number = self.start(mode, None, threads)
        assert self.burners.await_burning(number, PATIENCE)
        return number, sorted(set(processes_under(self.burners.pid or 0)) - before)

    def end(self) -> Burnt:
        return self.told.get(timeout=PATIENCE)


@pytest.fixture
def fire() -> Iterator[Callable[..., Fire]]:
    """Make burners that are stopped after the test."""
    made: list[Fire] = []

    def make(**settings) -> Fire:
        made.append(Fire(**settings))
        return made[-1]

    yield make
    for one in made:
        one.burners.close()


def processes_under(root: int) -> list[int]:
    """Return the live processes that descend from this one."""
    try:
        family = psutil.Process(root).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process.pid for process in family if began_at(process.pid)]
