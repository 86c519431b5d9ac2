"""Keeps the logs of a long-lived farm small, whichever process writes them.

Services and builder hosts append to files that they inherited and cannot be asked to begin new
ones. So a file that has grown too large is copied to NAME.1 and emptied: writers continue at its
beginning. A line that is written in between may be lost.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

#: a log is emptied when it is larger; there are two of each, so twice as much
MAX_BYTES = 5_000_000
#: logs of builder hosts that are gone
MAX_OLD = 10
#: bytes in which the last line is looked for
TAIL = 65536


def tidy(folder: Path, max_bytes: int = MAX_BYTES, max_old: int = MAX_OLD) -> None:
    """Empty large logs in the farm's folder, and delete those of hosts that are long gone."""
    hosts = folder / "hosts"
    for path in (*folder.glob("*.log"), *hosts.glob("*.log")):
        with contextlib.suppress(OSError):
            if path.stat().st_size > max_bytes:
                shutil.copyfile(path, path.with_name(f"{path.name}.1"))
                os.truncate(path, 0)
    gone = [path for path in hosts.glob("*.log") if not path.with_suffix(".json").exists()]
    for path in sorted(gone, key=_changed_at)[: max(0, len(gone) - max_old)]:
        for name in (path.name, f"{path.name}.1"):
            path.with_name(name).unlink(missing_ok=True)


def _changed_at(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def last_line(path: Path, after: int = 0) -> str:
    """Return the last line of a log that is not blank, of those after its first bytes."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(after if after <= size else 0, size - TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return "nothing"
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
