"""Ends that are simultaneous on paper come by builder and slot, whatever binary numbers make of it.

Small farms with contention, of the thesis's kind, are calculated in exact fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import farm
from farm.core.contention.laws import THESIS_TABLE
from farm.testing import small_scenario
from tests.fixtures.examples import examples

pytestmark = pytest.mark.usefixtures("kernel")

#: what these words mean on paper: 7/5 is no binary number
FACTORS = [Fraction(str(factor)) for factor in THESIS_TABLE.factors]
#: seconds of which all times are multiples, written as a user writes them
UNITS = [Fraction(text) for text in ("0.1", "1", "1.4", "0.3", "0.01", "0.5")]
SPEEDS = ["1", "1", "1.5", "0.7"]


class Exact:
    """A farm of the thesis's model, in fractions; ``jobs``: id, arrival, work, whether heavy."""

    def __init__(self, jobs: list[Any], pools: list[Any], slots: int, *, together: bool) -> None:
        self.todo, self.pools, self.slots, self.together = list(jobs), pools, slots, together
        self.waiting: list[Any] = []
        #: by builder and slot: the job, its work left, whether it is heavy
        self.running: list[dict[int, list[Any]]] = [{} for _ in pools]
        self.ends: list[str] = []
        self.at = Fraction(0)

    def rate(self, builder: int) -> Fraction:
        """Return how much work each job on a builder does per second."""
        speed, contended = self.pools[builder]
        heavy = sum(job[2] for job in self.running[builder].values())
        return Fraction(speed) / (FACTORS[heavy] if contended else 1)

    def fill(self) -> None:
        """Give waiting jobs to free slots: slots ÷ (0.5 + busy), the first builder on a tie."""
        while self.waiting:
            free = [b for b, jobs in enumerate(self.running) if len(jobs) < self.slots]
            if not free:
                return
            jobs = self.running[min(free, key=lambda b: (len(self.running[b]), b))]
            slot = min(set(range(self.slots)) - set(jobs))
            name, _, work, heavy = self.waiting.pop(0)
            jobs[slot] = [name, work, heavy]

    def play(self) -> list[str]:
        """Return the jobs in the order of their ends."""
        while self.todo or any(self.running):
            ends = [
                self.at + job[1] / self.rate(b)
                for b, jobs in enumerate(self.running)
                for job in jobs.values()
            ]
            then = min([*ends, *(job[1] for job in self.todo[:1])])
            for builder, jobs in enumerate(self.running):
                done = (then - self.at) * self.rate(builder)
                for job in jobs.values():
                    job[1] -= done
            self.at = then
            while due := [
                (b, slot)
                for b, jobs in enumerate(self.running)
                for slot in sorted(jobs)
                if jobs[slot][1] == 0
            ]:
                for builder, slot in due if self.together else due[:1]:
                    self.ends.append(self.running[builder].pop(slot)[0])
                self.fill()
            while self.todo and self.todo[0][1] == then:
                self.waiting.append(self.todo.pop(0))
            self.fill()
        return self.ends


@st.composite
def farms(draw: st.DrawFn) -> tuple[list[Any], list[Any], int]:
    """Return jobs, builders (speed, whether with contention), and their slots."""
    unit = draw(st.sampled_from(UNITS))
    times = st.integers(1, draw(st.sampled_from([3, 6, 20]))).map(lambda n: n * unit)
    gaps = st.sampled_from([0, 0, 0, 1, 2]).map(lambda n: n * unit)
    given = draw(st.lists(st.tuples(gaps, times, st.booleans()), min_size=12, max_size=25))
    at, jobs = Fraction(0), []
    for number, (gap, work, heavy) in enumerate(given):
        at += gap
        jobs.append((f"j{number:02}", at, work, heavy))
    builders = st.tuples(st.sampled_from(SPEEDS), st.sampled_from([True, True, False]))
    pools = draw(st.lists(builders, min_size=1, max_size=3))
    return jobs, pools, draw(st.integers(1, 4))


def played(jobs: list[Any], pools: list[Any], slots: int, engine: Any, ends: str) -> farm.Result:
    """Play the same farm."""
    made = [
        {"name": f"p{number}", "slots": slots, "speed": float(speed)}
        | ({"contention": {"slowdown": "thesis"}} if contended else {})
        for number, (speed, contended) in enumerate(pools)
    ]
    return farm.simulate(
        small_scenario(made, scheduling={"simultaneous_ends": ends}),
        jobs=[
            farm.Job(id=name, arrived_at=float(at), service_time=float(work), heavy=heavy)
            for name, at, work, heavy in jobs
        ],
        engine=engine,
        keep_events=True,
    )


def order_of(result: farm.Result) -> list[str]:
    """Return the jobs in the order of their ends."""
    return [event["job"] for event in result.events if event["event"] == "job-finished"]


@pytest.mark.parametrize("ends", ["one-by-one", "together"])
@examples(30)
@given(drawn=farms())
def test_ends_come_in_the_order_of_exact_arithmetic(ends: str, drawn: Any) -> None:
    """Of farms with ties, a quarter had another history: a slot was free an ulp too early."""
    together = ends == "together"
    exact = Exact(*drawn, together=together).play()
    result = played(*drawn, engine="reference", ends=ends)
    assert order_of(result) == exact


@examples(15)
@given(drawn=farms())
def test_the_compiled_loop_has_the_same_ties(drawn: Any) -> None:
    """Its log is the reference's, to the last digit, where instants differ by rounding too."""
    fast, reference = (
        list(played(*drawn, engine=engine, ends="one-by-one").events)
        for engine in ("fast", "reference")
    )
    assert fast == reference


@pytest.mark.parametrize("engine", ["reference", "fast"])
def test_tenths_of_a_second_add_up(engine: str) -> None:
    """0.1 + 0.2 s is 0.3 s: the first builder takes the next job, and an arrival finds it free."""
    tenth = Fraction(1, 10)
    # a and b are on the first builder, one after the other; c is on the second
    jobs = [("a", 0, tenth, False), ("c", 0, 3 * tenth, False), ("b", 0, 2 * tenth, False)]
    jobs += [("d", 3 * tenth, tenth, False), ("e", 3 * tenth, tenth, False)]
    result = played(jobs, [("1", False), ("1", False)], 1, engine, "one-by-one")
    assert order_of(result) == ["a", "b", "c", "d", "e"]
    ended_at = dict(zip(result.jobs["job_id"], result.jobs["finished_at_s"], strict=True))
    assert ended_at["b"] == ended_at["c"] == 0.3
