"""Builders that came and went, and the time that they were there: what a farm costs."""

from __future__ import annotations

from collections import defaultdict

from farm.core.events import BuilderJoined, BuilderLost, BuilderRetired
from farm.core.model import Builder
from farm.metrics.catalogue import NAMES
from farm.metrics.series import Bounded, Labels, Series

#: how a builder goes: when empty, because an operator stopped it, without notice
ENDS = ("retired", "left", "lost")


class BuilderHours:
    """Counts builders by pool. The time of those that are there is n·now - Σ joined_at."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._pool = Bounded(NAMES)
        self._requested: dict[str, tuple[str, float]] = {}
        self._joined: dict[str, tuple[str, float]] = {}
        self._there: defaultdict[str, int] = defaultdict(int)
        self._sum_joined_at: defaultdict[str, float] = defaultdict(float)
        self._past: defaultdict[str, float] = defaultdict(float)

    def expect(self, pool: str) -> None:
        """Begin what is counted of a pool at zero."""
        name = self._pool(pool)
        self._series.begin("farm_builders_requested_total", (name,))
        self._series.begin("farm_builders_joined_total", (name,))
        self._series.begin("farm_builders_ended_total", *((name, end) for end in ENDS))
        self._series.begin("farm_builder_boot_seconds", (name,))
        self._there[name] += 0

    def on_requested(self, builder: Builder, at: float) -> None:
        """A builder was requested."""
        pool = self._pool(builder.pool)
        self._series.add("farm_builders_requested_total", (pool,))
        self._series.begin("farm_builder_boot_seconds", (pool,))
        self._requested[builder.id] = (pool, at)

    def on_joined(self, event: BuilderJoined) -> None:
        """A builder came up."""
        pool = self._pool(event.builder.pool)
        self._series.add("farm_builders_joined_total", (pool,))
        self.adopt(event.builder, event.at)
        asked = self._requested.pop(event.builder.id, None)
        if asked is not None:
            self._series.observe("farm_builder_boot_seconds", event.at - asked[1], (pool,))

    def adopt(self, builder: Builder, joined_at: float) -> None:
        """A builder is there."""
        pool = self._pool(builder.pool)
        self._series.begin("farm_builders_ended_total", *((pool, end) for end in ENDS))
        self._joined[builder.id] = (pool, joined_at)
        self._there[pool] += 1
        self._sum_joined_at[pool] += joined_at

    def on_gone(self, event: BuilderRetired | BuilderLost) -> None:
        """A builder is gone, or never came."""
        end = (
            "retired" if isinstance(event, BuilderRetired) else "left" if event.excused else "lost"
        )
        asked = self._requested.pop(event.builder, None)
        was = self._joined.pop(event.builder, None)
        found = was or asked
        if found is None:
            return
        self._series.add("farm_builders_ended_total", (found[0], end))
        if was is not None:
            pool, joined_at = was
            self._there[pool] -= 1
            self._sum_joined_at[pool] -= joined_at
            self._past[pool] += event.at - joined_at

    def seconds(self, at: float) -> dict[Labels, float]:
        """Return the builder time of each pool up to now."""
        return {
            (pool,): self._past[pool] + max(0.0, there * at - self._sum_joined_at[pool])
            for pool, there in self._there.items()
        }
