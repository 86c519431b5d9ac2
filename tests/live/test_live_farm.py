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

from farm.core import events
from farm.core.commands import RequeueJob
from farm.core.model import Builder
from farm.live import host_processes
from farm.live.host_processes import HostProcess, HostProcesses
from farm.live.protocol.failure_detection import Patience
from farm.live.settings import LiveSettings
from farm.live.wire.messages import Play, encode_play
from farm.live.world import LiveWorld
from farm.processes.identity import began_at

pytestmark = pytest.mark.live


def at_start(number: int, action: Callable[[], object]) -> Callable[[events.Event], None]:
    """Return an observer that acts once: when this many attempts have started."""
    left = number

    def observe(event: events.Event) -> None:
        nonlocal left
        if isinstance(event, events.JobStarted):
            left -= 1
            if left == 0:
                action()

    return observe


def test_two_hundred_jobs_from_submission_to_the_end(farm, jobs_like):
    """Every job ends once, in time, replayable, and no process is left running."""
    jobs = jobs_like(200, service_time=60.0, every=4.0)
    pids = []
    run = farm.run(
        jobs, builders=40, speed=600.0, on_up=lambda _, h: pids.extend(p.pid for p in h.alive)
    )
    farm.assert_each_job_ended_once(jobs)
    farm.assert_replayable()
    assert not run.interrupted
    assert run.status.ended == {"succeeded": 200}
    for end in farm.ends:
        assert end.attempts == 1
        assert end.submitted_at <= end.dispatched_at <= end.started_at
        # the emulated time is never shorter than requested (less a clock's grain)
        assert end.finished_at - end.dispatched_at >= 60.0 * (1 - 1e-6)
    joined = farm.events(events.BuilderJoined)
    assert [event.at for event in joined] == [0.0] * 40
    assert len({event.builder.id for event in joined}) == 40
    assert not any(map(began_at, pids))


def test_a_killed_host_loses_no_job(farm, jobs_like):
    """After SIGKILL its jobs run elsewhere and each ends exactly once."""
    jobs = jobs_like(60, service_time=240.0, every=2.0)
    # seconds of real time, so that it still runs when a busy machine kills its host
    jobs[10] = msgspec.structs.replace(jobs[10], service_time=1500.0)
    up, killed = [], []

    def kill_its_host(event):
        if isinstance(event, events.JobStarted) and event.job == jobs[10].id and not killed:
            world, hosts = up
            host = world.protocol.roster.host_of.get(event.builder)
            killed.extend(one for one in hosts.alive if host is not None and one.name == host.name)
            for one in killed:
                one.kill()

    farm.run(
        jobs,
        builders=10,
        speed=300.0,
        hosts=2,
        patience=Patience(silence=1.5),
        on_event=kill_its_host,
        on_up=lambda *parts: up.extend(parts),
    )
    farm.assert_each_job_ended_once(jobs)
    farm.assert_replayable()
    assert len(killed) == 1
    assert farm.events(events.BuilderLost)
    commands = [c for _, commands in farm.story for c in commands if isinstance(c, RequeueJob)]
    assert jobs[10].id in [command.job for command in commands]


def test_a_cut_wire_loses_no_job(farm, jobs_like, server, wire, client):
    """Every connection broken for two seconds, mid-run: each job still ends exactly once.

    The server, which is not the farm's, is left as it was found.
    """
    jobs = jobs_like(200, service_time=60.0, every=2.0)

    def cut_for_two_seconds():
        wire.cut()
        time.sleep(2.0)
        wire.mend()

    cutter = threading.Thread(target=cut_for_two_seconds)
    farm.run(
        jobs,
        builders=10,
        speed=300.0,
        hosts=2,
        url=wire.url(server.url),
        on_event=at_start(60, cutter.start),
    )
    cutter.join()
    farm.assert_each_job_ended_once(jobs)
    farm.assert_replayable()
    assert client.keys(farm.keys.prefix + "*") == []


def test_a_host_that_hangs_is_replaced(farm, jobs_like, monkeypatch):
    """Its process lives, so that no exit code tells that the run has no host any more."""
    jobs = jobs_like(20, service_time=60.0, every=4.0)
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

    def meet(world: LiveWorld, hosts: HostProcesses) -> None:
        up.extend(hosts.alive)
        timers.extend(threading.Timer(200.0, world.stop) for _ in range(2))
        for timer in timers:
            timer.start()

    run = farm.run(
        jobs,
        builders=6,
        speed=400.0,
        hosts=1,
        patience=Patience(silence=1.0),
        on_event=at_start(10, hang),
        on_up=meet,
    )
    for timer in timers:
        timer.cancel()
    assert not run.interrupted
    assert up[0].exit_code == -signal.SIGKILL
    farm.assert_each_job_ended_once(jobs)
    farm.assert_replayable()


def test_a_container_that_is_one_builder(farm, jobs_like, server, tmp_path):
    """A worker started outside the farm, with its own builder: it joins, and joins again.

    The second farm finds a host that was up before it: it must begin a new life, not be ignored.
    """
    play = Play(
        builder=Builder(id="own", pool="linux", index=1, processors=("amd64",)), speed=100.0
    )
    settings = LiveSettings(
        redis_url=server.url,
        prefix=farm.keys.prefix,
        host="container",
        beat_interval=0.25,
        play=encode_play(play),
    )
    jobs = jobs_like(5, service_time=10.0)
    container = HostProcess(settings, tmp_path / "container.log")
    try:
        for each in (farm, type(farm)(farm.keys, tmp_path)):
            pool = {"provisioned": True}
            each.run(jobs, builders=0, speed=100.0, hosts=0, url=server.url, pool=pool)
            each.assert_each_job_ended_once(jobs)
            assert {end.builder for end in each.ends} == {"own"}
    finally:
        container.terminate()
        assert container.wait(60) == 0
        container.close()
