"""Files that one process at a time holds."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: real seconds between two tries to get a lock that another process holds
STEP = 0.05


@contextmanager
def locked(path: Path, timeout: float = 0.0) -> Iterator[int]:
    """Hold a file, as a child does too that inherits the descriptor that is yielded.

    Raises BlockingIOError if another process holds it for ``timeout`` real seconds more, OSError.
    """
    deadline = time.monotonic() + timeout
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(STEP)
        yield lock
    finally:
        os.close(lock)
