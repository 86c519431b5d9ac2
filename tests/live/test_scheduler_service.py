"""``farm scheduler`` as a process: killed and restarted it continues, and no job is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from farm.app.jobs.changing import choose
from farm.app.recorded.replays import audit_run
from farm.core.commands import EndJob
from farm.core.model import Job
from farm.core.pools.spec import MAX_STARTS
from farm.live.hosts.host_processes import HostProcesses
from farm.live.operating.client import FarmClient
from farm.live.redis.keys import Keys
from farm.live.redis.server import Server
from farm.live.settings import LiveSettings
from farm.live.wire.messages import Plan, Watch
from farm.live.wire.reporter import Reporter
from farm.results.run_directory import load_run
from tests.fixtures.job_records import on_builders
from tests.fixtures.ports import own_port
from tests.fixtures.scheduler_service import AMD64, SCENARIO, Service, jobs_of

pytestmark = pytest.mark.live

#: runs a command in a separate process namespace, invisible in both directions
ELSEWHERE = ("unshare", "--pid", "--fork", "--kill-child")


@pytest.fixture
def service(server: Server, keys: Keys, tmp_path: Path) -> Iterator[Service]:
    """A long-running farm, with two builder hosts and no scheduler yet."""
    farm = Service(server, keys, tmp_path)
    settings = LiveSettings(redis_url=server.url, prefix=keys.prefix, beat_interval=0.25)
    with HostProcesses(settings, 2, tmp_path / "hosts"):
        yield farm
        if farm.process is not None and farm.process.poll() is None:
            farm.process.kill()
            farm.process.wait()
    farm.store.clear()
    farm.client.close()


def test_a_killed_scheduler_loses_nothing_and_starts_nothing_twice(service: Service):
    """SIGKILL under load: running jobs continue, waiting ones are dispatched later."""
    service.start()
    service.until(lambda: len(service.store.builders()) == 3, "joining")
    # no two of the concurrent jobs end together: some are running at any time
    jobs = [
        msgspec.structs.replace(job, service_time=0.6 + 0.2 * (number % 6))
        for number, job in enumerate(jobs_of(40, 1.0))
    ]
    service.submit(jobs)
    service.until(lambda: service.store.count_results() >= 3, "the first ends")
    service.kill()
    before = on_builders(service.store)
    assert len(before) == 6
    service.submit([Job(id="late", service_time=0.1, platform=AMD64)])
    service.start()
    service.until(lambda: service.store.count_results() == 41, "the end of all")
    results = [service.store.result(job.id) for job in jobs]
    results.append(service.store.result("late"))
    assert {end.outcome for end in results} == {"succeeded"}
    assert {end.attempts for end in results} == {1}, "nothing was run twice"
    ran = {name: one.started_at for name, one in before.items() if one.started_at is not None}
    assert ran, "nothing ran when the scheduler was killed"
    assert {name: service.store.result(name).started_at for name in ran} == ran
    order = sorted(results[:40], key=lambda end: (end.dispatched_at, end.job.id))
    assert [end.job.id for end in order] == [job.id for job in jobs]
    assert service.store.depths() == {"amd64/virtual": 0}
    assert len(service.store.builders()) == 3
    assert service.metric("farm_scheduler_leader") == 1.0
    succeeded = 'farm_jobs_total{outcome="succeeded"}'
    service.until(lambda: service.metric(succeeded) == 41, "a total of both schedulers")
    assert service.end(signal.SIGTERM) == 0
    assert service.client.hlen(service.keys.jobs) == 0
    assert_sound(service.folder / "events", jobs=41)


@pytest.mark.slow
def test_a_killed_scheduler_remembers_stickiness(service: Service):
    """Stickiness survives; the event log is consistent, and a fresh scheduler repeats it."""
    sticky = ", fair_share: [team], stickiness: [10m]"
    service.scenario(policy="buildbarn", scheduling=sticky)
    service.start()
    service.until(lambda: len(service.store.builders()) == 3, "joining")
    first = [
        Job(id=f"{team}{n}", service_time=0.1, platform=AMD64, attributes={"team": team})
        for n in range(3)
        for team in "ab"
    ]
    service.submit(first)
    service.until(lambda: service.store.count_results() == 6, "the first ends")
    slots = {name: (end.builder, end.slot) for name, end in results_of(service, first).items()}
    assert {slots[f"a{n}"] for n in range(3)}.isdisjoint(slots[f"b{n}"] for n in range(3))
    service.until(lambda: knows_both_teams(service), "saving what was learned")
    service.kill()
    service.start()
    # one team after the other: the slot's former team decides where a job goes now
    for team in "ba":
        again = [
            msgspec.structs.replace(job, id=f"{job.id}-again")
            for job in first
            if job.id.startswith(team)
        ]
        done = service.store.count_results()
        service.submit(again)
        service.until(lambda n=done: service.store.count_results() == n + 3, "the end of all")
        now = {(end.builder, end.slot) for end in results_of(service, again).values()}
        assert now == {slots[f"{team}{n}"] for n in range(3)}
    assert service.end(signal.SIGTERM) == 0
    assert_sound(service.folder / "events", jobs=12)


def results_of(service: Service, jobs: list[Job]) -> dict[str, EndJob]:
    """Return the ends of these jobs, by id."""
    return {job.id: service.store.result(job.id) for job in jobs}


def knows_both_teams(service: Service) -> bool:
    """Return whether the saved state has slots that served each team."""
    learned = service.store.learned()
    lasts = [slot.last for _, _, tree in learned.trees for slot in tree.slots]
    return sorted(last for last in lasts if last) == [("a",)] * 3 + [("b",)] * 3


def assert_sound(folder: Path, jobs: int) -> None:
    """The farm's event log audits clean, replays the same, and ends each job once."""
    audit = audit_run(folder)
    assert (audit.wrong, audit.not_replayed) == ("", "")
    assert audit.jobs == jobs
    ends = [
        command.job.id
        for entry in load_run(folder, unfinished=True).entries()
        for command in entry.commands
        if isinstance(command, EndJob)
    ]
    assert len(ends) == len(set(ends)) == jobs


