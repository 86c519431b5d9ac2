"""Concurrency groups: how many of a group at once, and what a newer run cancels."""

from __future__ import annotations

import pytest

from farm.core.jobs.groups import group_of
from farm.core.model import Cause, Job


def member(name: str, group: str, matrix: str | None = None, *needs: str) -> Job:
    """Return a job of 10 s in a concurrency group."""
    return Job(id=name, service_time=10.0, group=group, matrix=matrix, needs=needs)


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("deploy", ("deploy", "limit", 1)),
        ("deploy:3", ("deploy", "limit", 3)),
        ("main:latest", ("main", "latest", 1)),
        ("feature/a:b:cancel", ("feature/a:b", "cancel", 1)),
        ("feature/a:b", ("feature/a:b", "limit", 1)),
        ("deploy:0", ("deploy:0", "limit", 1)),
        (":latest", (":latest", "limit", 1)),
    ],
)
def test_a_suffix_that_says_nothing_belongs_to_the_name(text, group):
    """Names of branches have all kinds of characters."""
    assert group_of(text) == group


def test_no_more_than_the_limit_at_once(ledger):
    """With builders idle; the next one takes the place at the instant at which it is free."""
    farm = ledger("b", "c", "d")
    jobs = [member(name, "deploy:2") for name in "vwxy"]
    assert farm.submit(*jobs) == ["start v/1 on b.0", "start w/1 on c.0"]
    assert farm.waiting == []
    assert farm.finish("w") == ["end w succeeded", "start x/1 on d.0"]
    farm.restart()
    assert farm.finish("v") == ["end v succeeded", "start y/1 on c.0"]


def test_waiting_counts_from_the_place(ledger):
    """More builders would not shorten it before."""
    farm = ledger("b", "c")
    farm.submit(member("v", "deploy"), member("w", "deploy"))
    farm.finish("v")
    released_at = farm.at - 1.0
    farm.finish("w")
    (end,) = farm.commands
    assert (end.released_at, end.dispatched_at) == (released_at, released_at)


def test_a_place_is_kept_while_a_job_is_tried_again(ledger):
    """Its builder was lost; no other may deploy before it has ended."""
    farm = ledger("b", "c")
    farm.submit(member("v", "deploy"), member("w", "deploy"))
    assert farm.lose("b") == ["requeue v/1", "start v/2 on c.0"]
    assert farm.finish("v") == ["end v succeeded", "start w/1 on c.0"]


def test_a_newer_run_cancels_what_is_left_of_the_older_one(ledger):
    """What waits or is blocked ends at once, what runs is stopped."""
    farm = ledger("b")
    farm.submit(member("a1", "main:cancel", "a"), member("a2", "main:cancel", "a", "a1"))
    told = farm.submit(member("b1", "main:cancel", "b"))
    assert told == ["stop a1/1 on b", "end a2 cancelled"]
    end = farm.commands[1]
    assert (end.cause, end.reason) == (Cause.SUPERSEDED, "superseded by b")
    farm.restart()
    assert farm.finish("a1", "cancelled") == ["end a1 cancelled", "start b1/1 on b.0"]


def test_a_late_job_of_an_older_run_is_not_even_queued(ledger):
    """Its run was superseded while others of it ran."""
    farm = ledger("b")
    farm.submit(member("a1", "main:cancel", "a"))
    farm.submit(member("b1", "main:cancel", "b"))
    assert farm.submit(member("a2", "main:cancel", "a")) == ["end a2 cancelled"]


def test_jobs_of_one_run_do_not_cancel_each_other(ledger):
    """Also where they are submitted one after the other."""
    farm = ledger("b")
    farm.submit(member("a1", "main:cancel", "a"))
    assert farm.submit(member("a2", "main:cancel", "a")) == []
    assert farm.waiting == ["a2"]


