"""``farm admin scheduler`` as a process: killed and restarted it continues, and no job is lost."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from farm.app.jobs.settings import choose
from farm.app.recorded.auditing import audit_run
from farm.core.commands import EndJob
from farm.core.events import SchedulingChanged
from farm.core.model import Job
from farm.live.host_processes import HostProcesses
from farm.live.operating.client import FarmClient
from farm.live.wire.messages import UNSTAMPED, Plan, Watch
from farm.results.run_directory import load_run
from tests.fixtures.processes import environment, own_port
from tests.fixtures.store import on_builders
from tests.worlds.up import AMD64, FARM, Service, jobs_of

pytestmark = pytest.mark.live

#: runs a command in a separate process namespace, invisible in both directions
ELSEWHERE = ("unshare", "--pid", "--fork", "--kill-child")


@pytest.fixture
def service(hostless: Service) -> Iterator[Service]:
    """A long-running farm, with a builder host and no scheduler yet."""
    with HostProcesses(hostless.settings, 1, hostless.folder / "hosts"):
        yield hostless
        hostless.kill()


@pytest.mark.slow
def test_a_killed_scheduler_loses_nothing_and_starts_nothing_twice(service: Service):
    """SIGKILL under load: running jobs continue, waiting ones are dispatched later."""
    service.start(joined=3)
    # no two of the concurrent jobs end together: some are running at any time
    jobs = [
        msgspec.structs.replace(job, service_time=0.6 + 0.2 * (number % 6))
        for number, job in enumerate(jobs_of(24, 1.0))
    ]
    service.submit(jobs)
    service.until_ended(3)
    service.kill()
    before = on_builders(service.store)
    assert len(before) == 6
    service.submit([Job(id="late", service_time=0.1, platform=AMD64)])
    service.start()
    service.until_ended(25)
    results = [service.store.result(job.id) for job in jobs]
    results.append(service.store.result("late"))
    assert {end.outcome for end in results} == {"succeeded"}
    assert {end.attempts for end in results} == {1}, "nothing was run twice"
    ran = {name: one.started_at for name, one in before.items() if one.started_at is not None}
    assert ran, "nothing ran when the scheduler was killed"
    assert {name: service.store.result(name).started_at for name in ran} == ran
    order = sorted(results[:24], key=lambda end: (end.dispatched_at, end.job.id))
    assert [end.job.id for end in order] == [job.id for job in jobs]
    assert service.store.depths() == {"amd64/virtual": 0}
    assert len(service.store.builders()) == 3
    assert service.metric("farm_scheduler_leader") == 1.0
    succeeded = 'farm_jobs_total{outcome="succeeded"}'
    service.until(lambda: service.metric(succeeded) == 25, "a total of both schedulers")
    assert service.end() == 0
    assert service.client.hlen(service.keys.jobs) == 0
    assert_sound(service.folder / "events", jobs=25)


@pytest.mark.slow
def test_a_killed_scheduler_remembers_stickiness(service: Service):
    """Stickiness survives; the event log is consistent, and a fresh scheduler repeats it."""
    sticky = ", fair_share: [team], stickiness: [10m]"
    service.scenario(policy="buildbarn", scheduling=sticky)
    service.start(joined=3)
    first = [
        Job(id=f"{team}{n}", service_time=0.1, platform=AMD64, attributes={"team": team})
        for n in range(3)
        for team in "ab"
    ]
    service.submit(first)
    service.until_ended(6)
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
    assert service.end() == 0
    assert_sound(service.folder / "events", jobs=12)


def results_of(service: Service, jobs: list[Job]) -> dict[str, EndJob]:
    """Return the ends of these jobs, by id."""
    return {job.id: service.store.result(job.id) for job in jobs}


def knows_both_teams(service: Service) -> bool:
    """Return whether the saved state has slots that served each team."""
    learned = service.store.reader.learned()
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
def test_changed_rules_survive_a_scheduler(service: Service):
    """Waiting jobs are reordered at once; a killed scheduler's successor keeps the rules."""
    service.start(joined=3)
    times = [30.0] * 6 + [1.0, 3.0, 2.0]
    service.submit(
        [
            Job(id=f"j{n}", service_time=t, declared_time=t, platform=AMD64)
            for n, t in enumerate(times)
        ]
    )
    service.until(lambda: len(on_builders(service.store)) == 6, "dispatch")
    with FarmClient(service.url, service.keys.prefix) as operator:
        choose(operator, SchedulingChanged(UNSTAMPED, "sjf"))
        in_order = ["j6", "j8", "j7"]
        service.until(lambda: service.store.waiting(str(AMD64), 0, 9) == in_order, "new places")
        service.kill()
        service.start()
        short = Job(id="short", service_time=0.5, declared_time=0.5, platform=AMD64)
        service.submit([short])
        waits = ["short", *in_order]
        service.until(lambda: service.store.waiting(str(AMD64), 0, 9) == waits, "taking over")
        assert service.end() == 0
        service.scenario(policy="ljf", scheduling=", fair_share: [team]")
        service.start()
        service.until(lambda: operator.status().choices.policy == "ljf", "another scenario")
        longest_first = ["j7", "j8", "j6", "short"]
        assert service.store.waiting(str(AMD64), 0, 9) == longest_first


