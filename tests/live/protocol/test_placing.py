"""Which host plays a requested builder: hosts with announced room, and leaving ones."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest

from farm.core import events
from farm.core.commands import CancelJob, RequestBuilder, SetAlarm, StartJob
from farm.core.events import BuilderJoined, BuilderLost, BuilderRetired
from farm.core.model import Builder, Job
from farm.core.state.snapshot import JobRecord
from farm.core.state.working_state import JobStatus
from farm.forecasts.runtime.interface import JobProgress
from farm.live.protocol.failure_detection import FailureDetector, Patience
from farm.live.protocol.roster import Roster
from farm.live.store.saved import HostLife, SavedFarm
from farm.live.wire.messages import UNSTAMPED, Beat, HostLeft, HostUp
from tests.fixtures.door import Door


@pytest.fixture
def door() -> Door:
    """A scheduler's intake without any reports yet."""
    return Door()


def test_a_host_that_announces_nothing_plays_any_number(door):
    """No announcement means no limit."""
    old = msgspec.json.decode(b'{"event": "host-up", "pid": 7}', type=HostUp)
    door.hear("a", old)
    door.want("linux", 3)
    door.want("mac", 2)
    assert len(door.plays["a"]) == 5


def test_a_waiting_builder_is_placed_when_a_host_arrives(door):
    """And not before; it is not requested again."""
    door.want("linux", 2)
    assert door.wanted == ["linux-1", "linux-2"]
    door.hear("a", HostUp(room=1))
    assert (door.plays, door.wanted) == ({"a": ["linux-1"]}, ["linux-2"])
    door.hear("b", HostUp(room=1))
    assert (door.plays["b"], door.wanted) == (["linux-2"], [])
    assert door.requested == ["linux-1", "linux-2"]


def test_a_waiting_builder_is_placed_when_a_host_has_room_again(door):
    """When its builder has gone, was given up, or was lost with another host."""
    door.hear("a", HostUp(room=1))
    door.want("linux", 3)
    door.joins("a")
    door.hear("a", BuilderRetired(UNSTAMPED, "linux-1"))
    assert (door.plays, door.wanted) == ({"a": ["linux-2"]}, ["linux-3"])
    door.hosts.give_up("linux-2", door.at, "did not join")
    assert (door.plays, door.wanted) == ({"a": ["linux-3"]}, [])


def test_a_builder_that_is_given_up_no_longer_waits(door):
    """It is not played when a host comes after all."""
    door.want("linux", 2)
    door.hosts.give_up("linux-1", door.at, "did not join")
    door.hear("a", HostUp())
    assert door.plays == {"a": ["linux-2"]}


def test_a_pools_own_host_accepts_no_other_builder(door):
    """A builder of another pool waits, and does not block those behind it."""
    door.hear("a", HostUp(room=2, pool="mac"))
    door.want("linux")
    door.want("mac")
    assert (door.plays, door.wanted) == ({"a": ["mac-1"]}, ["linux-1"])


def test_a_pools_own_host_is_preferred(door):
    """The room that any pool can use is kept free."""
    door.hear("any", HostUp(room=2))
    door.hear("mac", HostUp(room=1, pool="mac"))
    door.want("mac", 2)
    assert door.plays == {"any": ["mac-2"], "mac": ["mac-1"]}


def test_builders_are_spread_over_hosts_with_room(door):
    """The host with the fewest is next, as long as it has room."""
    door.hear("small", HostUp(room=1))
    door.hear("large", HostUp())
    door.want("linux", 4)
    assert [len(door.plays[name]) for name in ("small", "large")] == [1, 3]


def test_a_leaving_host_gets_no_builders_and_its_builders_are_drained(door):
    """What it plays finishes and goes; nothing is added."""
    door.hear("a", HostUp(room=3))
    door.want("linux")
    door.joins("a")
    beat = Beat(builders=("linux-1",), leaving=True)
    door.hear("a", beat)
    door.hear("a", beat)
    assert [(f.pattern, f.retire) for f in door.events(events.DrainRequested)] == [
        ("linux-1", True)
    ]
    door.want("linux")
    assert door.wanted == ["linux-2"]
    door.hear("b", HostUp())
    assert door.plays == {"a": ["linux-1"], "b": ["linux-2"]}