@pytest.mark.slow
def test_repeated_kills_with_every_stage_in_progress(service: Service):
    """Three kills, cleaning builders, a policy with float keys: every job succeeds once."""
    service.scenario(policy="sjf-aging", pool=", inter_job_time: 0.2s")
    names = {f"j{n:03}" for n in range(60)}
    service.start()
    service.until(lambda: len(service.store.builders()) == 3, "joining")
    service.submit(jobs_of(60, 0.4))
    for count in (5, 20, 40):
        service.until(lambda least=count: service.store.count_results() >= least, "some ends")
        service.kill()
        service.start()
    service.until(lambda: service.store.count_results() == 60, "the end of all")
    results = {name: service.store.result(name) for name in names}
    assert {end.outcome for end in results.values()} == {"succeeded"}
    assert service.end(signal.SIGTERM) == 0
    assert_sound(service.folder / "events", jobs=60)


@pytest.mark.slow
def test_other_rules_reorder_the_waiting_jobs(service: Service):
    """A scheduler with another policy and fair share takes the same jobs over."""
    service.start()
    service.until(lambda: len(service.store.builders()) == 3, "joining")
    long_first = [
        Job(id=f"j{n:03}", service_time=0.5 + (20 - n) / 20, platform=AMD64, attributes={"team": t})
        for n, t in enumerate("ab" * 10)
    ]
    service.submit(long_first)
    service.until(lambda: len(on_builders(service.store)) == 6, "dispatch")
    assert service.end(signal.SIGTERM) == 0
    service.scenario(policy="sjf", scheduling=", fair_share: [team]")
    service.start()
    service.until(lambda: service.store.count_results() == 20, "the end of all")
    assert all(service.store.result(job.id).outcome == "succeeded" for job in long_first)


@pytest.mark.slow
def test_changed_rules_survive_a_scheduler(service: Service):
    """Waiting jobs are reordered at once; a killed scheduler's successor keeps the rules."""
    service.start()
    service.until(lambda: len(service.store.builders()) == 3, "joining")
    times = [30.0] * 6 + [1.0, 3.0, 2.0]
    service.submit(
        [
            Job(id=f"j{n}", service_time=t, declared_time=t, platform=AMD64)
            for n, t in enumerate(times)
        ]
    )
    service.until(lambda: len(on_builders(service.store)) == 6, "dispatch")
    with FarmClient(service.url, service.keys.prefix) as operator:
        choose(operator, "sjf")
        in_order = ["j6", "j8", "j7"]
        service.until(lambda: service.store.waiting(str(AMD64), 0, 9) == in_order, "new places")
        service.kill()
        service.start()
        short = Job(id="short", service_time=0.5, declared_time=0.5, platform=AMD64)
        service.submit([short])
        waits = ["short", *in_order]
        service.until(lambda: service.store.waiting(str(AMD64), 0, 9) == waits, "taking over")
        assert service.end(signal.SIGTERM) == 0
        service.scenario(policy="ljf")
        service.start()
        service.until(lambda: operator.status().choices.policy == "ljf", "another scenario")


