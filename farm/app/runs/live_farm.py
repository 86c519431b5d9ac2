"""A live farm made from a scenario, for single runs and long-running farms."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from farm.app.recorded.played_again import played_again
from farm.app.runs.estimating import Estimating
from farm.app.runs.metering import Metering
from farm.app.runs.own_parts import NONE, OwnParts
from farm.assembly import pool_specs
from farm.core.commands import Command
from farm.core.driver import Observer, World
from farm.core.events import Event
from farm.forecasts.dispatch.at_submission import EstimatingWorld
from farm.live.host_processes import HostProcesses
from farm.live.live_options import LiveOptions
from farm.live.operating.control_plane import ControlPlane
from farm.live.protocol.failure_detection import Patience
from farm.live.run import Batches, LiveRun, Watchers, run_live
from farm.live.store.saved import SchedulerMemory
from farm.live.wire.pool_report import FarmStatus
from farm.live.world import LiveWorld
from farm.metrics.exporter import MetricsPlace
from farm.scenario import Scenario
from farm.sim.simulation import together

#: decisions that can be explained afterwards
EXPLAINED = 1000
#: ended jobs whose history is kept in Redis
KEEP_ENDED = 100_000


class LiveFarm:
    """The parts of a live farm; its metrics are served while its ``with`` block lasts.

    ``own``: parts of the caller's, in the place of what the scenario names. ``long_lived``: it
    stays up, and continues what another scheduler began. ``keep_ended``: how many ended jobs it
    remembers.
    """

    def __init__(
        self,
        scenario: Scenario,
        metrics: MetricsPlace,
        own: OwnParts = NONE,
        *,
        long_lived: bool = False,
        keep_ended: int = KEEP_ENDED,
    ) -> None:
        self.scenario = scenario
        self._place = metrics
        self.estimating = Estimating(scenario, own, live=True, again=played_again)
        self.scheduler = self.estimating.scheduler(explain_last=EXPLAINED)
        self.pools = pool_specs(scenario)
        self._long_lived, self._keep_ended = long_lived, keep_ended
        #: by an earlier scheduler
        self.learned: SchedulerMemory | None = None
        #: of the farm that is played
        self.control: ControlPlane
        self.metering = Metering(
            self.scheduler, self.pools, scenario.live.speed, metrics, stays=long_lived
        )

    def options(self, **more: Any) -> LiveOptions:
        """Return how the scenario wants the farm to be run; ``more`` says the rest."""
        live = self.scenario.live
        return LiveOptions(
            speed=live.speed,
            patience=Patience(silence=live.lost_after),
            beat_interval=live.heartbeat,
            max_waiting=live.max_waiting,
            metrics_address=self._place.address,
            metrics_targets=str(self._place.targets or ""),
            **more,
        )

    def play(
        self,
        load: Batches | None,
        options: LiveOptions,
        *,
        observers: Sequence[Observer] = (),
        on_up: Callable[[LiveWorld, HostProcesses], None],
        on_tick: Callable[[LiveWorld], float],
        show: Callable[[FarmStatus], None] | None = None,
    ) -> LiveRun:
        """Run the farm to its end, in the main thread; arguments as ``run_live`` has them."""

        def up(world: LiveWorld, hosts: HostProcesses) -> None:
            on_up(world, hosts)
            self.metering.meet(world, hosts)

        metrics = self.metering.metrics
        with self.metering, contextlib.ExitStack() as stack:
            for service in self.estimating.services:
                stack.callback(service.close)
                if options.stays is None:  # one that stands by does not need it yet
                    service.start()
            watchers = Watchers(
                observe=together([*observers, self._observe, *self.metering.observers]),
                progress=self.metering.progress(show),
                on_up=up,
                on_tick=on_tick,
                meter=None if metrics is None else metrics.series,
                around=self._around,
            )
            return run_live(self.scheduler, self.pools, load, options, watchers)

    def _observe(self, event: Event, commands: Sequence[Command]) -> None:
        self.control.observe(event, commands)

    def _around(self, world: LiveWorld) -> World:
        """Give the farm its control plane; let estimates follow submissions when there is time."""
        services = self.estimating.services
        self.control = ControlPlane(
            world,
            self.scheduler,
            self.scenario,
            long_lived=self._long_lived,
            keep_ended=self._keep_ended,
            rollouts=services[0] if services else None,
            calibrations=self.estimating.calibrations,
            learned=self.learned,
        )
        for service in services:
            service.attach(self.scheduler, world.clock.now, world.wake)
        estimated = self.estimating.around(world, self.scheduler, world.add_event)
        if isinstance(estimated, EstimatingWorld):
            world.add_step(estimated.step)
        return estimated
