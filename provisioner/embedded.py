"""The provisioner of ``farm run``: the same keeper, in the scheduler's process."""

from __future__ import annotations

import time
from collections.abc import Mapping

from farm.core.pools.algorithm import AnyAlgorithm, first_plan_at
from farm.live.host_processes import HostProcesses, hosts_needed
from farm.live.operating.control_plane import ControlPlane
from farm.live.wire.messages import GiveUpBuilder, Watch
from farm.live.wire.pool_report import EMBEDDED
from farm.live.world import LiveWorld
from provisioner.reconciler import Keeping, ReconcilerTimes, decide, reconcile

PATIENCE = ReconcilerTimes()


class EmbeddedProvisioner:
    """Sizes the pools of a live run; its plans go to the control plane like those of others.

    Builders run on the run's own hosts, whose number grows with that of the builders.
    """

    def __init__(self, algorithms: Mapping[str, AnyAlgorithm]) -> None:
        self._algorithms = dict(algorithms)
        self._keepings = {
            pool: Keeping(next_at=first_plan_at(one)) for pool, one in algorithms.items()
        }
        self._hosts: HostProcesses | None = None
        self._introduced = False

    def meet(self, _: LiveWorld, hosts: HostProcesses) -> None:
        """Set the hosts of the run."""
        self._hosts = hosts

    def tick(self, world: LiveWorld, control: ControlPlane) -> float:
        """Let the control plane report, then plan for every pool; return when the next is due."""
        if not self._introduced:
            self._introduced = True
            for pool, algorithm in self._algorithms.items():
                control.add(Watch(pool, EMBEDDED, closely=algorithm.looks_closely))
        due = control.turn()
        if not self._algorithms:
            return due
        if not world.stopping:
            for pool in self._algorithms:
                if world.clock.now() >= self._keepings[pool].next_at:
                    self._look(pool, control)
            if self._hosts is not None:
                self._hosts.ensure(hosts_needed(control.builders_to_host))
        next_at = min(keeping.next_at for keeping in self._keepings.values())
        return min(due, time.monotonic() + world.clock.real_until(next_at))

    def _look(self, pool: str, control: ControlPlane) -> None:
        keeping, algorithm = self._keepings[pool], self._algorithms[pool]
        report, now = control.reports([pool])[pool], time.monotonic()
        keeping, actions = reconcile(keeping, report, None, now, PATIENCE)
        self._keepings[pool], plan = decide(algorithm, keeping, report, now)
        for action in actions:
            if isinstance(action, GiveUpBuilder):
                control.add(action)
        if plan is not None:
            control.add(plan)