@pytest.mark.slow
def test_farm_time_continues_without_a_scheduler(service: Service):
    """Waiting counts while the scheduler is away."""
    service.start()
    service.until(lambda: len(service.store.builders()) == 3, "joining")
    service.submit([Job(id="first", service_time=0.1, platform=AMD64)])
    service.until(lambda: service.store.count_results() == 1, "the first end")
    assert service.end(signal.SIGTERM) == 0
    time.sleep(2.0)
    service.start()
    service.submit([Job(id="second", service_time=0.1, platform=AMD64)])
    service.until(lambda: service.store.count_results() == 2, "the second end")
    first, second = (service.store.result(name) for name in ("first", "second"))
    assert second.submitted_at - first.finished_at > 1.5


def test_a_paused_scheduler_that_resumes_changes_nothing(service: Service):
    """SIGSTOP past its lease, under load: its successor decides, and it commits nothing more."""
    service.start()
    service.until(lambda: len(service.store.builders()) == 3, "joining")
    service.submit(jobs_of(40, 0.4))
    service.until(lambda: service.store.count_results() >= 5, "some ends")
    paused = service.process
    assert paused is not None
    paused.send_signal(signal.SIGSTOP)
    service.port = own_port()
    service.start()
    service.until(lambda: service.store.count_results() == 40, "the end of all")
    ends = service.client.hgetall(service.keys.results)
    paused.send_signal(signal.SIGCONT)
    assert paused.wait(30) == 1
    assert "another scheduler took this farm over" in service.log()
    ended = service.client.lrange(service.keys.ended, 0, -1)
    assert sorted(ended) == sorted(ends), "a job ended twice"
    assert service.client.hgetall(service.keys.results) == ends
    assert service.end(signal.SIGTERM) == 0


def test_a_paused_provisioner_that_resumes_decides_nothing(service: Service):
    """Its plan was made before another one took the pool over: only the other's plan counts."""
    service.scenario(policy="fifo")
    yaml = service.folder / "service.yaml"
    sized = "provisioner: {algorithm: simple, max: 9}"
    yaml.write_text(yaml.read_text().replace("builders: 3", sized))
    service.start()
    service.until(lambda: service.client.exists(service.keys.pools) == 1, "taking charge")
    reporter = Reporter(service.url, service.keys, "test", "plans")
    reporter.start()
    for report in (
        Watch("linux", "paused"),
        Watch("linux", "present"),
        Plan("linux", 1, 5, start=5, token="paused"),
        Plan("linux", 1, 2, start=2, token="present"),
    ):
        reporter.put(report)
    assert reporter.close(60)
    service.until(lambda: len(service.store.builders()) >= 2, "booting")
    assert service.end(signal.SIGTERM) == 0
    assert sorted(service.store.builders()) == ["linux-1", "linux-2"]


def test_a_request_of_an_idle_farm_is_written_at_once(server: Server, keys: Keys, tmp_path: Path):
    """No other event triggers a write there: a provisioner reads it, and starts one."""
    service = Service(server, keys, tmp_path)
    yaml = service.folder / "service.yaml"
    sized = "provisioner: {algorithm: simple, max: 9}"
    yaml.write_text(yaml.read_text().replace("builders: 3", sized))
    service.start(logged=False)  # an event log would be written, and with it everything else
    try:
        service.until(lambda: service.client.exists(keys.pools) == 1, "taking charge")
        reporter = Reporter(service.url, keys, "test", "plans")
        reporter.start()
        reporter.put(Watch("linux", "mine", outside=True))
        reporter.put(Plan("linux", 1, 1, start=1, token="mine"))
        assert reporter.close(60)
        service.until(lambda: service.client.hlen(keys.requested) == 1, "the request", 20)
    finally:
        service.end(signal.SIGTERM)
        service.store.clear()
        service.client.close()


