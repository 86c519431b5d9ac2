"""Whole live farms: real server, real Celery workers, everything from submission to the end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from farm.core.commands import EndJob, RequeueJob
from farm.core.events import BuilderJoined, BuilderLost, Event, JobStarted
from farm.core.model import Builder, Job
from farm.core.pools.spec import PoolSpec
from farm.live import host_processes
from farm.live.host_processes import HostProcess, HostProcesses
from farm.live.protocol.failure_detection import Patience
from farm.live.settings import LiveSettings
from farm.live.wire.messages import Play, encode_play
from farm.processes.identity import began_at
from tests.worlds.both import LiveStory
from tests.worlds.up import jobs_of
from tests.worlds.virtual import Story

pytestmark = pytest.mark.live


@pytest.fixture
def story() -> LiveStory:
    """A live farm before it runs."""
    return LiveStory()


def linux(builders: int) -> PoolSpec:
    """Return the farm's only pool."""
    return PoolSpec(name="linux", processors=("amd64",), builders=builders)


def assert_all_succeeded(story: Story, jobs: list[Job]) -> None:
    """Each of these jobs ended exactly once."""
    ended = sorted((end.job.id, end.outcome) for end in story.of(EndJob))
    assert ended == sorted((job.id, "succeeded") for job in jobs)


def at_start(number: int, action: Callable[[], object]) -> Callable[..., None]:
    """Return what acts once: when this many attempts have started."""
    left = number

    def observe(event: Event, _: object) -> None:
        nonlocal left
        if isinstance(event, JobStarted):
            left -= 1
            if left == 0:
                action()

    return observe


def test_two_hundred_jobs_from_submission_to_the_end(story, options):
    """Every job ends once, in time, replayable, and no process is left running."""
    jobs = jobs_of(200, service_time=60.0, every=4.0)
    pids = []
    run = story.play_live(
        linux(40), jobs, options(speed=600.0), lambda it: pids.extend(p.pid for p in it.alive)
    )
    assert_all_succeeded(story, jobs)
    assert not run.interrupted
    assert run.status.ended == {"succeeded": 200}
    for end in story.of(EndJob):
        assert end.attempts == 1
        assert end.submitted_at <= end.dispatched_at <= end.started_at
        # the emulated time is never shorter than requested (less a clock's grain)
        assert end.finished_at - end.dispatched_at >= 60.0 * (1 - 1e-6)
    joined = story.of(BuilderJoined)
    assert [event.at for event in joined] == [0.0] * 40
    assert len({event.builder.id for event in joined}) == 40
    assert not any(map(began_at, pids))


@pytest.mark.slow
def test_a_killed_host_loses_no_job(story, options):
    """After SIGKILL its jobs run elsewhere and each ends exactly once."""
    jobs = jobs_of(30, service_time=240.0, every=2.0)
    # seconds of real time, so that it still runs when a busy machine kills its host
    jobs[10] = msgspec.structs.replace(jobs[10], service_time=1500.0)
    up, killed = [], []

    def kill_its_host(event, world):
        if isinstance(event, JobStarted) and event.job == jobs[10].id and not killed:
            (hosts,), host = up, world.protocol.roster.host_of.get(event.builder)
            killed.extend(one for one in hosts.alive if host is not None and one.name == host.name)
            for one in killed:
                one.kill()

    story.then = kill_its_host
    live = options(speed=300.0, hosts=2, patience=Patience(silence=1.5))
    story.play_live(linux(10), jobs, live, up.append)
    assert_all_succeeded(story, jobs)
    assert len(killed) == 1
    assert story.of(BuilderLost)
    assert jobs[10].id in [command.job for command in story.of(RequeueJob)]


@pytest.mark.slow
def test_a_cut_wire_loses_no_job(story, options, server, wire, client):
    """Every connection broken for two seconds, mid-run: each job still ends exactly once.

    The server, which is not the farm's, is left as it was found.
    """
    jobs = jobs_of(200, service_time=60.0, every=2.0)

    def cut_for_two_seconds():
        wire.cut()
        time.sleep(2.0)
        wire.mend()

    cutter = threading.Thread(target=cut_for_two_seconds)
    story.then = at_start(60, cutter.start)
    live = options(speed=300.0, hosts=2, redis_url=wire.url(server.url))
    story.play_live(linux(10), jobs, live)
    cutter.join()
    assert_all_succeeded(story, jobs)
    assert client.keys(live.prefix + "*") == []


@pytest.mark.slow
def test_a_host_that_hangs_is_replaced(story, options, monkeypatch):
    """Its process lives, so that no exit code tells that the run has no host any more."""
    jobs = jobs_of(20, service_time=60.0, every=4.0)
    up: list[HostProcess] = []
    timers: list[threading.Timer] = []
    stopped: list[HostProcess] = []

    def hang() -> None:
        os.kill(up[0].pid, signal.SIGSTOP)
        stopped.append(up[0])

    def overdue(*args: Any) -> str | None:
        hangs = any(process.exit_code is None for process in stopped)
        # only it is given up soon: another one may take long to start
        monkeypatch.setattr(host_processes, "MISSING_TIME", 1.0 if hangs else 60.0)
        return found(*args)

    found = host_processes.MissingHosts.overdue
    monkeypatch.setattr(host_processes.MissingHosts, "overdue", overdue)

    def meet(hosts: HostProcesses) -> None:
        up.extend(hosts.alive)
        timers.extend(threading.Timer(200.0, story.world.stop) for _ in range(2))
        for timer in timers:
            timer.start()

    story.then = at_start(10, hang)
    live = options(speed=400.0, hosts=1, patience=Patience(silence=1.0))
    run = story.play_live(linux(6), jobs, live, meet)
    for timer in timers:
        timer.cancel()
    assert not run.interrupted
    assert up[0].exit_code == -signal.SIGKILL
    assert_all_succeeded(story, jobs)


@pytest.mark.slow
def test_a_container_that_is_one_builder(options, server, tmp_path):
    """A worker started outside the farm, with its own builder: it joins, and joins again.

    The second farm finds a host that was up before it: it must begin a new life, not be ignored.
    """
    play = Play(
        builder=Builder(id="own", pool="linux", index=1, processors=("amd64",)), speed=100.0
    )
    live = options(speed=100.0, hosts=0, redis_url=server.url)
    settings = LiveSettings(
        redis_url=server.url,
        prefix=live.prefix,
        host="container",
        beat_interval=0.25,
        play=encode_play(play),
    )
    jobs = jobs_of(5, service_time=10.0)
    container = HostProcess(settings, tmp_path / "container.log")
    try:
        for _ in range(2):
            story, pool = LiveStory(), msgspec.structs.replace(linux(0), provisioned=True)
            story.play_live(pool, jobs, live)
            assert_all_succeeded(story, jobs)
            assert {end.builder for end in story.ends().values()} == {"own"}
    finally:
        container.terminate()
        assert container.wait(60) == 0
        container.close()
