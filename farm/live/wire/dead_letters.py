"""Dead letters: messages that were refused, kept for inspection."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from farm.live.redis.connection import Connection
from farm.live.redis.keys import UNREADABLE, Keys
from farm.live.redis.trouble import PassOverSpoilt

#: refused messages that are kept
KEPT = 1000
#: bytes of each that are kept
SHOWN = 4096

Reason = Literal[
    "unreadable", "version", "too-large", "out-of-bounds", "unknown-life", "not-its-own", "error"
]
"""Why a message was refused (docs/explanation/reliability.md says what each means)."""


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
    with PassOverSpoilt():
        for value in client.lrange(keys.dead_letters, 0, -1):
            with contextlib.suppress(*UNREADABLE):
                found.append(msgspec.json.decode(value, type=DeadLetter))
    return found


def shown(data: bytes) -> str:
    """Return the beginning of a message as text."""
    return data[:SHOWN].decode("utf-8", "backslashreplace")[:SHOWN]
