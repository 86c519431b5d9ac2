"""What the burning jobs of a live run cost, read off the builder hosts' own metrics."""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
from pathlib import Path
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

import msgspec

#: real seconds between two looks
INTERVAL = 0.5
SPENT = re.compile(
    r"^farm_host_burning_(work|cpu)_seconds_total\{[^}]*\} ([0-9.e+-]+)$", re.MULTILINE
)


class BurntWatch:
    """Polls the hosts, in a thread, while the ``with`` block runs.

    They are gone when a run has ended, so what the last jobs cost is not seen; the ratio is that
    of all the others. ``targets`` is the folder in which the hosts are to say where they serve.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="farm-burnt-")
        self.targets = Path(self._folder.name)
        self._told: dict[str, dict[str, float]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="farm-burnt", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._folder.cleanup()

    @property
    def per_work(self) -> float | None:
        """Processor seconds that were spent for a second of work; None: no job has ended yet."""
        work = sum(told.get("work", 0.0) for told in self._told.values())
        cpu = sum(told.get("cpu", 0.0) for told in self._told.values())
        return cpu / work if work > 0 else None

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL):
            for file in sorted(self.targets.glob("*.json")):
                with contextlib.suppress(OSError, URLError, msgspec.DecodeError):
                    self._told[file.name] = _spent(file)


def _spent(file: Path) -> dict[str, float]:
    """Return a host's seconds of work and of processor time, over all modes."""
    (entry,) = msgspec.json.decode(file.read_bytes())
    # a host of this farm wrote the address: this machine, over HTTP
    with urlopen(f"http://{entry['targets'][0]}/metrics", timeout=INTERVAL) as answer:
        text = answer.read().decode()
    spent = {"work": 0.0, "cpu": 0.0}
    for what, seconds in SPENT.findall(text):
        spent[what] += float(seconds)
    return spent
