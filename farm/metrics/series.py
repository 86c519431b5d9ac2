"""The values of metrics by their labels: written as things happen, read as frozen values."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping
from importlib import metadata

import msgspec

from farm.metrics.catalogue import CATALOGUE

Labels = tuple[str, ...]

OTHER = "other"


class HistogramValue(msgspec.Struct, frozen=True):
    """A histogram at one instant; ``counts`` has one entry per bucket, the last is +Inf's."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound, observations up to it) as Prometheus wants them."""
        pairs: list[tuple[str, float]] = []
        seen = 0
        for bound, count in zip((*map(repr, self.bounds), "+Inf"), self.counts, strict=True):
            seen += count
            pairs.append((bound, float(seen)))
        return pairs


Value = float | HistogramValue
Readings = Mapping[str, Mapping[Labels, Value]]
"""Metric name -> label values -> value, at one instant; it never changes."""


class Histogram:
    """Counts observations by bucket."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation; a bound belongs to its bucket."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def frozen(self) -> HistogramValue:
        """Return the counts as they stand."""
        return HistogramValue(self.bounds, tuple(self.counts), self.total)


class Series:
    """Counters and histograms that grow, gauges that are replaced. Any thread may write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}

    def begin(self, name: str, *labels: Labels) -> None:
        """Let a metric be there from the start, at zero, under these label values."""
        with self._lock:
            for one in labels or ((),):
                if CATALOGUE[name].kind == "histogram":
                    self._histogram(name, one)
                else:
                    self._numbers.setdefault(name, {}).setdefault(one, 0.0)

    def add(self, name: str, labels: Labels = (), amount: float = 1.0) -> None:
        """Let a counter grow."""
        with self._lock:
            found = self._numbers.setdefault(name, {})
            found[labels] = found.get(labels, 0.0) + amount

    def observe(self, name: str, value: float, labels: Labels = ()) -> None:
        """Add an observation to a histogram."""
        with self._lock:
            self._histogram(name, labels).observe(value)

    def set(self, name: str, values: Mapping[Labels, float]) -> None:
        """Replace all values of a gauge."""
        with self._lock:
            self._numbers[name] = {labels: float(value) for labels, value in values.items()}

    def labels(self, name: str) -> list[Labels]:
        """Return the label values that a counter or gauge has so far."""
        return list(self._numbers.get(name, ()))

    def readings(self) -> Readings:
        """Return everything as it stands; what is written later does not change it."""
        with self._lock:
            numbers = {name: dict(values) for name, values in self._numbers.items()}
            histograms = {
                name: {labels: one.frozen() for labels, one in found.items()}
                for name, found in self._histograms.items()
            }
        return {**numbers, **histograms}

    def _histogram(self, name: str, labels: Labels) -> Histogram:
        found = self._histograms.setdefault(name, {})
        one = found.get(labels)
        if one is None:
            one = found[labels] = Histogram(CATALOGUE[name].buckets)
        return one


class Bounded:
    """Lets the first names be labels, ``most`` of them; all others are ``other``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        """Return the label that stands for this name, always the same one."""
        if name not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name


def build_info() -> dict[Labels, float]:
    """Return the values of ``farm_build_info``: 1, labelled with the version."""
    try:
        version = metadata.version("build-farm-emulator")
    except metadata.PackageNotFoundError:
        version = "unknown"
    return {(version,): 1.0}
