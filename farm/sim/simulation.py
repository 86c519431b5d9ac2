"""Run a scenario in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Self

from farm.assembly import make_scheduler
from farm.core.commands import Command
from farm.core.driver import Handler, Observer, World, drive
from farm.core.events import Event
from farm.core.model import Job
from farm.core.pools.observer import PoolObserver
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.scenario.model import Scenario
from farm.sim.garbage import no_garbage_collection
from farm.sim.provisioning import SimulatedProvisioner
from farm.sim.setting import NO_ALGORITHMS, Algorithms, Setting
from farm.sim.too_large import refuse_too_large
from farm.sim.world import SimulatedWorld
from farm.workload import batches, build_jobs, needed_of

Batches = Iterator[tuple[float, tuple[Job, ...]]]
Around = Callable[[World, Scheduler], World]
"""Returns a world that wraps another one and adds events."""


class Simulation:
    """A simulation by the scheduler itself: constructed first, then run once.

    The same setting, scheduler and load give the same events and commands, always. ``around`` wraps
    the world (for estimates at submission).
    """

    def __init__(
        self,
        setting: Setting,
        scheduler: Scheduler,
        load: Batches,
        around: Around | None = None,
        needed: Container[str] = (),
    ) -> None:
        self._around, self.scheduler = around, scheduler
        #: what the compiled loop, which was asked first, does not cover; empty: it was not asked
        self.not_covered = ""
        self.world = SimulatedWorld(setting.pools, load, ends_at=setting.ends_at, needed=needed)
        provision(self.world, scheduler, setting.pools, setting.algorithms)

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        *,
        scheduler: Scheduler | None = None,
        algorithms: Algorithms = NO_ALGORITHMS,
        around: Around | None = None,
        load: Batches | None = None,
    ) -> Self:
        """Return the simulation of a scenario; ``load`` replaces its workload.

        Raises InputError for a scenario that names something that does not exist, that is too
        large, or whose workload cannot be read.
        """
        refuse_too_large(scenario)
        scheduler = scheduler or make_scheduler(scenario)
        needed: Container[str] = ()
        if load is None:
            jobs = build_jobs(scenario)
            load, needed = batches(jobs), needed_of(jobs)
        setting = Setting.of(scenario, scheduler.rules, algorithms)
        return cls(setting, scheduler, load, around, needed)

    def play(self, observers: Sequence[Observer] = ()) -> None:
        """Run to the end, calling the observers."""
        world: World = self.world
        if self._around is not None:
            world = self._around(world, self.scheduler)
        play(self.scheduler, world, observers)


def provision(
    world: SimulatedWorld,
    scheduler: Scheduler,
    pools: Sequence[PoolSpec],
    algorithms: Algorithms,
) -> None:
    """Let the algorithms size the provisioned pools from now on."""
    sized = [(pool, algorithms[pool.name]) for pool in pools if pool.provisioned]
    # of those that plan at one instant, the one that planned longest ago comes first
    sized.sort(key=lambda pair: -pair[1].interval)
    for place, (pool, algorithm) in enumerate(sized):
        observer = PoolObserver(scheduler, pool, closely=algorithm.looks_closely)
        world.provision(SimulatedProvisioner(pool.name, algorithm, observer, place))


def play(scheduler: Handler, world: World, observers: Sequence[Observer] = ()) -> None:
    """Drive a simulated world to its end, calling the observers."""
    with no_garbage_collection():
        drive(scheduler, world, together(observers))


def together(observers: Sequence[Observer]) -> Observer:
    """Return one observer that calls them all, in order."""
    if len(observers) == 1:
        return observers[0]

    def observe(event: Event, commands: Sequence[Command]) -> None:
        for observer in observers:
            observer(event, commands)

    return observe
