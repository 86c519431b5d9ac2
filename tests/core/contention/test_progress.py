"""Progress under contention: exact finishes, one at a time, in a stated order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.contention.laws import (
    THESIS_TABLE,
    ContentionLaw,
    LinearSlowdown,
    Load,
    SlowdownTable,
    ThreadSlowdown,
)
from farm.core.contention.progress import Progress
from farm.core.errors import InvariantError

THESIS = ContentionLaw(THESIS_TABLE)

tables = st.lists(st.floats(0, 2), min_size=1, max_size=6).map(
    lambda steps: SlowdownTable(tuple(1 + sum(steps[: k + 1]) for k in range(len(steps))))
)
linear = st.builds(LinearSlowdown, st.integers(0, 4), st.floats(0, 2))
threads = st.builds(ThreadSlowdown, st.integers(1, 8), st.integers(0, 4))
laws = st.builds(
    ContentionLaw,
    tables | linear | threads | st.none(),
    tables | linear | st.none(),
    st.sampled_from(["product", "max"]),
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[float, float, bool, bool, int]]:
    """Draw jobs by start: (start, work, heavy, memory heavy, threads)."""
    jobs = st.tuples(
        st.floats(0, 10), st.floats(0.01, 5), st.booleans(), st.booleans(), st.integers(1, 4)
    )
    return sorted(draw(st.lists(jobs, min_size=1, max_size=7)), key=lambda job: job[0])


def finishes(
    law: ContentionLaw, jobs: list[tuple[float, float, bool, bool, int]]
) -> dict[int, float]:
    """Run a history through Progress; return when each job finished."""
    progress: Progress[int] = Progress(law)
    done: dict[int, float] = {}

    def pop(at: float) -> None:
        while finish := progress.pop_due(at):
            done[finish[1]] = finish[0]

    for token, (at, work, heavy, memory_heavy, threads) in enumerate(jobs):
        pop(at)
        progress.start(
            at, token, work, heavy=heavy, memory_heavy=memory_heavy, threads=threads, slot=token
        )
    pop(float("inf"))
    return done


def test_a_job_alone_takes_its_work_divided_by_the_builders_speed() -> None:
    """Protects the uncontended case, where the finish is exact to the last bit."""
    progress: Progress[str] = Progress(speed=2.0)
    progress.start(0.1, "a", 3.0)
    assert progress.next_finish() == (0.1 + 3.0 / 2.0, "a")


def test_memory_is_a_separate_resource_and_the_factors_multiply() -> None:
    """Protects the second resource: its own count, its own table, a product by default."""
    cpu, memory = SlowdownTable((1, 1, 1.4)), SlowdownTable((1, 1, 1.5))
    for combine, factor in (("product", 1.4 * 1.5), ("max", 1.5)):
        progress: Progress[int] = Progress(ContentionLaw(cpu, memory, combine))
        progress.start(0, 1, 9, heavy=True, memory_heavy=True)
        assert progress.slowdown == 1
        progress.start(0, 2, 9, heavy=True)
        assert progress.slowdown == 1.4
        progress.start(0, 3, 9, memory_heavy=True)
        assert progress.slowdown == pytest.approx(factor)


def test_threads_against_cores() -> None:
    """Protects the thread law: fair shares of the cores, heavy jobs counting for their minimum."""
    progress: Progress[int] = Progress(ContentionLaw(ThreadSlowdown(8, 4)))
    progress.start(0, 1, 9, heavy=True)
    progress.start(0, 2, 9, heavy=True)
    assert progress.slowdown == 1
    progress.start(0, 3, 9, threads=2)
    assert progress.slowdown == 10 / 8
    progress.stop(0, 1)
    assert progress.slowdown == 1


def test_jobs_that_end_together_end_one_at_a_time_by_slot_then_by_start() -> None:
    """Protects determinism of ties."""
    progress: Progress[str] = Progress(THESIS)
    for name, slot in (("c", 2), ("first", 1), ("second", 1), ("a", 0)):
        progress.start(0.0, name, 1.0, heavy=True, slot=slot)
    ended = [progress.pop_due(10.0) for _ in range(4)]
    assert [token for _, token in filter(None, ended)] == ["a", "first", "second", "c"]
    assert [at for at, _ in filter(None, ended)] == pytest.approx([2.2] * 4)


def test_a_stopped_job_returns_the_work_that_it_had_left() -> None:
    """Protects cancellation: the rest is returned, and the others speed up."""
    progress: Progress[str] = Progress(THESIS)
    progress.start(0.0, "a", 10.0, heavy=True)
    progress.start(0.0, "b", 10.0, heavy=True)
    assert progress.stop(1.4, "a") == pytest.approx(9.0)
    assert progress.next_finish() == (pytest.approx(10.4), "b")


def test_many_cancelled_jobs_leave_no_rubbish_behind_a_long_one() -> None:
    """Protects memory: what is kept is bounded by what runs."""
    progress: Progress[int] = Progress(THESIS)
    progress.start(0.0, -1, 1.0)
    for token in range(1000):
        progress.start(0.0, token, 100.0 + token)
        progress.stop(0.0, token)
    assert len(progress._ends) == 1
    assert progress.next_finish() == (1.0, -1)


def test_an_instant_before_the_latest_counts_as_the_latest() -> None:
    """Protects a live host whose reports come a little out of order."""
    progress: Progress[str] = Progress()
    progress.start(5.0, "a", 1.0)
    progress.start(4.0, "b", 1.0)
    assert progress.pop_due(6.0) == (6.0, "a")
    assert progress.pop_due(6.0) == (6.0, "b")
    progress = Progress(THESIS)
    progress.start(5.0, "a", 1.0, heavy=True)
    progress.start(5.0, "b", 4.0, heavy=True)
    progress.stop(4.0, "a")  # the other is faster from 5 s on
    assert progress.pop_due(9.0) == (9.0, "b")


def test_misuse_is_an_invariant_error() -> None:
    """Protects worlds from silently losing a job."""
    progress: Progress[str] = Progress()
    progress.start(0.0, "a", 1.0)
    with pytest.raises(InvariantError, match="already"):
        progress.start(0.0, "a", 1.0)
    with pytest.raises(InvariantError, match="not running"):
        progress.stop(0.0, "b")
    for work in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InvariantError, match="work"):
            progress.start(0.0, "c", work)


def test_rounding_does_not_add_up_over_a_long_busy_life() -> None:
    """Protects a builder that is never empty: a million seconds on, finishes are still exact.

    A light job of 1 s follows another, beside one heavy job that ends long after all of them.
    """
    progress: Progress[int] = Progress(THESIS)
    progress.start(0.0, -1, 1e7, heavy=True)
    at = 0.0
    for token in range(20_000):
        progress.start(at, token, 49.7, heavy=bool(token % 2))
        finish = progress.pop_due(float("inf"))
        assert finish is not None
        at = finish[0]
    assert at == pytest.approx(10_000 * 49.7 * (1 + 1.4), rel=1e-12)


@given(laws, st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_rates_never_rise_with_load(
    law: ContentionLaw, heavy: int, memory: int, threads: int
) -> None:
    """Protects every law: one more job of any weight makes no job faster."""
    now = law.slowdown(Load(heavy, heavy, memory, threads))
    assert now >= 1
    for more in (
        Load(heavy, heavy + 1, memory, threads),
        Load(heavy, heavy, memory + 1, threads),
        Load(heavy, heavy, memory, threads + 1),
    ):
        assert law.slowdown(more) >= now


@given(laws, histories())
def test_work_is_conserved(
    law: ContentionLaw, jobs: list[tuple[float, float, bool, bool, int]]
) -> None:
    """Protects the books: the integral of a job's rate over its stay is its work."""
    progress: Progress[int] = Progress(law)
    done = dict.fromkeys(range(len(jobs)), 0.0)
    running: set[int] = set()
    now = 0.0

    def advance(to: float) -> None:
        nonlocal now
        for token in running:
            done[token] += (to - now) / progress.slowdown
        now = to

    def pop(until: float) -> None:
        while (finish := progress.next_finish()) and finish[0] <= until:
            advance(finish[0])
            assert progress.stop(*finish) == pytest.approx(0, abs=1e-9)
            running.remove(finish[1])

    for token, (at, work, heavy, memory_heavy, threads) in enumerate(jobs):
        pop(at)
        advance(at)
        progress.start(at, token, work, heavy=heavy, memory_heavy=memory_heavy, threads=threads)
        running.add(token)
    pop(float("inf"))
    assert not running
    assert list(done.values()) == pytest.approx([job[1] for job in jobs], rel=1e-9)