@pytest.mark.slow
def test_a_plan_for_very_many_builders_is_carried_out_in_parts(service: Service):
    """The scheduler requests some of them at a time, and its provisioner sees what is missing."""
    yaml = service.folder / "service.yaml"
    sized = "provisioner: {algorithm: simple, max: 90000}"
    yaml.write_text(yaml.read_text().replace("builders: 3", sized))
    service.start()
    service.until(lambda: service.client.exists(service.keys.pools) == 1, "taking charge")
    reporter = Reporter(service.url, service.keys, "test", "plans")
    reporter.start()
    reporter.put(Watch("linux", "mine", outside=True))

    def requested() -> int:
        return service.client.hlen(service.keys.requested)

    reporter.put(Plan("linux", 1, 90_000, start=90_000, token="mine"))
    service.until(lambda: requested() > 0, "the first requests")
    assert requested() == MAX_STARTS
    reporter.put(Plan("linux", 2, 90_000, start=89_000, token="mine"))
    service.until(lambda: requested() > MAX_STARTS, "the next requests")
    assert requested() == 2 * MAX_STARTS
    assert reporter.close(60)
    assert service.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("within", [(), ELSEWHERE], ids=["here", "elsewhere"])
def test_a_second_scheduler_stands_by(service: Service, within: tuple[str, ...]):
    """It takes over when the first one is killed, also one whose death it cannot see."""
    if within and subprocess.run([*within, "true"], capture_output=True).returncode:
        pytest.skip("needs the right to make a process space")
    service.start(within=within)
    service.until(lambda: service.metric("farm_scheduler_leader") == 1.0, "taking charge")
    first, first_port = service.process, service.port
    service.port = own_port()
    service.start()
    service.until(lambda: service.metric("farm_scheduler_leader") == 0.0, "standing by")
    assert first is not None
    first.kill()
    first.wait()
    assert first_port != service.port
    service.until(lambda: service.metric("farm_scheduler_leader") == 1.0, "taking over")
    assert service.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_another_speed_is_refused_without_a_fresh_start(service: Service):
    """Instants of two speeds would not fit together."""
    service.start()
    service.until(lambda: len(service.store.builders()) == 3, "joining")
    assert service.end(signal.SIGTERM) == 0
    service.start("--set", "live.speed=5")
    assert service.process.wait(60) == 2
    assert "--fresh" in service.log()
    service.start("--set", "live.speed=5", "--fresh")
    service.until(
        lambda: service.client.hget(service.keys.meta, "speed") == b"5.0", "the new beginning"
    )
    service.until(lambda: len(service.store.builders()) == 3, "joining again")
    service.until(lambda: service.metric("farm_scheduler_leader") == 1.0, "taking charge")
    assert service.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_load_is_submitted_until_it_is_stopped(service: Service):
    """Jobs come at the farm's own time, with unique ids; two loads at once are fine."""
    service.start()
    service.until(lambda: len(service.store.builders()) == 3, "joining")
    service.until(lambda: service.client.exists(service.keys.status) == 1, "a status")
    load = service.folder / "load.yaml"
    load.write_text(SCENARIO.format(policy="fifo", pool="", scheduling="").replace(
        "every: 1s, count: 1, service_time: {constant: 1s}",
        "every: 0.1s, count: 100000, service_time: {constant: 0.01s}",
    ))  # fmt: skip
    environment = os.environ | {
        "FARM_REDIS_URL": service.url,
        "FARM_PREFIX": service.keys.prefix,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = [sys.executable, "-m", "farm.cli.main", "load", "load.yaml"]
    texts = [service.folder / "load-1.txt", service.folder / "load-2.txt"]
    loads = []
    for text in texts:
        with text.open("w") as err:
            loads.append(subprocess.Popen(command, cwd=service.folder, env=environment, stderr=err))
    service.until(lambda: service.store.count_results() >= 20, "some work")
    service.until(lambda: all(" waiting, " in text.read_text() for text in texts), "progress")
    submitted = 0
    for one, text in zip(loads, texts, strict=True):
        one.send_signal(signal.SIGTERM)
        assert one.wait(timeout=240) == 0, text.read_text()
        submitted += int(text.read_text().splitlines()[-1].split()[1].replace(",", ""))
    service.until(lambda: service.store.count_results() == submitted, "the end of all")
    name = service.client.hkeys(service.keys.results)[-1].decode()
    end = service.store.result(name)
    assert abs(end.submitted_at - end.job.arrived_at) < 2.0
    assert service.end(signal.SIGTERM) == 0
