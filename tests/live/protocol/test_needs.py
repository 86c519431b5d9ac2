"""Jobs that need others, in a live farm: submitted, saved, restored, explained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import fakeredis
import msgspec
import pytest

from farm.app.jobs.job_lookup import (
    next_tries,
    skipped_again,
    skipped_for,
    try_again,
    with_skipped,
)
from farm.core.errors import InputError
from farm.core.events import JobsSubmitted
from farm.core.model import Job
from farm.live.redis.keys import Keys
from farm.live.store.job_reader import state_of
from farm.live.wire.messages import UNSTAMPED
from farm.testing import VirtualFarm
from tests.fixtures.door import Door
from tests.worlds.stepwise import Stepwise


def job(name: str, *needs: str, **more: object) -> Job:
    """Return a job of 10 s."""
    return Job(id=name, service_time=10.0, needs=needs, **more)  # type: ignore[arg-type]


@pytest.fixture
def farm() -> Iterator[Stepwise]:
    """A farm of one host whose time stands still."""
    fake = fakeredis.FakeRedis(protocol=2)
    with contextlib.closing(Stepwise("redis://fake", Keys("needs:"), client=fake)) as made:
        made.calm_second()
        yield made


def states(farm: Stepwise) -> dict[str, str]:
    """Return where the jobs stand, as operators see them."""
    return {one.job.id: state_of(one) for one in farm.operator.submitted()}


def test_blocked_jobs_survive_their_scheduler(farm: Stepwise) -> None:
    """Saved with the farm's state; the next scheduler releases them, with or without a delay."""
    farm.operator.submit([job("a"), job("t", "a", needs_delay=5.0), job("f", "a:failed")])
    farm.calm_second()
    assert states(farm) == {"a": "dispatched", "t": "blocked", "f": "blocked"}
    for _ in range(3):
        farm.calm_second()
    farm.lead()
    assert list(farm.leader.scheduler.blocked.states) == ["t", "f"]  # type: ignore[union-attr]
    for _ in range(12):
        farm.calm_second()
    assert states(farm) == {"a": "succeeded", "t": "blocked", "f": "cancelled"}
    farm.lead()
    for _ in range(22):
        farm.calm_second()
    assert set(states(farm).values()) == {"succeeded", "cancelled"}
    end = farm.operator.job("t")
    assert end is not None
    assert end.released_at is not None
    assert 5.0 <= end.released_at - farm.operator.job("a").finished_at < 7.0  # type: ignore[union-attr]


def test_a_submission_says_how_needs_ended_before(farm: Stepwise) -> None:
    """Those of this very batch, too, and those that are only in the store."""
    farm.operator.submit([job("a"), job("b")])
    for _ in range(15):
        farm.calm_second()
    farm.lead()
    farm.operator.submit([job("t", "a", "b:ended"), job("u", "b:failed")])
    for _ in range(15):
        farm.calm_second()
    assert states(farm)["t"] == "succeeded"
    end = farm.operator.job("u")
    assert end is not None
    assert end.reason == "skipped: b succeeded"


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ((job("x"), job("t", "gone")), "job t: needs: found 'gone', which is not known"),
        ((job("x"), job("t", "u"), job("u", "t")), "job t: needs: found a circle (t → u → t)"),
    ],
)
def test_a_submission_with_needs_that_cannot_be_met_is_refused(
    jobs: tuple[Job, ...], says: str
) -> None:
    """As a whole: what it was to be released for would never come."""
    door = Door()
    door.protocol.submissions.known = lambda _: {}
    door.hear("operator", JobsSubmitted(UNSTAMPED, jobs), stream="submissions")
    assert door.protocol.submissions.accepted == 0
    (letter,), _ = door.refusals.take()
    assert letter.why.startswith(says)
    assert letter.jobs == len(jobs)


def test_needs_of_one_read_are_known() -> None:
    """The job that is needed was submitted a moment before, and is not stored yet."""
    door = Door()
    door.protocol.submissions.known = lambda _: {}
    door.hear("one", JobsSubmitted(UNSTAMPED, (job("a"),)), stream="submissions")
    door.hear("two", JobsSubmitted(UNSTAMPED, (job("t", "a"),)), stream="submissions")
    assert door.protocol.submissions.accepted == 2


def test_a_blocked_job_is_explained_and_counted() -> None:
    """Which need it waits for, and how long already; it is not among those that wait."""
    farm = VirtualFarm("mm1")
    farm.submit(job("a"), job("t", "a", "a:ended", needs_delay=30.0))
    farm.advance(4.0)
    assert farm.state("t") == "blocked"
    told = farm.explain("t").job
    assert told is not None
    assert told.why == "for 4s it has been waiting for the end of a (running for 4s)"
    status = farm.operator.status()
    assert (status.blocked, status.waiting, status.running) == (1, 0, 1)
    assert [one.job.id for one in farm.operator.jobs("blocked")] == ["t"]
    farm.advance(10.0)
    told = farm.explain("t").job
    assert told is not None
    assert told.why == "its needs are met, and its delay of 30s is over in 26s"
    farm.submit(job("late", "a"))
    farm.advance_until_idle()
    assert [farm.state(name) for name in ("t", "late")] == ["succeeded", "succeeded"]


def test_places_in_groups_survive_their_scheduler(farm: Stepwise) -> None:
    """The next one starts the job that waits when the place is free, and not before."""
    farm.operator.submit([job("v", group="deploy"), job("w", group="deploy")])
    farm.calm_second()
    assert states(farm) == {"v": "dispatched", "w": "blocked"}
    farm.lead()
    for _ in range(3):
        farm.calm_second()
    assert states(farm)["w"] == "blocked"
    for _ in range(25):
        farm.calm_second()
    assert states(farm) == {"v": "succeeded", "w": "succeeded"}


