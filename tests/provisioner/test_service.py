"""The provisioner's service with a fake farm and a fake backend: one look after the other."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import redis
import typer.main
import yaml

from farm.app.long_running.pool_troubles import trouble_of
from farm.core.errors import RunError
from farm.core.fields import fields_of
from farm.core.pools.algorithm import PoolSnapshot, ScalingPlan
from farm.live.redis.lease import Lease
from farm.live.settings import LiveSettings
from farm.live.wire.messages import GiveUpBuilder, Plan, Watch
from farm.live.wire.pool_report import PoolReport
from farm.metrics.metrics_service import ProvisionerMetrics
from farm.plugins.guards import GuardedAlgorithm
from farm.processes.signals import StopRequest
from farm.terminal.command_help import with_docstring
from provisioner.algorithms.fixed import Fixed
from provisioner.backends.backend import BackendError, DryRun
from provisioner.command import app, provision
from provisioner.reconciler import Instance, Keeping, ReconcilerTimes, Remove
from provisioner.service import (
    LAUNCHES_AT_ONCE,
    LOOK_INTERVAL,
    REPORT_TIME,
    REST_INTERVAL,
    Pauses,
    serve,
    take_charge,
)
from tests.provisioner.provisioned import World, lose_once


@pytest.fixture
def world() -> World:
    """A pool that is to have two builders, and has none."""
    return World()


def test_it_registers_plans_launches_and_rests(world):
    """All steps, and then no more actions."""
    world.looks(4)
    assert isinstance(world.farm.told[0], Watch)
    assert world.farm.plans == [(2, 2, 0)]
    assert sorted(world.backend.boxes) == ["b1", "b2"]
    world.farm.all_join()
    world.looks(5)
    assert world.farm.plans == [(2, 2, 0)]
    assert world.backend.launches == 2


def test_what_is_known_of_a_pool_is_saved_only_as_it_changes(world, monkeypatch):
    """Each look would write to the server otherwise, for as long as a farm is at rest."""
    written = list[bytes]()
    monkeypatch.setattr(world.farm, "remember", lambda _, value: written.append(value))
    service = world.start(algorithms={"p": Fixed(builders=2, interval=1000.0)})
    world.looks(4, service)
    world.farm.all_join()
    world.looks(9, service)
    assert len(written) == len(set(written))


def test_a_slow_engine_holds_up_no_plan_and_gives_no_builder_up(world):
    """Fifty containers take minutes to start: their builders have their time from then on."""
    world.threads.held = True
    world.looks(100)
    assert world.farm.plans == [(2, 2, 0)]
    assert world.backend.launches == 0
    world.threads.go()
    world.looks(29)
    assert sorted(world.backend.boxes) == ["b1", "b2"]
    assert world.backend.launches == 2
    assert [report for report in world.farm.told if isinstance(report, GiveUpBuilder)] == []
    world.looks(3)
    given_up = [report for report in world.farm.told if isinstance(report, GiveUpBuilder)]
    assert {report.builder for report in given_up} == {"b1", "b2"}
    assert "did not join within 30s" in given_up[0].reason


def test_no_more_are_started_at_once_than_an_engine_bears(world):
    """And the next when one is done; none is started twice."""
    world.threads.held = True
    service = world.start(algorithms={"p": Fixed(builders=20, interval=1.0)})
    world.looks(5, service)
    launches = []
    while world.backend.launches < 20:
        before = world.backend.launches
        world.threads.go()
        launches.append(world.backend.launches - before)
        world.looks(1, service)
    assert launches == [LAUNCHES_AT_ONCE, LAUNCHES_AT_ONCE, 20 - 2 * LAUNCHES_AT_ONCE]


def test_a_restart_adopts_what_exists(world):
    """SIGKILL between any two looks: the next one requests and removes none."""
    world.looks(4)
    world.farm.all_join()
    again = world.start()
    again.restore()
    world.looks(6, again)
    assert world.farm.plans[-1] == (2, 0, 0)
    assert sorted(world.backend.boxes) == ["b1", "b2"]
    assert world.backend.launches == 2


@pytest.mark.parametrize("set_back", [0.0, 3600.0])
def test_a_restarted_scheduler_gets_a_new_registration(world, set_back):
    """It forgot which provisioner sizes the pool, and that it received anything.

    A clock that is set back does not delay it.
    """
    world.looks(4)
    world.farm.all_join()
    world.now -= set_back
    world.farm.watcher, world.farm.heard, world.farm.at = "", 0, 0.0
    world.looks(8)
    assert sum(isinstance(report, Watch) for report in world.farm.told) == 2
    assert world.farm.plans[-1] == (2, 0, 0)


@pytest.mark.parametrize(
    ("method", "kind", "error"),
    [
        ("remember", bytes, redis.ResponseError("MISCONF")),
        ("send", Plan, redis.ResponseError("MISCONF")),
        ("send", Plan, None),
    ],
    ids=["not saved", "not sent", "lost by the server"],
)
def test_a_lost_plan_is_made_again(world, method, kind, error):
    """Otherwise the pool would never be sized again: each waits for the report on the lost one."""
    lose_once(world.farm, method, kind, error)
    for _ in range(20):
        with contextlib.suppress(redis.ResponseError):
            world.looks(1)
    assert world.farm.plans == [(2, 2, 0)]
    assert _remembered(world).serial == world.farm.heard
    assert sum(isinstance(report, Watch) for report in world.farm.told) == 2


def test_a_state_that_was_not_saved_is_saved_at_the_next_look(world):
    """It is the state from which the next provisioner continues."""
    lose_once(world.farm, "remember", bytes, redis.ResponseError("MISCONF"))
    world.farm.asked = {"b1": 0.0}
    service = world.start(algorithms={})
    world.looks(1, service)  # it registers
    with pytest.raises(redis.ResponseError):
        world.looks(1, service)
    world.looks(1, service)
    assert _remembered(world).requested == ("b1",)


def test_a_lost_message_that_gives_up_a_builder_is_sent_again(world):
    """Otherwise the scheduler would count on that builder, and its pool would stay one short."""
    lose_once(world.farm, "send", GiveUpBuilder, None)
    world.looks(45)  # two builders are late after 30 s
    given_up = [r for r in world.farm.told if isinstance(r, GiveUpBuilder)]
    assert len({report.builder for report in given_up}) == 2
    assert "did not join within 30s" in given_up[0].reason
    assert not {"b1", "b2"}.intersection(world.farm.asked)


def test_a_fixed_pool_gets_the_builders_that_the_scheduler_requests(world):
    """It has no algorithm, but its instances have to be started."""
    service = world.start(algorithms={})
    world.farm.asked = {"b1": 0.0, "b2": 0.0}
    world.looks(4, service)
    assert [report.outside for report in world.farm.told if isinstance(report, Watch)] == [True]
    assert sorted(world.backend.boxes) == ["b1", "b2"]
    world.farm.all_join()
    # one is lost: the scheduler requests its successor
    world.farm.there.remove("b1")
    world.farm.asked["b3"] = world.farm.at
    world.looks(4, service)
    assert sorted(world.backend.boxes) == ["b2", "b3"]
    assert world.farm.plans == []


def test_a_fixed_pool_is_left_to_hosts_that_play_many_builders(world):
    """There the scheduler finds a host with room itself."""
    world.backend.outside = False
    world.farm.asked = {"b1": 0.0}
    world.looks(4, world.start(algorithms={}))
    assert world.farm.told == []
    assert world.backend.boxes == {}


@pytest.mark.parametrize("what", ["launch", "remove", "give up", "plan", "registration", "hosts"])
def test_a_provisioner_that_was_paused_in_its_look_does_nothing(world, what):
    """Another one has taken over, and what was seen before the pause is not true any more."""
    is_paused: list[bool] = []
    service = world.start(is_in_charge=lambda: not is_paused)
    looks = {"registration": 0, "plan": 1, "launch": 2}.get(what, 4)
    world.looks(looks, service)
    if what == "remove":
        world.backend.boxes["x"] = Instance(name="c-x", builder="x", pool="gone")
    elif what == "give up":
        world.farm.all_join()
        world.backend.boxes["b1"] = Instance(name="c-b1", builder="b1", pool="p", running=False)
    told, boxes, memory = list(world.farm.told), dict(world.backend.boxes), dict(world.farm.memory)
    tended = world.backend.tended
    paused_in = world.farm if what == "hosts" else world.backend
    method = "to_provision" if what == "hosts" else "instances"
    see = getattr(paused_in, method)

    def see_and_be_paused() -> Any:
        found = see()
        is_paused.append(True)
        return found

    setattr(paused_in, method, see_and_be_paused)
    with pytest.raises(RunError, match="another provisioner took this farm over"):
        world.looks(1, service)
    assert (world.farm.told, world.backend.boxes, world.farm.memory) == (told, boxes, memory)
    assert world.backend.tended == tended + (what != "hosts")


def test_a_missing_image_is_retried_with_backoff(world):
    """Bounded: in ten minutes a dozen tries, one builder each; it recovers by itself."""
    world.backend.broken = "no image"
    world.looks(600)
    assert 5 <= world.backend.launches <= 15
    assert "no image" in msgspec.json.decode(world.farm.memory["p"], type=Keeping).trouble
    world.backend.broken = ""
    for _ in range(400):
        world.looks(1)
        for name in [name for name in world.farm.asked if name in world.backend.boxes]:
            del world.farm.asked[name]
            world.farm.there.append(name)
    assert sorted(world.backend.boxes) == sorted(world.farm.there)
    assert len(world.backend.boxes) == 2


def test_a_clock_set_back_does_not_delay_hosts(world):
    """The pause after a failure of the backend is a length of time."""
    world.backend.no_hosts = "the API refuses (403)"
    world.looks(1)
    world.now -= 86400
    world.backend.no_hosts = ""
    world.looks(5)
    assert _remembered(world).backend == ""


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
def test_a_clock_set_back_prolongs_no_pause_between_boots(world, is_restarted):
    """What is saved is an instant of the clock that was wrong: a day in the future."""
    world.backend.broken = "no image"
    world.looks(4)
    world.now -= 86400
    world.backend.broken = ""
    service = world.service
    if is_restarted:
        service = world.start()
        service.restore()
    world.looks(int(ReconcilerTimes().longest_pause) + 10, service)
    assert world.backend.boxes


def test_an_engine_that_does_not_answer_changes_nothing(world):
    """Without information there is no action: builders are neither removed nor requested twice."""
    world.looks(4)
    world.farm.all_join()

    def away() -> list[Instance]:
        raise BackendError("Docker Engine: gone")

    there = world.backend.instances
    world.backend.instances = away
    world.looks(20)
    assert _remembered(world).backend == "Docker Engine: gone"
    world.backend.instances = there
    world.looks(5)
    assert _remembered(world).backend == ""
    assert world.farm.plans == [(2, 2, 0)]
    assert len(world.backend.boxes) == 2


def test_an_instance_that_cannot_be_removed_is_reported_once(world, caplog):
    """It is retried at every look, but logged once."""
    world.backend.boxes["x"] = Instance(name="c-x", builder="x", pool="gone")
    remove, tries = world.backend.remove, []

    def busy(command: Remove) -> None:
        tries.append(command)
        raise BackendError("c-x is busy")

    world.backend.remove = busy
    with caplog.at_level("INFO", "farm.provisioner"):
        world.looks(20)
        world.backend.remove = remove
        world.looks(1)
    assert [line for line in caplog.messages if "c-x" in line] == [
        "c-x is busy", "removed c-x (there is no pool gone)",
    ]  # fmt: skip
    assert len(tries) == 20
    assert _remembered(world).backend == ""


def test_a_dry_run_sends_nothing(world):
    """It only writes its log."""
    world.looks(5, world.start(DryRun()))
    assert world.farm.told == []
    assert world.farm.memory == {}


def test_a_farm_that_sizes_its_pools_itself_is_left_alone(world):
    """The provisioner is inside ``farm run``; two would conflict."""
    world.farm.watcher = "embedded"
    with pytest.raises(RunError, match="farm run itself"):
        world.looks(1)


def test_a_backend_that_fails_is_retried_with_backoff(world, caplog):
    """An API that refuses: one line in the log, shown to operators, and over by itself."""
    world.backend.no_hosts = "the API refuses (403)"
    world.looks(120)
    assert world.backend.tended <= 10
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] == [
        "the API refuses (403)"
    ]
    assert _remembered(world).backend == "the API refuses (403)"
    world.backend.no_hosts = ""
    world.looks(70)
    assert _remembered(world).backend == ""
    assert world.backend.tended > 5


def test_a_problem_of_one_pool_is_reported_for_that_pool(world, caplog):
    """A pool without a problem reports nothing."""
    world.backend.troubles = {"p": "no room for 2 builders", "other": "something else"}
    world.looks(5)
    assert _remembered(world).backend == "no room for 2 builders"
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] == [
        "no room for 2 builders",
        "something else",
    ]


def test_an_algorithm_of_the_user_that_fails_is_reported(world, caplog):
    """The service continues, the pool keeps its builders, and operators see the reason."""

    class Torn(Fixed, frozen=True, kw_only=True):
        def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
            raise LookupError(f"no rule for {snapshot.pool}")

    torn = GuardedAlgorithm(Torn(builders=2, interval=1.0), "mine:Torn", "pools.p.algorithm")
    world.looks(5, world.start(algorithms={"p": torn}))
    assert world.farm.plans == [(0, 0, 0)]
    assert caplog.text.count("mine:Torn failed") == 1
    assert "LookupError: no rule" in trouble_of(world.farm.memory["p"])


def test_a_restarted_provisioner_forgets_old_trouble(world):
    """Messages of the last provisioner about its backend do not stay."""
    world.backend.troubles = {"p": "no room"}
    world.looks(2)
    world.backend.troubles = {}
    again = world.start()
    again.restore()
    world.looks(2, again)
    assert _remembered(world).backend == ""


def _remembered(world: World) -> Keeping:
    return msgspec.json.decode(world.farm.memory["p"], type=Keeping)


# --- The command line of the provisioner ----------------------------------------------------------


def test_every_option_has_a_help():
    """Also those that the docstring of the command describes, as farm's commands do."""
    command = with_docstring(typer.main.get_command(app), provision.__doc__)
    assert [one.name for one in command.params if not one.help] == []
    assert "Args:" not in command.help


