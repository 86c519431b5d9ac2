"""How the scheduler handles lost commands and silent hosts."""

from __future__ import annotations

import pytest

from farm.core.commands import CancelJob, RetireBuilder, StartJob
from farm.core.model import Builder, Job
from farm.live.protocol.failure_detection import FailureDetector, Patience
from farm.live.protocol.roster import HostState, Roster
from farm.live.wire.messages import Beat, HostUp, Play

PLAY = Play(builder=Builder(id="b", pool="p", index=1))
START = StartJob(Job(id="job", service_time=1.0), 1, "b", 0)
CANCEL = CancelJob("job", 1, "b")
PLAYING = ("b",)


@pytest.fixture
def roster() -> Roster:
    """The hosts that are there: none yet."""
    return Roster()


@pytest.fixture
def failures(roster: Roster) -> FailureDetector:
    """One with short time-outs: silence 5, grace 2, stuck 20 seconds, two sendings."""
    return FailureDetector(roster, Patience(sendings=2))


@pytest.fixture
def host(roster: Roster) -> HostState:
    """A host that plays builder b, which has joined."""
    host = roster.arrive("h", "life", 0.0, HostUp())
    roster.assign(host, PLAY, 0.0)
    host.joined.add("b")
    return host


def beat(*held: tuple[str, int]) -> Beat:
    """Return a heartbeat that names these attempts."""
    return Beat(held=held, builders=PLAYING)


def test_a_lost_start_is_resent_then_given_up(roster, failures, host):
    """Missing in two heartbeats after the grace: again; and again missing: the attempt is lost."""
    roster.dispatch(host, START, 10.0)
    assert failures.check(host, beat(), 11.0, queued=0) == ([], [], False)
    assert failures.check(host, beat(), 12.5, queued=0) == ([], [], False)
    assert failures.check(host, beat(), 13.5, queued=0) == ([START], [], False)
    assert failures.check(host, beat(), 14.5, queued=0) == ([], [], False)
    failures.check(host, beat(), 16.0, queued=0)
    again, lost, stuck = failures.check(host, beat(), 17.0, queued=0)
    assert (again, [d.command for d in lost], stuck) == ([], [START], False)


def test_a_start_that_is_in_transit_is_not_resent(roster, failures, host):
    """While commands are in the host's list nothing is missing; at last its Celery side is dead."""
    roster.dispatch(host, START, 10.0)
    for second in range(11, 29):
        assert failures.check(host, beat(), float(second), queued=1) == ([], [], False)
    assert failures.check(host, beat(), 31.0, queued=1)[2], "it is stuck"


def test_progress_is_that_of_the_last_heartbeat(roster, host):
    """One that does not say it (a burning job) leaves what was known; another attempt has none."""
    roster.dispatch(host, START, 10.0)
    assert roster.progress_of(("job", 1), "b") is None
    for done, at in (((0.25,), 11.0), ((0.5,), 12.0), ((None,), 13.0), ((), 14.0)):
        told = Beat(held=(("job", 1), ("gone", 1)), builders=PLAYING, done=done)
        roster.hear_progress(host, told, at)
    assert roster.progress_of(("job", 1), "b") == (0.5, 12.0)
    assert roster.progress_of(("job", 2), "b") is None
    assert roster.progress_of(("job", 1), "other") is None


def test_a_host_that_takes_no_builders_is_stuck(roster, failures):
    """Its plays were never taken, and the pool stayed short; likewise a builder to retire."""
    host = roster.arrive("h", "life", 0.0, HostUp())
    roster.assign(host, PLAY, 0.0)
    assert failures.check(host, Beat(), 19.0, queued=1) == ([], [], False)
    assert failures.check(host, Beat(), 21.0, queued=1) == ([], [], True)
    assert failures.check(host, beat(), 21.0, queued=1) == ([], [], False)
    host.joined.add("b")
    roster.retire(host, "b", 30.0)
    assert failures.check(host, beat(), 49.0, queued=1) == ([], [], False)
    assert failures.check(host, beat(), 51.0, queued=1) == ([], [], True)


def test_a_host_that_is_slow_is_not_lost_sooner_than_a_silent_one(roster):
    """Who lets hosts be silent for a minute has slow ones, and they would be lost after 20 s."""
    host = roster.arrive("h", "life", 0.0, HostUp())
    roster.assign(host, PLAY, 0.0)
    lenient = FailureDetector(roster, Patience(silence=60.0))
    assert lenient.check(host, Beat(), 59.0, queued=1) == ([], [], False)
    assert lenient.check(host, Beat(), 61.0, queued=1) == ([], [], True)


def test_a_held_attempt_is_left_alone(roster, failures, host):
    """Named in the heartbeat, it is fine, confirmed or not."""
    roster.dispatch(host, START, 10.0)
    for second in range(11, 60):
        assert failures.check(host, beat(("job", 1)), float(second), queued=0) == ([], [], False)


def test_a_confirmed_attempt_that_is_not_held_is_lost(roster, failures, host):
    """Its end would have come before the heartbeat."""
    roster.dispatch(host, START, 10.0)
    roster.confirm(host, ("job", 1))
    host.begun_since_beat.clear()
    assert [d.command for d in failures.check(host, beat(), 10.1, queued=0)[1]] == [START]


