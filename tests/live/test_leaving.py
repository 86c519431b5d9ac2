"""A builder host that is stopped finishes its attempts, accepts no more, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm.core.commands import StartJob
from farm.core.events import BuilderRetired, JobFinished
from farm.core.model import Builder, Job
from farm.live.host_processes import HostProcess
from farm.live.redis.keys import Keys
from farm.live.redis.server import Server
from farm.live.settings import LiveSettings
from farm.live.wire.messages import UNSTAMPED, Beat, HostLeft, HostUp, Play, Report
from farm.live.wire.reporter import Reporter
from farm.live.wire.task_messages import TaskMessages
from tests.fixtures.processes import until
from tests.fixtures.store import on_builders, reports_in
from tests.worlds.up import Service, jobs_of
from workers.host import SERVER_SHARE, BuilderHost

pytestmark = pytest.mark.live


def play(name: str, boot_time: float = 0.0) -> Play:
    """Return the command to play this builder."""
    builder = Builder(id=name, pool="linux", index=1, processors=("amd64",), slots=2)
    return Play(builder=builder, boot_time=boot_time)


def start(builder: str, service_time: float) -> StartJob:
    """Return the command to start a job there."""
    job = Job(id="job", service_time=service_time)
    return StartJob(job, 1, builder, 0)


@pytest.fixture
def reports(client: Any, keys: Keys) -> Callable[[], list[Report]]:
    """Return what hosts have reported."""
    return partial(reports_in, client, keys)


@pytest.fixture
def alone(server: Server, keys: Keys, tmp_path: Path) -> Iterator[BuilderHost]:
    """A host of room 1 of the pool linux, that has 20 s to finish its attempts."""
    settings = LiveSettings(
        redis_url=server.url,
        prefix=keys.prefix,
        host="alone",
        room=1,
        pool="linux",
        ready_file=str(tmp_path / "playing"),
        drain_time=20.0,
        beat_interval=0.1,
    )
    host = BuilderHost(settings, pid=1)
    host.start()
    yield host
    host.close()


def test_a_stopped_host_finishes_and_releases_its_builders(alone: BuilderHost, reports):
    """It announces it, its attempts end, its builders retire, then it is gone."""
    alone.play(play("b"))
    alone.start_attempt(start("b", 1.0))
    alone.close()
    said = reports()
    told = next(i for i, r in enumerate(said) if isinstance(r, Beat) and r.leaving)
    assert said[told].held == (("job", 1),)
    rest = [report for report in said[told:] if not isinstance(report, Beat)]
    finished = rest[0]
    assert isinstance(finished, JobFinished)
    assert finished.outcome == "succeeded"
    assert rest[-2:] == [BuilderRetired(UNSTAMPED, "b"), HostLeft()]


def test_a_builder_that_has_not_booted_is_not_begun(alone: BuilderHost, reports):
    """The heartbeat does not name it, so another host is given it; it never reports being up."""
    alone.play(play("b", boot_time=0.5))
    alone.close()
    said = reports()
    assert [r.builders for r in said if isinstance(r, Beat) and r.leaving] == [()]
    assert said[-1] == HostLeft()


def test_a_stopped_host_does_not_wait_without_a_server(
    alone: BuilderHost, reports, monkeypatch: pytest.MonkeyPatch
):
    """A machine that is shut down with its server would kill it first: all its jobs fail then."""
    alone.play(play("b"))
    alone.start_attempt(start("b", 1.0))
    monkeypatch.setattr(Reporter, "stuck_time", SERVER_SHARE * 20.0)
    alone.close()
    assert not any(isinstance(report, JobFinished) for report in reports())


def test_the_ready_file_is_there_while_a_builder_is_played(alone: BuilderHost, tmp_path: Path):
    """A tool that removes hosts that are not ready removes no builder."""
    file = tmp_path / "playing"
    assert not file.exists()
    alone.play(play("b"))
    assert file.exists()
    alone.start_attempt(start("b", 0.5))
    alone._builders["b"].retire()
    until(lambda: not file.exists(), "its removal")


def test_a_host_announces_its_room(alone: BuilderHost, reports):
    """And the pool that it is for."""
    until(reports, "a report")
    assert reports()[0] == HostUp(1, room=1, pool="linux")


def test_a_restarted_host_does_not_play_its_former_builders(
    server: Server, keys: Keys, client: Any, tmp_path: Path
):
    """A container has one name in all its lives; the builders of an earlier one are lost."""
    stale = TaskMessages().encode(play("stale"), "again")
    client.lpush(keys.host_list("again"), stale)
    settings = LiveSettings(
        redis_url=server.url, prefix=keys.prefix, host="again", beat_interval=0.1
    )
    process = HostProcess(settings, tmp_path / "again.log")

    def beats() -> list[Beat]:
        return [report for report in reports_in(client, keys) if isinstance(report, Beat)]

    try:
        until(lambda: len(beats()) > 5, "heartbeats")
        assert {beat.builders for beat in beats()} == {()}
    finally:
        process.kill()
        process.wait(60)
        process.close()
    # the broker's table of bindings would grow with each host that ever existed
    assert client.keys(f"{keys.prefix}*kombu*") == []


def test_a_ready_file_that_cannot_be_written_does_no_harm(
    alone: BuilderHost, reports, tmp_path: Path
):
    """The host continues."""
    (tmp_path / "playing").mkdir()
    alone.play(play("b"))
    alone.start_attempt(start("b", 0.1))
    until(lambda: any(isinstance(one, JobFinished) for one in reports()), "its end")


@pytest.mark.slow
def test_a_busy_host_that_is_stopped_costs_no_attempt(hostless: Service, tmp_path: Path):
    """SIGTERM while jobs run and wait: each job runs once, its builder is replaced."""
    service, hosts = hostless, list[HostProcess]()

    def start_host() -> None:
        number = len(hosts)
        settings = msgspec.structs.replace(
            service.settings, room=1, drain_time=30.0, host=f"host-{number}"
        )
        hosts.append(HostProcess(settings, tmp_path / f"host-{number}.log"))

    for _ in range(3):
        start_host()
    try:
        service.start(joined=3)
        service.submit(jobs_of(24, 1.0))
        service.until(lambda: len(on_builders(service.store)) == 6, "work")
        hosts[0].terminate()
        service.until(lambda: hosts[0].exit_code is not None, "the host's end")
        service.until_ended(24)
        ends = [service.store.result(job.id) for job in jobs_of(24, 1.0)]
        assert {end.outcome for end in ends} == {"succeeded"}
        # commands in transit when the host stopped listening are the only exception
        assert sum(end.attempts for end in ends) <= 24 + 2
        assert len(service.store.builders()) == 2, "a fixed pool's third waits for a host"
        start_host()
        service.until(lambda: len(service.store.builders()) == 3, "a successor")
        assert "is lost" not in service.log()
    finally:
        for host in hosts:
            host.kill()
            host.wait(60)
            host.close()
