"""A farm whose keeper is killed, at any moment: no process is left, and the next one comes up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farm.app.long_running.farm_place import read_place
from farm.live.operating.client import FarmClient
from farm.processes.orphans import end_at_once
from tests.fixtures.stopped import stop
from tests.fixtures.waiting import until

pytestmark = pytest.mark.live

SCENARIO = """
name: kept
pools: [{name: linux, platform: {processor: amd64}, builders: 2}]
workload: [{arrivals: {every: 1s, count: 1, service_time: {constant: 1s}}}]
"""
#: real seconds within which no process is left: twice what is promised (``farm chaos`` counts that)
#: because a test must not fail for a starved machine
GONE_WITHIN = 30.0


class Kept:
    """A farm whose processes are identified by their working directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "farm.yaml").write_text(SCENARIO)
        self.keeper: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        """Start a keeper in a new session, as ``farm up`` does in the background."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FARM_")}
        with (self.folder / "log").open("ab") as log:
            self.keeper = subprocess.Popen(
                [sys.executable, "-m", "farm", "up", "farm.yaml", "--foreground"],
                cwd=self.folder,
                env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def processes(self, *words: str) -> dict[int, str]:
        """Return the command lines of the farm's live processes that have one of the words."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if self.folder in ((cwd := (path / "cwd").readlink()), *cwd.parents):
                    line = (path / "cmdline").read_text().replace("\0", " ")
                    found[int(path.name)] = line
            except OSError:
                continue
        return {n: line for n, line in found.items() if not words or set(words) & {*line.split()}}

    @property
    def is_up(self) -> bool:
        place = read_place(self.folder / ".farm")
        keeper = self.keeper
        return (
            place is not None
            and keeper is not None
            and (place.state, place.pid) == ("up", keeper.pid)
        )

    def has_builders(self) -> bool:
        """Return whether its builders have joined, and their host is known."""
        place = read_place(self.folder / ".farm")
        assert place is not None
        with FarmClient(place.redis_url, place.prefix) as client:
            return client.status().hosts == 1 and len(client.builders()) == 2

    def kill_keeper(self) -> None:
        assert self.keeper is not None
        self.keeper.kill()
        self.keeper.wait()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    """A farm, of which nothing is left after the test whatever happens."""
    farm = Kept(tmp_path)
    yield farm
    for pid in farm.processes():
        end_at_once(pid)
    if farm.keeper is not None:
        farm.keeper.wait()


MOMENTS: dict[str, Callable[[Kept], object]] = {
    "its server starts": lambda farm: len(farm.processes()) > 1,
    "its services start": lambda farm: farm.processes("provisioner"),
    "its host starts": lambda farm: farm.processes("workers.app"),
    "it is up": lambda farm: farm.is_up,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_no_process_outlives_a_killed_keeper_and_the_next_farm_has_builders(
    kept: Kept, moment: str
):
    """Also processes that were still starting; the next farm takes over none of them."""
    kept.up()
    until(lambda: MOMENTS[moment](kept), moment)
    kept.kill_keeper()
    until(lambda: not kept.processes(), f"the end of {kept.processes()}", GONE_WITHIN)
    kept.up()
    until(lambda: kept.is_up, "coming up again")
    until(kept.has_builders, "the joining of its builders", 5.0)


def test_a_new_farm_at_once_takes_over_no_host_of_the_last_one(kept: Kept):
    """It does not even wait until they are gone."""
    kept.up()
    until(lambda: kept.processes("workers.app"), "the start of a host")
    (host,) = kept.processes("workers.app")
    stop(host)
    kept.kill_keeper()
    kept.up()
    until(lambda: kept.is_up, "coming up again")
    until(kept.has_builders, "the joining of its builders", 5.0)
    assert host not in kept.processes()


def test_stopped_processes_do_not_outlive_a_killed_keeper(kept: Kept):
    """Whatever is stopped for longer than every time-out: host, schedulers, provisioner, server.

    The standby is started last. Before it runs its own program it has the keeper's pipes.
    """
    kept.up()
    until(lambda: kept.is_up and len(kept.processes("scheduler")) == 2, "coming up")
    assert kept.keeper is not None
    stopped = {pid for pid in kept.processes() if pid != kept.keeper.pid}
    assert len(stopped) == 5
    for pid in stopped:
        stop(pid)
    kept.kill_keeper()
    until(lambda: not kept.processes(), f"the end of {kept.processes()}", GONE_WITHIN)
