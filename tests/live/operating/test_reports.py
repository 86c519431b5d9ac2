"""What the scheduler's process publishes, and how often."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import msgspec
import pytest

from farm.app.api import load_scenario
from farm.app.jobs.job_lookup import ended_of, try_again
from farm.app.jobs.scenario_submission import play
from farm.assembly import make_rules
from farm.core.commands import EndJob, StartJob
from farm.core.errors import InputError, ServerError
from farm.core.events import (
    AlarmRang,
    BuilderJoined,
    BuilderLost,
    CancelRequested,
    DrainRequested,
    JobsSubmitted,
    PriorityChanged,
    UndrainRequested,
)
from farm.core.model import Builder, Job, Platform
from farm.core.pools.spec import MAX_STARTS
from farm.forecasts.dispatch.forecast_intervals import ForecastCalibration
from farm.forecasts.dispatch.recent_errors import Given, Lately
from farm.live.operating import client as client_module
from farm.live.operating import control_plane, images, reporting
from farm.live.operating.answers import BUSY
from farm.live.operating.client import FRESH, FarmClient
from farm.live.protocol import submissions
from farm.live.redis.connection import Connection
from farm.live.redis.keys import Keys
from farm.live.redis.server import Server
from farm.live.wire.inbox import Inbox
from farm.live.wire.messages import UNSTAMPED, Ask, Plan, Watch
from farm.live.wire.pool_report import LostBuilder
from farm.processes.signals import StopRequest
from tests.worlds.stepwise import POOLS, Clock, Leader

pytestmark = pytest.mark.live

Lead = Callable[..., Leader]


@pytest.fixture
def lead(client: Connection, keys: Keys) -> Lead:
    """Take the farm over."""
    return lambda **more: Leader(client, keys, Clock(), **more)


@pytest.fixture
def operator(server: Server, keys: Keys) -> Iterator[FarmClient]:
    """One who looks at that farm."""
    with FarmClient(server.url, keys.prefix) as client:
        yield client


@pytest.mark.parametrize(("processor", "longest"), [(0.0, 2.5), (1.0, FRESH)])
def test_a_scheduler_whose_reports_take_long_still_counts_as_running(
    lead: Lead, monkeypatch, processor: float, longest: float
):
    """A second each: because the machine is busy, or because the farm is that large."""
    leader = lead()
    control = leader.control()
    real, used, written = Clock(), Clock(), list[float]()

    def publish(*_: object) -> None:
        real.at += 1.0
        used.at += processor
        written.append(real.at)

    monkeypatch.setattr(leader.world.notices, "publish", publish)
    clock = SimpleNamespace(monotonic=real.monotonic, thread_time=used.monotonic, time=time.time)
    monkeypatch.setattr(control_plane, "time", clock)
    while real.at < 1060.0:
        control.turn()
        real.at += 0.05
    gaps = [later - earlier for earlier, later in itertools.pairwise(written)]
    assert max(gaps) < longest


def test_a_farm_at_rest_reports_when_a_heartbeat_comes(lead: Lead, monkeypatch):
    """Every second one: a wake-up for a report alone would be as many again."""
    control = lead().control()
    real, written = Clock(), list[float]()
    monkeypatch.setattr(control._notices, "publish", lambda *_: written.append(real.at))
    clock = SimpleNamespace(monotonic=real.monotonic, thread_time=real.monotonic, time=time.time)
    monkeypatch.setattr(control_plane, "time", clock)
    first_beat, asked = real.at + 0.3, 0
    for number in range(30):
        beat = first_beat + 1.004 * number  # a host takes some time for each
        while real.at < beat:
            real.at = min(control.turn(), beat)
            asked += 1
    assert asked <= 30 + 2
    assert max(b - a for a, b in itertools.pairwise(written)) <= reporting.REST_INTERVAL


def test_cancelled_jobs_are_no_throughput(lead: Lead):
    """Ten thousand that were cancelled at once were not served."""
    leader = lead()
    control = leader.control()
    ends = [
        EndJob(Job(id=name, service_time=1.0), outcome, 1, 0.0, 1.0)
        for name, outcome in (("a", "succeeded"), ("b", "cancelled"), ("c", "failed"))
    ]
    control.observe(AlarmRang(1.0), ends)
    assert control._status(0.0).ended_last_minute == 2


def test_the_reason_of_a_plan_is_made_readable(lead: Lead):
    """It is shown by ``farm pools``: a terminal must not obey it."""
    leader = lead()
    control, pool = leader.control(), POOLS[0].name
    plan = Plan(pool, serial=1, desired=0, why="\x1b[2J" + "x" * 5000, token="t")
    control.add(Watch(pool, "t"))
    control.add(plan)
    control.turn()
    why = control.reports([pool])[pool].why
    assert why.startswith("\\x1b[2Jxxx")
    assert why.isprintable()
    assert len(why) < 2000


PROVISIONED = (msgspec.structs.replace(POOLS[0], builders=0, provisioned=True, max=90_000),)


def test_a_plan_for_very_many_builders_is_carried_out_in_parts(lead: Lead, client, keys: Keys):
    """The scheduler requests some of them at a time, and its provisioner sees what is missing."""
    leader = lead(pools=PROVISIONED)
    control = leader.control()
    control.add(Watch("linux", "mine", outside=True))
    for serial, start in ((1, 90_000), (2, 89_000)):
        plan = Plan("linux", serial, 90_000, start=start, token="mine")
        control.add(plan)
        leader.commit()
        assert client.hlen(keys.requested) == serial * MAX_STARTS


@pytest.mark.parametrize("after_a_takeover", [False, True])
def test_a_lost_builder_is_shown_with_its_pool(
    operator: FarmClient, lead: Lead, *, after_a_takeover: bool
):
    """Whatever it is called, and however soon it is lost; a repeated report shows it once."""
    leader = lead()
    control = leader.control()
    joined = BuilderJoined(1.0, Builder(id="static-7f", pool="linux", index=9))
    commands = leader.scheduler.handle(joined)
    if after_a_takeover:
        control = leader.control()
    else:
        control.observe(joined, commands)
    for at in (2.0, 3.0):
        lost = BuilderLost(at, "static-7f", "its host is silent")
        control.observe(lost, leader.scheduler.handle(lost))
    control.turn()
    found = operator.status().lost
    assert found == (LostBuilder("static-7f", 2.0, "its host is silent", "linux"),)


def test_a_builder_whose_host_was_stopped_is_not_shown_as_lost(operator: FarmClient, lead: Lead):
    """An orderly stop of its machine is no failure."""
    leader = lead()
    control = leader.control()
    for event in (
        BuilderJoined(1.0, Builder(id="static-7f", pool="linux", index=9)),
        BuilderLost(2.0, "static-7f", "its host left", excused=True),
    ):
        control.observe(event, leader.scheduler.handle(event))
    control.turn()
    assert operator.status().lost == ()


def test_the_next_scheduler_knows_how_right_estimates_were(lead: Lead):
    """The errors from which intervals are made, and what a user is told of the last ones."""
    leader, calibration = lead(), ForecastCalibration()
    control = leader.control(calibrations={"declared": calibration})
    for name in ("a", "b"):
        calibration.calibrate(("amd64",), 0.0, name, [50.0 + n for n in range(9)])
    calibration.dispatched("a", 44.0)
    job = Job(id="c", service_time=1.0, platform=Platform("amd64"))
    control._learned.errors.memory.given["c"] = [Given("rollout", 10.0)]
    control.observe(AlarmRang(50.0), [StartJob(job, 1, "linux-1", 0)])
    control.turn()
    leader.commit()
    after, follower = ForecastCalibration(), lead()
    another = follower.control(calibrations={"declared": after})
    assert another._learned.errors.of("rollout") == Lately(1, 1.0, 1.0)
    after.dispatched("b", 54.0)
    assert (after.memory.groups["amd64"].errors, after.memory.groups["amd64"].held) == (
        2,
        [False, True],
    )


@pytest.mark.parametrize("keys_of_jobs", [[], ["user"]])
def test_the_status_says_whether_there_are_invocations(
    operator: FarmClient, lead: Lead, keys_of_jobs: list[str]
):
    """Commands on invocations are refused where there are none."""
    scenario = load_scenario("mm1", scheduling__fair_share=keys_of_jobs)
    leader = lead(rules=make_rules(scenario))
    leader.control(scenario).turn()
    assert operator.status().fair_share is bool(keys_of_jobs)


def test_a_question_that_is_refused_is_an_error(operator: FarmClient, lead: Lead, monkeypatch):
    """The reason comes in the place of an answer, and is the message."""

    def refuse(question: Ask) -> None:
        lead().world.notices.reply(BUSY, question.reply_to)

    monkeypatch.setattr(operator, "send", refuse)
    with pytest.raises(ServerError, match="too many questions wait"):
        operator.ask("job", "a")


def test_an_operator_who_has_changed_something_gets_no_older_image(
    operator: FarmClient, lead: Lead, monkeypatch
):
    """A costly image is used again for a while, but shows no builders drained that are not."""
    monkeypatch.setattr(images, "SHARE", 1e9)
    leader = lead()
    control, times = leader.control(), itertools.count(1.0)
    monkeypatch.setattr(leader.world.clock, "now", lambda: next(times))
    control.turn()
    monkeypatch.setattr(operator, "send", lambda question: leader.answer(question, control))
    before = operator.image().snapshot.at
    assert operator.image().snapshot.at == before
    for changed in (DrainRequested(2.0, "*"), UndrainRequested(3.0, "*")):
        control.observe(changed, ())
        after = operator.image().snapshot.at
        assert after > before
        assert operator.image().snapshot.at == after
        before = after


def test_a_submitter_learns_what_the_farm_refused(
    server: Server, keys: Keys, lead: Lead, monkeypatch
):
    """Before it says that a job was submitted; another's refusal is none of its own."""
    monkeypatch.setattr(submissions, "MAX_PLATFORMS", 1)
    leader = lead()
    leader.control().turn()
    monkeypatch.setattr(
        client_module,
        "time",
        SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: leader.turn()),
    )
    with FarmClient(server.url, keys.prefix) as one, FarmClient(server.url, keys.prefix) as other:
        for number, platform in enumerate(("odd", "amd64", "even")):
            submitter = other if platform == "amd64" else one
            job = Job(id=f"j{number}", service_time=1.0, platform=Platform(platform, True))
            submitter.submit([job])
        other.check_accepted()
        with pytest.raises(InputError, match=r"refused 1 job .* job j2: live jobs ask for"):
            one.check_accepted()
        assert [letter.why for letter in one.refused()] == [f"job j2: {submissions.ONE_TOO_MANY}"]
        assert list(one.known(["j0", "j1", "j2"])) == ["j0", "j1"]