def test_of_the_runs_that_wait_only_the_newest_is_kept(ledger):
    """And it begins when the last job of the one that runs has ended."""
    farm = ledger("b", "c")
    farm.submit(member("a1", "main:latest", "a"), member("a2", "main:latest", "a", "a1"))
    assert (
        farm.submit(member("b1", "main:latest", "b"), member("b2", "main:latest", "b", "b1")) == []
    )
    assert farm.submit(member("c1", "main:latest", "c")) == ["end b1 cancelled", "end b2 cancelled"]
    farm.restart()
    assert farm.finish("a1") == ["end a1 succeeded", "start a2/1 on c.0"]
    assert farm.finish("a2") == ["end a2 succeeded", "start c1/1 on b.0"]


def test_a_run_keeps_its_place_between_two_of_its_jobs(ledger):
    """The next one is released some time after the last has ended."""
    farm = ledger("b", "c")
    second = Job(
        id="a2", service_time=10.0, group="main:latest", matrix="a", needs=("a1",), needs_delay=5.0
    )
    farm.submit(member("a1", "main:latest", "a"), second)
    farm.submit(member("b1", "main:latest", "b"))
    farm.restart()
    assert farm.finish("a1") == ["end a1 succeeded", "alarm 9"]
    farm.restart()
    assert farm.ring(9.0) == ["start a2/1 on b.0"]
    assert farm.finish("a2") == ["end a2 succeeded", "start b1/1 on c.0"]


def test_jobs_go_by_their_submission_also_where_another_is_released(ledger):
    """A chain of deployments that need each other would keep all others out."""
    farm = ledger("b", "c")
    farm.submit(member("a", "deploy"), member("x", "deploy"), member("b", "deploy", None, "a"))
    assert farm.finish("a") == ["end a succeeded", "start x/1 on c.0"]
    assert farm.finish("x") == ["end x succeeded", "start b/1 on b.0"]


def test_each_job_goes_by_what_it_says_of_its_group(ledger):
    """A workflow was edited while jobs of it ran."""
    farm = ledger("b", "c", "d")
    farm.submit(member("x", "main:cancel"))
    assert farm.submit(member("y", "main:latest")) == ["start y/1 on c.0"]
    assert farm.submit(member("z", "main:latest")) == []
    assert farm.finish("y") == ["end y succeeded", "start z/1 on d.0"]


def test_a_run_that_cancels_nothing_is_no_reason_to_cancel(ledger):
    """Also where it is the newest one, and comes together with one that cancels."""
    farm = ledger("b", "c", "d")
    farm.submit(member("x", "main:cancel"))
    farm.submit(member("y", "main:latest"))
    assert farm.submit(member("x2", "main:cancel", "x")) == ["start x2/1 on d.0"]
    told = farm.submit(member("v", "main:cancel"), member("w", "main:latest"))
    assert told == ["stop x/1 on b", "stop y/1 on c", "stop x2/1 on d"]
    assert farm.finish("x2", "cancelled") == ["end x2 cancelled", "start v/1 on d.0"]


def test_only_runs_that_say_so_are_superseded_as_they_wait(ledger):
    """Others wait for their place, also if newer runs come after them."""
    farm = ledger("b", "c")
    farm.submit(member("a", "main"), member("b1", "main"), member("c1", "main:latest"))
    assert farm.submit(member("d", "main:latest")) == ["end c1 cancelled"]
    assert farm.finish("a") == ["end a succeeded", "start b1/1 on c.0"]
    assert farm.finish("b1") == ["end b1 succeeded", "start d/1 on b.0"]


def test_a_job_whose_need_ends_as_its_run_is_superseded_ends_once(ledger):
    """A newer run, with a job between those of the older one, is released by the same end."""
    farm = ledger("b", "c")
    farm.submit(
        "x",
        member("a1", "main:latest", "a"),
        member("b1", "main:latest", "b"),
        member("c1", "main:latest", "c", "x"),
        member("b2", "main:latest", "b", "x"),
    )
    assert farm.finish("x") == ["end x succeeded", "end b1 cancelled", "end b2 cancelled"]
    assert farm.finish("a1") == ["end a1 succeeded", "start c1/1 on b.0"]


