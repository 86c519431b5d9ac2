"""Reads a trace file's bytes; what the machine refuses becomes a TraceError."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from farm.core.errors import TraceError


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzip (told by its first two bytes)."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"{path}: cannot be read: {reason}") from None
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: damaged or truncated gzip: {error}") from None


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file (gzip allowed)."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: byte {error.start} is not UTF-8 text") from None
