"""Requested builders: how each is to be played, and which of them no host plays yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from farm.core.commands import RequestBuilder
from farm.core.model import Builder
from farm.core.pools.spec import PoolSpec
from farm.emulation.behaviour import spec_of
from farm.live.protocol.roster import HostState
from farm.live.store.saved import SavedFarm
from farm.live.wire.messages import Play

#: slots of a builder that was not requested, if its pool's builders have fewer
MAX_OWN_SLOTS = 100


class BuilderRequests:
    """Writes the commands to play the builders that the scheduler requests."""

    def __init__(self, pools: Sequence[PoolSpec], speed: float) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self._speed = speed
        #: pools whose builders come with separate hosts
        self._outside_pools: set[str] = set()
        #: requested builders that no host plays yet
        self.wanted: deque[Play] = deque()
        #: requested builders that hosts of their own are to play, not yet joined
        self.outside: dict[str, Play] = {}
        #: requested and not yet joined, by builder id, with their pools
        self.booting: dict[str, str] = {}

    def request(self, command: RequestBuilder) -> None:
        """A builder is requested; a host is found for it when there is one with room."""
        builder = command.builder
        pool = self.pools[builder.pool]
        play = Play(speed=self._speed, **msgspec.structs.asdict(spec_of(pool, builder)))
        if command.outside or pool.name in self._outside_pools:
            self._give_out(play)
        else:
            self.wanted.append(play)
        self.booting[builder.id] = pool.name

    def _give_out(self, play: Play) -> None:
        # a container takes the time that it takes
        self.outside[play.builder.id] = msgspec.structs.replace(play, boot_time=0.0)

    def come_outside(self, pool: str, *, outside: bool) -> None:
        """Return whether builders of the pool come with hosts of their own: those missing, too."""
        if not outside:
            self._outside_pools.discard(pool)
            return
        self._outside_pools.add(pool)
        missing, self.wanted = self.wanted, deque()
        for play in missing:
            if play.builder.pool == pool:
                self._give_out(play)
            else:
                self.wanted.append(play)

    def not_booting(self, builder: str) -> None:
        """A builder is there, or will not come."""
        self.booting.pop(builder, None)
        self.outside.pop(builder, None)

    def own(self, host: HostState, builder: Builder, *, taken: bool) -> Play | str:
        """Return how a separate host (a container) runs its builder, or why it may not."""
        if not host.own or host.plays:
            return f"{host.name} was not told to play {builder.id}"
        if taken:
            return f"another host plays {builder.id}"
        if builder.pool not in self.pools or host.pool not in ("", builder.pool):
            return f"{host.name} may not play builders of pool {builder.pool}"
        if (play := self.outside.get(builder.id)) is not None:
            return play
        if builder.id in self.booting:
            return f"{builder.id} is to be played by another host"
        # it was not requested, and has no index yet
        return Play(builder=msgspec.structs.replace(builder, index=-1))

    def flaw_of_own(self, builder: Builder) -> str | None:
        """Return why a builder that was not requested is too large for the scheduler's memory."""
        most = max(MAX_OWN_SLOTS, self.pools[builder.pool].slots)
        if builder.index >= 0 or builder.slots <= most:
            return None
        return f"{builder.id} was not requested, and has {builder.slots} slots: at most {most}"

    @property
    def booting_at_once(self) -> bool:
        """Whether a builder is missing whose pool has no boot time."""
        return any(not self.pools[pool].boot_time for pool in self.booting.values())

    def go_on(self, saved: SavedFarm) -> None:
        """Know which builders an earlier scheduler had requested."""
        waiting = [play for n, play in saved.wanted.items() if n not in saved.builders]
        self.wanted = deque(sorted(waiting, key=lambda play: play.builder.index))
        self.outside = {n: play for n, play in saved.requested.items() if n not in saved.builders}
        self.booting = {name: builder.pool for name, builder in saved.booting.items()}

    def outside_of(self, pool: str) -> int:
        """Return how many builders of the pool are to come with hosts of their own."""
        return sum(play.builder.pool == pool for play in self.outside.values())
