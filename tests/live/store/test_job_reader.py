"""Reading a farm's jobs while it works on them: none is skipped or repeated."""

from __future__ import annotations

from itertools import islice

import pytest

from farm.core.errors import InputError, ServerError
from farm.core.model import Job, Platform
from farm.live.operating.client import FarmClient
from farm.live.store.batch import Batch
from farm.live.store.job_reader import state_of
from farm.live.store.saved import Try
from farm.testing import VirtualFarm
from tests.fixtures.store import waiting_record

AMD64 = Platform("amd64", True)
#: more than is read at once
COUNT = 1300


POOL = {"name": "linux", "platform": {"processor": "amd64"}, "builders": 100}
LOAD = {"arrivals": {"every": 1, "count": 1, "service_time": 1}}


def job(name: str) -> Job:
    """Return a job of a minute."""
    return Job(id=name, service_time=60.0, platform=AMD64)


JOBS = [job(f"j{number}") for number in range(COUNT)]
IDS = [job.id for job in JOBS]


@pytest.fixture
def farm() -> VirtualFarm:
    """A farm on which a hundred jobs run, and the others wait: in each minute the next hundred."""
    made = VirtualFarm({"pools": [POOL], "workload": [LOAD]})
    made.submit(*JOBS)
    return made


def test_every_job_is_read_once_in_order_of_submission(farm: VirtualFarm):
    """Page by page, while jobs start, end, and others are submitted and forgotten."""
    late = [job(f"late-{number}") for number in range(10)]
    seen: list[str] = []
    states: list[str] = []
    after = None
    while len(seen) < COUNT + 10:
        page = list(islice(farm.operator.submitted(after=after), 100))
        seen += [job.job.id for job in page]
        states += [state_of(job) for job in page]
        after = seen[-1]
        # first the reader is ahead of the builders, later they are ahead of it
        farm.advance("50s" if len(seen) < 700 else "100s")
        if len(seen) == 500:
            farm.submit(*late)
    assert seen == [*IDS, *(job.id for job in late)]
    assert set(states) == {"waiting", "running", "succeeded"}
    with pytest.raises(InputError, match="'unknown' is not known"):
        next(farm.operator.submitted(after="unknown"))


def test_one_long_listing_survives_the_oldest_jobs_being_forgotten(farm: VirtualFarm):
    """Ranks change then, places do not."""
    farm.advance("7m")
    listing = farm.operator.submitted()
    seen = [next(listing).job.id for _ in range(600)]
    farm._store.notices.forget_ended(keep=200)
    seen += [job.job.id for job in listing]
    assert seen == IDS
    left = [job.job.id for job in farm.operator.submitted()]
    assert left == IDS[500:]
    assert [job.job.id for job in farm.operator.submitted(offset=700)] == left[700:]


def test_the_queue_is_read_through_though_its_head_leaves(farm: VirtualFarm):
    """Jobs dispatched in between do not move the others past the reader."""
    waiting = farm.operator.jobs("waiting")
    seen = [next(waiting).job.id for _ in range(500)]
    farm.advance("4m")
    batch = Batch()  # one that another job's execution serves: it is in no queue
    batch.jobs["follower"] = waiting_record(job("follower"))
    farm._store.commit(batch, {}, 1.0)
    seen += [job.job.id for job in waiting]
    assert seen == [*IDS[100:], "follower"]


def test_void_attempts_are_recorded_and_forgotten_with_the_job(farm: VirtualFarm):
    """A commit that was repeated after a cut adds nothing twice."""
    batch = Batch()
    batch.tries["j0"] += [Try(1, "b-1", 1.0, "lost"), Try(2, "b-2", 2.0, "lost too")]
    for _ in range(2):
        farm._store.commit(batch, {}, 2.0)
    reasons = [(t.attempt, t.reason) for t in farm.operator.tries("j0")]
    assert reasons == [(1, "lost"), (2, "lost too")]
    assert farm.operator.tries("j1") == []
    farm.advance("1m")
    farm._store.notices.forget_ended(keep=0)
    assert not farm.redis.exists(farm.operator.keys.tries("j0"))


def test_known_jobs_are_distinguished_from_ended_ones(farm: VirtualFarm):
    """An operator may name jobs that ended a moment ago."""
    farm.advance("1m")
    assert farm.operator.known(["j3", "j200", "unknown"]) == {"j3": True, "j200": False}
    found = [state_of(job) for job in farm.operator.jobs_of(["j3", "unknown", "j200"])]
    assert found == ["succeeded", "waiting"]


@pytest.mark.live
def test_a_question_without_an_answer(server, keys, monkeypatch):
    """One message after the time-out, though the connection itself is given up sooner."""
    monkeypatch.setattr("farm.live.redis.connection.SOCKET_TIMEOUT", 1.2)
    monkeypatch.setattr("farm.live.operating.client.LONGEST_BLOCK", 0.2)
    with (
        FarmClient(server.url, keys.prefix) as operator,
        pytest.raises(ServerError, match="did not answer within"),
    ):
        operator.ask("job", "j1", timeout=1.5)
