"""A farm of its own, by ``farm up``, for benchmarks that look at its processes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.app.long_running.farm_place import FarmPlace, read_place


def farm(*words: object) -> str:
    """Return what a command prints; a twin that is not believable is no error."""
    command = [sys.executable, "-m", "farm", *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: {ended.stderr}")
    return ended.stdout


@contextmanager
def up(scenario: str) -> Iterator[tuple[Path, FarmPlace]]:
    """Provide the folder of a farm with this scenario, which is beside it, and where it is."""
    with tempfile.TemporaryDirectory(prefix="farm-") as name:
        folder, path = Path(name) / "farm", Path(name) / "scenario.yaml"
        path.write_text(scenario)
        farm("up", path, "--dir", folder, "--quiet")
        try:
            place = read_place(folder)
            if place is None:
                raise SystemExit("the farm is gone")
            yield folder, place
        finally:
            farm("down", "--now", "--dir", folder)
