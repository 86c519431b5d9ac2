"""A server that has lost a farm, or a part of it: restored from the event log, or asked about."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm.app.recorded.auditing import audit_run, lines_lost
from farm.core.errors import ServerError
from farm.core.events import BuilderJoined, FarmOpened, JobFinished, JobsSubmitted, JobStarted
from farm.core.model import Job
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.live import log_recovery
from farm.live.host_processes import HostProcesses
from farm.live.log_recovery import ahead_of, recover, set_aside
from farm.live.operating.client import FarmClient
from farm.live.redis.keys import Keys
from farm.live.store.log_drain import EVENTS, LOCK, OLDER, POSITION, LogDrain, Position, position_in
from farm.processes.locks import locked
from farm.results.log.writer import EventLogLines
from tests.fixtures.processes import until
from tests.worlds.stepwise import Clock, Leader
from tests.worlds.up import AMD64, Service, Up, jobs_of, scenario

pytestmark = pytest.mark.live

POOLS = [PoolSpec(name="linux", processors=("amd64",), builders=2)]


def make() -> Scheduler:
    """Return a fresh scheduler."""
    return Scheduler(SchedulingRules(), make_estimator("oracle"), POOLS)


@pytest.fixture
def service(hostless: Service) -> Iterator[Service]:
    """A long-running farm with a builder host, of which some jobs have ended, and some run."""
    with HostProcesses(hostless.settings, 1, hostless.folder / "hosts"):
        hostless.start(joined=3)
        quick = jobs_of(10, 0.1)
        slow = [Job(id=f"slow-{n}", service_time=1.5, platform=AMD64) for n in range(12)]
        hostless.submit([*quick, *slow])
        hostless.until_ended(10)
        yield hostless


def until_logged(service: Service) -> None:
    """Wait until the log has all that was committed, then kill the scheduler."""
    service.until(lambda: not service.client.xlen(service.keys.log), "the log")
    service.kill()


def copy_of(service: Service) -> dict[bytes, bytes]:
    """Return all data of the farm, but the lease."""
    found = {
        name: service.client.dump(name) for name in service.client.keys(f"{service.keys.prefix}*")
    }
    return {name: data for name, data in found.items() if data and b"lease" not in name}


def empty(service: Service) -> None:
    """Remove all data of the farm."""
    service.client.delete(*service.client.keys(f"{service.keys.prefix}*"))


def log_of(service: Service) -> str:
    """Return what the scheduler said."""
    return (service.folder / "log").read_text()


def test_a_log_leads_to_the_farm_that_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its jobs, builders and requests, up to the commit that its position names."""
    lines, scheduler = EventLogLines(), make()
    jobs = tuple(jobs_of(3, 5.0))
    text = b""
    for event in (
        FarmOpened(0.0),
        JobsSubmitted(1.0, jobs),
        BuilderJoined(2.0, POOLS[0].builder(1, 1)),
        JobStarted(2.0, "j000", 1, "linux-1"),
        JobFinished(7.0, "j000", 1, "linux-1", "succeeded"),
    ):
        lines(event, scheduler.handle(event))
        text += lines.take()
    (tmp_path / EVENTS).write_bytes(text + b"never committed")
    (tmp_path / POSITION).write_bytes(msgspec.json.encode(Position(40, len(text))))
    assert (ahead_of(tmp_path, 40), ahead_of(tmp_path, 15)) == (0, 25)
    found = recover(tmp_path, 25, make, 1.0, {}, set)
    assert (found.commits, [end.job.id for end in found.ends]) == (40, ["j000"])
    assert {name: job.builder for name, job in found.farm.jobs.items()} == {
        "j001": "linux-1",
        "j002": None,
    }
    assert (list(found.farm.builders), list(found.farm.wanted)) == (["linux-1"], ["linux-2"])
    assert (found.farm.at, found.farm.counts.serial, found.farm.counts.ended) == (
        7.0,
        3,
        {"succeeded": 1},
    )
    monkeypatch.setattr(log_recovery, "LET_GO_WITHIN", 0.01)
    still = pytest.raises(ServerError, match="another scheduler still writes it")
    with locked(tmp_path / LOCK), still:
        recover(tmp_path, 25, make, 1.0, {}, set)
    (tmp_path / OLDER).touch()
    with pytest.raises(ServerError, match=r"lost its beginning.*without 1 job \(j002\)"):
        recover(tmp_path, 25, make, 1.0, {}, {"j001"}.intersection)


