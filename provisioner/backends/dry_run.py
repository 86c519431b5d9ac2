"""Does nothing: the service's log says what would be done."""

from __future__ import annotations

from collections.abc import Mapping

from farm.live.wire.messages import Play
from farm.live.wire.pool_report import HostRecord, PoolReport
from provisioner.keeper import Instance, Remove


class DryRun:
    """A backend without instances; the scheduler is told nothing either."""

    outside = False
    acts = False

    def instances(self) -> list[Instance]:
        """There are none."""
        return []

    def launch(self, play: Play) -> None:
        """Nothing is started."""

    def remove(self, order: Remove) -> None:
        """Nothing is removed."""

    def tend(
        self,
        reports: Mapping[str, PoolReport],  # noqa: ARG002 - nobody is looked at
        hosts: Mapping[str, HostRecord],  # noqa: ARG002
    ) -> Mapping[str, str]:
        """There are no hosts."""
        return {}

    def close(self) -> None:
        """Nothing is left."""