def test_builders_that_a_leaving_host_has_not_begun_go_elsewhere(door):
    """It accepts no commands any more: the same builder, requested once, goes to another host."""
    door.hear("a", HostUp())
    door.want("linux")
    door.hear("b", HostUp())
    door.hear("a", Beat(leaving=True))
    assert door.plays == {"a": [], "b": ["linux-1"]}
    assert door.requested == ["linux-1"]
    assert door.events(events.BuilderLost) == []


def test_a_builder_that_its_leaving_host_released_has_retired(door):
    """It left in order, without jobs: it was not lost; a fixed pool requests another."""
    door.hear("a", HostUp(room=1))
    door.want("fixed")
    door.joins("a")
    door.hear("a", Beat(builders=("fixed-1",), leaving=True))
    door.hear("a", BuilderRetired(UNSTAMPED, "fixed-1"), HostLeft())
    assert [event.builder for event in door.events(events.BuilderRetired)] == ["fixed-1"]
    assert door.events(events.BuilderLost) == []
    door.settle()
    assert door.wanted == ["fixed-2"]


def test_commands_that_a_leaving_host_did_not_get_are_lost_at_once(door):
    """They stay in its queue for good: their jobs run elsewhere, running attempts continue."""
    door.hear("a", HostUp())
    host = door.roster.hosts["a"]
    for name in ("held", "queued"):
        job = Job(id=name, service_time=1.0)
        door.roster.dispatch(host, StartJob(job, 1, "b", 0), door.at)
    beat = Beat(held=(("held", 1),), leaving=True)
    again, lost, stuck = door.protocol.failures.check(host, beat, 100.0, queued=1)
    assert (again, [d.command.job.id for d in lost], stuck) == ([], ["queued"], False)


def test_a_successor_knows_rooms_and_leaving_hosts(door):
    """What is saved of a host, read back by the next scheduler."""
    door.hear("a", HostUp(room=1, pool="linux"))
    door.want("linux", 2)
    door.hear("a", Beat(builders=("linux-1",), leaving=True))
    door.hear("old", HostUp())
    lives = {
        name: msgspec.json.decode(msgspec.json.encode(life), type=HostLife)
        for name, life in door.roster.take_changed().items()
    }
    following = Roster()
    following.go_on(SavedFarm(at=0.0, speed=1.0, lives=lives), 5.0, 0.0)
    a, old = following.hosts["a"], following.hosts["old"]
    assert (a.room, a.pool, a.leaving, list(a.plays)) == (1, "linux", True, ["linux-1"])
    assert (old.room, old.pool, old.leaving) == (0, "", False)
    assert following.host_for("linux") is old


def test_a_builder_whose_container_was_stopped_in_order_has_left(door):
    """Its jobs use up no retries; and a successor hears of that before the silence counts."""
    door.want("linux")
    door.hear("a", HostUp(own=True))
    door.hear("a", BuilderJoined(UNSTAMPED, Builder(id="own", pool="linux", index=-1)))
    following = Roster()
    saved = SavedFarm(at=0.0, speed=1.0, lives=door.roster.take_changed())
    following.go_on(saved, 5.0, 100.0)
    failures = FailureDetector(following, Patience(silence=5.0))
    failures.restart_timeouts(101.0)
    assert (failures.silent(114.0), len(failures.silent(116.0))) == ([], 1)
    door.hosts.give_up("own", 9.0, "its container ended", excused=True)
    assert [lost.excused for lost in door.events(BuilderLost)] == [True]


@pytest.mark.parametrize(
    ("entry", "is_heard"), [("", False), ("4-1", False), ("5-0", False), ("5-1", True)]
)
def test_a_container_that_a_successor_never_heard_of_has_left(door, entry: str, is_heard: bool):
    """Server, scheduler and builders ended together: no job is to blame, and no retry used up.

    A heartbeat that the earlier scheduler left unread says nothing else. One that was heard of
    later, and then is silent, is lost.
    """
    door.want("linux")
    door.hear("a", HostUp(own=True))
    door.hear("a", BuilderJoined(UNSTAMPED, Builder(id="own", pool="linux", index=-1)))
    following = Door()
    lives = door.roster.take_changed()
    saved = SavedFarm(at=0.0, speed=1.0, lives=lives, last_report="5-0")
    following.roster.go_on(saved, 5.0, 0.0)
    if entry:
        following.at = door.at
        following.hear("a", Beat(builders=("own",)), entry=entry)
    following.protocol.settle({}, 100.0, 100.0)
    assert [lost.excused for lost in following.events(BuilderLost)] == [not is_heard]