def test_compose_sets_no_variable_that_nothing_reads():
    """Options, settings, and what the image's entry point reads: a misspelt one is found."""
    root = Path(__file__).parents[2]
    services = yaml.safe_load((root / "docker-compose.yml").read_text())["services"]
    given = {
        variable
        for service in services.values()
        if "provisioner" in (service.get("command") or ())
        for variable in service["environment"]
        if variable.startswith("FARM_")
    }
    names = [one.envvar or [] for one in typer.main.get_command(app).params]
    read = {name for some in names for name in ([some] if isinstance(some, str) else some)}
    read |= {field.key for field in fields_of(LiveSettings).values()}
    read |= set(re.findall(r"FARM_\w+", (root / "deploy/entrypoint.sh").read_text()))
    passwords = {f"FARM_{whose}REDIS_PASSWORD_FILE" for whose in ("", "BUILDER_")}
    assert given >= {"FARM_BACKEND", "FARM_BUILDER_CPUS", "FARM_DOCKER_HOST"}
    assert given <= read | passwords


# --- A provisioner in charge, and one on standby: the loop around its service ---------------------


def test_a_provisioner_that_stands_by_waits_for_a_server_in_trouble(monkeypatch):
    """It is there for the case that things go wrong: it must not end first.

    As it ends, it gives up its charge: the next one need not wait until that has expired.
    """
    answers = iter([None, redis.ConnectionError("gone"), "the fence"])

    def try_to_take(_: Lease, __: object) -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    released: list[Lease] = []
    monkeypatch.setattr(Lease, "try_to_take", try_to_take)

    def release(lease: Lease) -> None:
        released.append(lease)

    monkeypatch.setattr(Lease, "release", release)
    with ExitStack() as stack:
        lease = take_charge("redis://127.0.0.1:1/0", LiveSettings(), stack, StopRequest())
        assert released == []
    assert released == [lease]
    assert next(answers, "none is left") == "none is left"


