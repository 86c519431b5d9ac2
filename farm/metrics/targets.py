"""How a Prometheus finds the processes of a farm: each that serves metrics says so in a file.

The files are what Prometheus calls file-based service discovery (``file_sd_configs``). A process
writes its own when it begins to serve and removes it when it stops; what a killed process leaves is
removed by the one that supervises it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec
import psutil

from farm.whole_files import write_whole

#: addresses that mean every one of this machine, and how it reaches itself then
EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - bound by others


class Target:
    """One process's file.

    Args:
        folder: made when it is not there; one a farm.
        name: distinguishes the farm's processes.
        labels: put on everything that is scraped here; ``job`` is one of them.
    """

    def __init__(self, folder: Path, name: str, labels: Mapping[str, str]) -> None:
        self.path = folder / f"{quote(name, safe='')}.json"
        self._labels = dict(labels)

    def write(self, address: str, port: int) -> None:
        """Say that metrics are served there; raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        entry = {"targets": [host_and_port(address, port)], "labels": self._labels}
        # Prometheus reads at any moment: never half a file
        write_whole(self.path, msgspec.json.encode([entry]))

    def remove(self) -> None:
        """Say that it is over."""
        self.path.unlink(missing_ok=True)


def scheduler_target(folder: Path) -> Target:
    """Return the file of this process, one of a farm's schedulers (one leads, one may stand by).

    What a killed one of this machine has left is removed.
    """
    for path in folder.glob("scheduler-*.json"):
        pid = path.stem.removeprefix("scheduler-")  # else: a host of such a name
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            path.unlink(missing_ok=True)
    return Target(folder, f"scheduler-{os.getpid()}", {"job": "scheduler"})


def provisioner_target(folder: Path) -> Target:
    """Return the file of a farm's provisioner."""
    return Target(folder, "provisioner", {"job": "provisioner"})


def host_target(folder: Path, host: str) -> Target:
    """Return the file of a builder host."""
    return Target(folder, host, {"job": "builders", "host": host})


def forget_host(folder: str, host: str) -> None:
    """Remove what a host that was killed has left, if it had a folder at all."""
    if folder:
        host_target(Path(folder), host).remove()


def forget_targets(folder: Path) -> None:
    """Remove all files of a farm that is down."""
    for path in folder.glob("*.json"):
        path.unlink(missing_ok=True)


def host_and_port(address: str, port: int) -> str:
    """Return where this machine reaches what is bound to the address: ``127.0.0.1:9100``."""
    near = EVERYWHERE.get(address, address)
    return f"[{near}]:{port}" if ":" in near else f"{near}:{port}"
