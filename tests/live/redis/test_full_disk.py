"""A full disk stops a farm only while it is full."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.live.redis.trouble import KINDS
from tests.worlds.up import disturbed

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
    full = KINDS["disk"]
    with disturbed(tmp_path) as farm:
        services = farm.services()
        jobs = [f"job-{number}" for number in range(12)]
        farm.submit(*jobs)
        ballast = _fill(small_disk)
        farm.until(lambda: farm.said(full, "scheduler"), "saying it")
        assert farm.trouble() == "disk"
        assert full in farm.farm("submit", "--service-time", "1s", "--quiet", code=2)
        ballast.unlink()
        farm.until_ended(*jobs)
        assert farm.services() == services
        assert farm.trouble() is None

        late = [f"late-{number}" for number in range(12)]
        farm.submit(*late)
        ballast = _fill(small_disk)
        farm.until(lambda: farm.said(full, "scheduler") == 2, "saying it again")
        os.kill(min(farm.processes("redis-server", "valkey-server")), signal.SIGKILL)
        farm.until(lambda: farm.said("started again", "farm"), "its next life, on a full disk")
        ballast.unlink()
        farm.until_ended(*late)
        assert farm.services() == services
        assert farm.attempts(*jobs, *late) == [1] * 24


@pytest.mark.slow
def test_the_farm_waits_for_file_descriptors(tmp_path: Path):
    """Its keeper has none, and server and schedulers end: all come back, and every job ends."""
    with disturbed(tmp_path) as farm:
        keeper, jobs = farm.place.pid, [f"job-{number}" for number in range(6)]
        farm.submit(*jobs, service_time="1s")
        usual = resource.prlimit(keeper, resource.RLIMIT_NOFILE)
        resource.prlimit(keeper, resource.RLIMIT_NOFILE, (4, usual[1]))
        for pid in farm.processes("redis-server", "valkey-server", "scheduler"):
            os.kill(pid, signal.SIGKILL)
        farm.until(lambda: farm.said("Too many open files", "farm") >= 3, "saying it")
        resource.prlimit(keeper, resource.RLIMIT_NOFILE, usual)
        farm.until_ended(*jobs)
        assert farm.place.pid == keeper
