"""When the provisioner's service looks again: for its next plan, or while something happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from farm.live.wire.pool_report import PoolReport

#: real seconds between two looks while something is going on, and if nothing is
LOOK_INTERVAL, REST_INTERVAL = 0.2, 2.0
#: real seconds in which the report arrives that a plan needs: it is made at the plan's instant
REPORT_TIME = 0.01
#: real seconds after which what was sent, and no report follows, counts as lost
LOST_AFTER = 5.0


class Pauses:
    """Determines the pauses between looks from the scheduler's reports; ``now`` is real."""

    def __init__(self) -> None:
        self._speed = 1.0
        #: farm time when this machine's clock showed 0, by the report that came soonest
        self._offset = float("-inf")
        #: what the last reports show to be under way
        self._under_way: object = None
        self._is_resting = False

    def hear(self, reports: Mapping[str, PoolReport], now: float) -> None:
        """Reports were read."""
        for report in reports.values():
            self._hear_farm_time(report, now)
        under_way = [
            (pool, report.watcher, report.heard, len(report.joined), set(report.requested))
            for pool, report in reports.items()
        ]
        is_booting = any(report.requested for report in reports.values())
        self._is_resting = under_way == self._under_way and not is_booting
        self._under_way = under_way

    def next(self, plans_at: Iterable[float], now: float, *, is_busy: bool) -> float:
        """Return the real seconds until the next look.

        ``plans_at``: farm time of the next plans; ``is_busy``: something happens that reports do
        not show.
        """
        pause = REST_INTERVAL if self._is_resting and not is_busy else LOOK_INTERVAL
        for at in plans_at:
            due = (at - self._offset) / self._speed - now
            # a report that does not come is not asked for all the time
            is_late = due < -LOOK_INTERVAL
            pause = min(pause, LOOK_INTERVAL if is_late else max(due, 0.0) + REPORT_TIME)
        return pause

    def _hear_farm_time(self, report: PoolReport, now: float) -> None:
        offset = report.snapshot.at - report.speed * now
        is_other = report.speed != self._speed or offset < self._offset - LOST_AFTER * report.speed
        self._offset = offset if is_other else max(self._offset, offset)
        self._speed = report.speed
