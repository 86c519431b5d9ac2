"""Jobs that burn, through a whole live farm: real server, real Celery worker, real processors."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

import msgspec
import psutil
import pytest

from farm.core import events
from farm.live.hosts.roster import Patience

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc"),
]

#: given, so that no job waits for a measurement, and small, so that a second is soon over
RATES = "cpu=300.0,memory=1000.0"


@pytest.fixture(autouse=True)
def own_burner(monkeypatch) -> None:
    """Burn alike wherever the tests run."""
    monkeypatch.setenv("FARM_BURNER", "own")


def burning_under(pids: list[int]) -> list[int]:
    """Return the live grandchildren of these processes: those that a host's burner has forked."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            for program in psutil.Process(pid).children():
                found += [process.pid for process in program.children() if alive(process.pid)]
    return found


@pytest.mark.parametrize("mode", ["stress", "memory", "mixed"])
def test_burning_jobs_go_through_the_farm(farm, jobs_like, mode):
    """Each mode, with threads: every job ends once, and fails where it is meant to."""
    jobs = jobs_like(4, service_time=0.2, mode=mode, threads=2)
    bad = jobs_like(1, service_time=0.1, mode=mode, fails=True)[0]
    jobs.append(msgspec.structs.replace(bad, id="bad"))
    farm.run(jobs, builders=1, pool={"slots": 2}, work_rates=RATES)
    ended = {end.job.id: end.outcome for end in farm.ends}
    assert ended == {f"job-{n}": "succeeded" for n in range(4)} | {"bad": "failed"}
    farm.assert_replayable()


def processor_time(host: int) -> float:
    """Return the seconds of processor time of all burning processes of a host that have ended."""
    programs = [program.cpu_times() for program in psutil.Process(host).children()]
    return sum(times.children_user + times.children_system for times in programs)


def test_heavy_jobs_together_on_one_core_are_slower_than_alone(farm, jobs_like):
    """Slowdown emerges from the machine: it is not configured. Alone a job takes its own time."""
    hosts: list[int] = []
    spent = 0.0

    def look_at_the_last(event):
        nonlocal spent
        if isinstance(event, events.JobFinished):
            spent = processor_time(hosts[0])

    farm.run(
        jobs_like(4, service_time=0.5, mode="stress"),
        builders=1,
        hosts=1,
        pool={"slots": 4, "cores": 1},
        work_rates=RATES,
        on_event=look_at_the_last,
        on_up=lambda _, processes: hosts.extend(process.pid for process in processes.alive),
    )
    ends = farm.ends
    assert len(ends) == 4
    from_first_to_last = max(end.finished_at for end in ends) - min(end.started_at for end in ends)
    assert from_first_to_last > 0.95 * spent > 0, "one core did all of it"
    assert max(end.finished_at - end.started_at for end in ends) > 1.5 * spent / 4


@pytest.mark.parametrize("first", [None, signal.SIGSTOP])
def test_a_killed_host_leaves_no_burning_process(farm, jobs_like, first):
    """SIGKILL (also after SIGSTOP) while it burns: no process is left, the job runs elsewhere."""
    hosts, burnt = [], []

    def kill_when_it_burns(event):
        if isinstance(event, events.JobStarted) and not burnt:
            burnt.extend(await_fire(hosts[0].pid, threads=2))
            if first is not None:
                os.kill(hosts[0].pid, first)
            hosts[0].kill()

    farm.run(
        jobs_like(1, service_time=1.0, mode="stress", threads=2),
        builders=1,
        hosts=1,
        patience=Patience(silence=1.5),
        work_rates=RATES,
        on_event=kill_when_it_burns,
        on_up=lambda _, processes: hosts.extend(processes.alive),
    )
    assert [end.outcome for end in farm.ends] == ["succeeded"]
    assert farm.ends[0].attempts == 2
    assert not any(alive(pid) for pid in burnt)


def test_a_burner_program_that_is_killed_fails_its_jobs_and_no_others(farm, jobs_like):
    """The host lives on: running jobs fail with a reason, the next ones burn in a new program."""
    hosts, burnt = [], []

    def kill_when_it_burns(event):
        if isinstance(event, events.JobStarted) and event.job == "job-0":
            burnt.extend(await_fire(hosts[0].pid, threads=1))
            os.kill(psutil.Process(burnt[0]).ppid(), signal.SIGKILL)

    jobs = jobs_like(2, service_time=0.3, mode="stress")
    jobs[0] = msgspec.structs.replace(jobs[0], service_time=1e6)
    farm.run(
        jobs,
        builders=1,
        work_rates=RATES,
        on_event=kill_when_it_burns,
        on_up=lambda _, processes: hosts.extend(processes.alive),
    )
    ended = {end.job.id: (end.outcome, end.reason) for end in farm.ends}
    assert ended["job-0"] == ("failed", "the burner program ended with exit code -9")
    assert ended["job-1"][0] == "succeeded"
    assert not any(alive(pid) for pid in burnt)


def await_fire(host: int, threads: int) -> list[int]:
    """Wait until this many processes of a host burn, and return them."""
    deadline = time.monotonic() + 60
    while len(found := burning_under([host])) < threads:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_cancelled_job_stops_burning_at_once(farm, jobs_like):
    """CancelAttempt kills the processes: nothing burns on, the slot goes to the next job."""
    hosts: list[int] = []
    seen: dict[str, list[int]] = {}
    worlds = []

    def cancel_when_started(event):
        if isinstance(event, events.JobStarted) and event.job == "job-0":
            seen["before"] = await_fire(hosts[0], threads=2)
            worlds[0].stop()
            worlds[0].stop()

    def up(world, processes):
        worlds.append(world)
        hosts.extend(process.pid for process in processes.alive)

    jobs = jobs_like(1, service_time=1e6, mode="stress", threads=2)
    farm.run(jobs, builders=1, work_rates=RATES, on_event=cancel_when_started, on_up=up)
    assert [end.outcome for end in farm.ends] == ["cancelled"]
    assert len(seen["before"]) == 2
    assert not any(alive(pid) for pid in seen["before"])
