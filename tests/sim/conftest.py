"""A small simulated farm: pools and jobs in, the audited events out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from farm.core.commands import Command, EndJob, StartJob, log_name
from farm.core.driver import drive
from farm.core.events import Event
from farm.core.model import Job
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime import make_estimator
from farm.results.audit.auditor import Auditor
from farm.sim.world import SimulatedWorld
from farm.workload import batches


class Story:
    """The events of a simulated farm, with their commands."""

    def __init__(self) -> None:
        self.told: list[tuple[Event, list[Command]]] = []
        self.auditor = Auditor()
        #: called after each event: to lose a builder, for example
        self.then: Callable[[Event, SimulatedWorld], None] = lambda _event, _world: None

    def play(self, pools: Sequence[PoolSpec], jobs: Iterable[Job], **rules: Any) -> Story:
        """Run the jobs (which carry their arrivals) on the pools, to the end."""
        scheduler = Scheduler(SchedulingRules(**rules), make_estimator("oracle"), pools)
        arrivals = batches(sorted(jobs, key=lambda job: job.arrived_at or 0.0))
        world = SimulatedWorld(pools, arrivals)

        def observe(event: Event, commands: Sequence[Command]) -> None:
            self.auditor(event, commands)
            self.told.append((event, list(commands)))
            assert len(self.told) < 100_000, "this story has no end"
            self.then(event, world)

        drive(scheduler, world, observe)
        self.auditor.close()
        return self

    def of(self, kind: type) -> list[Any]:
        """Return the events or commands of one kind, in order."""
        values = [value for event, orders in self.told for value in (event, *orders)]
        return [value for value in values if type(value) is kind]

    def ends(self) -> dict[str, EndJob]:
        """Return how each job ended."""
        return {end.job.id: end for end in self.of(EndJob)}

    def times(self) -> dict[str, tuple[float, float]]:
        """Return when each job last started and when it finished."""
        return {name: (end.started_at, end.finished_at) for name, end in self.ends().items()}

    def where(self) -> dict[str, str]:
        """Return on which builder each job last ran."""
        return {start.job.id: start.builder for start in self.of(StartJob)}

    def shape(self, *kinds: type) -> list[tuple[float, str, str]]:
        """Return (instant, kind, builder) of the events and commands of some kinds."""
        return [
            (event.at, log_name(type(value)), getattr(value.builder, "id", value.builder))
            for event, commands in self.told
            for value in (event, *commands)
            if type(value) in kinds
        ]


@pytest.fixture
def story() -> Story:
    """A farm that has not run yet: ``story.play([pool(builders=2)], jobs((0, 5), (1, 5)))``."""
    return Story()


@pytest.fixture
def pool() -> Callable[..., PoolSpec]:
    """Make a pool of amd64 builders called p."""
    return lambda **more: PoolSpec(**{"name": "p", "processors": ("amd64",), **more})


@pytest.fixture
def jobs() -> Callable[..., list[Job]]:
    """Make jobs called a, b, … from (arrival, service time) pairs."""

    def make(*pairs: tuple[float, float], **more: Any) -> list[Job]:
        return [
            Job(id=chr(97 + number), arrived_at=at, service_time=time, **more)
            for number, (at, time) in enumerate(pairs)
        ]

    return make
