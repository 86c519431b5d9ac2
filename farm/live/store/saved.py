"""The state that a long-running farm keeps in Redis for the next scheduler, and how that reads it.

Beside what all may read (jobs, builders) a successor needs to know which builders each host plays,
and where the counting stood. All of it is written in the same transaction as the decisions, so
whenever a scheduler dies, the state in Redis is that of one instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from operator import attrgetter
from typing import TypeVar

import msgspec

from farm.core.errors import ServerError
from farm.core.model import Builder, Platform
from farm.core.queues.fair_share.tree_snapshot import TreeMemory
from farm.core.rules import Choices
from farm.core.state.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.core.state.working_state import BuilderRequest, JobStatus, PoolCounts
from farm.forecasts.dispatch.recent_errors import ErrorMemory
from farm.live.clock import MachineClock
from farm.live.redis.connection import Connection, server_time
from farm.live.redis.keys import UNREADABLE, Cursor, Keys, written_at
from farm.live.redis.trouble import ours_or
from farm.live.store.pages import pages_of
from farm.live.wire.messages import Play

T = TypeVar("T")

#: of what a farm that stays up keeps in Redis. An earlier release does not continue a later
#: version: it would not know what that has written
STATE_VERSION = 4
#: those that are continued
READABLE = (b"3", b"%d" % STATE_VERSION)

_WHAT_TO_DO = (
    "begin afresh (--fresh), restore the server's data from a copy, or use another FARM_PREFIX"
)


def other_release(version: bytes) -> str:
    """Return whose data these are if this release does not know their version; empty if it does.

    Those of an earlier release may be too old; of a later one they are too new: nothing goes back.
    """
    if version in READABLE:
        return ""
    shown = version[:20].decode(errors="replace")
    whose = "another"
    if version.isdigit():
        whose = "a later" if int(version[:20]) > STATE_VERSION else "an earlier"
    known = " and ".join(text.decode() for text in READABLE)
    return f"{whose} release (its data are of version {shown!r}; this release knows {known})"


class HostLife(msgspec.Struct, omit_defaults=True):
    """One life of a builder host: what a successor of its scheduler must know of it."""

    name: str
    life: str
    #: it plays a builder of its own and must not be given others
    own: bool = False
    #: builders that it plays at most (0: any number), and of which pool only (empty: any)
    room: int = 0
    pool: str = ""
    #: see ``farm.live.wire.messages.HostUp``
    incarnation: str = ""
    #: it was asked to leave, and takes nothing more
    leaving: bool = False
    #: builders that it should run, that have joined, and that were asked to retire
    plays: dict[str, Play] = {}
    joined: set[str] = set()
    retiring: set[str] = set()


host_life = attrgetter(*HostLife.__struct_fields__)
"""The values of these fields, in order."""


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the counting stood, and what operators chose."""

    #: builders ever made, in all and by pool: the next one's number follows
    made: int = 0
    made_by_pool: dict[str, int] = {}
    #: builders that leave as soon as they have joined: their requests were taken back
    taken_back: tuple[str, ...] = ()
    #: serial of the last job accepted
    serial: int = 0
    #: jobs ended so far, by outcome
    ended: dict[str, int] = {}
    choices: Choices | None = None
    #: see FarmSnapshot
    unsorted: tuple[int, int] | None = None
    held: dict[str, float] = {}
    releases: int = 0


class Try(msgspec.Struct, frozen=True):
    """A void attempt: the job waited again after it."""

    attempt: int
    builder: str
    #: when that was known, farm time
    at: float
    reason: str


class SchedulerMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a scheduler knows of the past, saved now and then: older than the rest."""

    #: see ``statistics_of``
    statistics: dict[str, object] | None = None
    #: what each platform's fair-share tree remembers (see FarmSnapshot)
    trees: tuple[tuple[Platform, bool, TreeMemory], ...] = ()
    #: how right estimates were: by source of run times and platform (PlatformMemory), and lately
    calibrations: dict[str, Mapping[str, object]] = {}
    lately: ErrorMemory = msgspec.field(default_factory=ErrorMemory)


def statistics_of(estimator: object) -> dict[str, object] | None:
    """Return what a runtime estimator dumps; None: it has nothing to dump."""
    return estimator.dump() if hasattr(estimator, "dump") else None


class SavedFarm(msgspec.Struct, frozen=True, kw_only=True):
    """A whole farm as it is in Redis."""

    #: farm time of the last commit, and the speed
    at: float
    speed: float
    #: the last entry read of each stream
    cursor: Cursor = {}
    #: real seconds since then
    age: float = 0.0
    rules: str = ""
    counts: Counts = Counts()
    #: the last commit that had lines of the event log
    logged: int = 0
    #: the last report of hosts that was on the server as this was read; empty: none
    last_report: str = ""
    jobs: dict[str, JobRecord] = {}
    builders: dict[str, BuilderRecord] = {}
    lives: dict[str, HostLife] = {}
    #: requested builders that await a host with room
    wanted: dict[str, Play] = {}
    #: requested builders that come with hosts of their own
    requested: dict[str, Play] = {}
    learned: SchedulerMemory = SchedulerMemory()
    #: keys of which something could not be read: the first commit writes all anew
    spoilt: frozenset[str] = frozenset()

    @property
    def now(self) -> float:
        """Farm time now, which continued without a scheduler."""
        return self.at + self.age * self.speed

    @property
    def booting(self) -> dict[str, Builder]:
        """Builders that were requested and have not joined, by id."""
        plays = [play for life in self.lives.values() for play in life.plays.values()]
        plays += [*self.wanted.values(), *self.requested.values()]
        return {p.builder.id: p.builder for p in plays if p.builder.id not in self.builders}


def snapshot_of_saved(saved: SavedFarm) -> FarmSnapshot:
    """Return the farm as ``farm.core.state.restore`` wants it."""
    records = [_anew(saved, record) for record in saved.jobs.values()]
    records.sort(key=lambda record: record.serial)
    running = [record for record in records if record.builder is not None]
    builders = saved.builders.values()
    return FarmSnapshot(
        at=saved.at,
        waiting=tuple(
            record
            for record in records
            if record.builder is None and record.status is not JobStatus.BLOCKED
        ),
        running=tuple(sorted(running, key=lambda record: record.dispatched_at or 0.0)),
        builders=tuple(sorted(builders, key=lambda one: (one.joined_at, one.builder.index))),
        pools=_pools(saved),
        serial=max([saved.counts.serial, *(record.serial for record in records)]),
        choices=saved.counts.choices,
        unsorted=saved.counts.unsorted,
        made=saved.counts.made,
        taken_back=saved.counts.taken_back,
        held=saved.counts.held,
        trees=saved.learned.trees,
        trees_are_older=True,
        blocked=tuple(record for record in records if record.status is JobStatus.BLOCKED),
        releases=saved.counts.releases,
    )


def _anew(saved: SavedFarm, record: JobRecord) -> JobRecord:
    """Let a job wait anew whose execution belonged to a job, or a builder, that is gone."""
    if record.leader is not None and record.leader not in saved.jobs:
        record = msgspec.structs.replace(record, leader=None)
    if record.builder is not None and record.builder not in saved.builders:
        record = msgspec.structs.replace(record, builder=None, slot=None)
    return record


def _pools(saved: SavedFarm) -> tuple[PoolCounts, ...]:
    made = saved.counts.made_by_pool
    requested: dict[str, dict[str, BuilderRequest]] = {name: {} for name in made}
    for name, builder in saved.booting.items():
        requested.setdefault(builder.pool, {})[name] = BuilderRequest(builder, saved.at)
    return tuple(
        PoolCounts(name=name, made=made.get(name, 0), requested=asked)
        for name, asked in requested.items()
    )


class FarmReader:
    """Reads one farm's keys. Calls raise redis.RedisError when the server is away."""

    def __init__(self, client: Connection, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        #: keys of which something could not be read
        self._spoilt: set[str] = set()

    def saved(self) -> SavedFarm | None:
        """Return the saved farm of an earlier scheduler; None if there is none.

        Raises ServerError for a farm of another version.
        """
        keys = self._keys
        pairs = self._client.hgetall(keys.meta).items()
        meta = {name.decode(errors="replace"): value for name, value in pairs}
        if "cursor" not in meta or "counts" not in meta:
            return None
        self._check_whole(meta)
        try:
            at, speed = _number(meta["at"]), _number(meta["speed"])
            cursor = msgspec.json.decode(meta["cursor"], type=Cursor)
            counts = msgspec.json.decode(meta["counts"], type=Counts)
            rules = meta.get("rules", b"").decode()
            logged = int(meta.get("logged", b"0"))
            age = MachineClock().since(meta.get("clock", b"").decode())
            if age is None:  # since the last report was read, by the server's clock
                read_at = max(map(written_at, cursor.values()), default=0.0)
                age = max(0.0, server_time(self._client) - read_at) if read_at else 0.0
        except (ValueError, *UNREADABLE) as error:
            raise ServerError(f"{keys.meta} cannot be read ({error}): {_WHAT_TO_DO}") from None
        return SavedFarm(
            at=at,
            speed=speed,
            cursor=cursor,
            age=age,
            rules=rules,
            counts=counts,
            logged=logged,
            last_report=self._last_report(),
            jobs=self.jobs(),
            builders=self._hash(keys.builders, BuilderRecord),
            lives=self._hash(keys.lives, HostLife),
            wanted=self._hash(keys.wanted, Play),
            requested=self._hash(keys.requested, Play),
            learned=self.learned(),
            spoilt=frozenset(self._spoilt),
        )

    def _last_report(self) -> str:
        """Return the id of the last entry of the stream of reports; empty: there is none."""
        key = self._keys.stream("reports")
        none: list[tuple[bytes, object]] = []
        found = ours_or(none, lambda: self._client.xrevrange(key, count=1))
        return found[0][0].decode() if found else ""

    def jobs(self) -> dict[str, JobRecord]:
        """Return the jobs that have not ended, by id."""
        return self._hash(self._keys.jobs, JobRecord)

    def learned(self) -> SchedulerMemory:
        """Return what an earlier scheduler knew of the past, if that can be read."""
        text: bytes | None = ours_or(None, lambda: self._client.get(self._keys.learned))
        try:
            return msgspec.json.decode(text or b"{}", type=SchedulerMemory)
        except UNREADABLE:
            return SchedulerMemory()

    def cursor(self) -> Cursor:
        """Return how far the farm's streams were read, if that can be read."""
        text: bytes | None = ours_or(None, lambda: self._client.hget(self._keys.meta, "cursor"))
        try:
            return msgspec.json.decode(text or b"{}", type=Cursor)
        except UNREADABLE:
            return {}

    def _hash(self, key: str, kind: type[T]) -> dict[str, T]:
        """Return what can be read of a hash."""
        pairs = ours_or(None, lambda: dict(pages_of(self._client, key)))
        if pairs is None:
            self._spoilt.add(key)
            return {}
        found: dict[str, T] = {}
        for name, text in pairs.items():
            try:
                found[name.decode()] = msgspec.json.decode(text, type=kind)
            except UNREADABLE:
                self._spoilt.add(key)
        return found

    def _check_whole(self, meta: Mapping[str, bytes]) -> None:
        """Raise ServerError for a farm of another version, or one with something missing."""
        if missing := {"version", "speed", "at"} - set(meta):
            jobs = self._client.hlen(self._keys.jobs)
            raise ServerError(
                f"what is left of the farm in Redis is incomplete: {self._keys.meta} has no "
                f"{' and no '.join(sorted(missing))} (the server was emptied while a farm ran, it "
                f"seems); {jobs:,} of its jobs are there: {_WHAT_TO_DO}"
            )
        if release := other_release(meta["version"]):
            raise ServerError(
                f"the farm in Redis was left by {release}: run the release that left it, use "
                "another FARM_PREFIX, or begin afresh (--fresh)"
            )


def _number(text: bytes) -> float:
    """Return a number that a farm's time, or its speed, can be; raises ValueError."""
    if not 0 <= (value := float(text)) < inf:
        raise ValueError(f"{value:g}")
    return value
