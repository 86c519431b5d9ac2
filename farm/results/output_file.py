"""Checks that an output file can be written, before the work that produces its content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from farm.core.errors import InputError, file_access


def check_output(path: Path | None, kinds: Sequence[str], option: str) -> None:
    """Raise InputError for a name with another suffix, or a file that cannot be written.

    The content of an existing file is kept; no new file is left behind.
    """
    if path is None:
        return
    if path.suffix not in kinds:
        raise InputError(
            f"{option}: found {path.name!r}; allowed: a name that ends in {', '.join(kinds)}"
        )
    with file_access(f"{option}: {path}"):
        there = path.exists()
        path.open("ab").close()
        if not there:
            path.unlink()