def test_a_lost_cancel_is_resent(roster, failures, host):
    """Still held after the grace."""
    roster.dispatch(host, START, 10.0)
    roster.cancel(host, CANCEL, 20.0)
    held = beat(("job", 1))
    assert failures.check(host, held, 21.0, queued=0)[0] == []
    assert failures.check(host, held, 22.5, queued=0)[0] == [CANCEL]
    assert failures.check(host, held, 23.0, queued=0)[0] == []


def test_a_cancelled_attempt_that_never_arrived_is_not_resent(roster, failures, host):
    """It would only be started to be stopped."""
    roster.dispatch(host, START, 10.0)
    roster.cancel(host, CANCEL, 10.0)
    failures.check(host, beat(), 13.0, queued=0)
    again, lost, _ = failures.check(host, beat(), 14.0, queued=0)
    assert (again, [d.command for d in lost]) == ([], [START])


def test_builders_that_are_not_played_are_resent(roster, failures):
    """A lost play command, and a lost retire command."""
    host = roster.arrive("h", "life", 0.0, HostUp())
    roster.assign(host, PLAY, 0.0)
    assert failures.check(host, Beat(), 1.0, queued=0)[0] == []
    assert failures.check(host, Beat(), 3.0, queued=0)[0] == [PLAY]
    host.joined.add("b")
    assert failures.check(host, beat(), 6.0, queued=0)[0] == []
    roster.retire(host, "b", 7.0)
    assert failures.check(host, beat(), 10.0, queued=0)[0] == [RetireBuilder("b")]
    retiring = Beat(builders=PLAYING, retiring=PLAYING)
    assert failures.check(host, retiring, 20.0, queued=0)[0] == []


def test_only_the_command_that_does_not_show_is_resent(roster, failures):
    """Of many builders: one is not played, one does not retire, and one was lost after it joined.

    A part of a heartbeat says nothing of the builders that other parts name.
    """
    host = roster.arrive("h", "life", 0.0, HostUp())
    names = [f"b{number}" for number in range(5)]
    for name in names:
        roster.assign(host, Play(builder=Builder(id=name, pool="p", index=1)), 0.0)
    host.joined.update(["b1", "b2", "b3", "b4"])
    roster.retire(host, "b1", 0.0)
    shown = Beat(builders=("b1", "b2", "b3"))
    again, _, _ = failures.check(host, shown, 10.0, queued=0)
    assert again == [host.plays["b0"], RetireBuilder("b1")]
    upper_part = Beat(builders=("b2", "b3"), after="b1")
    assert failures.check(host, upper_part, 20.0, queued=0) == ([], [], False)


def test_silence_counts_only_while_reports_could_arrive(roster, failures, host):
    """After an interruption of the scheduler no host is declared lost for it."""
    assert failures.silent(4.0) == []
    roster.dispatch(host, START, 1.0)
    failures.restart_timeouts(14.0)
    assert failures.silent(14.0) == failures.silent(19.0) == []
    assert failures.silent(19.1) == [host]
    # nor for what was sent and could not be fetched
    assert failures.check(host, Beat(builders=PLAYING), 30.0, queued=1)[2] is False
    assert roster.give_up(host) == ["b"]
    assert failures.silent(99.0) == []
    assert roster.host_of == {}


def test_nothing_is_under_way_to_a_builder_that_is_gone(roster, failures, host):
    """Its attempts are void with it: they are not resent, nor declared lost again."""
    roster.dispatch(host, START, 10.0)
    roster.gone("b")
    assert failures.check(host, Beat(), 20.0, queued=0) == ([], [], False)
    assert host.dispatches == {}


def test_a_play_command_gets_its_time_again_after_an_interruption(roster, failures):
    """It lies unread on the host's list as long as nothing could be fetched."""
    host = roster.arrive("h", "life", 0.0, HostUp())
    roster.assign(host, PLAY, 0.0)
    failures.restart_timeouts(14.0)

    assert failures.check(host, Beat(), 15.0, queued=0)[0] == []
    assert failures.check(host, Beat(), 30.0, queued=1)[2] is False
    assert failures.check(host, Beat(), 17.0, queued=0)[0] == [PLAY]


def test_a_start_that_was_shown_once_has_not_been_missed(roster, failures, host):
    """The next heartbeat without it is the first one, in which it may just have ended."""
    roster.dispatch(host, START, 10.0)
    failures.check(host, beat(("job", 1)), 11.0, queued=0)

    assert failures.check(host, beat(), 12.5, queued=0)[0] == []
    assert failures.check(host, beat(), 13.5, queued=0)[0] == [START]


def test_the_list_of_a_host_matters_once_a_command_is_late_or_a_cancel_under_way(
    roster, failures, host
):
    """Else a lost command would never be sent again, or each turn would ask for every list."""
    roster.dispatch(host, START, 10.0)
    assert not failures.misses_something(host, beat(), 11.0)
    assert failures.misses_something(host, beat(), 12.5)
    roster.confirm(host, ("job", 1))
    assert not failures.misses_something(host, beat(), 12.5)
    roster.cancel(host, CANCEL, 13.0)
    assert failures.misses_something(host, beat(), 13.0)
