"""Reading a farm's jobs while it works on them: none is skipped or repeated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from farm.core.commands import EndJob
from farm.core.errors import InputError, ServerError
from farm.core.model import Job, Platform
from farm.live.operating.client import FarmClient
from farm.live.redis.keys import Keys
from farm.live.redis.sort_keys import encode_member
from farm.live.store.batch import Batch
from farm.live.store.job_reader import state_of
from farm.live.store.saved import Try
from tests.fixtures.store import ReadableStore, running_record, waiting_record

pytestmark = pytest.mark.live
AMD64 = Platform("amd64", True)
#: more than is read at once
COUNT = 1300


class Farm:
    """A farm that exists only in Redis: jobs are submitted, run and end by hand."""

    def __init__(self, store: ReadableStore, operator: FarmClient) -> None:
        self.store = store
        self.operator = operator
        self.jobs = [Job(id=f"j{n}", service_time=1.0, platform=AMD64) for n in range(COUNT)]

    def submit(self, first: int, last: int) -> None:
        batch = Batch()
        for number in range(first, last):
            job = self.jobs[number]
            batch.jobs[job.id] = waiting_record(job, number)
            batch.submitted[job.id] = number + 1
            batch.waits(job.platform, encode_member((0, 0.0, number), job.id))
        self.store.commit(batch, {}, 0.0)

    def run(self, *numbers: int) -> None:
        batch = Batch()
        for number in numbers:
            job = self.jobs[number]
            batch.waits_no_more(job.platform, encode_member((0, 0.0, number), job.id))
            batch.jobs[job.id] = running_record(job, "b-1", 1.0, 1.0)
            batch.running[job.id] = 1.0
        self.store.commit(batch, {}, 1.0)

    def end(self, *numbers: int) -> None:
        batch = Batch()
        for number in numbers:
            job = self.jobs[number]
            batch.not_running.append(job.id)
            batch.waits_no_more(job.platform, encode_member((0, 0.0, number), job.id))
            batch.ended[job.id] = EndJob(job, "succeeded", 1, 0.0, 2.0)
        self.store.commit(batch, {}, 2.0)


@pytest.fixture
def farm(server, client, keys: Keys) -> Iterator[Farm]:
    """A farm whose jobs are all waiting."""
    with FarmClient(server.url, keys.prefix) as operator:
        farm = Farm(ReadableStore(client, keys), operator)
        farm.submit(0, COUNT)
        yield farm


def test_every_job_is_read_once_in_order_of_submission(farm: Farm):
    """Page by page, while jobs start, end, and others are submitted and forgotten."""
    farm.jobs += [Job(id=f"late-{n}", service_time=1.0, platform=AMD64) for n in range(10)]
    seen: list[str] = []
    states: list[str] = []
    after = None
    while len(seen) < COUNT + 10:
        page = list(islice(farm.operator.submitted(after=after), 100))
        seen += [job.job.id for job in page]
        states += [state_of(job) for job in page]
        after = seen[-1]
        done = len(seen)
        # those just read, and those that come next, are dispatched; so is the head of the queue
        farm.run(*range(done - 50, min(done + 50, COUNT)))
        farm.end(*range(min(done + 10, COUNT)))
        if done == 500:
            farm.submit(COUNT, COUNT + 10)
    assert seen == [job.id for job in farm.jobs]
    assert set(states) == {"waiting", "running", "succeeded"}
    with pytest.raises(InputError, match="'unknown' is not known"):
        next(farm.operator.submitted(after="unknown"))


def test_one_long_listing_survives_the_oldest_jobs_being_forgotten(farm: Farm):
    """Ranks change then, places do not."""
    farm.end(*range(700))
    listing = farm.operator.submitted()
    seen = [next(listing).job.id for _ in range(600)]
    farm.store.notices.forget_ended(keep=200)
    seen += [job.job.id for job in listing]
    assert seen == [job.id for job in farm.jobs]
    left = [job.job.id for job in farm.operator.submitted()]
    assert left == [job.id for job in farm.jobs[500:]]
    assert [job.job.id for job in farm.operator.submitted(offset=700)] == left[700:]


def test_the_queue_is_read_through_though_its_head_leaves(farm: Farm):
    """Jobs dispatched in between do not move the others past the reader."""
    waiting = farm.operator.jobs("waiting")
    seen = [next(waiting).job.id for _ in range(500)]
    farm.run(*range(400))
    batch = Batch()  # one that another job's execution serves: it is in no queue
    batch.jobs["follower"] = waiting_record(Job(id="follower", service_time=1.0, platform=AMD64))
    farm.store.commit(batch, {}, 1.0)
    seen += [job.job.id for job in waiting]
    assert seen == [*(job.id for job in farm.jobs), "follower"]


def test_void_attempts_are_recorded_and_forgotten_with_the_job(farm: Farm, client):
    """A commit that was repeated after a cut adds nothing twice."""
    batch = Batch()
    batch.tries["j0"] += [Try(1, "b-1", 1.0, "lost"), Try(2, "b-2", 2.0, "lost too")]
    farm.store.commit(batch, {}, 2.0)
    farm.store.commit(batch, {}, 2.0)
    assert [(t.attempt, t.reason) for t in farm.operator.tries("j0")] == [
        (1, "lost"),
        (2, "lost too"),
    ]
    assert farm.operator.tries("j1") == []
    farm.end(0)
    farm.store.notices.forget_ended(keep=0)
    assert not client.exists(farm.operator.keys.tries("j0"))


def test_known_jobs_are_distinguished_from_ended_ones(farm: Farm):
    """An operator may name jobs that ended a moment ago."""
    farm.end(3)
    assert farm.operator.known(["j3", "j4", "unknown"]) == {"j3": True, "j4": False}
    assert [state_of(job) for job in farm.operator.jobs_of(["j3", "unknown", "j4"])] == [
        "succeeded",
        "waiting",
    ]


def test_a_question_without_an_answer(farm: Farm, server, keys, monkeypatch):
    """One message after the time-out, though the connection itself is given up sooner."""
    monkeypatch.setattr("farm.live.redis.connection.SOCKET_TIMEOUT", 1.2)
    monkeypatch.setattr("farm.live.operating.client.LONGEST_BLOCK", 0.2)
    with (
        FarmClient(server.url, keys.prefix) as operator,
        pytest.raises(ServerError, match="did not answer within"),
    ):
        operator.ask("job", "j1", timeout=1.5)