def test_a_job_that_waits_for_its_group_is_explained() -> None:
    """Otherwise idle builders look like a defect."""
    farm = VirtualFarm("mm1")
    farm.submit(job("v", group="deploy"), job("w", group="deploy"))
    farm.submit(job("x", group="main:latest"), job("y", group="main:latest"))
    farm.advance(4.0)
    told = [answer.why for name in "wy" if (answer := farm.explain(name).job) is not None]
    assert told == ["group deploy: 1 of 1 at once (v)", "group main: run x has it"]


def test_of_several_tries_that_were_skipped_for_a_job_one_comes_back() -> None:
    """Each round would double what hangs on a job that fails again."""
    farm = VirtualFarm("mm1")
    farm.submit(job("a", fails=True), job("t", "a"), job("u", "t"), job("t~2", "a"))
    farm.advance_until_idle()
    failed = farm.operator.job("a")
    assert failed is not None
    skipped = skipped_for(farm.operator, [failed])
    again = next_tries(farm.operator, [failed, *skipped], once=False)
    assert [(one.id, one.needs) for one in again.values()] == [
        ("a~2", ()),
        ("t~3", ("a~2",)),
        ("u~2", ("t~3",)),
    ]


def test_a_failed_job_is_retried_though_what_was_skipped_for_it_needs_another_that_failed() -> None:
    """Neither could be retried for the other; the last of them brings back what needs both."""
    farm = VirtualFarm("mm1")
    farm.submit(job("a", fails=True), job("b", fails=True), job("t", "a", "b"), job("u", "t"))
    farm.advance_until_idle()

    def retried(*names: str) -> list[Job]:
        named = list(farm.operator.jobs_of(names))
        both = with_skipped(farm.operator, named, once=False)
        return list(next_tries(farm.operator, both, once=False).values())

    assert [one.id for one in retried("b")] == ["b~2"]
    assert [one.id for one in retried("a", "b")] == ["a~2", "b~2", "t~2", "u~2"]
    [again] = retried("a")
    farm.submit(msgspec.structs.replace(again, fails=False))
    farm.advance_until_idle()
    assert [(one.id, one.needs) for one in retried("b")] == [
        ("b~2", ()),
        ("t~2", ("a~2", "b~2")),
        ("u~2", ("t~2",)),
    ]


def test_blocked_jobs_are_listed_in_order_of_submission(farm: Stepwise) -> None:
    """The server has them in any order."""
    farm.operator.submit([job("v"), *(job(name, "v") for name in "hbtg")])
    farm.calm_second()
    server, key = farm.operator._client, farm.operator.keys.jobs
    records = server.hgetall(key)
    server.delete(key)
    server.hset(key, mapping=dict(sorted(records.items())))
    assert [one.job.id for one in farm.operator.jobs("blocked")] == [*"hbtg"]


def test_a_retried_need_brings_back_what_was_skipped_for_it() -> None:
    """All that hangs on it, by the new names; also where only the skipped one is retried."""
    farm = VirtualFarm("mm1")
    farm.submit(job("ok"), job("a", fails=True), job("t", "a", "ok"), job("u", "t"))
    farm.advance_until_idle()
    assert [farm.state(name) for name in ("a", "t", "u")] == ["failed", "cancelled", "cancelled"]
    failed = farm.operator.job("a")
    assert failed is not None
    skipped = skipped_for(farm.operator, [failed])
    again = next_tries(farm.operator, [failed, *skipped], once=True)
    assert {name: (one.id, one.needs) for name, one in again.items()} == {
        "a": ("a~2", ()),
        "t": ("t~2", ("a~2", "ok")),
        "u": ("u~2", ("t~2",)),
    }
    one = farm.operator.job("t")
    assert one is not None
    left_out = next_tries(farm.operator, skipped, once=True)
    assert skipped_again(farm.operator, left_out) == {
        "t": "skipped: a failed",
        "u": "skipped: t~2 was skipped",
    }
    assert skipped_again(farm.operator, again) == {}
    with pytest.raises(InputError, match="job 't' would be skipped: a failed; allowed: to retry"):
        try_again(farm.operator, [one], once=False)
    repaired = [msgspec.structs.replace(one, fails=False) for one in again.values()]
    farm.submit(*repaired[:1])
    farm.advance_until_idle()
    one = farm.operator.job("t")
    assert one is not None
    assert next_tries(farm.operator, [one], once=True)["t"].needs == ("a~2", "ok")
    farm.submit(*repaired[1:])
    farm.advance_until_idle()
    assert farm.state("u~2") == "succeeded"


def test_a_job_is_retried_though_what_needs_it_needs_another_failed_one_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What two failed jobs kept from running comes back with the retry of the second."""
    farm = VirtualFarm("mm1")
    farm.submit(job("a", fails=True), job("b", fails=True), job("t", "a", "b"))
    farm.advance_until_idle()
    first = farm.operator.job("a")
    assert first is not None
    # the server of this test does not know its memory, and nothing reads what is submitted
    monkeypatch.setattr(farm.operator, "check_room", lambda _: None)
    monkeypatch.setattr(farm.operator, "not_read", lambda: "unread")
    again, _ = try_again(farm.operator, [first], once=False)
    assert [one.id for one in again] == ["a~2"]
