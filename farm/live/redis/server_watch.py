"""The state of the farm's Redis server, polled by a thread for metrics.

The scheduler never waits for it, and a scrape only reads what the last answer was.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Self

import redis

from farm.live.redis.connection import Connection, connect
from farm.live.redis.keys import STREAMS, Keys
from farm.live.redis.trouble import KINDS, Trouble, trouble_in, trouble_of
from farm.metrics.series import Readings

#: real seconds between two questions; one costs the server well under a millisecond
INTERVAL = 5.0


def readings_of(
    info: Mapping[str, str | float], keys: int, inbox: int, refused: Mapping[bytes, bytes] = {}
) -> Readings:
    """Return a server's metrics from its INFO and its numbers of keys and reports."""
    last_writes = (
        ("aof_last_write_status", "aof_last_bgrewrite_status")
        if info.get("aof_enabled")
        else ("rdb_last_bgsave_status",)
    )
    values = {
        "farm_redis_up": 1,
        "farm_redis_memory_bytes": info["used_memory"],
        "farm_redis_memory_limit_bytes": info["maxmemory"] or info["total_system_memory"],
        "farm_redis_clients": info["connected_clients"],
        "farm_redis_clients_limit": info.get("maxclients", 0),
        "farm_redis_commands_total": info["total_commands_processed"],
        "farm_redis_aof_bytes": info.get("aof_current_size", 0),
        "farm_redis_persistence_ok": all(info.get(key, "ok") == "ok" for key in last_writes),
        "farm_redis_keys": keys,
        "farm_redis_inbox_length": inbox,
    }
    readings: dict[str, dict[tuple[str, ...], float]] = {
        name: {(): float(value)} for name, value in values.items()
    }
    readings["farm_dead_letters_total"] = {
        (reason.decode(),): float(count) for reason, count in refused.items()
    }
    return readings


def trouble_readings(*troubles: Trouble | None) -> Readings:
    """Return the metric of a server that is in these troubles."""
    kinds = {trouble.kind for trouble in troubles if trouble is not None}
    return {"farm_server_trouble": {(kind,): float(kind in kinds) for kind in KINDS}}


class ServerWatch:
    """Asks the server while its ``with`` block lasts, every ``interval`` real seconds.

    ``met`` returns the trouble that the farm itself has with the server now: it may see one that
    does not show (a password that was changed, a user that may do less).
    """

    def __init__(
        self,
        url: str,
        prefix: str,
        interval: float = INTERVAL,
        met: Callable[[], Trouble | None] = lambda: None,
    ) -> None:
        self._client: Connection = connect(url, "farm-watch")
        self._refused = Keys(prefix).refused
        self._streams = [Keys(prefix).stream(name) for name in STREAMS]
        self._interval = interval
        self._met = met
        #: replaced as a whole
        self._readings: Readings = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="farm-watch", daemon=True)

    def readings(self) -> Readings:
        """Return what was heard last: nothing yet, all, or only that it does not answer."""
        return self._readings

    def __enter__(self) -> Self:
        """Begin to ask."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop asking."""
        self._stop.set()
        self._thread.join(1.0)  # a server that hangs must not keep us
        self._client.close()

    def look(self) -> None:
        """Ask once."""
        try:
            pipe = self._client.pipeline(transaction=False)
            pipe.info().dbsize()
            for stream in self._streams:
                pipe.xlen(stream)
            info, keys, *lengths, refused = pipe.hgetall(self._refused).execute()
            more = trouble_readings(trouble_in(info), self._met())
            self._readings = {**readings_of(info, keys, sum(lengths), refused), **more}
        except redis.RedisError as error:
            with contextlib.suppress(redis.RedisError):
                self._client.close()
            more = trouble_readings(trouble_of(error) or Trouble("gone"), self._met())
            self._readings = {"farm_redis_up": {(): 0.0}, **more}

    def _watch(self) -> None:
        while True:
            self.look()
            if self._stop.wait(self._interval):
                return
