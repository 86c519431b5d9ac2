"""A full disk stops a farm only while it is full."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.live.redis.trouble import KINDS
from tests.fixtures.farm_up import Up
from tests.fixtures.troubled_farm import SCENARIO, Troubled

pytestmark = pytest.mark.live


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The data folder of a farm in ``tmp_path``, on a disk of 2 MB."""
    folder = tmp_path / ".farm/redis"
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "farm-test", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs a file system of its own: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _fill(disk: Path) -> Path:
    """Leave no free byte."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
    return ballast


@pytest.mark.slow
def test_the_farm_waits_for_a_full_disk(tmp_path: Path, small_disk: Path):
    """It is reported, new jobs are refused; with space all continues, also after a kill."""
    up = Up(tmp_path, SCENARIO)
    farm = Troubled(up)
    try:
        jobs = [f"job-{number}" for number in range(12)]
        farm.submit(*jobs)
        ballast = _fill(small_disk)
        up.until(lambda: farm.said(KINDS["disk"]), "saying it")
        assert farm.trouble() == "disk"
        assert KINDS["disk"] in up.farm("submit", "--service-time", "1s", "--quiet", code=2)
        ballast.unlink()
        farm.until_ended(*jobs)
        farm.assert_the_same_processes()
        assert farm.trouble() is None

        late = [f"late-{number}" for number in range(12)]
        farm.submit(*late)
        ballast = _fill(small_disk)
        up.until(lambda: farm.said(KINDS["disk"]) == 2, "saying it again")
        os.kill(int(farm.client.info("server")["process_id"]), signal.SIGKILL)
        up.until(lambda: "started again" in farm.log(), "its next life, on a full disk")
        ballast.unlink()
        farm.until_ended(*late)
        farm.assert_the_same_processes()
        assert farm.attempts(*jobs, *late) == [1] * 24
    finally:
        up.farm("down", "--now")
