"""Changes of a farm that the store writes in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from farm.core.commands import EndJob
from farm.core.state.snapshot import BuilderRecord, JobRecord
from farm.live.redis.connection import Connection
from farm.live.redis.keys import Keys
from farm.live.store.saved import Counts, HostLife, Try
from farm.live.wire.dead_letters import DeadLetter, Reason, set_aside
from farm.live.wire.messages import Play

#: real seconds that a message waits for an unknown host
UNKNOWN_HOSTS_TIME = 5
#: commits whose event log lines wait for a disk that cannot take them; then the oldest are lost
MAX_LOG = 20_000
#: fields or members per write of many: some megabytes
AT_ONCE = 5000

T = TypeVar("T")


class LogLines(NamedTuple):
    """The event log's lines of a commit."""

    #: the commit whose lines are those before
    after: int
    lines: bytes


_json = msgspec.json.Encoder().encode


def pieces(items: Iterable[T], count: int | None = None) -> Iterator[list[T]]:
    """Yield these items in pieces that the server reads, or writes, in no time."""
    rest = iter(items)
    while some := list(islice(rest, count or AT_ONCE)):
        yield some


class Batch:
    """Changes that are committed together. Later changes to the same thing win."""

    def __init__(self) -> None:
        #: places in the queues of platforms: those where a job waits, and where none does any more
        self.waiting: dict[str, dict[str, float]] = defaultdict(dict)
        self.not_waiting: dict[str, list[str]] = defaultdict(list)
        #: platforms that no job waits for any more, and no builder serves
        self.gone_platforms: list[str] = []
        self.jobs: dict[str, JobRecord] = {}
        #: serials by job id: the order of their submission
        self.submitted: dict[str, float] = {}
        self.tries: dict[str, list[Try]] = defaultdict(list)
        self.lives: dict[str, HostLife] = {}
        self.gone_hosts: list[str] = []
        self.counts: Counts | None = None
        #: requested builders: those that await a host with room, and those that come with a host
        #: of their own; None: as before
        self.wanted: tuple[Play, ...] | None = None
        self.requested: tuple[Play, ...] | None = None
        #: jobs on builders: the instants of their dispatch
        self.running: dict[str, float] = {}
        self.not_running: list[str] = []
        self.ended: dict[str, EndJob] = {}
        self.builders: dict[str, BuilderRecord] = {}
        self.gone_builders: list[str] = []
        #: lines of the event log, by the numbers of the commits that they are of
        self.log: dict[int, LogLines] = {}
        #: Celery messages by host, in order
        self.messages: dict[str, list[bytes]] = defaultdict(list)
        #: hosts that perhaps are not there: their messages expire
        self.unknown_hosts: set[str] = set()
        #: what was refused, and how many by reason
        self.dead_letters: list[DeadLetter] = []
        self.refused: dict[Reason, int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        changes = vars(self).values()
        return not any(changes) and self.wanted is None and self.requested is None

    def parts(self) -> Iterator[Batch]:
        """Yield its changes in parts that are not large; the last has the small ones."""
        rest = copy(self)
        for name in ("jobs", "submitted", "ended"):
            for some in pieces(getattr(self, name).items()):
                part = Batch()
                setattr(part, name, dict(some))
                yield part
            setattr(rest, name, {})
        for platform, places in self.waiting.items():
            for members in pieces(places.items()):
                part = Batch()
                part.waiting[platform] = dict(members)
                yield part
        rest.waiting, rest.not_waiting = {}, {}
        yield rest

    def write(self, pipe: Connection, keys: Keys) -> None:
        """Add the commands that write it to a transaction."""
        _write_jobs(pipe, keys, self)
        _write_builders(pipe, keys, self)
        if self.log:
            append_log(pipe, keys, self.log)
            pipe.hset(keys.meta, "logged", max(self.log))
        for host, messages in self.messages.items():
            pipe.lpush(keys.host_list(host), *messages)
        for host in self.unknown_hosts:
            pipe.expire(keys.host_list(host), UNKNOWN_HOSTS_TIME)
        set_aside(pipe, keys, self.dead_letters, self.refused)


def append_log(pipe: Connection, keys: Keys, log: Mapping[int, LogLines]) -> None:
    """Add the event log's lines of these commits to a transaction."""
    for commit, (after, lines) in log.items():
        entry = {"n": commit, "p": after, "l": lines}
        pipe.xadd(keys.log, entry, maxlen=MAX_LOG, approximate=True)


def _write_jobs(pipe: Connection, keys: Keys, batch: Batch) -> None:
    for platform, members in batch.not_waiting.items():
        pipe.zrem(keys.pending(platform), *members)
    if batch.gone_platforms:
        pipe.srem(keys.platforms, *batch.gone_platforms)
    for platform, places in batch.waiting.items():
        pipe.sadd(keys.platforms, platform)
        pipe.zadd(keys.pending(platform), places)
    if batch.jobs:
        pipe.hset(keys.jobs, mapping={name: _json(job) for name, job in batch.jobs.items()})
    if batch.submitted:
        pipe.zadd(keys.submitted, batch.submitted, nx=True)
    for name, tries in batch.tries.items():
        pipe.rpush(keys.tries(name), *map(_json, tries))
    if batch.not_running:
        pipe.zrem(keys.running, *batch.not_running)
    if batch.running:
        pipe.zadd(keys.running, batch.running)
    if batch.ended:
        pipe.hset(keys.results, mapping={n: _json(e) for n, e in batch.ended.items()})
        pipe.hdel(keys.jobs, *batch.ended)
        pipe.rpush(keys.ended, *batch.ended)


def _write_builders(pipe: Connection, keys: Keys, batch: Batch) -> None:
    """Write builders, and what only a successor reads; a host that is gone needs no messages."""
    if batch.gone_builders:
        pipe.hdel(keys.builders, *batch.gone_builders)
    if batch.builders:
        pipe.hset(keys.builders, mapping={n: _json(b) for n, b in batch.builders.items()})
    if batch.gone_hosts:
        pipe.hdel(keys.lives, *batch.gone_hosts)
        pipe.unlink(*map(keys.host_list, batch.gone_hosts))
    if batch.lives:
        pipe.hset(keys.lives, mapping={n: _json(life) for n, life in batch.lives.items()})
    if batch.counts is not None:
        pipe.hset(keys.meta, "counts", _json(batch.counts))
    for key, plays in ((keys.wanted, batch.wanted), (keys.requested, batch.requested)):
        if plays is not None:
            pipe.unlink(key)
        if plays:
            pipe.hset(key, mapping={play.builder.id: _json(play) for play in plays})