def test_one_of_two_submitters_of_one_id_learns_that_the_other_was_faster(
    server: Server, keys: Keys, lead: Lead, monkeypatch
):
    """Both had an acknowledgement, and one job was dropped; equal ones are one job still.

    Also of a job that has ended, and of one that an operator has changed since.
    """
    leader = lead()
    leader.control().turn()
    turn = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: leader.turn())
    monkeypatch.setattr(client_module, "time", turn)
    jobs = [Job(id=name, service_time=1.0) for name in ("a", "b")]
    others = [Job(id=name, service_time=2.0) for name in ("b", "c")]
    with FarmClient(server.url, keys.prefix) as one, FarmClient(server.url, keys.prefix) as other:
        one.submit(jobs)
        other.submit(others)
        assert one.check_accepted() == ""
        with pytest.raises(InputError, match=r"refused 1 job .* job of this id already: b"):
            other.check_accepted()
        one.send(PriorityChanged(UNSTAMPED, "a", level=5), CancelRequested(UNSTAMPED, ("b",)))
        leader.turn()
        assert [leader.scheduler.jobs["a"].job.level, one.known(["a", "b"])] == [
            5,
            {"a": False, "b": True},
        ]
        one.submit(jobs)
        assert one.check_accepted() == ""
        with FarmClient(server.url, keys.prefix) as third:
            third.submit([Job(id="b", service_time=3.0)])
            with pytest.raises(InputError, match="another job of this id"):
                third.check_accepted()