def looking(look: Callable[[], None]) -> SimpleNamespace:
    """Return a service that only looks."""
    return SimpleNamespace(restore=lambda: None, look=look, wait=lambda stop: stop.wait(0.0))


def test_the_service_waits_for_a_server_in_trouble_until_it_is_stopped(caplog):
    """Trouble is said once; a request for the end is obeyed in the midst of it."""
    stop, looks = StopRequest(), list[int]()

    def look() -> None:
        looks.append(1)
        if len(looks) == 4:
            stop.set()
        if len(looks) != 3:
            raise redis.OutOfMemoryError("command not allowed")

    service = looking(look)
    with caplog.at_level("INFO"):
        serve(service, SimpleNamespace(lost=False), stop)
    assert len(looks) == 4
    trouble, well, again, stopped = caplog.messages
    assert "trouble with the Redis server" in trouble
    assert "well again" in well
    assert "trouble with the Redis server" in again
    assert stopped == "stopped"


def test_a_deposed_provisioner_ends():
    """Two would request builders twice."""
    with pytest.raises(RunError, match="another provisioner"):
        serve(looking(lambda: None), SimpleNamespace(lost=True), StopRequest())


def pool_report(at: float, speed: float = 1.0, **more: Any) -> PoolReport:
    """Return the report of an empty pool."""
    return PoolReport(snapshot=PoolSnapshot(pool="p", at=at), speed=speed, **more)


