"""Reads a trace file's bytes; system errors become a TraceError."""

from __future__ import annotations

import io
import zlib
from gzip import BadGzipFile, GzipFile
from pathlib import Path

from farm.core.errors import TraceError
from farm.whole_files import read_whole

#: bytes that any gzip may unpack to, and how many times its size beyond that: recorded traces
#: shrink five- to tenfold, a gzip bomb a thousandfold
MAX_SMALL = 10_000_000
MAX_RATIO = 100
#: bytes that none may unpack to
MAX_UNPACKED = 1_000_000_000
GZIP, PACKED_TWICE = b"\x1f\x8b", "it is packed twice; allowed: once"


def encoding_of(first: bytes) -> str:
    """Return how text is encoded that begins so: UTF-16 (as PowerShell writes) by its mark."""
    return "utf-16" if first[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzip (known by its first two bytes)."""
    try:
        content = read_whole(path)
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"{path}: cannot be read: {reason}") from None
    if not content.startswith(GZIP):
        return content
    most = min(MAX_UNPACKED, max(MAX_SMALL, MAX_RATIO * len(content)))
    try:
        with GzipFile(fileobj=io.BytesIO(content)) as packed:
            unpacked = packed.read(most + 1)
    except (EOFError, BadGzipFile, zlib.error) as error:
        raise TraceError(f"{path}: damaged or truncated gzip: {error}") from None
    if len(unpacked) > most:
        raise TraceError(
            f"{path}: gzip of {len(content):,} bytes unpacks to more than {most:,}; allowed: "
            f"{MAX_RATIO} times its size (or {MAX_SMALL:,} bytes), up to {MAX_UNPACKED:,}"
        )
    if unpacked.startswith(GZIP):
        raise TraceError(f"{path}: cannot be read: {PACKED_TWICE}")
    return unpacked


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, or of UTF-16 that says so (gzip allowed)."""
    try:
        content = read_bytes(path)
        return content.decode(encoding_of(content))
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: byte {error.start} is not UTF-8 text") from None
