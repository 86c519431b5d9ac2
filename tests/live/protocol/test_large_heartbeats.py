"""A heartbeat that is too large for one message: sent in parts, each judged by itself."""

from __future__ import annotations

import msgspec
import pytest

from farm.core.commands import StartJob
from farm.core.events import AttemptLost
from farm.core.model import Job
from farm.live.wire import messages as wire
from farm.live.wire.messages import Beat, HostUp
from farm.live.wire.reporter import EnvelopeMaker
from tests.fixtures.door import Door

JOBS = [f"job-{number:03}" for number in range(60)]


@pytest.fixture
def door() -> Door:
    """An intake with a host that plays three builders, and has confirmed its attempts."""
    made = Door()
    made.hear("host", HostUp())
    made.want("linux", 3)
    made.joins("host")
    made.out.events.clear()
    for job in JOBS:
        start(made, job)
    return made


@pytest.fixture(autouse=True)
def small_messages(monkeypatch):
    """Let a message have fewer bytes than a heartbeat with all attempts, and more than one part."""
    monkeypatch.setattr(wire, "MAX_BYTES", 500)


def start(door: Door, job: str) -> None:
    """Give an attempt to the host, which says that it has begun."""
    host = door.roster.hosts["host"]
    command = StartJob(Job(id=job, service_time=1.0), 1, "linux-1", 0)
    door.roster.dispatch(host, command, door.at)
    door.roster.confirm(host, (job, 1))


def parts_of(door: Door, *missing: str, builders: tuple[str, ...] | None = None) -> list[Beat]:
    """Return the messages that say what the host has, without these jobs."""
    played = tuple(door.plays["host"]) if builders is None else builders
    held = [job for job in JOBS if job not in missing]
    beat = Beat(
        held=tuple((job, 1) for job in held),
        builders=played,
        done=tuple(JOBS.index(job) / 100 for job in held),
    )
    found = [
        wire.decode_envelope(data, "reports") for data in EnvelopeMaker("host").envelopes(beat)
    ]
    assert len(found) > 3
    return [part for envelope in found for part in envelope.reports if isinstance(part, Beat)]


def compared(door: Door) -> list[str]:
    """Let the scheduler compare what came with what it knows; return the jobs that are lost."""
    door.hosts.compare({}, door.at)
    return [event.job for event in door.events(AttemptLost)]


def test_the_parts_say_what_the_whole_says(door: Door):
    """Nothing is left out, nothing comes twice, and every name belongs to one part."""
    parts = parts_of(door)
    assert [token for part in parts for token in part.held] == [(job, 1) for job in JOBS]
    assert sorted(name for part in parts for name in part.builders) == door.plays["host"]
    for name in ("a", *JOBS, "job-0301", "linux-1", "z"):
        assert sum(part.covers(name) for part in parts) == 1


@pytest.mark.parametrize("turns", ["one", "each part its own"])
def test_each_part_is_compared_for_itself(door: Door, turns: str):
    """Read together or one by one: only what is missing from its own part is lost."""
    lost: list[str] = []
    for part in parts_of(door, "job-007", "job-055"):
        door.hear("host", part)
        if turns != "one":
            lost = compared(door)
    assert (lost or compared(door)) == ["job-007", "job-055"]


def test_a_scheduler_that_reads_the_last_parts_only_loses_nothing(door: Door):
    """The first ones were read by its predecessor."""
    for part in parts_of(door)[2:]:
        door.hear("host", part)
    assert compared(door) == []


def test_an_attempt_that_began_after_the_parts_is_not_lost(door: Door):
    """The next heartbeat names it; of two heartbeats of a turn only the later one counts."""
    for part in parts_of(door):
        door.hear("host", part)
    start(door, "job-0301")
    assert compared(door) == []
    for part in parts_of(door):
        door.hear("host", part)
    start(door, "job-0302")
    now = tuple((job, 1) for job in (*JOBS, "job-0301", "job-0302"))
    door.hear("host", Beat(held=now, builders=tuple(door.plays["host"])))
    assert compared(door) == []


def test_a_builder_is_missing_only_from_its_own_part(door: Door):
    """Its command is sent again once, and not at all if that part names it.

    Nor is it asked then how many commands lie on the host's list.
    """
    door.want("linux")
    commands = len(door.commands)
    for played, sent in ((4, []), (3, ["linux-4"])):
        door.at += 100.0
        for part in parts_of(door, builders=tuple(door.plays["host"])[:played]):
            door.hear("host", part)
        assert door.hosts.unsure() == (["host"] if sent else [])
        compared(door)
        assert [play.builder.id for _, play in door.commands[commands:]] == sent


def test_a_leaving_host_keeps_the_builders_that_another_part_names(door: Door):
    """One that boots there is not given to another host."""
    door.want("linux")
    door.hear("other", HostUp())
    for part in parts_of(door):
        door.hear("host", msgspec.structs.replace(part, leaving=True))
    assert door.plays == {"host": [f"linux-{number}" for number in (1, 2, 3, 4)], "other": []}


def test_each_part_has_the_progress_of_its_attempts(door: Door):
    """A fraction stays with its job, however the heartbeat is cut."""
    for part in parts_of(door):
        door.hear("host", part)
    compared(door)
    known = [door.roster.progress_of((job, 1), "linux-1") for job in JOBS]
    assert [found and found[0] for found in known] == [n / 100 for n in range(len(JOBS))]
