"""Who may report what: a host reports on itself, its builders and its attempts only."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farm.core.commands import (
    CancelJob,
    DrainBuilder,
    LoseBuilder,
    RequestBuilder,
    RetireBuilder,
    StartJob,
)
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    DrainRequested,
    JobFinished,
    JobStarted,
    LoadReported,
    SlotCleaned,
)
from farm.core.model import Builder, Job
from farm.live.protocol.hosts import MAX_RESET
from farm.live.protocol.roster import Roster
from farm.live.store.saved import SavedFarm
from farm.live.wire.messages import UNSTAMPED, Beat, HostLeft, HostUp, Reset
from tests.fixtures.door import Door

JOB = Job(id="j", service_time=1.0)


@pytest.fixture
def door() -> Door:
    """An intake with a host that plays linux-1 and runs a job there, and one that plays linux-2."""
    made = Door()
    made.hear("good", HostUp(room=1), life="secret")
    made.hear("bad", HostUp(room=1), life="other")
    made.want("linux", 2)
    for host, life in (("good", "secret"), ("bad", "other")):
        plays = list(made.roster.hosts[host].plays.values())
        made.hear(host, *(BuilderJoined(UNSTAMPED, play.builder) for play in plays), life=life)
    made.roster.dispatch(made.roster.hosts["good"], StartJob(JOB, 1, "linux-1", 0), made.at)
    made.out.events.clear()
    return made


FORGED: dict[str, Any] = {
    "the end of another host's job": JobFinished(UNSTAMPED, "j", 1, "linux-1", "succeeded"),
    "the end of a job that it was not given": JobFinished(UNSTAMPED, "j", 1, "linux-2", "failed"),
    "the start of one": JobStarted(UNSTAMPED, "j", 1, "linux-2"),
    "the loss of another host's builder": BuilderLost(UNSTAMPED, "linux-1"),
    "its retirement": BuilderRetired(UNSTAMPED, "linux-1"),
    "its drain": DrainRequested(UNSTAMPED, "linux-1", retire=True),
    "a drain of all builders": DrainRequested(UNSTAMPED, "*", retire=True),
    "its load": LoadReported(UNSTAMPED, "linux-1", 9.0, True),
    "its slot": SlotCleaned(UNSTAMPED, "linux-1", 0),
    "another host's builder": BuilderJoined(
        UNSTAMPED, Builder(id="linux-1", pool="linux", index=0)
    ),
    "a builder that was not requested": BuilderJoined(
        UNSTAMPED, Builder(id="linux-9", pool="linux", index=0)
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_host_that_lies_about_others_changes_nothing(door: Door, what: str):
    """The report is counted and kept, and the farm continues unchanged."""
    door.hear("bad", FORGED[what], life="other")
    assert not door.out.events
    assert door.refusals.take()[1] == {"not-its-own": 1}
    assert door.plays == {"good": ["linux-1"], "bad": ["linux-2"]}
    door.hear("good", JobFinished(UNSTAMPED, "j", 1, "linux-1", "succeeded"), life="secret")
    assert [event.job for event in door.events(JobFinished)] == ["j"]


def test_a_host_may_ask_to_drain_a_builder_that_it_plays(door):
    """A behaviour lets the builder leave: the farm drains it, as of the instant of the report."""
    door.hear("good", DrainRequested(UNSTAMPED, "linux-1", retire=True), life="secret")
    assert door.events(DrainRequested) == [DrainRequested(door.at, "linux-1", retire=True)]


@pytest.mark.parametrize("report", [HostUp(), HostLeft(), Beat(leaving=True), FORGED["its slot"]])
def test_a_sender_without_the_life_cannot_report_for_a_host(door: Door, report: Any):
    """Nor end it: a new life is accepted when the old one has been silent too long, or has left."""
    door.hear("good", report, life="guessed")
    assert door.refusals.take()[1] == {"unknown-life": 1}
    assert not door.out.events
    assert door.roster.hosts["good"].life == "secret"
    door.hear("good", HostLeft(), life="secret")
    door.hear("good", HostUp(), life="new")
    assert door.roster.hosts["good"].life == "new"


def test_a_host_that_came_back_too_early_is_told_to_restart(door: Door):
    """It was ignored while its old life counted as alive; then its heartbeats bring it."""
    door.hear("good", HostUp(), life="new")
    assert not door.commands[2:]
    door.hosts.lose(door.roster.hosts["good"], door.at, "silent")
    door.hear("good", Beat(), life="new")
    assert door.commands[-1] == ("good", Reset("new"))
    assert "good" not in door.roster.hosts


def test_a_forged_number_mutes_only_its_sender(door: Door):
    """Envelopes are counted by life, and a life is a secret."""
    door.at = 2.0**52
    door.hear("bad", Beat(), life="other")
    door.at = 10.0
    door.hear("bad", FORGED["the start of one"], life="other")  # not even decoded
    door.hear("good", JobStarted(UNSTAMPED, "j", 1, "linux-1"), life="secret")
    assert [event.job for event in door.events(JobStarted)] == ["j"]
    assert not door.refusals.take()[1]


def test_unknown_senders_cost_a_bounded_number_of_messages(door: Door):
    """20,000 of them are told to restart a few at a time, and remembered for a moment only."""
    before = len(door.commands)
    for number in range(20_000):
        door.at = 50.0
        door.hear(f"unknown-{number}", Beat(), life="x")
    assert len(door.commands) - before == MAX_RESET
    assert set(door.roster.hosts) == {"good", "bad"}
    assert not door.roster.changed - {"good", "bad"}
    door.at = 60.0
    for _ in range(2):
        door.hear("unknown-0", Beat(), life="x")
    assert door.commands[before + MAX_RESET :] == [("unknown-0", Reset("x"))]


def test_a_builder_joins_as_it_was_requested(door: Door):
    """Not with the ten thousand slots that its host claims."""
    door.hear("third", HostUp(room=1), life="3")
    door.want("linux")
    (play,) = door.roster.hosts["third"].plays.values()
    grand = msgspec.structs.replace(play.builder, slots=10_000, speed=1e9)
    door.hear("third", BuilderJoined(UNSTAMPED, grand), life="3")
    assert [event.builder for event in door.events(BuilderJoined)] == [play.builder]


def test_a_standalone_host_brings_one_builder_of_an_existing_pool(door: Door):
    """It joins unrequested and is accepted; a second one, or one of another pool, is not."""
    for number, pool in enumerate(("nowhere", "linux", "linux")):
        builder = Builder(id=f"own-{number}", pool=pool, index=7)
        if number == 0:
            door.hear("own", HostUp(own=True), life="4")
        door.hear("own", BuilderJoined(UNSTAMPED, builder), life="4")
    assert [event.builder.id for event in door.events(BuilderJoined)] == ["own-1"]
    assert [event.builder.index for event in door.events(BuilderJoined)] == [-1]
    assert door.refusals.take()[1] == {"not-its-own": 2}


def test_a_builder_that_was_not_requested_has_a_bounded_number_of_slots(door: Door):
    """A few bytes cannot cost the scheduler megabytes; what the pool's builders have is allowed."""
    large = msgspec.structs.replace(door.requests.pools["linux"], name="large", slots=400)
    door.requests.pools["large"] = large
    allowed = {"linux": 100, "large": 400}
    for pool, most in allowed.items():
        for slots in (most, most + 1, 10_000):
            host = f"{pool}-with-{slots}"
            builder = Builder(id=host, pool=pool, index=7, slots=slots)
            door.hear(host, HostUp(own=True), life=host)
            door.hear(host, BuilderJoined(UNSTAMPED, builder), life=host)
    joined = [event.builder for event in door.events(BuilderJoined)]
    assert {builder.pool: builder.slots for builder in joined} == allowed
    assert len(joined) == 2
    assert door.refusals.take()[1] == {"out-of-bounds": 4}


