"""Dead letters: messages that were refused, kept for inspection."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from farm.live.redis.connection import Connection
from farm.live.redis.keys import UNREADABLE, Keys
from farm.live.redis.trouble import ours_or

log = logging.getLogger(__name__)

#: real seconds between two lines of the log on one reason
LOG_INTERVAL = 60.0
#: refused messages that are kept
KEPT = 1000
#: bytes of each that are kept
SHOWN = 4096

Reason = Literal[
    "unreadable",
    "version",
    "too-large",
    "out-of-bounds",
    "known",
    "unknown-life",
    "not-its-own",
    "error",
]
"""Why a message was refused (docs/reference/refused-messages.md says what each means)."""


class DeadLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that was refused, or set aside because handling it failed."""

    #: of the scheduler's
    stream: str
    #: where it stood: its milliseconds are when it was written, by the server's clock
    entry: str
    reason: Reason
    #: what was found and what is allowed; of an error its traceback
    why: str
    sender: str = ""
    #: the message, or its beginning
    text: str = ""
    #: of a submission: how many of its jobs were refused
    jobs: int = 1


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


def set_aside(
    pipe: Connection, keys: Keys, letters: Sequence[DeadLetter], counts: Mapping[Reason, int]
) -> None:
    """Add to a transaction what was refused, and how many by reason."""
    if letters:
        pipe.lpush(keys.dead_letters, *map(msgspec.json.encode, letters))
        pipe.ltrim(keys.dead_letters, 0, KEPT - 1)
    for reason, count in counts.items():
        pipe.hincrby(keys.refused, reason, count)


def kept(client: Connection, keys: Keys) -> list[DeadLetter]:
    """Return what was refused last, the newest first; what is no such letter is passed over."""
    found: list[DeadLetter] = []
    values: list[bytes] = ours_or([], lambda: client.lrange(keys.dead_letters, 0, -1))
    for value in values:
        with contextlib.suppress(*UNREADABLE):
            found.append(msgspec.json.decode(value, type=DeadLetter))
    return found


def shown(data: bytes) -> str:
    """Return the beginning of a message as text."""
    return data[:SHOWN].decode("utf-8", "backslashreplace")[:SHOWN]
