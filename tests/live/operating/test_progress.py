"""What a live farm knows of running jobs' progress: from heartbeats alone, in no event."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from farm.app.forecasts.run_times import RunTime, learned_from
from farm.core.model import Job, Platform
from farm.live.operating.answers import Waiting
from farm.live.redis.keys import Keys
from farm.live.redis.server import Server
from farm.live.wire.messages import Ask
from tests.worlds.stepwise import Stepwise


class Farm(Stepwise):
    """A scheduler and a builder host; a job of 100 s that was declared to take 200 s."""

    def begin(self) -> None:
        """Let the job begin, and questions be asked."""
        self.leader = self.lead()
        job = Job(id="a", service_time=100.0, declared_time=200.0, platform=Platform("amd64"))
        self.operator.submit([job])
        while not self.begun:
            self.calm_second()
        self.calm_second()
        self.leader.control().turn()  # without a status none asks
        self.operator.send = self._deliver  # type: ignore[method-assign]

    def _deliver(self, question: Ask) -> None:
        """Let the scheduler's control plane answer at once; a new one has no copy yet."""
        leader = self.leader or self.lead()
        control = leader.control()
        control.add(question)
        control.turn()
        while leader.world._regular._background.turn(time.monotonic()) is not None:
            pass  # its pauses are shorter than a millisecond
        leader.commit()

    def told(self) -> Waiting:
        """Return what ``farm job`` is told."""
        answer = self.operator.ask("job", "a")
        assert answer.job is not None
        return answer.job

    def run_time(self, folder: Path) -> RunTime:
        """Return what ``farm admin estimate --run-time --job a`` shows of a snapshot."""
        path = folder / "image.json"
        path.write_bytes(msgspec.json.encode(self.operator.image()))
        learned = learned_from(path, None, folder)
        (row,) = learned.run_times(learned.job("a"))
        return row


@pytest.fixture
def farm(server: Server, keys: Keys) -> Iterator[Farm]:
    """A farm whose job runs; it has no threads."""
    made = Farm(server.url, keys)
    with contextlib.closing(made):
        made.begin()
        yield made


@pytest.mark.live
def test_the_rest_of_a_running_job_follows_its_reports(farm: Farm, tmp_path: Path):
    """It was declared twice as long as it is: its progress corrects that while it runs."""
    for _ in range(40):
        farm.calm_second()
    row, told = farm.run_time(tmp_path), farm.told()
    assert row.estimate_s == 200.0
    assert row.done == pytest.approx(0.4, abs=0.03)
    assert row.elapsed_s == pytest.approx(40.0, abs=3.0)
    assert row.remaining_s == pytest.approx(60.0, abs=5.0)
    assert (told.done, told.elapsed_time) == (row.done, row.elapsed_s)
    assert told.remaining_time == pytest.approx(60.0, abs=5.0)


@pytest.mark.live
def test_a_successor_learns_progress_from_the_next_heartbeat(farm: Farm, tmp_path: Path):
    """It is saved nowhere: until then the estimate counts alone."""
    for _ in range(40):
        farm.calm_second()
    farm.lead()
    assert farm.run_time(tmp_path).done is None
    for _ in range(3):
        farm.calm_second()
    assert farm.run_time(tmp_path).done == pytest.approx(0.43, abs=0.05)
