"""A farm of its own, by ``farm up``, for benchmarks that look at its processes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.app.long_running.farm_place import FarmPlace, read_place

#: real seconds that a command may take
LONGEST = 3600.0


def farm(*words: object, allowed: Collection[int] = (0,)) -> str:
    """Return what a command prints that ends with one of the allowed exit codes."""
    command = [sys.executable, "-m", "farm", *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    if ended.returncode not in allowed:
        raise SystemExit(f"{' '.join(command)}: {ended.stderr}")
    return ended.stdout


@contextmanager
def up(scenario: str, *options: str) -> Iterator[tuple[Path, FarmPlace]]:
    """Provide the folder of a farm with this scenario, which is beside it, and where it is."""
    with tempfile.TemporaryDirectory(prefix="farm-") as name:
        folder, path = Path(name) / "farm", Path(name) / "scenario.yaml"
        path.write_text(scenario)
        farm("up", path, "--dir", folder, "--quiet", *options)
        try:
            place = read_place(folder)
            if place is None:
                raise SystemExit("the farm is gone")
            yield folder, place
        finally:
            if read_place(folder) is not None:  # it may have been ended already
                farm("down", "--now", "--dir", folder)
