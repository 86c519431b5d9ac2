"""The scheduler's calls to its server, which wait until its troubles are over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from farm.core.errors import RunError
from farm.live.redis.trouble import RedisError, Retrying, Trouble

log = logging.getLogger("farm.scheduler")

T = TypeVar("T")

#: real seconds that the server may be gone from a single run
MAX_ABSENCE = 30.0


class ServerCalls:
    """Makes calls; while the server is in trouble nothing else is done or decided.

    Args:
        limit: real seconds that the server may be gone; None: forever. Whatever else is wrong
            with it is waited out.
        gives_up: returns whether a stop was requested, so that waiting is useless.
        before_pause: called before each pause.
        well_again: called when a trouble is over.
    """

    def __init__(
        self,
        limit: float | None,
        gives_up: Callable[[], bool],
        before_pause: Callable[[], None],
        well_again: Callable[[], None],
    ) -> None:
        self._retrying = Retrying(limit, self._wait_out, self._on_change)
        self._gives_up = gives_up
        self._before_pause = before_pause
        self._well_again = well_again

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the server now, as far as a call has met it. Safe from any thread."""
        return self._retrying.trouble

    def __call__(self, action: Callable[[], T]) -> T:
        """Return what the action returns; raises RunError if it cannot be waited for."""
        try:
            return self._retrying.call(action)
        except RedisError as error:
            trouble = self.trouble
            if trouble is None:
                raise RunError(f"the Redis server refuses calls: {error}") from None
            if self._gives_up():
                raise RunError(
                    f"stopped while there was trouble with the Redis server: {trouble.words}"
                ) from None
            raise RunError(
                f"the Redis server has been gone for {self._retrying.limit:g}s "
                f"({trouble.details}): the run cannot continue"
            ) from None

    def _wait_out(self, seconds: float) -> bool:
        self._before_pause()
        time.sleep(seconds)
        return self._gives_up()

    def _on_change(self, trouble: Trouble | None, lasted: float) -> None:
        if trouble is not None:
            log.error("trouble with the Redis server, dispatching pauses: %s", trouble.words)
            return
        log.warning("the Redis server is well again after %.1fs: work continues", lasted)
        self._well_again()
