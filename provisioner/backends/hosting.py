"""What backends have in common whose builders are played by hosts: how many need one, and pauses.

The scheduler gives a wanted builder to a host that has room (``farm.live.hosts.intake``); such a
backend only has to see to it that there are enough hosts, and that idle hosts go.
"""

from __future__ import annotations

from collections.abc import Mapping

from farm.live.wire.pool_report import PoolReport


def builders_to_host(reports: Mapping[str, PoolReport]) -> dict[str, int]:
    """Return, by pool, how many builders that are there or asked for need room on a host."""
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
        """One more failure: return how long the pause is that begins now."""
        pause = min(self._longest, self._first * 2.0 ** min(self.failures, 30))
        self.failures += 1
        self._until = now + pause
        return pause

    def well(self) -> None:
        """It works: no failures any more."""
        self.failures = 0
        self._until = float("-inf")

    def over(self, now: float) -> bool:
        """Whether it is time for another try."""
        return now >= self._until
