"""A connection that is kept: taking one from the pool and returning it costs as much as a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from farm.live.redis.connection import Connection

Command = Sequence[object]
"""A command's words."""


class RepeatedCommands:
    """Commands that are sent together repeatedly, with the same words: packed only once."""

    def __init__(self, *commands: Command) -> None:
        self.commands = commands
        #: as they are sent
        self.packed: list[bytes] | None = None


class KeptConnection:
    """One connection of a client's pool, from the first call on. Used from one thread at a time."""

    def __init__(self, client: Connection) -> None:
        self._client = client
        self._connection: Any = None

    @property
    def is_taken(self) -> bool:
        """Whether a connection is kept, which may have been used before."""
        return self._connection is not None

    @property
    def is_open(self) -> bool:
        """Whether the next call goes over the same connection as the last one."""
        return self._connection is not None and self._connection._sock is not None

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one round trip; return their answers, exceptions among them.

        Raises redis.RedisError if the connection breaks; the next call takes another one.
        """
        return self.repeat(RepeatedCommands(*commands))

    def repeat(self, repeated: RepeatedCommands) -> list[Any]:
        """Send these commands once more; returns and raises as ``exchange``."""
        pool = self._client.connection_pool
        if self._connection is None:
            self._connection = pool.get_connection()
        connection = self._connection
        answers: list[Any] = []
        try:
            if repeated.packed is None:
                repeated.packed = connection.pack_commands(repeated.commands)
            connection.send_packed_command(repeated.packed)
            for _ in repeated.commands:
                try:
                    answers.append(connection.read_response())
                except redis.ResponseError as error:
                    answers.append(error)
        except BaseException:
            self._connection = None
            connection.disconnect()
            pool.release(connection)
            raise
        return answers
