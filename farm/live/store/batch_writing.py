"""Writes a batch of changes into a farm's keys, as a part of one transaction."""

from __future__ import annotations

import msgspec

from farm.live.redis.connection import Connection
from farm.live.redis.keys import Keys
from farm.live.store.batch import Batch
from farm.live.store.lost_writes import MAX_LOG
from farm.live.wire.dead_letters import set_aside

#: real seconds that a message waits for an unknown host
UNKNOWN_HOSTS_TIME = 5

_json = msgspec.json.Encoder().encode


def write_batch(pipe: Connection, keys: Keys, batch: Batch) -> None:
    """Add the commands that write a batch to a transaction."""
    _write_jobs(pipe, keys, batch)
    _write_builders(pipe, keys, batch)
    for commit, lines in batch.log.items():
        pipe.xadd(keys.log, {"n": commit, "l": lines}, maxlen=MAX_LOG, approximate=True)
    for host, messages in batch.messages.items():
        pipe.lpush(keys.host_list(host), *messages)
    for host in batch.unknown_hosts:
        pipe.expire(keys.host_list(host), UNKNOWN_HOSTS_TIME)
    set_aside(pipe, keys, batch.dead_letters, batch.refused)


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
        pipe.zadd(keys.submitted, batch.submitted)
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
