"""Records of farms of which only figures were published, made up so that they have those figures.

The instants are drawn here, each with one seed; what was published of each farm, and where, stands
beside it.
"""

from __future__ import annotations

import heapq
import math
import random

from farm.records.attempt import Attempt
from tests.fixtures.attempts import attempt, served

START = 1_793_610_000.0
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def circleci() -> list[Attempt]:
    """Fifty jobs of five minutes an hour: 4.17 erlangs, for which twelve servers were advised.

    CircleCI's articles on simulated build fleets, 2016.
    """
    draw = random.Random(1)
    at, arrivals = START, []
    for _ in range(50 * 24 * 7):
        at += draw.expovariate(50 / HOUR)
        arrivals.append(at)
    return served(arrivals, lambda: 5 * MINUTE, 12)


def dismech() -> list[Attempt]:
    """A serial merge queue: 56 entries a day, each tested for 35 minutes (dismech, 2026)."""
    draw = random.Random(1)
    between = [START + draw.random() * 7 * DAY for _ in range(56 * 7 - 2)]
    return served(sorted([START, *between, START + 7 * DAY]), lambda: 35 * MINUTE, 1)


def oloengine() -> list[Attempt]:
    """Two runners, 345 jobs in three days, of which 152 were superseded while they waited.

    202.8 minutes of work an hour for 120 of two runners, so utilization 1.69; of it 1.07 jobs an
    hour of 62.1 minutes. Waits of those that started: median 67.0, p90 239.9, at most 388.1
    minutes; the runners were busy for 86.1 % (OloEngine, 2026). Longer jobs are superseded more
    often, so that those that ran are shorter than those that came.
    """
    draw = random.Random(6)
    long_ones, offered = 77, 202.8 * 72
    kinds = ["tsan"] * long_ones + ["other"] * (345 - long_ones)
    draw.shuffle(kinds)
    minutes = {"tsan": 62.1, "other": (offered - long_ones * 62.1) / (345 - long_ones)}
    arrivals = [0.0, 72.0]
    while len(arrivals) < len(kinds):
        hour = draw.uniform(0, 72)
        if draw.random() < (1 + 0.7 * math.sin(hour * math.tau / 24)) / 1.7:
            arrivals.append(hour)
    free = [(START, "olo-1"), (START, "olo-2")]
    found = []
    for number, (hour, kind) in enumerate(zip(sorted(arrivals), kinds, strict=True)):
        at, lasts = START + hour * HOUR, minutes[kind] * MINUTE
        patience = draw.expovariate(1 / (40 * MINUTE * (0.3 if kind == "tsan" else 1.0)))
        patience = math.inf if draw.random() < 0.4 else patience
        begins = max(at, free[0][0])
        if begins - at > patience:
            one = attempt(number, at, None, at + patience, kind=kind)
            one.result = "cancelled"
            found.append(one)
            continue
        heapq.heapreplace(free, (begins + lasts, runner := free[0][1]))
        found.append(attempt(number, at, begins, begins + lasts, kind=kind, runner=runner))
    return found


def gaia(*, one_runner_per_job: bool = False) -> list[Attempt]:
    """Five machines in seven hours, idle for 48 % of them while 100 to 148 jobs waited.

    Waits of those that started: median 2.5 hours, at most 5.5; jobs of 2.4 minutes in the median,
    2 minutes from one to the next (a third of the idle time), and gaps of 25, 41, 51 and 62
    minutes. Against 3 machines of a roster that was read once, 88 % seemed busy (amd/gaia, 2026).
    """
    draw = random.Random(3)
    window, each = 7 * HOUR, 34
    found, number = [], 0
    for machine, gap in enumerate((62, 51, 41, 25, 25)):
        jobs = [draw.lognormvariate(math.log(2.4), 1.4) for _ in range(each)]
        scale = 0.52 * window / sum(jobs)
        idle = [draw.expovariate(1) ** 2 for _ in range(each - 2)]
        left = 0.48 * window - (each - 1) * 2 * MINUTE - (gap - 2) * MINUTE
        gaps = [2 * MINUTE + left * one / sum(idle) for one in idle]
        gaps.insert(draw.randrange(len(gaps)), gap * MINUTE)
        at = START
        for lasts, pause in zip(jobs, [*gaps, 0.0], strict=True):
            waited = draw.triangular(0.3, 5.5, 1.2) * HOUR
            runner = f"vm-{number}" if one_runner_per_job else f"machine-{machine}"
            found.append(attempt(number, at - waited, at, at + lasts * scale, runner=runner))
            at += lasts * scale + pause
            number += 1
    return [*found, *_left_waiting(found, window)]


def _left_waiting(ran: list[Attempt], window: float) -> list[Attempt]:
    """Return jobs that did not start within the window, so that 100, at the end 148, waited."""
    left: list[Attempt] = []
    for minute in range(0, int(window), 60):
        at = START + minute
        waiting = sum(one.submitted_at <= at < (one.started_at or 0.0) for one in ran) + len(left)
        for _ in range(int(100 + 48 * minute / window) - waiting):
            left.append(attempt(10_000 + len(left), at, None, START + window))
            left[-1].result = "cancelled"
    return left


def hephaestus() -> list[Attempt]:
    """Eight entries of a merge queue, 40 jobs each, three at a time, on 20 hosted jobs at once.

    One entry left in about ten minutes, and groups waited for more than twenty (Hephaestus, 2026).
    """
    draw = random.Random(1)
    free = [START] * 20
    ends: list[float] = []
    found = []
    for entry in range(8):
        at = START if entry < 3 else ends[entry - 3]
        last = 0.0
        for _ in range(40):
            begins, lasts = max(at, free[0]), draw.uniform(2.5, 7.5) * MINUTE
            heapq.heapreplace(free, begins + lasts)
            last = max(last, begins + lasts)
            name = f"hosted-{len(found)}"
            known = {"platform": "ubuntu-latest", "matrix": f"entry-{entry}", "hosted": True}
            found.append(attempt(len(found), at, begins, begins + lasts, runner=name, **known))
        ends.append(last)
    return found
