"""Refusals are counted by reason, collected, and logged occasionally."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque

from farm.live.wire.dead_letters import KEPT, DeadLetter, Reason

log = logging.getLogger(__name__)

#: real seconds between two lines of the log on one reason
LOG_INTERVAL = 60.0


class Refusals:
    """Collects what is refused until it is written; one line of log per reason and minute."""

    def __init__(self) -> None:
        self._letters: deque[DeadLetter] = deque(maxlen=KEPT)
        self._counts: Counter[Reason] = Counter()
        self._logged_at: dict[Reason, float] = {}
        self._unlogged: Counter[Reason] = Counter()

    def add(self, letter: DeadLetter) -> None:
        """Refuse a message."""
        self._letters.append(letter)
        self._counts[letter.reason] += 1
        self._log(letter)

    def take(self) -> tuple[list[DeadLetter], dict[Reason, int]]:
        """Return what was refused since the last time, and how many by reason."""
        letters, counts = list(self._letters), dict(self._counts)
        self._letters.clear()
        self._counts.clear()
        return letters, counts

    def _log(self, letter: DeadLetter) -> None:
        now = time.monotonic()
        self._unlogged[letter.reason] += 1
        if now - self._logged_at.get(letter.reason, float("-inf")) < LOG_INTERVAL:
            return
        self._logged_at[letter.reason] = now
        count = self._unlogged.pop(letter.reason)
        more = f" (and {count - 1:,} more since the last such line)" if count > 1 else ""
        log.warning("refused a message of %s: %s%s", letter.stream, letter.why, more)
