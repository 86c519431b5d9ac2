"""Who is out there: builder hosts, what they should play, and the commands they must have.

And which builders were requested, how each is to be played, and which of them no host plays yet.

Pure bookkeeping in real seconds (``now`` is given).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from farm.core.commands import CancelJob, RequestBuilder, RetireBuilder, StartJob
from farm.core.model import Builder
from farm.core.pools.spec import PoolSpec
from farm.core.state.working_state import JobStatus
from farm.emulation.behaviour import spec_of
from farm.live.redis.keys import place_of
from farm.live.store.saved import HostLife, SavedFarm, host_life
from farm.live.wire.messages import Beat, HostUp, Play

Token = tuple[str, int]

#: slots of a builder that was not requested, if its pool's builders have fewer
MAX_OWN_SLOTS = 100


class Dispatch(msgspec.Struct):
    """A start command under way: sent, and perhaps confirmed."""

    command: StartJob
    sent_at: float
    sendings: int = 1
    confirmed: bool = False
    #: heartbeats in a row that should have named it and did not
    missed: int = 0
    cancel: CancelJob | None = None
    cancel_sent_at: float = 0.0
    #: which part of it was done (0 to 1) by its builder's last report, and when that came
    done: tuple[float, float] | None = None


class HostState(HostLife, kw_only=True):
    """A builder host and what it ought to be doing."""

    heard_at: float
    #: when each play or retire command was last sent
    sent_at: dict[str, float] = msgspec.field(default_factory=dict)
    dispatches: dict[Token, Dispatch] = msgspec.field(default_factory=dict)
    #: attempts that it reported as begun after its last heartbeat, which cannot name them
    begun_since_beat: set[Token] = msgspec.field(default_factory=set)
    lost: bool = False
    #: this scheduler has heard of it; an earlier one may have ended with it, and with the machine
    is_heard: bool = True
    #: of the last envelope read
    seq: int = 0

    def takes(self, pool: str) -> bool:
        """Whether it may be given one more builder of this pool."""
        if self.own or self.leaving or self.pool not in ("", pool):
            return False
        return not self.room or len(self.plays) < self.room


class Roster:
    """The hosts that are there by name, and which of them plays which builder."""

    def __init__(self, incarnation: str = "") -> None:
        self._incarnation = incarnation
        self.hosts: dict[str, HostState] = {}
        self.host_of: dict[str, HostState] = {}
        #: hosts of which a successor of this scheduler must know something new
        self.changed: set[str] = set()
        #: counts such changes
        self.changes = 0
        #: the last report that was on the server as an earlier scheduler's farm was read; None:
        #: what comes now was sent since then
        self._last_earlier: tuple[int, int] | None = None

    def go_on(self, saved: SavedFarm, silence: float, now: float) -> None:
        """Restore the hosts and their commands as an earlier scheduler had them.

        What was on its way is missing in heartbeats; the end of a container its provisioner tells,
        within twice the ``silence`` that is waited for.
        """
        self._last_earlier = place_of(saved.last_report) if saved.last_report else None
        for life in saved.lives.values():
            later = now + 2 * silence * life.own
            host = self.hosts[life.name] = HostState(
                *host_life(life), heard_at=later, is_heard=not life.own
            )
            for play in list(host.plays.values()):
                self.assign(host, play, now)
        self.changed.clear()
        for name, record in saved.jobs.items():
            attempt, builder, slot = record.attempts, record.builder, record.slot
            if builder is None or slot is None or (holder := self.host_of.get(builder)) is None:
                continue
            command = StartJob(record.job, attempt, builder, slot, record.sent_size)
            dispatch = Dispatch(command, now, confirmed=record.started_at is not None)
            holder.dispatches[name, attempt] = dispatch
            if record.status is JobStatus.CANCELLING:
                dispatch.cancel_sent_at = now
                dispatch.cancel = CancelJob(name, attempt, builder)

    def was_sent_before(self, report: str) -> bool:
        """Return whether a report, by its id in the stream, is older than this scheduler.

        It says what a host has done, and not that the host is there: that may have ended with the
        earlier scheduler.
        """
        if self._last_earlier is not None and place_of(report) > self._last_earlier:
            self._last_earlier = None
        return self._last_earlier is not None

    def take_changed(self, *, anew: bool = False) -> dict[str, HostLife | None]:
        """Return, by host, what a successor must know since the last time; None: it is gone.

        ``anew``: also what it knew, because the server has lost it.
        """
        changed, self.changed = self.changed | (self.hosts.keys() if anew else set()), set()
        if anew:  # its streams may be new, too
            self._last_earlier = None
        lives = {name: self.hosts.get(name) for name in changed}
        return {name: one and HostLife(*host_life(one)) for name, one in lives.items()}

    def _note(self, name: str) -> None:
        self.changed.add(name)
        self.changes += 1

    def is_of_earlier_life(self, incarnation: str) -> bool:
        """Whether a host belongs to another life of this farm, whose keeper has ended."""
        return bool(incarnation and self._incarnation and incarnation != self._incarnation)

    def of_earlier_lives(self) -> list[HostState]:
        """Return the hosts that an earlier life of this farm has left: they have ended too."""
        return [host for host in self.hosts.values() if self.is_of_earlier_life(host.incarnation)]

    def arrive(self, name: str, life: str, now: float, up: HostUp) -> HostState:
        """A host is up: a new one, or a new life of one whose old life is over."""
        host = HostState(name, life, up.own, up.room, up.pool, up.incarnation, heard_at=now)
        self.hosts[name] = host
        self._note(name)
        return host

    def host_for(self, pool: str) -> HostState | None:
        """Return who is to play one more builder of the pool; None if no host has room.

        The pool's own hosts come before any pool's, then who plays fewest.
        """
        free = (host for host in self.hosts.values() if host.takes(pool))
        return min(free, key=lambda host: (host.pool != pool, len(host.plays)), default=None)

    def leaves(self, host: HostState) -> list[str]:
        """The host leaves; return the builders that go with it (none if it was leaving)."""
        if host.leaving:
            return []
        host.leaving = True
        self._note(host.name)
        return sorted(host.joined)

    def assign(self, host: HostState, play: Play, now: float) -> Play:
        """Let the host play this builder; return the command to send."""
        builder = play.builder.id
        host.plays[builder] = play
        host.sent_at[builder] = now
        self.host_of[builder] = host
        self._note(host.name)
        return play

    def joined(self, host: HostState, builder: str) -> None:
        """The builder is up."""
        host.joined.add(builder)
        self._note(host.name)

    def dispatch(self, host: HostState, command: StartJob, now: float) -> None:
        """Remember a start command that is being sent."""
        host.dispatches[command.job.id, command.attempt] = Dispatch(command, now)

    def cancel(self, host: HostState, command: CancelJob, now: float) -> None:
        """Remember a cancel command that is being sent."""
        dispatch = host.dispatches.get((command.job, command.attempt))
        if dispatch is not None:
            dispatch.cancel = command
            dispatch.cancel_sent_at = now

    def retire(self, host: HostState, builder: str, now: float) -> RetireBuilder:
        """Return the command that shuts a builder down, and remember it."""
        host.retiring.add(builder)
        self._note(host.name)
        host.sent_at[builder] = now
        return RetireBuilder(builder)

    def confirm(self, host: HostState, token: Token) -> None:
        """The host began this attempt."""
        if (dispatch := host.dispatches.get(token)) is not None:
            dispatch.confirmed = True
            host.begun_since_beat.add(token)

    def hear_progress(self, host: HostState, beat: Beat, at: float) -> None:
        """Remember the progress that a heartbeat reports, read at this farm time."""
        for token, done in zip(beat.held, beat.done, strict=False):
            if done is not None and (dispatch := host.dispatches.get(token)) is not None:
                dispatch.done = done, at

    def progress_of(self, token: Token, builder: str) -> tuple[float, float] | None:
        """Return which part of an attempt was done, and when (farm time); None: none reported."""
        host = self.host_of.get(builder)
        dispatch = None if host is None else host.dispatches.get(token)
        return None if dispatch is None else dispatch.done

    def jobs(self) -> Iterable[str]:
        """Return the jobs of the attempts that were sent to hosts and are not over."""
        return dict.fromkeys(job for host in self.hosts.values() for job, _ in host.dispatches)

    def gone(self, builder: str) -> None:
        """The builder is not played any more, and nothing of it is under way."""
        host = self.host_of.pop(builder, None)
        if host is not None:
            for token, dispatch in list(host.dispatches.items()):
                if dispatch.command.builder == builder:
                    del host.dispatches[token]
            host.plays.pop(builder, None)
            host.joined.discard(builder)
            host.retiring.discard(builder)
            host.sent_at.pop(builder, None)
            self._note(host.name)

    def give_up(self, host: HostState) -> list[str]:
        """The host is lost: forget what it held and return the builders lost with it."""
        host.lost = True
        del self.hosts[host.name]
        builders = list(host.plays)
        host.dispatches.clear()
        for builder in builders:
            self.gone(builder)
        self._note(host.name)
        return builders


class BuilderRequests:
    """Writes the commands to play the builders that the scheduler requests."""

    def __init__(self, pools: Sequence[PoolSpec], speed: float) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self._speed = speed
        #: pools whose builders come with separate hosts
        self._outside_pools: set[str] = set()
        #: requested builders that no host plays yet, in the order in which they get one
        self.wanted: dict[str, Play] = {}
        #: requested builders that hosts of their own are to play, not yet joined
        self.outside: dict[str, Play] = {}

    @property
    def unplaced(self) -> Counter[str]:
        """How many requested builders no host plays yet, by pool."""
        return Counter(play.builder.pool for play in self.wanted.values())

    def request(self, command: RequestBuilder) -> None:
        """A builder is requested; a host is found for it when there is one with room."""
        builder = command.builder
        pool = self.pools[builder.pool]
        play = Play(speed=self._speed, **msgspec.structs.asdict(spec_of(pool, builder)))
        if command.outside or pool.name in self._outside_pools:
            self._give_out(play)
        else:
            self.wanted[builder.id] = play

    def _give_out(self, play: Play) -> None:
        # a container takes the time that it takes
        self.outside[play.builder.id] = msgspec.structs.replace(play, boot_time=0.0)

    def come_outside(self, pool: str, *, outside: bool) -> None:
        """Note whether builders of the pool come with hosts of their own: those missing, too."""
        if not outside:
            self._outside_pools.discard(pool)
            return
        self._outside_pools.add(pool)
        for name in [n for n, play in self.wanted.items() if play.builder.pool == pool]:
            self._give_out(self.wanted.pop(name))

    def forget(self, builder: str) -> None:
        """A builder is there, or will not come."""
        self.wanted.pop(builder, None)
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
        if builder.id in self.wanted:
            return f"{builder.id} is to be played by another host"
        # it was not requested, and has no index yet
        return Play(builder=msgspec.structs.replace(builder, index=-1))

    def flaw_of_own(self, builder: Builder) -> str | None:
        """Return why a builder that was not requested is too large for the scheduler's memory."""
        most = max(MAX_OWN_SLOTS, self.pools[builder.pool].slots)
        if builder.index >= 0 or builder.slots <= most:
            return None
        return f"{builder.id} was not requested, and has {builder.slots} slots: at most {most}"

    def go_on(self, saved: SavedFarm) -> None:
        """Know which builders an earlier scheduler had requested."""
        waiting = sorted(saved.wanted.items(), key=lambda item: item[1].builder.index)
        self.wanted = {n: play for n, play in waiting if n not in saved.builders}
        self.outside = {n: play for n, play in saved.requested.items() if n not in saved.builders}
