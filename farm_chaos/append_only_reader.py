"""Reads a server's append-only files, with every change that it acknowledged.

The format is that of the protocol: arrays of bulk strings, one command after the other, between
lines that begin with ``#`` as notes. What a rewrite of the file made short is not in it any more.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from farm.core.errors import InputError


def commands_of(folder: Path) -> Iterator[tuple[bytes, ...]]:
    """Yield every command in the append-only files of a data folder, in order.

    A last command that was cut short is left out. Raises InputError for a file that is none.
    """
    parts = folder / "appendonlydir"
    files = sorted(parts.glob("*.incr.aof"), key=_serial) if parts.is_dir() else []
    for path in files or sorted(folder.glob("*.aof")):
        with path.open("rb") as file:
            yield from _commands(file, path)


def _serial(path: Path) -> int:
    return int(path.name.split(".")[-3])


def _commands(file: BinaryIO, path: Path) -> Iterator[tuple[bytes, ...]]:
    while line := file.readline():
        if line.startswith(b"#"):
            continue
        if not line.startswith(b"*"):
            raise InputError(f"{path}: byte {file.tell()}: found {line[:20]!r}; allowed: a command")
        words = [_word(file) for _ in range(int(line[1:]))]
        if None in words:
            return  # the server was killed while it wrote this
        yield tuple(word for word in words if word is not None)


def _word(file: BinaryIO) -> bytes | None:
    head = file.readline()
    if not head.endswith(b"\r\n"):
        return None
    size = int(head[1:])
    word = file.read(size + 2)
    return word[:-2] if len(word) == size + 2 else None


def truncate(source: Path, target: Path, share: float) -> None:
    """Copy a data folder without this share of the commands written last, by their bytes."""
    shutil.copytree(source, target)
    parts = sorted((target / "appendonlydir").glob("*.incr.aof"), key=_serial)
    for path in parts[-1:]:
        os.truncate(path, int(path.stat().st_size * (1.0 - share)))


def hash_writes(folder: Path, key: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield each field and value that was ever written to a hash, in order."""
    name = key.encode()
    for words in commands_of(folder):
        if words[0].upper() in (b"HSET", b"HMSET") and words[1] == name:
            yield from zip(words[2::2], words[3::2], strict=True)