def ticked(
    law: ContentionLaw, jobs: list[tuple[float, float, bool, bool, int]], step: float
) -> dict[int, float]:
    """Run the same history by small steps: every rate is looked up once a step."""
    left = {token: job[1] for token, job in enumerate(jobs)}
    done: dict[int, float] = {}
    tick = 0
    while left:
        at, tick = tick * step, tick + 1
        here = [token for token in left if jobs[token][0] <= at]
        load = Load(
            len(here),
            sum(jobs[token][2] for token in here),
            sum(jobs[token][3] for token in here),
            sum(law.threads_of(jobs[token][4], heavy=jobs[token][2]) for token in here),
        )
        rate = 1 / law.slowdown(load)
        for token in here:
            left[token] -= step * rate
            if left[token] <= 0:
                done[token] = tick * step
                del left[token]
    return done


@given(
    st.builds(
        ContentionLaw,
        st.lists(st.floats(0, 0.5), min_size=1, max_size=4).map(
            lambda steps: SlowdownTable(tuple(1 + sum(steps[: k + 1]) for k in range(len(steps))))
        ),
        st.builds(LinearSlowdown, st.integers(0, 2), st.floats(0, 0.3)),
    ),
    histories(),
)
def test_a_tick_model_tends_to_the_exact_finishes_as_its_step_goes_to_zero(
    law: ContentionLaw, jobs: list[tuple[float, float, bool, bool, int]]
) -> None:
    """Protects exactness: the tick model errs by at most a constant times its step."""
    exact = finishes(law, jobs)
    worst = law.slowdown(Load(len(jobs), len(jobs), len(jobs), 4 * len(jobs)))
    for step in (0.2, 0.05, 0.0125):
        rough = ticked(law, jobs, step)
        error = max(abs(rough[token] - exact[token]) for token in exact)
        assert error <= step * worst * (2 * len(jobs) + 1)
