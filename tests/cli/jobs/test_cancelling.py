"""``farm cancel``: which jobs it selects, on a farm that only lies in Redis."""

from __future__ import annotations

from typing import Any

import pytest

from farm.live.operating.client import FarmClient
from tests.worlds.still import StillFarm

pytestmark = pytest.mark.live


def test_cancelling_by_properties_by_list_and_by_id(still: StillFarm):
    """The reply names what was selected; ended jobs are counted, unknown ones refused."""
    still.wait("w1", "w2", attributes={"user": "ann"})
    still.run("r1", attributes={"user": "bob"})
    still.end("e1", attributes={"user": "ann"})
    assert "asked to cancel 2 jobs" in still.says("cancel", "--user", "ann")
    assert still.cancelled() == ["w1", "w2"]
    assert still.rows("cancel", "--match", "?1", "--state", "running")[0]["asked"]["jobs"] == 1
    assert still.cancelled() == ["r1"]
    told = still.says("cancel", "-", stdin="w2\r\n\n e1 \nw2\n")
    assert told == "asked to cancel 1 job (1 had ended already)\n"
    assert still.cancelled() == ["w2"]
    assert still.says("cancel", "w1", "--quiet") == ""
    still.inbox()
    assert "'unknown' is not known" in still.says("cancel", "w1", "unknown", code=2)
    told = still.says("cancel", "--matrix", "none")
    assert told == "no waiting or running job matches matrix=none\n"
    for words in ([], ["w1", "--user", "ann"], ["w1", "--invocation", "ann"]):
        assert "found no jobs" in still.says("cancel", *words, code=2)
    assert "--reason: found" in still.says("cancel", "w1", "--reason", "\x1b[2J", code=2)


def test_cancelling_what_was_submitted_just_now(still: StillFarm, monkeypatch):
    """The command waits until the scheduler has read it, whichever way the jobs are selected."""
    still.wait("old", attributes={"user": "ann"})
    sent_too_early: list[Any] = []

    def read(_: FarmClient) -> None:
        sent_too_early.extend(still.inbox())
        still.wait(f"new-{still.client.hlen(still.keys.jobs)}", attributes={"user": "ann"})

    monkeypatch.setattr(FarmClient, "catch_up", read)
    assert "asked to cancel 2 jobs" in still.says("cancel", "--user", "ann")
    assert still.cancelled() == ["old", "new-1"]
    assert "asked to cancel 3 jobs" in still.says("cancel", "--state", "live")
    assert still.cancelled() == ["old", "new-1", "new-2"]
    still.says("cancel", "--invocation", "ann")
    (told,) = still.inbox()
    assert told.invocation == ("ann",)
    assert still.client.hlen(still.keys.jobs) == 4
    assert sent_too_early == []


def test_cancelling_on_a_farm_that_reads_no_submissions(still: StillFarm, monkeypatch):
    """A full one: its jobs can be cancelled, and it is said that some may be left out."""
    monkeypatch.setattr(FarmClient, "is_attended", lambda *_: True)
    monkeypatch.setattr("farm.live.operating.client.ANSWER_TIMEOUT", 0.1)
    still.wait("old", attributes={"user": "ann"})
    still.says("submit", "--service-time", "5s", "--user", "ann", "--platform", "amd64/virtual")
    for words in (["--user", "ann"], ["--invocation", "ann"]):
        done = still.farm("cancel", *words)
        assert done.exit_code == 0
        assert "warning: the farm at" in done.stderr
        assert "has not read within 0.1s" in done.stderr
    assert still.cancelled() == ["old"]


def test_cancelling_a_job_that_must_wait_again_just_then(still: StillFarm, monkeypatch):
    """Its builder is lost between a look at the waiting jobs and one at the running ones."""
    still.wait("w", attributes={"user": "ann"})
    still.run("r", attributes={"user": "ann"})
    waiting = FarmClient._waiting

    def and_then_it_is_lost(client: FarmClient) -> Any:
        yield from waiting(client)
        still.client.zrem(still.keys.running, "r")
        still.wait("r", attributes={"user": "ann"})

    monkeypatch.setattr(FarmClient, "_waiting", and_then_it_is_lost)
    still.says("cancel", "--user", "ann")
    assert sorted(still.cancelled()) == ["r", "w"]


def test_an_invocation_of_a_farm_without_fair_share(still: StillFarm):
    """There is none: nothing is asked, and nothing is said to be cancelled."""
    still.publish({"fair_share": False})
    told = still.says("cancel", "--where", "invocation=bob", code=2)
    assert "invocation: found a farm without fair share" in told
    told = still.says("set", "scheduling.weights.bob=2", code=2)
    assert "scheduling.weights: found a farm without fair share" in told
    assert still.inbox() == []
    still.publish({"fair_share": True})
    still.wait("w1", attributes={"user": "bob"})
    assert "all of bob" in still.says("cancel", "--invocation", "bob")


def test_an_invocation_that_nothing_was_charged_to(still: StillFarm):
    """A mistyped path is refused with what is there; it seemed to cancel all of nothing."""
    still.wait("w1", attributes={"user": "ann"}, kind="test")
    still.run("r1", attributes={"user": "bob"}, kind="build")
    still.end("e1", attributes={"user": "eve"}, kind="test")
    told = still.says("cancel", "--invocation", "amn", code=2)
    assert "found no user 'amn' at the top; did you mean ann? there is: ann, bob, eve" in told
    told = still.says("cancel", "--invocation", "bob/test", code=2)
    assert "invocation 'bob/test': found no kind 'test' in bob" in told
    for path in ("ann/test/x", "", "/"):
        assert "found" in still.says("cancel", "--invocation", path, code=2)
    assert still.inbox() == []
    assert "all of bob/build" in still.says("cancel", "--invocation", "bob/build")
    assert [told.invocation for told in still.inbox()] == [("bob", "build")]


def test_an_invocation_whose_jobs_have_all_ended(still: StillFarm):
    """As with ids: no mistake, and nothing to ask for."""
    still.end("e1", attributes={"user": "eve"})
    still.end("e2", "failed", attributes={"user": "eve"})
    told = still.says("cancel", "--invocation", "eve")
    assert told == "asked to cancel 0 jobs (2 had ended already)\n"
    assert still.inbox() == []


def test_some_jobs_of_an_invocation(still: StillFarm):
    """The path is a property like others: it can be combined with them, and listed by page."""
    still.wait("w1", "w2", "w3", attributes={"user": "ann"}, kind="test", priority=7)
    still.wait("x1", attributes={"user": "ann"}, kind="build")
    still.run("r1", attributes={"user": "ann"}, kind="test")
    still.end("e1", attributes={"user": "ann"}, kind="test")
    still.wait("y1", attributes={"user": "bob"}, kind="test")
    words = ["jobs", "--invocation", "ann/test", "--state"]
    assert [row["job_id"] for row in still.rows(*words, "all")] == ["w1", "w2", "w3", "r1", "e1"]
    assert [row["job_id"] for row in still.rows(*words, "running")] == ["r1"]
    page = still.rows(*words, "waiting", "--offset", "1", "--limit", "1")
    assert [row["job_id"] for row in page] == ["w2"]
    assert (page[0]["invocation"], page[0]["priority"]) == ("ann/test", 7)
    assert page[0]["estimated_time_s"] == 1.0
    told = still.says("cancel", "--invocation", "ann", "--state", "waiting")
    assert told == "asked to cancel 4 jobs\n"
    assert still.cancelled() == ["w1", "w2", "w3", "x1"]
