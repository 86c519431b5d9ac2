"""Good inputs, corrupted in ways that a seed decides: bytes, tokens, whole values of JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

TOKENS = [
    b"null", b"true", b"-1", b"0", b"1e999", b"-1e999", b"NaN", b"Infinity", b"1" + b"0" * 400,
    b"9" * 25, b"0.1", b'""', b"[]", b"{}", b"[" * 300, b"{" * 300, b"[" * 100_000,
    b"\xff", b"\x00", b"\xc3\x28",
    b"\\ud800", b"\xed\xa0\x80", b"\n", b"\r", b"\t", b",", b":", b'"', b"'", b"\\", b"%",
    b"*" * 99, b"&a *a", b"!!python/object", b"<<: *x", b"- - - -", b"..",
    b"\xf0\x9f\x8e\x89", b"A" * 5000,
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**18, -(10**18), 1e308, -1e308, 1e-308,
    0.5, "", "x", "x" * 5000, "\x00", "\x1b[2J", "日本語", [], {}, [[]], {"": {}}, [None],
    ["x"] * 200, "1e999", "nan", "*", "../..", "farm:", 10**30,
]  # fmt: skip


def spoilt(good: list[bytes], count: int, name: str) -> Iterator[bytes]:
    """Yield corrupted versions of the good inputs; the same every time."""
    dice = random.Random(f"fuzz {name}")
    for _ in range(count):
        yield _spoil(dice.choice(good), dice)


def _spoil(data: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.5 and (value := _as_json(data)) is not None:
        for _ in range(dice.choice((1, 1, 1, 2, 4))):
            value = _change(value, dice)
        return json.dumps(value).encode("utf-8", "surrogatepass")
    spoilt = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 3, 8))):
        first = dice.randrange(len(spoilt) + 1)
        last = min(len(spoilt), first + dice.choice((0, 1, 1, 2, 8, 40)))
        match dice.randrange(5):
            case 0:
                spoilt[first:last] = dice.choice(TOKENS)
            case 1:
                spoilt[first:first] = dice.choice(TOKENS)
            case 2:
                del spoilt[first:last]
            case 3:
                spoilt[first:last] = dice.randbytes(last - first)
            case _:
                spoilt[first:first] = spoilt[dice.randrange(first + 1) : first]
        del spoilt[200_000:]
    return bytes(spoilt)


def _as_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _change(value: Any, dice: random.Random) -> Any:
    """Return the value with something in it replaced, removed or added."""
    if isinstance(value, dict) and value and dice.random() < 0.85:
        key = dice.choice(list(value))
        changed = dict(value)
        match dice.randrange(8):
            case 0:
                del changed[key]
            case 1:
                changed[str(dice.choice(VALUES))] = changed[key]
            case _:
                changed[key] = _change(value[key], dice)
        return changed
    if isinstance(value, list) and value and dice.random() < 0.85:
        place = dice.randrange(len(value))
        match dice.randrange(6):
            case 0:
                return value[:place] + value[place + 1 :]
            case 1:
                return value + value[place:]
            case _:
                return [*value[:place], _change(value[place], dice), *value[place + 1 :]]
    return dice.choice(VALUES)
