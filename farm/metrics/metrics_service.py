"""Metrics of the services beside the scheduler: the provisioner and the builder hosts.

Any thread may write; a scrape copies the few numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from farm.metrics.series import Labels, Series, build_info

#: stands for the times of limits that do not change: an empty label would be none
ALWAYS = "always"


class ServiceMetrics(Series):
    """Counters, gauges and histograms of one service, all of them from the catalogue."""

    def __init__(self) -> None:
        super().__init__()
        self.set("farm_build_info", build_info())


class ProvisionerMetrics(ServiceMetrics):
    """What a provisioner reports: call these where it plans and acts."""

    def __init__(self) -> None:
        super().__init__()
        self._desired: dict[Labels, float] = {}
        self._actual: dict[Labels, float] = {}
        self._limits: dict[Labels, float] = {}
        self._reasons: dict[str, Labels] = {}

    def planned(self, pool: str, desired: int) -> None:
        """A plan was made."""
        self._desired[pool,] = desired
        self.set("farm_provisioner_desired_builders", self._desired)

    def limited(self, pool: str, least: int, most: int | None, reason: str, period: str) -> None:
        """It was made within these limits of that time, for this reason."""
        self._limits[pool, "min"] = least
        if most is not None:
            self._limits[pool, "max"] = most
        self._reasons[pool] = (pool, reason, period or ALWAYS)
        self.set("farm_provisioner_limit_builders", self._limits)
        reasons = dict.fromkeys(self._reasons.values(), 1.0)
        self.set("farm_provisioner_reason_info", reasons)

    def observed(self, pool: str, by_state: Mapping[str, int]) -> None:
        """The backend has these builders, by state (running, starting, stopping, …)."""
        actions = ("requested", "drained", "started", "removed", "failed")
        self.begin("farm_provisioner_actions_total", *((pool, a) for a in actions))
        for state in [s for p, s in self._actual if p == pool]:
            self._actual[pool, state] = 0
        self._actual |= {(pool, state): count for state, count in by_state.items()}
        self.set("farm_provisioner_actual_builders", self._actual)

    def acted(self, pool: str, action: str, count: int = 1) -> None:
        """The provisioner, or its backend, did this to ``count`` builders of the pool."""
        self.add("farm_provisioner_actions_total", (pool, action), count)

    def cycled(self, seconds: float) -> None:
        """One look at the farm, and what followed, took this long (real seconds)."""
        self.observe("farm_provisioner_cycle_seconds", seconds)


class HostMetrics(ServiceMetrics):
    """What a builder host reports: call these at its heartbeats and where attempts end."""

    def __init__(self) -> None:
        super().__init__()
        results = ("succeeded", "failed", "cancelled", "lost")
        self.begin("farm_host_attempts_total", *((result,) for result in results))
        for what in ("agenda_lag_seconds", "send_failures_total", "refused_messages_total"):
            self.begin(f"farm_host_{what}")

    def holds(self, builders: int, attempts: Mapping[str, int]) -> None:
        """The host plays these builders and holds these attempts, by mode."""
        self.set("farm_host_builders", {(): builders})
        self.set("farm_host_attempts", {(mode,): n for mode, n in attempts.items()})

    def ended(self, result: str, count: int = 1) -> None:
        """An attempt ended, or several did."""
        self.add("farm_host_attempts_total", (result,), count)

    def late(self, seconds: float) -> None:
        """Something happened this long after it was due (real seconds)."""
        self.observe("farm_host_agenda_lag_seconds", max(0.0, seconds))

    def reports(self, waiting: int, failures: int) -> None:
        """Count reports that are not sent yet, and tries to send that have failed in all."""
        self.set("farm_host_reports_waiting", {(): waiting})
        self.set("farm_host_send_failures_total", {(): failures})

    def refused(self) -> None:
        """A message on the host's queue was no command for it."""
        self.add("farm_host_refused_messages_total")

    def burns(self, mode: str) -> None:
        """A job of this mode begins to burn: from now on there is something to count."""
        for what in ("", "_work", "_cpu"):
            self.begin(f"farm_host_burning{what}_seconds_total", (mode,))

    def burnt(self, mode: str, taken: float, work: float, cpu: float) -> None:
        """A burning job ended by itself; all in real seconds, added up over its threads."""
        for what, seconds in (("", taken), ("_work", work), ("_cpu", cpu)):
            self.add(f"farm_host_burning{what}_seconds_total", (mode,), seconds)
