"""JSON values one after the other, however they were put together.

Programs that fetch page by page leave arrays that follow each other, arrays of arrays, objects
line by line, or objects with nothing between them. Brackets and commas between objects are taken
as mere separators, so all of these are the same sequence of objects. It is read in pieces: a file
may be larger than memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from typing import Any, NoReturn, TextIO

PIECE = 1 << 20
"""Characters that are read at once."""
MAX_WHOLE = 16 << 20
"""Characters of an object that is decoded as a whole; a larger one is given out in parts."""

_BLANK = re.compile(r"[\s,\x1e\ufeff]*")


def objects(file: TextIO, before: str = "") -> Iterator[dict[str, object]]:
    """Yield the JSON objects of a text, of arrays at any depth as well.

    ``before`` is what was read of it already.

    An object of more than 16 million characters is yielded in parts: one for each element of an
    array in it, as an array of one element beside the object's members before it. Raises
    ValueError for a text that is no JSON, has other values, or ends too early.
    """
    window = _Window(file, before)
    depth = 0
    while mark := window.next_mark():
        if mark == "[":
            depth += 1
            window.at += 1
        elif mark == "]" and depth:
            depth -= 1
            window.at += 1
        elif mark == "{":
            yield from window.parts()
        else:
            window.refuse(f"found {mark!r}; allowed: objects, or arrays of objects")
    if depth:
        window.refuse("ends inside an array: it is not complete")


class _Window:
    """The part of a text that is in memory."""

    def __init__(self, file: TextIO, before: str) -> None:
        self._file = file
        self._text = before
        self._before = 0
        self.at = 0

    def next_mark(self) -> str:
        """Return the next character that separates no values; empty at the end."""
        while True:
            if blank := _BLANK.match(self._text, self.at):
                self.at = blank.end()
            if self.at < len(self._text):
                return self._text[self.at]
            if not self._more():
                return ""

    def parts(self) -> Iterator[dict[str, object]]:
        """Yield the object that begins here, in parts if it is too large."""
        while (value := self._tried()) is _INCOMPLETE:
            if len(self._text) - self.at >= MAX_WHOLE:
                yield from self._members()
                return
            if not self._more():
                self._refuse_value()
        yield value

    def _members(self) -> Iterator[dict[str, object]]:
        self.at += 1
        plain: dict[str, object] = {}
        parts = 0
        while (mark := self.next_mark()) != "}":
            if mark != '"':
                self.refuse(f"found {mark!r}; allowed: the name of a member")
            name = self._value()
            if self.next_mark() != ":":
                self.refuse("found no colon after the name of a member")
            self.at += 1
            if self.next_mark() == "[":
                self.at += 1
                while (mark := self.next_mark()) != "]":
                    if not mark:
                        self.refuse("ends inside an array: it is not complete")
                    yield {**plain, name: [self._value()]}
                    parts += 1
                self.at += 1
            else:
                plain[name] = self._value()
        self.at += 1
        if not parts:
            yield plain

    def _value(self) -> Any:
        """Return the value that begins here; a number may go on in the next piece."""
        while True:
            began, value = self.at, self._tried()
            whole = self.at < len(self._text) or isinstance(value, dict | list | str)
            if value is not _INCOMPLETE and whole:
                return value
            self.at = began
            if not self._more():
                self._refuse_value()

    def _tried(self) -> Any:
        began = self.at
        try:
            value, self.at = _DECODER.raw_decode(self._text, self.at)
        except JSONDecodeError:
            return _INCOMPLETE
        except ValueError as error:  # a number that JSON does not have
            self.refuse(str(error))
        except RecursionError:
            self.refuse("nested too deep")
        halves = max(self._text.find(half, began, self.at) for half in ("\\ud", "\\uD"))
        return value if halves < 0 else _whole(value)

    def _more(self) -> bool:
        """Read as much again as is in memory; False at the end."""
        kept = self._text[self.at :]
        found = self._file.read(max(PIECE, len(kept)))
        self._before += self.at
        self._text, self.at = kept + found, 0
        return bool(found)

    def _refuse_value(self) -> NoReturn:
        try:
            _DECODER.raw_decode(self._text, self.at)
        except JSONDecodeError as error:
            at_end = error.pos >= len(self._text.rstrip()) or "Unterminated" in error.msg
            self.at = min(error.pos, len(self._text))
            if not at_end:
                self.refuse(error.msg)
        self.refuse("ends inside a value: it is not complete")

    def refuse(self, why: str) -> NoReturn:
        """Raise ValueError, with the place."""
        raise ValueError(f"character {self._before + self.at + 1:,}: {why}")


def _no_number(found: str) -> NoReturn:
    raise ValueError(f"found {found}; allowed: the numbers of JSON")


def _whole(value: object) -> object:
    """Return the value with "?" for halves of characters, where a program had cut a text."""
    if isinstance(value, dict):
        return {_whole(name): _whole(one) for name, one in value.items()}
    if isinstance(value, list):
        return list(map(_whole, value))
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


_INCOMPLETE = object()
_DECODER = JSONDecoder(parse_constant=_no_number)
