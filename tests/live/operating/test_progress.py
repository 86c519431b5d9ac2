"""What a live farm knows of running jobs' progress: from heartbeats alone, in no event."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from farm.app.forecasts.run_times import RunTime, learned_from
from farm.core.model import Job, Platform
from farm.live.redis.keys import Keys
from farm.live.redis.server import Server
from farm.live.wire.messages import Ask
from tests.worlds.stepwise import Stepwise


@pytest.fixture
def farm(server: Server, keys: Keys, monkeypatch) -> Iterator[Stepwise]:
    """A farm whose job, of 100 s, was declared to take 200 s; it runs, and is asked about."""
    with contextlib.closing(Stepwise(server.url, keys)) as made:
        leader = made.lead()
        job = Job(id="a", service_time=100.0, declared_time=200.0, platform=Platform("amd64"))
        made.operator.submit([job])
        while not made.begun:
            made.calm_second()
        made.calm_second()
        leader.control().turn()  # without a status none asks

        def ask(question: Ask) -> None:  # of the leader of that moment
            made.leader.answer(question)

        monkeypatch.setattr(made.operator, "send", ask)
        yield made


def run_time(farm: Stepwise, folder: Path) -> RunTime:
    """Return what ``farm admin estimate --run-time --job a`` shows of a snapshot."""
    path = folder / "image.json"
    path.write_bytes(msgspec.json.encode(farm.operator.image()))
    learned = learned_from(path, None, folder)
    (row,) = learned.run_times(learned.job("a"))
    return row


@pytest.mark.live
def test_the_rest_of_a_running_job_follows_its_reports(farm: Stepwise, tmp_path: Path):
    """It was declared twice as long as it is: its progress corrects that while it runs."""
    for _ in range(40):
        farm.calm_second()
    row, told = run_time(farm, tmp_path), farm.operator.ask("job", "a").job
    assert told is not None
    assert row.estimate_s == 200.0
    assert row.done == pytest.approx(0.4, abs=0.03)
    assert row.elapsed_s == pytest.approx(40.0, abs=3.0)
    assert row.remaining_s == pytest.approx(60.0, abs=5.0)
    assert (told.done, told.elapsed_time) == (row.done, row.elapsed_s)
    assert told.remaining_time == pytest.approx(60.0, abs=5.0)


@pytest.mark.live
def test_a_successor_learns_progress_from_the_next_heartbeat(farm: Stepwise, tmp_path: Path):
    """It is saved nowhere: until then the estimate counts alone."""
    for _ in range(40):
        farm.calm_second()
    farm.lead()
    assert run_time(farm, tmp_path).done is None
    for _ in range(3):
        farm.calm_second()
    assert run_time(farm, tmp_path).done == pytest.approx(0.43, abs=0.05)
