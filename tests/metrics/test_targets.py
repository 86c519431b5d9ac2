"""The files that tell Prometheus which processes to scrape."""

from __future__ import annotations

from pathlib import Path

from farm.metrics.targets import scheduler_target


def test_a_scheduler_removes_what_killed_ones_left_and_nothing_else(tmp_path: Path) -> None:
    """A host may be named like a scheduler: its file stays, and the scheduler starts."""
    names = ("scheduler-4194305", "scheduler-a", "scheduler-a-1", "host-4194305")
    for name in names:  # no process has such an id on Linux
        (tmp_path / f"{name}.json").touch()
    scheduler_target(tmp_path)
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(names[1:])
