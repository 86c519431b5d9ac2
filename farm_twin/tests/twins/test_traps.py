"""What no queue of slots explains gets its true reason, of farms of a program of its own."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from farm.records.attempt import Attempt
from farm_twin.twins.flags import flags_of
from farm_twin.twins.pool_shapes import pools_of
from farm_twin.twins.twin import twin_of
from tests.fixtures.attempts import MONDAY, attempt, bundle_of, served

RUNNERS = 10
STALL = 1500.0
LOGS = range(6)


def farm_log(
    seed: int,
    *,
    cap: int = RUNNERS,
    stalls: int = 0,
    held: float = 0.0,
    hidden: float = 0.0,
    rate: float = 1.0,
) -> list[Attempt]:
    """Return two days of jobs by day and by night, on ten runners, first come, first served.

    Args:
        seed: of all that is random.
        cap: jobs at once, at most.
        stalls: times of 25 minutes in which nothing starts.
        held: share of the jobs that an approval holds for up to two hours.
        hidden: share of the jobs that the records do not have.
        rate: times the usual number of jobs.
    """
    draw = random.Random(seed)
    stalled_from = [3600.0 * (9 + 4 * number) for number in range(stalls)]
    waiting: list[tuple[float, int, float, float]] = []
    at = 0.0
    number = 0
    while at < 2 * 86_400.0:
        by_day = 8 <= at / 3600 % 24 < 18
        at += draw.expovariate(rate * (1 / 55 if by_day else 1 / 200))
        number += 1
        holds = draw.uniform(900, 7200) if draw.random() < held else 0.0
        heapq.heappush(waiting, (at + holds, number, at, draw.lognormvariate(6.2, 0.5)))
    free = [(0.0, runner) for runner in range(RUNNERS)]
    running: list[float] = []
    found = []
    while waiting:
        comes, number, arrived, lasts = heapq.heappop(waiting)
        free_at, runner = heapq.heappop(free)
        begins = max(comes, free_at)
        if len(running) >= cap:
            begins = max(begins, heapq.heappop(running))
        for stall in stalled_from:
            if stall <= begins < stall + STALL:
                begins = stall + STALL
        begins += draw.uniform(1.0, 4.0)
        heapq.heappush(free, (begins + lasts, runner))
        heapq.heappush(running, begins + lasts)
        if draw.random() >= hidden:
            found.append(
                attempt(
                    number, MONDAY + arrived, MONDAY + begins, MONDAY + begins + lasts,
                    runner=f"m{runner}", kind=draw.choice(("build", "test", "lint")),
                )
            )  # fmt: skip
    return found


def said_of(attempts: Sequence[Attempt]) -> list[str]:
    """Return what the flags of the only pool say."""
    [(shape, load)] = pools_of(bundle_of(attempts))
    return [f"{flag.kind}: {flag.text}" for flag in flags_of(shape, load)]


TRAPS = {
    "cap": ({"cap": 6}, "cap: ", "a cap of 6 at once on the whole pool, which has 10 slots"),
    "stalls": ({"stalls": 6, "rate": 0.7}, "stall: ", " times, for 2"),
    "gate": ({"held": 0.15, "rate": 0.7}, "gate: ", "while younger ones of the same labels"),
    "others": ({"hidden": 0.5, "rate": 1.2}, "idle runners: ", "another load on them"),
    "never full": ({"rate": 0.3}, "never saturated: ", "there are at least that many"),
}


@pytest.mark.slow
@pytest.mark.parametrize("trap", TRAPS)
def test_the_reason_is_the_true_one(trap: str):
    """Four traps had one sentence, right in six of eighteen logs."""
    known, kind, words = TRAPS[trap]

    said = {seed: said_of(farm_log(seed, **known)) for seed in LOGS}

    right = [seed for seed in LOGS if said[seed] and said[seed][0].startswith(kind)
             and words in said[seed][0]]  # fmt: skip
    assert right == list(LOGS), said


@pytest.mark.slow
def test_a_plain_queue_is_not_flagged():
    """A flag of a sound pool costs it its twin."""
    assert [said_of(farm_log(seed)) for seed in LOGS] == [[] for _ in LOGS]


@pytest.mark.slow
def test_a_cap_on_a_whole_pool_is_as_many_builders():
    """Its number was named, and the twin had all ten, of which four never worked."""
    twin = twin_of(bundle_of(farm_log(1, cap=6)), "records")

    [pool] = twin.pools
    assert (pool.grade, pool.document["builders"], pool.algorithm) == ("each job", 6, "fixed")
    assert "its twin has 6, and more of them are a higher cap" in pool.verdict
    assert twin.grade == "likely"


def test_a_label_of_some_of_the_runners_has_no_cap():
    """Of twelve runners two had a GPU: "a cap of 2 at once on label gpu" sends people to it."""
    jobs = farm_log(1, rate=0.5)
    jobs[:2] = [replace(job, runner=f"r-{number}") for number, job in enumerate(jobs[:2])]
    arrivals = [MONDAY + 7200.0 + 200.0 * number for number in range(200)]
    of_label = [replace(job, id=f"g{job.id}", platform="gpu") for job in
                served(arrivals, lambda: 500.0, 2)]  # fmt: skip

    [said, *_] = said_of([*jobs, *of_label])

    assert said.startswith("subset: ")
    assert "jobs of gpu, which waited so, only ever ran on 2 of the 12 runners" in said
