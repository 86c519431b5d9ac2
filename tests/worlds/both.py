"""One scenario in either world: simulated, or on a live farm of this process's own."""

from __future__ import annotations

from typing import Any

import pytest

from farm.assembly import make_scheduler, pool_specs
from farm.core.driver import Observer
from farm.live.options import LiveOptions
from farm.live.run import Watchers, run_live
from farm.scenario import Scenario
from farm.sim.simulation import Simulation, together
from farm.workload import batches, build_jobs

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
