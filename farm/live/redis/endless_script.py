"""A script that keeps the farm's own server busy: asked to end, then ended with the server.

While a script runs, a server carries out nothing else; after some seconds it answers BUSY to all
but a few commands. One of these ends the script, unless it has written something.
"""

from __future__ import annotations

import contextlib

import redis

from farm.live.redis.connection import Connection
from farm.live.redis.trouble import trouble_of

#: real seconds of BUSY after which a script is ended, and after which the server is, that did not
BUSY_TIME = 5.0
#: real seconds until a server answers; one that says nothing is not known to be in a script
ANSWER_TIMEOUT = 1.0


class ScriptGuard:
    """Looks at a server; instants are monotonic, in seconds.

    Its connection names no client: a server in a script would refuse that, too.
    """

    def __init__(self, url: str) -> None:
        self._client: Connection = redis.Redis.from_url(
            url,
            protocol=2,
            socket_timeout=ANSWER_TIMEOUT,
            socket_connect_timeout=ANSWER_TIMEOUT,
        )
        #: since when it has been busy, as far as is known; None: it is not
        self._busy_since: float | None = None
        self._was_asked = False

    @property
    def is_busy(self) -> bool:
        """Whether it was in a script at the last look."""
        return self._busy_since is not None

    def look(self, now: float) -> str:
        """End a script that lasts too long; return what was done about it, empty: nothing.

        Raises StuckError for one that could not be ended.
        """
        if not self._answers_busy():
            self._busy_since, self._was_asked = None, False
            return ""
        if self._busy_since is None:
            self._busy_since = now
        lasted = now - self._busy_since
        if lasted >= 2 * BUSY_TIME and self._was_asked:
            raise StuckError
        if lasted < BUSY_TIME or self._was_asked:
            return ""
        self._was_asked = True
        for kind in ("SCRIPT", "FUNCTION"):  # one of them runs; older servers have no functions
            with contextlib.suppress(redis.RedisError):
                self._client.execute_command(f"{kind} KILL")
        return f"the server was in a script for {lasted:.0f}s: told to end it (SCRIPT KILL)"

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _answers_busy(self) -> bool:
        try:
            self._client.ping()
        except redis.RedisError as error:
            trouble = trouble_of(error)
            return trouble is not None and trouble.kind == "busy"
        return False


class StuckError(Exception):
    """A server that does not leave its script."""
