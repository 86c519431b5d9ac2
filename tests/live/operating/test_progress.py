"""What a live farm knows of running jobs' progress: from heartbeats alone, in no event."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from farm.app.api import load_scenario
from farm.app.forecasts.run_times import RunTime, learned_from
from farm.core.model import Job, Platform
from farm.live.operating.answers import Waiting
from farm.live.operating.client import FarmClient
from farm.live.operating.control_plane import ControlPlane
from farm.live.redis.keys import Keys
from farm.live.redis.server import Server
from farm.live.wire.messages import Ask
from tests.fixtures.stepwise_farm import POOLS, Clock, Host, Leader


class Farm:
    """A scheduler and a builder host, whose time the test moves; a job declared to take 200 s."""

    def __init__(self, server: Server, keys: Keys, folder: Path) -> None:
        self.clock, self._keys, self._folder, self._url = Clock(), keys, folder, server.url
        self.operator = FarmClient(server.url, keys.prefix)
        self.operator.send = self._deliver  # type: ignore[method-assign]

    def _deliver(self, question: Ask) -> None:
        """Let the scheduler's control plane answer at once; a new one has no copy yet."""
        self.leader.world.intake.others.append(question)
        self._control().tick(self.leader.world)
        while self.leader.world.background.turn(time.monotonic()) is not None:
            pass  # its pauses are shorter than a millisecond
        self.leader.commit()

    def _control(self) -> ControlPlane:
        return ControlPlane(self.leader.scheduler, POOLS, load_scenario("mm1"), long_lived=True)

    def lead(self) -> None:
        """Let a scheduler take the farm over."""
        self.leader = Leader(self._url, self._keys, self.clock)

    def run(self) -> None:
        """Let a job of 100 s begin."""
        self.lead()
        self.host = Host(self._url, self._keys, Counter(), Counter())
        job = Job(id="a", service_time=100.0, declared_time=200.0, platform=Platform("amd64"))
        submit = FarmClient(self._url, self._keys.prefix)
        submit.submit([job])
        while "a" not in self.leader.scheduler.jobs or (self._state("a").started_at is None):
            self.second()
        self._control().tick(self.leader.world)  # it publishes the status, without which none asks

    def _state(self, job: str):
        return self.leader.scheduler.jobs[job]

    def second(self) -> None:
        """Let a second pass, with a heartbeat."""
        self.clock.at += 1.0
        self.host.catch_up()
        name = self._keys.host_list(self.host.name)
        while messages := self.leader.client.rpop(name, 100):
            for message in messages:
                self.host.obey(message)
        for envelope in self.host.reporter.take():
            self.leader.client.xadd(self._keys.stream("reports"), {"m": envelope})
        self.leader.turn()

    def told(self) -> Waiting:
        """Return what ``farm job`` is told."""
        answer = self.operator.ask("job", "a")
        assert answer.job is not None
        return answer.job

    def run_time(self) -> RunTime:
        """Return what ``farm runtime-estimate --job a`` shows of a snapshot."""
        path = self._folder / "image.json"
        path.write_bytes(msgspec.json.encode(self.operator.image()))
        learned = learned_from(path, None, self._folder)
        (row,) = learned.run_times(learned.job("a"))
        return row


@pytest.fixture
def farm(server: Server, keys: Keys, tmp_path: Path, monkeypatch) -> Iterator[Farm]:
    """A farm whose job runs; it has no threads."""
    made = Farm(server, keys, tmp_path)
    frozen = SimpleNamespace(monotonic=made.clock.monotonic, time=time.time, sleep=time.sleep)
    for module in ("farm.live.world", "farm.live.hosts.outbox", "workers.agenda"):
        monkeypatch.setattr(f"{module}.time", frozen)
    made.run()
    with contextlib.closing(made.leader.client), made.operator:
        yield made


@pytest.mark.live
def test_the_rest_of_a_running_job_follows_its_reports(farm: Farm):
    """It was declared twice as long as it is: its progress corrects that while it runs."""
    for _ in range(40):
        farm.second()
    row, told = farm.run_time(), farm.told()
    assert row.estimate_s == 200.0
    assert row.done == pytest.approx(0.4, abs=0.03)
    assert row.elapsed_s == pytest.approx(40.0, abs=3.0)
    assert row.remaining_s == pytest.approx(60.0, abs=5.0)
    assert (told.done, told.elapsed_time) == (row.done, row.elapsed_s)
    assert told.remaining_time == pytest.approx(60.0, abs=5.0)


@pytest.mark.live
def test_a_successor_learns_progress_from_the_next_heartbeat(farm: Farm):
    """It is saved nowhere: until then the estimate counts alone."""
    for _ in range(40):
        farm.second()
    farm.leader.client.close()
    farm.lead()
    assert farm.run_time().done is None
    for _ in range(3):
        farm.second()
    assert farm.run_time().done == pytest.approx(0.43, abs=0.05)