def test_a_host_of_an_earlier_life_of_the_farm_is_not_accepted():
    """Its keeper has ended, so it ends too; one that names no life stands alone and is accepted."""
    door = Door(incarnation="now")
    for number, life in enumerate(("before", "now", "")):
        door.hear(f"host-{number}", HostUp(incarnation=life), life=str(number))
    assert set(door.roster.hosts) == {"host-1", "host-2"}
    assert door.refusals.take()[1] == {"out-of-bounds": 1}
    # a scheduler that was started by hand belongs to none
    alone = Door()
    alone.hear("host-0", HostUp(incarnation="before"))
    assert set(alone.roster.hosts) == {"host-0"}


def test_a_successor_in_another_life_knows_which_hosts_have_ended():
    """Hosts of the previous life: their builders are lost at once, without waiting."""
    roster = Roster("now")
    for number, life in enumerate(("before", "now", "")):
        roster.arrive(f"host-{number}", "x", 0.0, HostUp(incarnation=life))
    assert [host.name for host in roster.of_earlier_lives()] == ["host-0"]


def test_each_builder_of_an_earlier_life_is_lost_once():
    """The second loss was that of the builder requested again by its name: pools doubled."""
    door = Door(incarnation="before")
    door.hear("host", HostUp(incarnation="before"))
    door.protocol.obey(RequestBuilder(Builder(id="fixed-1", pool="fixed", index=0)), door.at)
    door.protocol.place()
    door.joins("host")
    assert door.plays == {"host": ["fixed-1"]}

    next_life = Door(incarnation="after")
    saved = SavedFarm(at=0.0, speed=1.0, lives=door.roster.take_changed())
    next_life.protocol.go_on(saved, ["fixed-1", "of-no-host"], 5.0, 0.0)
    assert [lost.builder for lost in next_life.events(BuilderLost)] == ["fixed-1", "of-no-host"]