def test_it_looks_soon_while_something_happens_and_just_after_a_plan_is_due():
    """A late look delays builders; one too many costs the server and this process."""
    pauses = Pauses()
    pauses.hear({"p": pool_report(100.0)}, 10.0)
    assert pauses.next([], 10.0, is_busy=False) == LOOK_INTERVAL
    pauses.hear({"p": pool_report(101.0)}, 11.0)
    assert pauses.next([], 11.0, is_busy=False) == REST_INTERVAL
    assert pauses.next([], 11.0, is_busy=True) == LOOK_INTERVAL
    assert pauses.next([102.0, 150.0], 11.0, is_busy=False) == 1.0 + REPORT_TIME
    assert pauses.next([100.9], 11.0, is_busy=False) == REPORT_TIME
    assert pauses.next([99.0], 11.0, is_busy=False) == LOOK_INTERVAL
    pauses.hear({"p": pool_report(102.0, requested={"b": 102.0})}, 12.0)
    assert pauses.next([], 12.0, is_busy=False) == LOOK_INTERVAL


def test_farm_time_is_that_of_the_report_that_came_soonest():
    """One that was delayed says nothing; another scheduler's time begins anew."""
    pauses = Pauses()
    for now, at in ((10.0, 100.0), (11.0, 100.5), (12.0, 102.0)):
        pauses.hear({"p": pool_report(at)}, now)
    assert pauses.next([103.0], 12.0, is_busy=False) == 1.0 + REPORT_TIME
    for now, at in ((13.0, 0.0), (14.0, 1.0)):
        pauses.hear({"p": pool_report(at)}, now)
    assert pauses.next([2.0], 14.0, is_busy=False) == 1.0 + REPORT_TIME

    fast = Pauses()
    for now, at in ((10.0, 1000.0), (11.0, 1100.0), (12.0, 1000.0)):
        fast.hear({"p": pool_report(at, speed=100.0)}, now)
    assert fast.next([1300.0], 12.0, is_busy=False) == 1.0 + REPORT_TIME


def test_a_restarted_provisioner_knows_since_when_boots_fail(world):
    """It would try all of them at once, as if none had failed."""
    world.backend.broken = "no image"
    world.looks(30)
    failures = _remembered(world).failures
    assert failures > 2
    again = world.start()
    again.restore()
    world.looks(2, again)
    assert _remembered(world).failures >= failures


def test_what_is_planned_and_what_runs_is_measured(world, monkeypatch):
    """Its metrics would stay empty without a word."""
    seen: list[tuple[Any, ...]] = []
    for name in ("planned", "limited", "observed"):
        monkeypatch.setattr(ProvisionerMetrics, name, lambda _, *values: seen.append(values))
    world.looks(4)

    assert seen[-3:] == [
        ("p", 2),
        ("p", 0, 1_000_000, "demand", ""),
        ("p", {"running": 2, "ended": 0}),
    ]
