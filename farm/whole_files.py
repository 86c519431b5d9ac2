"""Files that are replaced whole, and files that end.

A reader, and an error, find the old file or the new one. What is read is no named pipe and no
device, which may never begin or never end, and has a size that can be held.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from farm.core.errors import InputError, file_access

#: bytes of a document that is read whole
MAX_DOCUMENT = 1_000_000_000
#: the path that stands for standard input
STDIN = Path("-")
#: where a process finds the pipes that it was given, each with a writer
OWN_PIPES = Path("/dev/stdin"), Path("/dev/fd"), Path("/proc/self/fd")


def ending(path: Path) -> Path:
    """Return the path of a file to be read; raises OSError for a named pipe or a device."""
    mode = path.stat().st_mode
    own = stat.S_ISFIFO(mode) and not {path, path.parent}.isdisjoint(OWN_PIPES)
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or own):
        raise OSError(errno.EINVAL, "a pipe or a device; allowed: a file", str(path))
    return path


PIECE = 1 << 20
"""Bytes of a file that are read together."""


def pieces_of(path: Path, size: int = PIECE) -> Iterator[bytes]:
    """Yield a file in pieces of whole lines, some ``size`` bytes long; raises OSError.

    A reader may leave it in the middle, and whenever the generator goes, the file is closed.
    """
    with ending(path).open("rb") as file:
        # a file object that is part of a cycle may be collected before the generator that closes it
        descriptor = os.dup(file.fileno())
    try:
        parts: list[bytes] = []
        while found := os.read(descriptor, size):
            whole, end, rest = found.rpartition(b"\n")
            if end:
                yield b"".join((*parts, whole, end))
                parts = []
            parts.append(rest)
        if last := b"".join(parts):
            yield last
    finally:
        os.close(descriptor)


def read_whole(path: Path, most: int = MAX_DOCUMENT) -> bytes:
    """Return the content of a file, or of STDIN; raises OSError, if it has over ``most`` bytes."""
    if path == STDIN:
        content = standard_input().read(most + 1)
    else:
        with ending(path).open("rb") as file:
            content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"too large; allowed: {most:,} bytes", str(path))
    return content


def standard_input() -> BinaryIO:
    """Return standard input; raises InputError if it is closed (then Python has none)."""
    if sys.stdin is None:
        raise InputError("standard input is closed; allowed: an open one")
    return sys.stdin.buffer


def write_whole(path: Path, content: bytes) -> None:
    """Write a file; raises OSError."""
    with draft_of(path) as draft:
        draft.write_bytes(content)


def write_document(path: Path, text: str) -> None:
    """Write a text file; on a full disk none is left behind. Raises InputError."""
    with file_access(path):
        write_whole(path, text.encode())


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Provide a path beside the file, which is renamed to it at the end of the block."""
    draft = path.with_name(f"{path.name}.part")
    try:
        yield draft
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
