"""The process that keeps a farm up: when it reports that the farm is up."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from farm.app.long_running import farm_daemon
from farm.app.long_running.farm_daemon import FarmKeeper, missing
from farm.app.long_running.farm_place import FarmPlace, PlaceFile, read_place
from farm.core import events
from farm.core.errors import RunError, ServerError
from farm.metrics.exporter import MetricsPlace
from farm.scenario import load_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_what_an_earlier_farm_left_is_not_taken_for_this_one():
    """Also where the clock was set back since: its status is of the future then."""
    future, present = 4e9, 1e9
    client: Any = SimpleNamespace(status=lambda: SimpleNamespace(written_at=future, hosts=1))
    assert missing(client, before=future) == "scheduler"
    client.status = lambda: SimpleNamespace(written_at=present, hosts=0)
    assert missing(client, before=future) == "provisioner"
    client.status = lambda: SimpleNamespace(written_at=present, hosts=1)
    assert missing(client, before=future) == missing(client, before=None) == ""


def test_a_disk_that_is_full_while_the_farm_comes_up_does_not_end_it(tmp_path: Path, caplog):
    """The server ended with it, and lost what it had acknowledged and could not write yet."""
    place = PlaceFile(tmp_path, FarmPlace(pid=1, began="then", redis_url=""))
    draft = tmp_path / "farm.json.part"
    draft.mkdir()  # nothing can be written there
    place.update(state="up", redis_url="redis://127.0.0.1:1/0")
    assert place.retry() < 10
    assert read_place(tmp_path) is None
    assert [line for line in caplog.messages if "cannot be written" in line] == caplog.messages
    assert len(caplog.messages) == 1
    draft.rmdir()
    assert place.retry() == float("inf")
    found = read_place(tmp_path)
    assert found is not None
    assert (found.state, found.pid) == ("up", 1)


def test_a_state_file_that_was_removed_is_written_again(tmp_path: Path, caplog):
    """No command found the farm any more, not even the one that ends it."""
    place = PlaceFile(tmp_path, FarmPlace(pid=1, began="then", redis_url=""))
    place.update(state="up")
    (tmp_path / "farm.json").unlink()
    assert place.retry() == float("inf")
    found = read_place(tmp_path)
    assert found is not None
    assert found.state == "up"
    assert place.retry() == float("inf")
    assert len(caplog.messages) == 1


class EndingFarm:
    """Supervisor, server and client of a farm that is asked to end; the diary is what happened."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.diary: list[str] = []
        self.settled, self.pid = True, 0
        self.look_again_in = math.inf
        self.given_up = False
        self.draining = True
        self.looks = 1

    def send(self, *requests: events.DrainRequested | events.UndrainRequested) -> None:
        for request in requests:
            self.draining = isinstance(request, events.DrainRequested)
            self.diary.append(f"{type(request).__name__} {request.pattern}")

    def check(self) -> float:
        if self.given_up:
            raise RunError("the farm's scheduler ended")
        return 1.0

    def revive(self) -> bool:
        self.diary.append("server looked after")
        return False

    def builders(self) -> dict[str, Any]:
        """All are draining; or the call fails."""
        answer = self.answers.pop(0)
        self.diary.append(str(answer))
        if isinstance(answer, Exception):
            raise answer
        self.running = answer
        return {"b": SimpleNamespace(draining=self.draining)}

    def count_running(self) -> int:
        return self.running

    def hosts(self) -> dict[str, Any]:
        return {}

    def pids(self) -> set[int]:
        return set()

    def stop_one(self, name: str) -> None:
        self.diary.append(f"{name} stops")

    def close_pipe(self, name: str) -> None:
        """Let the hosts end, with all that they run."""
        self.diary.append(f"hosts of the {name} leave")

    def terminate(self) -> None:
        self.diary.append("all are to end")

    @property
    def is_at_work(self) -> bool:
        """A scheduler that ends needs a moment."""
        self.looks -= 1
        return self.looks >= 0

    def stop(self) -> None:
        self.diary.append("all stop")


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch) -> Any:
    """The supervising process of a farm, asked once to end."""
    monkeypatch.setattr(farm_daemon, "unsupervised", lambda *_: [])
    monkeypatch.setattr(farm_daemon, "LOOK_INTERVAL", 0.0)
    scenario = load_scenario(EXAMPLES / "quickstart.yaml")
    keeper: Any = FarmKeeper(scenario, None, tmp_path, MetricsPlace(), fresh=False)
    keeper._asked = 1
    with keeper._wakeups:
        yield keeper