def test_all_of_a_run_go_when_it_gets_its_place(ledger):
    """Though a job that waits for a place of another kind was submitted before the last of them."""
    farm = ledger("b", "c", "d")
    farm.submit(
        member("x", "main"),
        member("a1", "main:latest", "a"),
        member("y", "main"),
        member("a2", "main:latest", "a"),
    )
    assert farm.finish("x") == ["end x succeeded", "start a1/1 on c.0", "start a2/1 on d.0"]


def test_a_place_of_another_kind_is_not_that_of_the_run(ledger):
    """Nor after a restart: two runs would be there at once."""
    farm = ledger("b", "c", "d")
    farm.submit(member("x", "main:latest"), member("a1", "main:2", "a"))
    farm.restart()
    assert farm.submit(member("a2", "main:latest", "a")) == []
    farm.restart()
    assert farm.finish("x") == ["end x succeeded", "start a2/1 on d.0"]


@pytest.mark.parametrize("need", [(), ("x",)])
def test_runs_whose_jobs_are_mixed_in_a_file_go_by_their_first(ledger, need):
    """As if they had been submitted one after the other, also where one end releases both."""
    farm = ledger("b", "c")
    farm.submit("slow", "x")
    a1 = member("a1", "main:latest", "a", "slow")
    b1 = member("b1", "main:latest", "b", *need)
    a2 = member("a2", "main:latest", "a", *need)
    farm.submit(a1, b1, a2)
    farm.finish("x")
    assert farm.running.keys() == {"slow", "a2"}
    farm.finish("a2")
    assert farm.finish("slow") == ["end slow succeeded", "start a1/1 on c.0"]
    assert farm.finish("a1") == ["end a1 succeeded", "start b1/1 on b.0"]


def test_runs_with_jobs_mixed_in_a_file_go_by_their_first_after_a_delay(ledger):
    """Both are released by one alarm."""
    farm = ledger("b", "c")
    delayed = {"service_time": 10.0, "group": "main:latest", "needs": ("x",), "needs_delay": 5.0}
    farm.submit(
        "slow",
        "x",
        member("a1", "main:latest", "a", "slow"),
        Job(id="b1", matrix="b", **delayed),
        Job(id="a2", matrix="a", **delayed),
    )
    farm.finish("x")
    assert farm.ring(farm.at + 5.0) == ["start a2/1 on c.0"]


def test_the_only_run_that_waits_is_kept(ledger):
    """Though the one that has the place was submitted later."""
    farm = ledger("b", "c")
    farm.submit("slow", member("d", "main:latest", None, "slow"), member("e", "main:latest"))
    assert farm.finish("slow") == ["end slow succeeded"]
    assert farm.finish("e") == ["end e succeeded", "start d/1 on b.0"]


def test_jobs_that_wait_for_each_other_are_given_up(ledger):
    """A run keeps its place for a job that needs one which waits for that place."""
    farm = ledger("b", "c")
    farm.submit(
        member("a", "main:latest", "m"),
        member("b", "main:latest", "m", "c"),
        member("c", "main:latest"),
    )
    farm.arrivals_end()
    assert farm.finish("a") == ["end a succeeded", "end b cancelled", "end c cancelled"]


def test_all_of_a_run_that_gets_its_place_later_have_it(ledger):
    """A restarted scheduler lets no other run in between two of its jobs."""
    farm = ledger("b", "c")
    farm.submit("slow", member("old", "main:latest"))
    farm.submit(member("a", "main:latest", "m"), member("b", "main:latest", "m", "slow"))
    farm.scheduler.blocked.touched = set()
    farm.finish("old")
    assert farm.scheduler.blocked.touched == {"a", "b"}


def test_a_cancelled_job_gives_its_place_to_the_next(ledger):
    """By hand, while it waits for a builder."""
    farm = ledger("b")
    farm.submit("x")
    farm.submit(member("v", "deploy"), member("w", "deploy"))
    assert farm.waiting == ["v"]
    assert farm.cancel("v") == ["end v cancelled"]
    assert farm.waiting == ["w"]
