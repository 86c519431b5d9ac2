"""Client libraries write a system's records with keys in their own language's style.

A server's ``created_at`` is ``createdAt`` where a JavaScript client wrote it down, ``CreatedAt``
where a Go program did without tags; and a time of Protocol Buffers is a number of seconds beside
one of nanoseconds, where no client made text of it. The values are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from farm.records.foreign_columns import CALENDAR, LATEST

Respelled = Callable[[dict[str, object]], dict[str, object]]
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W_]+")
NAMES = 10_000
"""Keys that are remembered: a record may have others' data as keys."""
_TIME = {"seconds", "nanos"}


def in_snake_case(value: dict[str, object]) -> dict[str, object]:
    """Return an object with keys as ``created_at``, at any depth."""
    return _mapped(value, _snake)


def in_camel_case(value: dict[str, object]) -> dict[str, object]:
    """Return an object with keys as ``createdAt``, at any depth."""
    return _mapped(value, _camel)


def as_it_is(value: dict[str, object]) -> dict[str, object]:
    """Return an object with the keys that it has."""
    return value


def with_times(value: dict[str, object]) -> dict[str, object]:
    """Return an object with its own keys, and with times of Protocol Buffers as text."""
    return _mapped(value, str)


def has_times(value: object) -> bool:
    """Return whether times of Protocol Buffers are anywhere in it."""
    if isinstance(value, list):
        return any(map(has_times, value))
    if not isinstance(value, dict):
        return False
    return (bool(value) and value.keys() <= _TIME) or any(map(has_times, value.values()))


def _mapped(value: dict[str, object], spell: Callable[[str], str]) -> dict[str, object]:
    return {spell(name): _inner(inner, spell) for name, inner in value.items()}


def _inner(value: Any, spell: Callable[[str], str]) -> object:
    if isinstance(value, list):
        return [_inner(one, spell) for one in value]
    if not isinstance(value, dict):
        return value
    if not value:
        return None  # a message of zeros
    if value.keys() <= _TIME:
        return _time_of(value)
    return _mapped(value, spell)


def _time_of(value: dict[str, Any]) -> object:
    """Return what seconds and nanoseconds are: an instant, or a span, as text."""
    try:
        seconds = int(value.get("seconds", 0)) + int(value.get("nanos", 0)) / 1e9
    except (TypeError, ValueError):
        return value
    if CALENDAR <= seconds < LATEST:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    return f"{seconds:.9f}s"


@lru_cache(NAMES)
def _snake(name: str) -> str:
    words: list[str] = _WORDS.findall(name)
    return "_".join(map(str.lower, words)) if words else name


@lru_cache(NAMES)
def _camel(name: str) -> str:
    words: list[str] = _WORDS.findall(name)
    first, *others = words or [name]
    return first.lower() + "".join(word[:1].upper() + word[1:].lower() for word in others)
