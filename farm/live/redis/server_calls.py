"""Calls to the farm's server, repeated until its troubles are over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from farm.core.errors import RunError
from farm.live.redis.trouble import RedisError, Trouble, trouble_of

log = logging.getLogger("farm.server")

T = TypeVar("T")

#: real seconds that the server may be gone from a single run
MAX_ABSENCE = 30.0
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5


class ServerCalls:
    """Makes calls; while the server is in trouble nothing else is done or decided.

    Args:
        limit: real seconds that the server may be gone; None: forever. All other troubles are
            waited out: an operator has to end them.
        wait: pauses for these seconds; returns True if a stop was requested.
        well_again: called when a trouble is over.
        monotonic: real seconds.
    """

    def __init__(
        self,
        limit: float | None,
        wait: Callable[[float], bool],
        well_again: Callable[[], object] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        #: what is wrong with the server now, as far as a call has met it; safe from any thread
        self.trouble: Trouble | None = None
        self._limit = limit
        self._wait = wait
        self._well_again = well_again
        self._monotonic = monotonic
        self._began = 0.0

    def __call__(self, action: Callable[[], T]) -> T:
        """Return what the action returns; raises RunError if it cannot be waited for."""
        pause = FIRST_PAUSE
        while True:
            try:
                done = action()
            except RedisError as error:
                self._meet(error)
                if self._wait(pause):
                    what = "stopped while there was trouble with the Redis server"
                    raise RunError(f"{what}: {self.trouble and self.trouble.words}") from None
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self._end_trouble()
                return done

    def _meet(self, error: RedisError) -> None:
        """Note a trouble; raises RunError for one that is none, or lasts too long."""
        trouble = trouble_of(error)
        if trouble is None:
            raise RunError(f"the Redis server refuses calls: {error}") from None
        if self.trouble is None:
            self._began = self._monotonic()
        if self.trouble is None or self.trouble.kind != trouble.kind:
            log.error("trouble with the Redis server, work pauses: %s", trouble.words)
        self.trouble = trouble
        lasted = self._monotonic() - self._began
        if trouble.kind == "gone" and self._limit is not None and lasted > self._limit:
            raise RunError(
                f"the Redis server has been gone for {self._limit:g}s ({trouble.details}): "
                "the run cannot continue"
            ) from None

    def _end_trouble(self) -> None:
        if self.trouble is not None:
            lasted = self._monotonic() - self._began
            log.warning("the Redis server is well again after %.1fs: work continues", lasted)
            self.trouble = None
            self._well_again()