def test_a_successor_sends_a_lost_start_with_the_size_that_it_had(door):
    """An anonymous builder must not estimate by nothing because the scheduler was restarted."""
    following = successor_of(door, JobStatus.DISPATCHED, sent_size=20.0)
    assert following.hosts["a"].dispatches["j", 1].command.size == 20.0


def test_a_successor_sends_a_lost_request_to_stop_a_job(door):
    """A job that was being cancelled as the scheduler ended would run to its end."""
    following = successor_of(door, JobStatus.CANCELLING)
    assert following.hosts["a"].dispatches["j", 1].cancel == CancelJob("j", 1, "linux-1")


def successor_of(door: Door, status: JobStatus, **more: Any) -> Roster:
    """Return the next scheduler's roster, of a farm in which a job has been sent to a builder."""
    door.hear("a", HostUp())
    door.want("linux")
    door.joins("a")
    record = JobRecord(
        job=Job(id="j", service_time=1.0),
        serial=1,
        key=(0,),
        submitted_at=0.0,
        estimated_time=1.0,
        status=status,
        attempts=1,
        builder="linux-1",
        slot=0,
        **more,
    )
    text = msgspec.json.encode(record)
    jobs = {"j": msgspec.json.decode(text, type=JobRecord)}
    following = Roster()
    saved = SavedFarm(at=0.0, speed=1.0, lives=door.roster.take_changed(), jobs=jobs)
    following.go_on(saved, 5.0, 0.0)
    return following


def test_a_host_on_its_own_is_left_alone(door):
    """A container that is one builder, and a former life."""
    door.hear("own", HostUp(own=True))
    door.hear("gone", HostUp())
    door.hear("gone", HostLeft())
    door.want("linux")
    assert door.wanted == ["linux-1"]


def test_a_fixed_pool_may_have_its_own_hosts(door):
    """One container per builder: no other host gets one, neither a missing one nor a successor."""
    door.requests.request(RequestBuilder(Builder(id="fixed-1", pool="fixed", index=1)))
    assert door.wanted == ["fixed-1"]
    door.requests.come_outside("fixed", outside=True)
    door.requests.request(RequestBuilder(Builder(id="fixed-2", pool="fixed", index=2)))
    door.want("linux")
    door.hear("a", HostUp())
    assert (door.plays, door.wanted) == ({"a": ["linux-1"]}, [])
    assert list(door.requests.outside) == ["fixed-1", "fixed-2"]


def test_the_progress_of_running_jobs_is_what_their_builders_said(door):
    """Estimates of the time that is left go by it; a job that has not begun has none."""
    door.hear("a", HostUp())
    door.want("linux", 2)
    door.joins("a")
    door.settle()
    jobs = tuple(Job(id=name, service_time=9.0) for name in ("begun", "sent"))
    for event in (
        events.JobsSubmitted(door.at, jobs),
        events.JobStarted(door.at, "begun", 1, "linux-1"),
    ):
        for command in door.scheduler.handle(event):
            door.protocol.obey(command, door.at)
    began_at = door.at
    held = (("begun", 1), ("sent", 1))
    door.hear("a", Beat(held=held, builders=("linux-1", "linux-2"), done=(0.25, 0.5)))
    door.hosts.compare({}, began_at + 3.0)

    found = door.protocol.progress(door.scheduler.jobs)
    assert found == {"begun": JobProgress(0.25, 3.0)}


def test_something_is_due_at_the_first_alarm_or_silence(door):
    """The scheduler would sleep past it, or wake up for nothing."""
    assert door.protocol.due(7.0, lambda alarm: alarm) == inf
    door.hear("a", HostUp())
    silence = door.at + Patience().silence
    assert door.protocol.due(7.0, lambda alarm: alarm) == silence
    for rings_at in (9.0, 2.0):
        door.protocol.obey(SetAlarm(rings_at), door.at)
    assert door.protocol.due(2.0, lambda alarm: alarm / 2) == 3.0
    assert door.protocol.due(99.0, lambda alarm: alarm / 2) == silence