def test_a_log_whose_position_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path: Path, caplog):
    """A server that had lost commits began without them, in silence; accepted, the log is kept."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / POSITION).write_bytes(b"\xff")
    with pytest.raises(ServerError, match=r"is not known.*garbled.*--accept-loss"):
        ahead_of(tmp_path / "log", 15)
    set_aside(tmp_path / "log", 15)
    assert (tmp_path / "log.lost-1" / POSITION).exists()
    assert "kept as" in caplog.text


def test_a_log_that_another_scheduler_holds_is_waited_for(tmp_path: Path, monkeypatch):
    """Of a farm that was killed just now; one that is paused is to be ended, not its log lost."""
    (tmp_path / EVENTS).touch()
    with locked(tmp_path / LOCK):
        monkeypatch.setattr("farm.live.log_recovery.LET_GO_WITHIN", 0.0)
        with pytest.raises(ServerError, match="end that one first"):
            recover(tmp_path, 25, make, 1.0, {}, set)
    holder = ExitStack()
    holder.enter_context(locked(tmp_path / LOCK))
    monkeypatch.setattr("farm.live.log_recovery.LET_GO_WITHIN", 60.0)
    monkeypatch.setattr("farm.processes.locks.time.sleep", lambda _: holder.close())
    assert recover(tmp_path, 25, make, 1.0, {}, set).ends == []


@pytest.mark.slow
@pytest.mark.parametrize("left", ["nothing", "an older state"])
def test_a_farm_whose_data_are_gone_is_restored_from_its_log(service: Service, left: str):
    """With all ids: ended jobs stay ended, waiting ones run, running ones are begun again."""
    older = copy_of(service) if left == "an older state" else {}
    service.submit([Job(id="late", service_time=0.1, platform=AMD64)])
    service.until_ended(14)
    until_logged(service)
    empty(service)
    for name, data in older.items():
        service.client.restore(name, 0, data, replace=True)  # a host may have reported
    service.start()
    service.until_ended(23)
    results = [service.store.result(name) for name in service.client.hkeys(service.keys.results)]
    assert {end.outcome for end in results} == {"succeeded"}
    assert sum(end.attempts == 1 for end in results) >= 14
    assert "it is restored from there" in log_of(service)
    with FarmClient(service.url, service.keys.prefix) as client:
        assert "that had not ended and the records of" in client.status().restored
    assert service.end() == 0
    found = audit_run(service.folder / "events")
    assert (found.jobs, found.wrong, found.not_replayed) == (23, "", "")


@pytest.mark.slow
def test_the_start_of_a_farm_says_what_its_server_had_lost(tmp_path: Path):
    """All jobs were back, and who started it was told nothing; lost ones are told as well."""
    up = Up(tmp_path, scenario("builders: 1, boot_time: 1h", live="speed: 1"))
    jobs = "".join(f'{{"job_id": "j{n}", "service_time_s": 1}}\n' for n in range(30))
    with up.running("--quiet"):
        up.farm("submit", "-", "--platform", "amd64/virtual", stdin=jobs)
        up.until(lambda: up.status()["waiting"] == 30, "the jobs")
    shutil.rmtree(tmp_path / ".farm/redis")
    with up.running() as said:
        assert "warning: the Redis server had lost" in said
        assert "30 jobs that had not ended" in said
        assert "30 jobs that had not ended" in up.farm("status")
    shutil.rmtree(tmp_path / ".farm/redis")
    with up.running("--accept-loss") as said:
        assert "are lost: the event log that has them is kept as" in said


@pytest.mark.slow
def test_a_log_that_cannot_be_replayed_needs_a_word(hostless: Service):
    """The start is refused and names what would be lost; accepted, the log is kept."""
    service = hostless
    service.start()
    service.until(lambda: "in charge of" in log_of(service), "taking over")
    service.submit(jobs_of(12, 1.0))
    service.until(lambda: service.client.hlen(service.keys.jobs) == 12, "the jobs")
    until_logged(service)
    empty(service)
    service.scenario(pool="slots: 1, builders: 1")
    service.start()
    assert service.process is not None
    assert service.process.wait(60) == 2
    said = log_of(service)
    assert "the scenario was another one" in said
    assert "without 12 jobs (j000, " in said
    service.start("--accept-loss")
    service.until(lambda: "in charge of" in log_of(service)[len(said) :], "taking over")
    assert service.end() == 0
    assert "kept as" in log_of(service)
    assert b"j007" in (service.folder / "events.lost-1" / EVENTS).read_bytes()
    assert service.client.hlen(service.keys.jobs) == 0


def test_lines_of_lost_commits_are_added_again(server, client, keys: Keys, tmp_path: Path):
    """A server that lost its last commits leaves no hole in the log, and none is there twice."""
    line = b""
    leader = Leader(client, keys, Clock(), log=lambda: line)
    for number in range(6):
        line = f"line {number}\n".encode()
        if number == 3:  # all is lost, but two commits are on disk
            with LogDrain(server.url, keys, tmp_path) as drain:
                until(lambda: not client.xlen(keys.log), "the log")
            leader.world._store.keep_log(drain)
        if number == 5:  # and all since
            client.delete(*client.keys(f"{keys.prefix}*"))
        leader.world.commits.commit()
    with LogDrain(server.url, keys, tmp_path):
        until(lambda: not client.xlen(keys.log), "the log")
    assert (tmp_path / EVENTS).read_text() == "".join(f"line {number}\n" for number in range(6))
    assert position_in(tmp_path).commits == leader.world._store.fence.commits


class LoggingLeader(Leader):
    """A scheduler whose log gets the lines that a test commits."""

    def __init__(self, client: Any, keys: Keys) -> None:
        self.line = b""
        super().__init__(client, keys, Clock(), log=lambda: self.line)

    def log(self, *lines: str) -> None:
        """Commit these lines, one at a time."""
        for line in lines:
            self.line = f"{line}\n".encode()
            self.world.commits.commit()
        self.line = b""

    def move(self, drain: LogDrain, *lines: str) -> None:
        """Commit these lines, and wait until all of them are on the disk."""
        self.log(*lines)
        until(lambda: drain.commits == self.world.commits._logged, "the log")


@pytest.mark.parametrize("more", [True, False])
def test_a_deleted_stream_of_the_event_log_is_put_back(
    server, client, keys: Keys, tmp_path: Path, more: bool
):
    """What was in it and not on the disk was a hole in the log, which no audit forgave.

    Also if nothing is committed after it: no entry shows then that lines are missing.
    """
    logger = LoggingLeader(client, keys)
    with LogDrain(server.url, keys, tmp_path) as drain:
        logger.world._store.keep_log(drain)
        logger.move(drain, "1", "2")
    logger.log("3", "4", "5")  # while the disk cannot be written
    client.delete(keys.log)
    if more:
        logger.log("6")
    with LogDrain(server.url, keys, tmp_path) as drain:
        logger.world._store.keep_log(drain)
        drain.expect(logger.world.commits._logged)
        drain.wake()
        until(lambda: drain.gap is not None, "the gap")
        logger.world.commits.look_at_keys()
        logger.move(drain, "7")
    expected = "1234567" if more else "123457"
    assert (tmp_path / EVENTS).read_text().split() == list(expected)
    assert position_in(tmp_path).lost == ()


def test_the_next_commit_puts_back_what_was_deleted_of_the_event_log(
    server, client, keys: Keys, tmp_path: Path
):
    """Two seconds passed before it was noticed: a leader that was killed in that time lost it."""
    logger = LoggingLeader(client, keys)
    logger.log("1", "2")
    client.delete(keys.log)
    logger.log("3")
    with LogDrain(server.url, keys, tmp_path) as drain:
        logger.world._store.keep_log(drain)
        drain.expect(logger.world.commits._logged)
        drain.wake()
        until(lambda: drain.gap is not None, "the gap")
        logger.move(drain, "4")
    assert (tmp_path / EVENTS).read_text().split() == list("1234")
    assert position_in(tmp_path).lost == ()
    # and the farm's status says so
    assert "those of 4 commits are written again" in logger.world.commits.restored


def test_lines_of_the_event_log_that_no_scheduler_remembers_are_told(
    server, client, keys: Keys, tmp_path: Path, caplog
):
    """The log of a successor continues after the hole, and says where it is."""
    logger = LoggingLeader(client, keys)
    with LogDrain(server.url, keys, tmp_path) as drain:
        logger.world._store.keep_log(drain)
        logger.move(drain, "1", "2")
    logger.log("3", "4")
    client.delete(keys.log)
    successor = LoggingLeader(client, keys)
    with LogDrain(server.url, keys, tmp_path) as drain:
        successor.world._store.keep_log(drain)
        successor.log("5")
        until(lambda: drain.gap is not None, "the gap")
        successor.world.commits.look_at_keys()
        successor.move(drain, "6")
    position = position_in(tmp_path)
    assert (tmp_path / EVENTS).read_text() == "1\n2\n5\n6\n"
    assert [until - after for after, until in position.lost] == [2]
    assert "is not whole" in caplog.text
    assert "is not whole: it lacks what commits" in lines_lost(tmp_path)
    (tmp_path / EVENTS).write_bytes(b"")
    (tmp_path / POSITION).write_bytes(msgspec.json.encode(Position(6, 0, lost=position.lost)))
    with pytest.raises(ServerError, match=r"it lacks what commits .* wrote"):
        recover(tmp_path, 1, make, 1.0, {}, set)
