"""One scenario in either world: simulated, or on a live farm of this process's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from farm.assembly import make_scheduler, pool_specs
from farm.core.driver import Observer
from farm.core.model import Job
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.live.host_processes import HostProcesses
from farm.live.live_options import LiveOptions
from farm.live.run import LiveRun, Watchers, run_live
from farm.live.world import LiveWorld
from farm.scenario import Scenario
from farm.sim.simulation import Simulation, together
from farm.workload import batches, build_jobs
from tests.worlds.virtual import Story

#: the names of the worlds, as parameters of a test
WORLDS = ["simulated", pytest.param("live", marks=pytest.mark.live)]


def play(world: str, scenario: Scenario, *observers: Observer, **options: Any) -> None:
    """Run a scenario in one of the worlds; ``options`` are the live farm's."""
    observe = together(observers)
    if world == "simulated":
        Simulation.of(scenario).play([observe])
    else:
        run_live(
            make_scheduler(scenario),
            pool_specs(scenario),
            batches(build_jobs(scenario)),
            LiveOptions(**{"speed": scenario.live.speed, **options}),
            Watchers(observe=observe),
        )


class LiveStory(Story):
    """The events of a live farm of this process's own, with their commands, audited."""

    def play_live(
        self,
        pool: PoolSpec,
        jobs: Sequence[Job],
        options: LiveOptions,
        on_up: Callable[[HostProcesses], object] = lambda _: None,
    ) -> LiveRun:
        """Run the jobs to the end; from the same events a fresh scheduler decides the same.

        ``on_up``: given the processes of the farm's hosts.
        """

        def up(world: LiveWorld, hosts: HostProcesses) -> None:
            self.world = world
            on_up(hosts)

        self.scheduler, fresh = (
            Scheduler(SchedulingRules(), make_estimator("oracle"), [pool]) for _ in range(2)
        )
        arrivals = [(job.arrived_at or 0.0, (job,)) for job in jobs]
        watchers = Watchers(observe=self._observe, on_up=up)
        run = run_live(self.scheduler, [pool], arrivals, options, watchers)
        self._end()
        for event, commands in self.events:
            assert list(fresh.handle(event)) == commands
        return run
