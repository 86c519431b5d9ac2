"""Transactions that are carried out only if keys are as they were read, in one round trip each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import redis

from farm.live.redis.connection import Connection
from farm.live.redis.trouble import is_spoilt

Command = Sequence[Any]
"""A command's words."""


class WatchedKeys:
    """Keys that are watched and read together with the transaction before.

    Nothing is asked before a transaction: the server refuses it if a key has changed since the
    last one. Used from one thread at a time; it keeps a connection of the client's pool.

    Args:
        client: a client of the server.
        keys: what is watched.
        reads: the commands that read what decisions are based on.
    """

    def __init__(self, client: Connection, keys: Sequence[str], *reads: Command) -> None:
        self._client = client
        self._look: list[Command] = [("WATCH", *keys), *reads]
        self._connection: Any = None
        #: the answers to the reads, if the keys are watched
        self._found: list[Any] | None = None

    def read(self) -> list[Any]:
        """Return the answers to the reads: as of now, or of the end of the last transaction.

        None where a key holds what is not ours. Raises redis.RedisError.
        """
        if self._found is None:
            # of an earlier look something may have changed
            stale = [] if self._connection is None else [("UNWATCH",)]
            answers = self._exchange([*stale, *self._look])
            self._found = self._checked(answers[len(stale) :])
        return self._found

    def carry_out(self, fill: Callable[[Connection], object]) -> tuple[list[str], list[Any]]:
        """Carry out what ``fill`` puts into a pipeline; return its keys and the answers.

        An answer may be an exception; the other commands are carried out all the same. Raises
        redis.WatchError if that must be decided anew, as a key has changed or the connection has
        broken since it was last used; redis.RedisError.
        """
        self.read()
        pipe = self._client.pipeline(transaction=True)
        fill(pipe)
        commands = [args for args, _ in pipe.command_stack]
        pipe.reset()
        self._found = None
        if self._connection._sock is None:  # connected anew, it would watch nothing
            raise redis.WatchError("the connection was closed")
        try:
            answers = self._exchange([("MULTI",), *commands, ("EXEC",), *self._look])
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise redis.WatchError(f"the connection broke: {error}") from None
        done = answers[len(commands) + 1]
        with contextlib.suppress(redis.RedisError):  # the next look will show
            self._found = self._checked(answers[len(commands) + 2 :])
        if isinstance(done, Exception):
            raise next(one for one in answers if isinstance(one, Exception))
        if done is None:
            raise redis.WatchError("a watched key has changed")
        return [str(args[1]) for args in commands], done

    def forget(self) -> None:
        """Read anew before the next transaction."""
        self._found = None

    def _checked(self, answers: Sequence[Any]) -> list[Any]:
        """Return the answers to the reads, without that to the watch."""
        for answer in answers:
            if isinstance(answer, Exception) and not is_spoilt(answer):
                raise answer
        return [None if isinstance(one, Exception) else one for one in answers[1:]]

    def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands together; return their answers, exceptions among them."""
        pool = self._client.connection_pool
        if self._connection is None:
            self._connection = pool.get_connection()
        connection, answers = self._connection, list[Any]()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            for _ in commands:
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
