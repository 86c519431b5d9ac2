"""Ports that tests give to their own servers."""

from __future__ import annotations

import subprocess
import sys

from tests.fixtures import processes


def test_processes_of_one_number_have_different_ports():
    """Two runs of the tests in two root folders would take each other's ports."""
    program = "from tests.fixtures import processes; print(processes._range_of(1)); input()"
    ranges = set()
    others = []
    for _ in range(2):
        other = subprocess.Popen(
            [sys.executable, "-c", program], cwd=processes.ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        others.append(other)
        ranges.add(int(other.stdout.readline()))
    for other in others:
        other.communicate("\n", timeout=60)
    assert len(ranges) == 2