def test_a_host_reports_the_loss_of_its_own_builder(door: Door):
    """Its place is free again; the reason is shown to people, so it is printable."""
    door.hear("good", BuilderLost(UNSTAMPED, "linux-1", "out of\x00memory"), life="secret")

    (lost,) = door.events(BuilderLost)
    assert (lost.builder, lost.reason, lost.at) == ("linux-1", "out of\\x00memory", door.at)
    assert door.plays["good"] == []


def test_a_command_goes_to_the_host_that_plays_the_builder(door: Door):
    """To no other; one that is for no builder, or for one that is gone, goes nowhere."""
    door.commands.clear()
    for builder in ("linux-1", "linux-2", "gone"):
        for command in (
            StartJob(JOB, 2, builder, 0),
            CancelJob("j", 2, builder),
            RetireBuilder(builder),
            LoseBuilder(builder),
            DrainBuilder(builder),
        ):
            door.protocol.obey(command, door.at)

    assert [(host, type(command), command.builder) for host, command in door.commands] == [
        (host, kind, builder)
        for host, builder in (("good", "linux-1"), ("bad", "linux-2"))
        for kind in (StartJob, CancelJob, RetireBuilder, LoseBuilder)
    ]


def test_a_container_plays_the_builder_that_was_requested_for_it(door: Door):
    """As it was requested, without a boot time; not one that another host is to play."""
    door.requests.come_outside("mac", outside=True)
    for pool in ("mac", "fixed"):
        made = Builder(id=f"{pool}-1", pool=pool, index=3, slots=2)
        door.protocol.obey(RequestBuilder(made), door.at)
        door.hear(pool, HostUp(own=True), life=pool)
        claimed = Builder(id=f"{pool}-1", pool=pool, index=9)
        door.hear(pool, BuilderJoined(UNSTAMPED, claimed), life=pool)

    (joined,) = door.events(BuilderJoined)
    assert (joined.builder.id, joined.builder.index, joined.builder.slots) == ("mac-1", 3, 2)
    (letter,), _ = door.refusals.take()
    assert letter.why == "fixed-1 is to be played by another host"


def test_a_successor_must_know_of_a_builder_that_was_told_to_retire(door: Door):
    """It would wait for its heartbeat, and give it jobs."""
    door.roster.take_changed()
    door.protocol.obey(RetireBuilder("linux-1"), door.at)

    lives = door.protocol.for_successor().lives
    assert {name: life.retiring for name, life in lives.items()} == {"good": {"linux-1"}}


def test_builders_that_no_host_plays_yet_are_counted_by_pool(door: Door):
    """Why a pool is short is told by this."""
    door.want("linux", 2)
    door.want("mac")

    assert door.protocol.figures()["unplaced"] == {"linux": 2, "mac": 1}
    assert door.protocol.standing("linux").unplaced == 2