def test_who_tries_a_job_again_at_the_same_moment_takes_the_next_number(
    server: Server, keys: Keys, lead: Lead, monkeypatch
):
    """Two were told that theirs was j~2, and there was one job."""
    leader = lead()
    leader.control().turn()
    turn = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: leader.turn())
    monkeypatch.setattr(client_module, "time", turn)
    with FarmClient(server.url, keys.prefix) as one, FarmClient(server.url, keys.prefix) as other:
        one.submit([Job(id="j", service_time=1.0)])
        assert one.check_accepted() == ""
        one.send(CancelRequested(UNSTAMPED, ("j",)))
        leader.turn()
        ended = ended_of(one, ["j"])
        submit, faster = one.submit, list[str]()

        def submit_after_the_other(jobs: list[Job]) -> int:
            if not faster:
                faster.extend(job.id for job in try_again(other, ended, once=False)[0])
            return submit(jobs)

        monkeypatch.setattr(one, "submit", submit_after_the_other)
        again, not_confirmed = try_again(one, ended, once=False)
        assert (faster, [job.id for job in again], not_confirmed) == (["j~2"], ["j~3"], "")
        assert set(one.known(["j~2", "j~3", "j~4"])) == {"j~2", "j~3"}


def test_a_scheduler_that_reads_no_submissions_confirms_none(
    server: Server, keys: Keys, lead: Lead, monkeypatch
):
    """Its silence was taken for consent; one that still reads others' is waited for."""
    leader = lead()
    leader.control().turn()
    monkeypatch.setattr(client_module, "ANSWER_TIMEOUT", 0.0)
    with FarmClient(server.url, keys.prefix) as submitter:
        submitter.submit([Job(id=f"j{number}", service_time=1.0) for number in range(500)])
        assert "has read no submissions for" in submitter.check_accepted()
        monkeypatch.setattr(client_module, "_comes_true", lambda *_: leader.turn())
        assert submitter.check_accepted() == ""
        assert submitter.not_read() == ""
        monkeypatch.setattr(client_module, "FRESH", -1.0)
        assert "has not reported lately" in submitter.check_accepted()


