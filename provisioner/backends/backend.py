"""The interface of a backend, and what most backends have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farm.core.errors import FarmError
from farm.live.wire.messages import Play
from farm.live.wire.pool_report import HostRecord, PoolReport
from provisioner.reconciler import Instance, Remove


class BackendError(FarmError):
    """A backend that is temporarily unable to carry out a request; retrying may help."""


class Backend:
    """Starts and removes instances of builders.

    Most backends only have enough *hosts*: the scheduler tells a host with room which builders to
    play, so that launching and removing do nothing, as here.
    """

    #: whether each builder is an instance of its own; else hosts play many of them
    outside = False
    #: whether anything is done at all
    acts = True

    def instances(self) -> list[Instance]:
        """Return every instance of this farm; raises BackendError."""
        return []

    def launch(self, play: Play) -> None:
        """Start an instance for this builder; raises BackendError."""

    def remove(self, command: Remove) -> None:
        """Remove an instance; one that is gone already is no error. Raises BackendError."""

    def tend(
        self, _reports: Mapping[str, PoolReport], _hosts: Mapping[str, HostRecord], /
    ) -> Mapping[str, str]:
        """Have enough hosts for the existing and requested builders.

        Returns problems by pool, as text; raises BackendError if nothing could
        be done at all: it is not called again before a pause, which doubles.
        """
        return {}

    def processes(self) -> Sequence[int]:
        """Return the ids of processes of this machine whose end asks for another look."""
        return ()

    def close(self) -> None:
        """Close the backend, when the service ends."""


class DryRun(Backend):
    """Does nothing: the service logs what would be done. Nothing is sent to the scheduler."""

    acts = False


def builders_to_host(reports: Mapping[str, PoolReport]) -> dict[str, int]:
    """Return, by pool, how many existing or requested builders need room on a host."""
    return {
        pool: len(report.joined) + len(report.requested) - report.elsewhere
        for pool, report in reports.items()
    }


class Pause:
    """A pause that doubles with each failure in a row; instants are real seconds."""

    def __init__(self, first: float = 1.0, longest: float = 60.0) -> None:
        self._first = first
        self._longest = longest
        self._until = float("-inf")
        #: failures in a row
        self.failures = 0

    def failed(self, now: float) -> float:
        """Record a failure; return the length of the pause that begins now."""
        pause = min(self._longest, self._first * 2.0 ** min(self.failures, 30))
        self.failures += 1
        self._until = now + pause
        return pause

    def well(self) -> None:
        """Record a success."""
        self.failures = 0
        self._until = float("-inf")

    def over(self, now: float) -> bool:
        """Return whether the pause is over."""
        return now >= self._until