def end(keeper: Any, farm: Any) -> list[str]:
    """End the farm; return what happened, looks at the server left out."""
    keeper._revival = farm_daemon._Revival(farm)
    keeper._end(farm, farm, farm)
    return [line for line in farm.diary if line != "server looked after"]


def ended(*drained: str, then: tuple[str, ...] = ()) -> list[str]:
    """Return what happens in order, with this between the provisioner's end and the hosts'."""
    left = ("hosts of the provisioner leave", "all are to end", "all stop")
    return ["provisioner stops", *drained, *left, *then]


def test_running_jobs_end_although_the_server_is_in_trouble_for_a_moment(keeper, caplog):
    """One failed call broke off all of them; and nothing started the farm's server again."""
    farm = EndingFarm(redis.ConnectionError("cut"), 2, ServerError("full"), 1, 0)
    assert end(keeper, farm) == ended("cut", "2", "full", "1", "0")
    assert "server looked after" in farm.diary
    assert [line for line in caplog.messages if "cannot be counted" in line] == [
        "running jobs cannot be counted: cut; tried again"
    ]


def test_the_server_is_kept_up_until_the_last_scheduler_has_ended(keeper):
    """It ended before, with the last lines of the log, and was not started again."""
    keeper._asked = 2
    end(keeper, farm := EndingFarm())
    last = farm.diary.index("all are to end")
    assert farm.diary[last + 1 :] == ["server looked after"] * 2 + ["all stop"]


def test_builders_that_stay_are_undrained_for_the_next_scheduler(keeper):
    """Those of hosts that joined: the jobs of the farm's next life waited for them without end."""
    farm = EndingFarm(1, 1, 0, 0)
    farm.draining = False
    then = ("0", "UndrainRequested b")
    assert end(keeper, farm) == ended("1", "DrainRequested *", "1", "0", then=then)


def test_a_drain_ends_when_it_is_asked_for_again_or_has_become_hopeless(keeper):
    """Asked twice, without a scheduler for good, or in a farm that never was up."""
    farm = EndingFarm()
    farm.given_up = True
    assert end(keeper, farm) == ended()
    farm = EndingFarm(redis.ConnectionError("cut"))
    farm.settled = False
    assert end(keeper, farm) == ended("cut")
    keeper._asked = 2
    assert end(keeper, EndingFarm()) == ended()


def test_a_farm_that_is_restored_from_its_log_may_take_longer(keeper, tmp_path: Path, monkeypatch):
    """Its start was given up after a time, each time, and the log grows to 512 MB."""
    monkeypatch.setenv("FARM_START_TIMEOUT", "1e-9")
    monkeypatch.setattr(keeper, "_look_after", lambda *_: 0.0)
    keeper._asked = 0
    (tmp_path / "log").mkdir()
    (tmp_path / "log/position").write_bytes(b'{"commits":9,"size":1}')
    commits = [3, 5, 9]
    farm: Any = SimpleNamespace(
        status=lambda: SimpleNamespace(written_at=1.0, hosts=0),
        is_led=lambda: True,
        commits=lambda: commits.pop(0),
    )
    with pytest.raises(RunError, match="did not come up"):
        keeper._await(farm, farm, farm, None)
    assert not commits


def test_what_the_system_refuses_the_keeper_is_tried_again(keeper, monkeypatch, caplog):
    """No file descriptors are left, or no memory: its own end would be that of the whole farm."""
    farm = EndingFarm()
    keeper._revival = farm_daemon._Revival(farm)
    with monkeypatch.context() as shortage:
        shortage.setattr(keeper, "_hosts", Path("/nowhere").read_text)
        assert [keeper._look_after(farm, farm) for _ in range(3)] == [1.0] * 3
    assert len(caplog.messages) == 1
    assert "the system refuses what keeps the farm up: " in caplog.text
    assert keeper._look_after(farm, farm) == 1.0
    assert keeper._refused == ""


@pytest.mark.parametrize(("hosts", "log"), [(None, "scheduler.log"), (0, "provisioner.log")])
def test_a_farm_that_does_not_come_up_says_what_is_missing(keeper, monkeypatch, hosts, log):
    """A busy machine gets the time that it is allowed; then the part, the load and the log."""
    monkeypatch.setenv("FARM_START_TIMEOUT", "0.01")
    keeper._asked = 0
    farm: Any = EndingFarm()
    farm.is_led = lambda: False
    written = None if hosts is None else 2.0
    farm.status = lambda: SimpleNamespace(written_at=written, hosts=hosts)
    keeper._revival = farm_daemon._Revival(farm)
    with pytest.raises(RunError, match=rf"within 0\.01s \(load \d+ on .*SECONDS.*{log}"):
        keeper._await(farm, farm, farm, None)
