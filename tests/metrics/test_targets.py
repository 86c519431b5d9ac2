"""The files that tell Prometheus which processes to scrape."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from farm.core.errors import InputError
from farm.metrics.exporter import MetricsPlace
from farm.metrics.targets import scheduler_target


def test_a_scheduler_removes_what_killed_ones_left_and_nothing_else(tmp_path: Path) -> None:
    """A host may be named like a scheduler: its file stays, and the scheduler starts."""
    names = ("scheduler-4194305", "scheduler-a", "scheduler-a-1", "host-4194305")
    for name in names:  # no process has such an id on Linux
        (tmp_path / f"{name}.json").touch()
    scheduler_target(tmp_path)
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(names[1:])


def test_a_full_disk_keeps_no_scheduler_from_starting(tmp_path: Path, monkeypatch, caplog) -> None:
    """It serves metrics, and says that Prometheus will not find it. A wrong folder is refused."""

    def refuses(number: int) -> None:
        def write(_path: Path, _data: bytes) -> int:
            raise OSError(number, "refused")

        monkeypatch.setattr(Path, "write_bytes", write)

    place = MetricsPlace(0, targets=tmp_path)
    refuses(errno.ENOSPC)
    with place.server(dict, scheduler_target) as server:
        assert server.port
    [line] = caplog.messages
    assert "Prometheus will not find this process" in line
    refuses(errno.EACCES)
    with pytest.raises(InputError, match="--metrics-targets"), place.server(dict, scheduler_target):
        pass
