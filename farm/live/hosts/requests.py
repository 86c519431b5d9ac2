"""The fleet: which builders there are to be, and the commands to play them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from farm.core.model import Builder
from farm.core.pools.spec import PoolSpec
from farm.emulation.spec import spec_of
from farm.live.store.saved import Counts, HostLife
from farm.live.wire.messages import Play


class Fleet:
    """Names builders, writes the commands to play them, and keeps fixed pools at their size."""

    def __init__(self, pools: Sequence[PoolSpec], speed: float) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self._speed = speed
        self._made = 0
        self._made_by_pool = dict.fromkeys(self.pools, 0)
        #: requested builders that no host plays yet
        self.wanted: deque[Play] = deque()
        #: requested builders that hosts of their own are to play, not yet joined
        self.outside: dict[str, Play] = {}
        #: requested and not yet joined, by builder id, with their pools
        self.booting: dict[str, str] = {}

    def request(self, pool_name: str, *, outside: bool = False) -> Play:
        """Ask for one more builder of the pool; a host is found for it when there is one.

        ``outside``: somebody starts a host of its own for it (a container).
        """
        pool = self.pools[pool_name]
        self._made += 1
        number = self._made_by_pool[pool_name] = self._made_by_pool[pool_name] + 1
        builder = pool.builder(number, self._made)
        if outside:  # a container takes the time that it takes
            pool = msgspec.structs.replace(pool, boot_time=0.0)
        play = Play(speed=self._speed, **msgspec.structs.asdict(spec_of(pool, builder)))
        if outside:
            self.outside[builder.id] = play
        else:
            self.wanted.append(play)
        self.booting[builder.id] = pool_name
        return play

    def numbered(self, builder: Builder) -> Builder:
        """Return a builder that came unasked, with the next place among the farm's builders."""
        self._made += 1
        return msgspec.structs.replace(builder, index=self._made)

    def joined(self, builder: str) -> None:
        """A builder is there."""
        self.booting.pop(builder, None)
        self.outside.pop(builder, None)

    @property
    def booting_at_once(self) -> bool:
        """Whether a builder is missing whose pool has no boot time."""
        return any(not self.pools[pool].boot_time for pool in self.booting.values())

    def gone(self, builder: str, pool_name: str) -> Play | None:
        """A builder is no more; return the request for its successor in a fixed pool."""
        self.joined(builder)
        pool = self.pools.get(pool_name)
        return self.request(pool_name) if pool is not None and not pool.provisioned else None

    # --- a scheduler that starts again ------------------------------------------------------

    def counts(self, serial: int, ended: dict[str, int]) -> Counts:
        """Return where the counting stands, for a successor."""
        return Counts(self._made, dict(self._made_by_pool), serial, ended)

    def go_on(
        self,
        counts: Counts,
        lives: Mapping[str, HostLife],
        requested: Mapping[str, Play],
        joined: Iterable[str],
    ) -> None:
        """Count on where an earlier scheduler stopped, and know whom it had asked for."""
        self._made = counts.made
        self._made_by_pool.update(counts.made_by_pool)
        there = set(joined)
        self.outside = {name: play for name, play in requested.items() if name not in there}
        given = [play for life in lives.values() for play in life.plays.values()]
        for play in (*given, *self.outside.values()):
            if play.builder.id not in there:
                self.booting[play.builder.id] = play.builder.pool

    def outside_of(self, pool: str) -> int:
        """Return how many builders of the pool are to come with hosts of their own."""
        return sum(play.builder.pool == pool for play in self.outside.values())

    def booting_of(self, pool: str) -> int:
        """Return how many builders of the pool are asked for and not there."""
        return sum(one == pool for one in self.booting.values())
