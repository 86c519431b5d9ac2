"""BOINC's old system: the benchmark, and one duration correction factor for each host."""

from __future__ import annotations

from farm.core.model import Builder, Job, Outcome
from farm.emulation.client import available
from farm.forecasts.runtime.boinc import LARGEST, Boinc, bounded
from farm.forecasts.runtime.boinc_history import HOSTS_KEPT
from farm.forecasts.runtime.interface import (
    Basis,
    EstimatorOptions,
    JsonValues,
    check_owner,
    converted,
    declared_time_of,
    is_time,
)
from farm.upstream.boinc.durations import corrected_factor


class BoincDcf(Boinc):
    """Size ÷ benchmark x the host's factor, which learns from jobs of all kinds alike.

    It corrects errors that all kinds have in common, and no others: that is why BOINC gave it up.
    A waiting job has no host, and no factor. Source: the first part of BOINC's page on run times.
    """

    name = "boinc-dcf"

    def __init__(self, options: EstimatorOptions | None = None) -> None:
        super().__init__(options)
        #: host -> its factor, and the number of successes behind it
        self._factors: dict[str, tuple[float, int]] = {}

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected wall-clock time in seconds."""
        if builder is None:
            return self._uncorrected(job, 1.0)
        factor, _ = self._factors.get(self.host(builder), (1.0, 0))
        return self._uncorrected(job, self.peak(builder)) * factor / available(builder)

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return whether the host's factor is known, and from how many successes."""
        if builder is not None and (found := self._factors.get(self.host(builder))) is not None:
            return Basis(f"corrected by {found[0]:.3g}", found[1])
        return super().basis(job, None)

    def _uncorrected(self, job: Job, speed: float) -> float:
        return bounded(declared_time_of(job, self.size(job))) / speed

    def size_sent(self, job: Job, builder: Builder) -> float | None:
        """Return None: clients of that time corrected by themselves."""
        return None

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Move the host's factor with a success."""
        if outcome != "succeeded" or not is_time(elapsed):
            return
        computing, speed = min(elapsed * available(builder), LARGEST), self.peak(builder)
        self._settle_size_rate(job, computing * speed)
        host = self.host(builder)
        factor, count = self._factors.pop(host, (1.0, 0))
        while len(self._factors) >= HOSTS_KEPT:  # the first one learned longest ago
            del self._factors[next(iter(self._factors))]
        moved = corrected_factor(factor, computing, self._uncorrected(job, speed))
        self._factors[host] = moved, count + 1

    def dump(self) -> JsonValues:
        """Return the factors as plain JSON values."""
        factors = {host: list(found) for host, found in self._factors.items()}
        return {"estimator": self.name, "factors": factors, "size_rate": self.history.size_rate}

    def load(self, state: JsonValues) -> None:
        """Replace the factors by dumped ones; StateError if the dump is invalid."""
        check_owner(state, self.name)
        found = converted(state, "factors", dict[str, tuple[float, int]])
        self.history.load({"size_rate": state.get("size_rate")})
        self._factors = {
            host: (min(max(factor, 0.01), 100.0), max(count, 0))
            for host, (factor, count) in found.items()
        }
