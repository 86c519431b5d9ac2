"""What the provisioner's service needs of a backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from farm.core.errors import FarmError
from farm.live.wire.messages import Play
from farm.live.wire.pool_report import HostRecord, PoolReport
from provisioner.keeper import Instance, Remove


class BackendError(FarmError):
    """A backend that cannot do now what it is asked for; trying again later may help."""


class Backend(Protocol):
    """Starts and removes what plays builders."""

    @property
    def outside(self) -> bool:
        """Whether each builder is an instance of its own; else hosts play many of them."""

    @property
    def acts(self) -> bool:
        """Whether anything is done at all (a dry run only says what it would do)."""

    def instances(self) -> list[Instance]:
        """Return every instance of this farm; raises BackendError."""

    def launch(self, play: Play) -> None:
        """Start an instance for this builder; raises BackendError."""

    def remove(self, order: Remove) -> None:
        """Remove an instance; one that is gone already is no error. Raises BackendError."""

    def tend(
        self, reports: Mapping[str, PoolReport], hosts: Mapping[str, HostRecord]
    ) -> Mapping[str, str]:
        """Have enough hosts for the builders that are there and asked for.

        Returns what stands in the way, by pool, for people; raises BackendError if nothing could
        be done at all: it is not called again before a pause, which doubles.
        """

    def close(self) -> None:
        """The service ends on purpose."""
