"""The jobs of one builder that burn real processor time or memory instead of passing time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from farm.core.commands import StartJob
from farm.core.model import Builder
from workers.burn.burners import Ended
from workers.burn.limits import cores_of, cpu_quota, own_cores

#: real seconds, alone, after which a burning job is given up: it weighs on its timed neighbours
#: (under the contention law) until its burner says that it has ended, which is long before
ENDLESS = 1e7


class Burner(Protocol):
    """What starts and kills burning jobs (``workers.burn.burners.Burners``)."""

    def start(
        self,
        mode: str,
        seconds: float | None,
        threads: int,
        ended: Ended,
        *,
        cores: list[int] | None = None,
    ) -> int:
        """Begin to burn; ``ended`` is told once, from another thread, unless it is killed."""

    def kill(self, number: int) -> None:
        """End it at once."""


class Burnt(msgspec.Struct, frozen=True):
    """A burning job that ended by itself; spans are real seconds, added up over its threads."""

    #: what went wrong; None: nothing
    error: str | None
    mode: str
    #: from its start to its end
    taken: float
    #: what its work takes on idle cores
    work: float
    #: of processor time
    cpu: float


class BuilderBurns:
    """Which attempts of a builder burn, and on which processors.

    A job's work is its service time ÷ the builder's speed ÷ the farm's speed, in seconds of one
    idle core, for each thread: alone on an idle machine with a core for each thread it takes its
    service time, at any farm speed; beside others it takes what the machine makes of it.
    """

    def __init__(self, burner: Burner, builder: Builder, farm_speed: float) -> None:
        self._burner = burner
        self._pace = builder.speed * farm_speed
        self._numbers: dict[str, int] = {}
        #: the work, in farm seconds, that stands for one under the contention law
        self.endless = ENDLESS * self._pace
        self._cores: list[int] | None = None
        if builder.cores is not None:
            self._cores = cores_of(builder.index, builder.cores, own_cores(), cpu_quota())

    def start(self, command: StartJob, ended: Callable[[Burnt], None]) -> None:
        """Begin to burn; ``ended`` is told how it was, from another thread."""
        job, threads = command.job, max(1, command.job.threads)
        seconds, began = job.service_time / self._pace, time.monotonic()

        def told(error: str | None, cpu: float) -> None:
            taken = (time.monotonic() - began) * threads
            ended(Burnt(error, job.mode, taken, seconds * threads, cpu))

        self._numbers[job.id] = self._burner.start(
            job.mode, seconds, threads, told, cores=self._cores
        )

    def stop(self, job: str) -> None:
        """End it at once if it burns."""
        number = self._numbers.pop(job, None)
        if number is not None:
            self._burner.kill(number)

    def stop_all(self) -> None:
        """End everything of this builder at once."""
        for job in list(self._numbers):
            self.stop(job)