@pytest.mark.slow
def test_a_paused_scheduler_that_resumes_changes_nothing(service: Service):
    """SIGSTOP past its lease, under load: its successor decides, and it commits nothing more."""
    service.start(joined=3)
    service.submit(jobs_of(40, 0.4))
    service.until_ended(5)
    paused = service.process
    assert paused is not None
    paused.send_signal(signal.SIGSTOP)
    service.port = own_port()
    service.start()
    service.until_ended(40)
    ends = service.client.hgetall(service.keys.results)
    paused.send_signal(signal.SIGCONT)
    assert paused.wait(30) == 1
    assert "another scheduler took this farm over" in service.log()
    ended = service.client.lrange(service.keys.ended, 0, -1)
    assert sorted(ended) == sorted(ends), "a job ended twice"
    assert service.client.hgetall(service.keys.results) == ends
    assert service.end() == 0


def test_a_request_of_an_idle_farm_is_written_at_once(hostless: Service):
    """No other event triggers a write there: a provisioner reads it, and starts one."""
    service, requested = hostless, hostless.keys.requested
    service.scenario(pool="slots: 2, provisioner: {algorithm: simple, max: 9}")
    service.start(logged=False)  # an event log would be written, and with it everything else
    service.until(lambda: service.client.exists(service.keys.pools) == 1, "taking charge")
    plan = Plan("linux", 1, 1, start=1, token="mine")
    service.send("plans", Watch("linux", "mine", outside=True), plan)
    service.until(lambda: service.client.hlen(requested) == 1, "the request", 20)


@pytest.mark.slow
def test_a_second_scheduler_stands_by(service: Service):
    """It takes over when the first one is killed, though it cannot see its death."""
    if subprocess.run([*ELSEWHERE, "true"], capture_output=True).returncode:
        pytest.skip("needs the right to make a process space")
    service.start(within=ELSEWHERE)
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
    assert service.end() == 0


@pytest.mark.slow
def test_farm_time_continues_without_a_scheduler_unless_begun_afresh(service: Service):
    """Waiting counts while it is away; instants of another speed would not fit to those before."""
    service.start(joined=3)
    service.submit([Job(id="first", service_time=0.1, platform=AMD64)])
    service.until_ended(1)
    assert service.end() == 0
    away = time.monotonic()
    service.start("--set", "live.speed=5")
    assert service.process.wait(60) == 2
    assert "--fresh; with Compose: docker compose down" in service.log()
    away = time.monotonic() - away
    service.start()
    service.submit([Job(id="second", service_time=0.1, platform=AMD64)])
    service.until_ended(2)
    first, second = (service.store.result(name) for name in ("first", "second"))
    assert second.submitted_at - first.finished_at > away > 0
    assert service.end() == 0
    service.start("--set", "live.speed=5", "--fresh")
    speed = service.keys.meta, "speed"
    service.until(lambda: service.client.hget(*speed) == b"5.0", "the new beginning")
    service.until(lambda: len(service.store.builders()) == 3, "joining again")
    assert service.end() == 0


ARRIVALS = "workload.0.arrivals"
LOAD = [
    word
    for option in ("every=0.1s", "count=100000", "service_time=0.01s")
    for word in ("--set", f"{ARRIVALS}.{option}")
]


@pytest.mark.slow
def test_a_load_is_submitted_until_it_is_stopped(service: Service):
    """Jobs come at the farm's own time, with unique ids; two loads at once are fine."""
    service.start(joined=3)
    service.until(lambda: service.client.exists(service.keys.status) == 1, "a status")
    texts = [service.folder / "load-1.txt", service.folder / "load-2.txt"]
    loads = []
    for text in texts:
        with text.open("w") as err:
            loads.append(
                subprocess.Popen(
                    [*FARM, "submit", "service.yaml", *LOAD],
                    cwd=service.folder,
                    stderr=err,
                    env=environment(**service.variables),
                )
            )
    service.until_ended(20)
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
    assert service.end() == 0


@pytest.mark.slow
def test_a_policy_that_fails_is_logged_once_and_shown(service: Service):
    """A farm that stays up has no end at which to warn; the jobs would be in no order, silently."""
    own = "def key(job, estimate, at, serial):\n    return 1 / 0\n"
    (service.folder / "own.py").write_text(own)
    service.scenario(policy="'own:key'")
    service.start(joined=3)
    service.submit(jobs_of(3, 0.1))
    service.until_ended(3)
    with FarmClient(service.url, service.keys.prefix) as operator:
        service.until(lambda: "3 of 3 jobs" in str(operator.status().complaints), "complaint")
    assert service.end() == 0
    assert (service.folder / "log").read_text().count("scheduling.policy: own:key failed") == 1