@pytest.fixture
def one_hour_ahead(monkeypatch):
    """Set the clock of this machine forward, for as long as the context lasts."""
    right = time.time

    @contextlib.contextmanager
    def ahead():
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: right() + 3600.0)
            yield

    return ahead


def test_only_the_servers_clock_says_whether_a_scheduler_runs(
    operator: FarmClient, lead: Lead, one_hour_ahead
):
    """Neither the scheduler's machine nor the operator's needs the right time."""
    leader = lead()
    with one_hour_ahead():
        leader.control().turn()
    status = operator.status()
    with one_hour_ahead():
        assert operator.is_attended()
        assert operator.age(status) < FRESH
    assert operator.is_attended()
    old = msgspec.structs.replace(status, written_at=status.written_at - FRESH)
    assert not operator.is_attended(old)


def test_a_load_is_submitted_by_the_farms_time(
    operator: FarmClient, keys: Keys, lead: Lead, one_hour_ahead
):
    """A submitting machine's clock that is wrong does not enter the jobs' arrivals."""
    leader = lead()
    leader.control().turn()
    workload = [{"arrivals": {"every": "1s", "count": 1, "service_time": "1s"}}]
    pools = [{"name": "linux", "builders": 1}]
    scenario = load_scenario({"name": "load", "pools": pools, "workload": workload})
    with one_hour_ahead():
        assert play(scenario, operator, "load", 100, StopRequest(), lambda *_: None) == (1, 0)
    (entry,) = Inbox(leader.client, keys).read(0.0)
    (submitted,) = entry.envelope.reports
    assert isinstance(submitted, JobsSubmitted)
    assert 0.0 <= submitted.jobs[0].arrived_at < FRESH
