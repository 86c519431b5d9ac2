"""Connections to a Redis server: bounded waits, no password in any message."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from contextlib import closing
from typing import Any, TypeAlias

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from farm.core.errors import ServerError

Connection: TypeAlias = Any
"""A ``redis.Redis`` that answers in bytes (its own types leave that open)."""

CONNECT_TIMEOUT = 3.0
#: longer than any of our blocking reads
SOCKET_TIMEOUT = 10.0
#: streams, XTRIM MINID and friends
OLDEST_SERVER = (6, 2)


def redacted(url: str) -> str:
    """Return the URL with its passwords replaced by ``***``: for every message that has a URL.

    Errors of redis-py and Celery name host and port alone.
    """
    url = re.sub(r"(://[^:@/]*:).*@", r"\1***@", url)
    return re.sub(r"(password=)[^&#]*", r"\1***", url)


def server_time(client: Connection) -> float:
    """Return the time of day by the server's clock, which all machines of a farm ask (Unix)."""
    return time_of(client.time())


def time_of(answer: Sequence[int | bytes]) -> float:
    """Return the instant (Unix) that the answer to TIME is."""
    seconds, micros = answer
    return int(seconds) + int(micros) / 1e6


def connect(url: str, name: str) -> Connection:
    """Return a client (it connects on first use); raises ServerError for an impossible URL."""
    try:
        return redis.Redis.from_url(
            url,
            protocol=2,
            client_name=name,
            socket_connect_timeout=CONNECT_TIMEOUT,
            socket_timeout=SOCKET_TIMEOUT,
            socket_keepalive=True,
            health_check_interval=0,
            # callers decide what may be retried, and for how long
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError as error:
        raise ServerError(
            f"Redis URL {redacted(url)!r} cannot be used: {error} "
            "(allowed: redis://[user:password@]host:port/db, rediss://…, unix://path)"
        ) from None


def database_of(url: str) -> int:
    """Return the number of the database that a URL names; raises ServerError, as ``connect``."""
    if not url:
        return 0
    with closing(connect(url, "")) as client:  # it connects on first use only
        return client.connection_pool.connection_kwargs.get("db") or 0


class RefusedError(ServerError):
    """A server that refuses the connection: retrying does not help."""


def check_server(client: Connection, url: str) -> None:
    """Check that the server answers and is new enough; raises ServerError.

    RefusedError if retrying is useless; otherwise it may be temporarily unreachable.
    """
    shown = redacted(url)
    try:
        _try_tls(client)
        info = client.info("server")
    except redis.exceptions.AuthenticationError as error:
        raise RefusedError(
            f"Redis at {shown} refuses us ({_first_line(error)}): "
            "give the password in the URL, redis://:PASSWORD@host:port/0"
        ) from None
    except redis.exceptions.NoPermissionError as error:
        raise RefusedError(f"Redis at {shown}: this user may not do that ({error})") from None
    except (redis.ConnectionError, redis.TimeoutError) as error:
        if _uses_tls(client) and _answers_without_tls(client):
            raise RefusedError(
                f"Redis at {shown} answers without TLS only: "
                "name it by redis:// instead of rediss://, or give it TLS"
            ) from None
        if "max number of clients" in str(error):
            raise ServerError(
                f"Redis at {shown} has as many connections as it may (maxclients), and refuses "
                "new ones: end those that are not the farm's (CLIENT LIST), or allow more "
                "(CONFIG SET maxclients)"
            ) from None
        raise ServerError(
            f"Redis at {shown} cannot be reached, or it is still starting: {_first_line(error)}"
        ) from None
    except redis.RedisError as error:
        raise ServerError(f"Redis at {shown} cannot be used: {_first_line(error)}") from None
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST_SERVER:
        needed = ".".join(map(str, OLDEST_SERVER))
        raise RefusedError(f"Redis at {shown} is version {version}: {needed} or newer is needed")


def _uses_tls(client: Connection) -> bool:
    return issubclass(client.connection_pool.connection_class, redis.SSLConnection)


def _try_tls(client: Connection) -> None:
    """Connect once and disconnect, where the URL asks for TLS; raises what redis-py raises.

    A server without TLS waits for the rest of what it reads as a command, so a connection that
    may take as long as a blocking read would take all of that.
    """
    if not _uses_tls(client):
        return
    settings = client.connection_pool.connection_kwargs | {"socket_timeout": CONNECT_TIMEOUT}
    connection = client.connection_pool.connection_class(**settings)
    try:
        connection.connect()
    finally:
        connection.disconnect()


def _answers_without_tls(client: Connection) -> bool:
    """Return whether a server answers as Redis in plain text; it is told no user or password."""
    settings = client.connection_pool.connection_kwargs
    place = (settings.get("host", "localhost"), settings.get("port", 6379))
    try:
        with socket.create_connection(place, CONNECT_TIMEOUT) as plain:
            plain.sendall(b"PING\r\n")
            return plain.recv(1) in (b"+", b"-")
    except OSError:
        return False


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
