"""The fairness index: what parties got of the slots over what they were entitled to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import farm
from farm.columns import Coded
from farm.results.summary.fairness import SlotShares, indices_of_runs, max_min_shares
from farm.results.table.job_columns import Jobs

times = st.floats(0.0, 50.0).map(lambda time: round(time, 2))
spans = st.lists(
    st.tuples(times, times, times, st.sampled_from("ab"), st.sampled_from("xy")),
    min_size=1,
    max_size=12,
)


def jobs_of(rows: list[tuple[float, float, float, str, str]]) -> tuple[Jobs, np.ndarray, list[str]]:
    """Return jobs that arrive, wait, and run; their parties; and the names of these."""
    arrived, waits, runs = (np.array(column, float) for column in list(zip(*rows, strict=True))[:3])
    names = ["", "a", "b"]
    platforms = Coded(np.array(["xy".index(row[4]) for row in rows]), ["x", "y"])
    none = Coded(np.full(len(rows), -1), [])
    jobs = Jobs.of(
        [None] * len(rows),
        intended_at=arrived,
        submitted_at=arrived,
        dispatched_at=arrived + waits,
        finished_at=arrived + waits + runs,
        platform=platforms,
        shared=np.zeros(len(rows), np.bool_),
        matrix=none,
    )
    return jobs, np.array([names.index(row[3]) for row in rows]), names


def index_of(rows: Any, weights: Any = None, pieces: int = 1) -> float:
    """Return the index of jobs that are given in some pieces."""
    shares = SlotShares(weights or {})
    jobs, party, names = jobs_of(rows)
    for some in np.array_split(np.arange(len(jobs)), pieces):
        if len(some):
            shares.take(jobs.taken(some), party[some], names)
    return shares.index()


def test_who_submits_more_does_not_make_a_farm_unfair() -> None:
    """Two teams with one of two slots each: that one of them has a queue of its own is its own."""
    queue = [(0.0, 10.0 * number, 10.0, "a", "x") for number in range(10)]
    assert index_of([*queue, (0.0, 0.0, 100.0, "b", "x")]) == 1.0


def test_who_waits_while_another_has_all_slots_makes_it_unfair() -> None:
    """For 100 s ``a`` has both slots and ``b`` is entitled to one: 200 ÷ 150 and 50 ÷ 100."""
    rows = [(0.0, 50.0 * half, 50.0, "a", "x") for half in (0, 0, 1, 1)]
    # b then has a slot for 50 s, alone
    found = index_of([*rows, (0.0, 100.0, 50.0, "b", "x")])
    by_hand = [200 / 100, 50 / 150]
    assert found == pytest.approx(sum(by_hand) ** 2 / (2 * sum(x * x for x in by_hand)), abs=1e-6)


def test_parties_with_platforms_of_their_own_take_nothing_from_each_other() -> None:
    """Slots of one platform are no use to the jobs of another."""
    assert index_of([(0.0, 40.0, 10.0, "a", "x"), (0.0, 0.0, 50.0, "b", "y")]) == 1.0


def test_a_weight_is_a_claim() -> None:
    """Three slots of four for ``a`` are fair if it weighs three times as much."""
    rows = [(0.0, 50.0 * half, 50.0, "a", "x") for half in (0, 0, 0, 1, 1, 1)]
    rows += [(0.0, 50.0 * half, 50.0, "b", "x") for half in (0, 1)]
    rows += [(0.0, 100.0, 0.0, party, "x") for party in "aaab"]
    assert index_of(rows, {"a": 3.0}) == 1.0
    assert index_of(rows) < 0.95


@settings(max_examples=10)
@given(spans, st.integers(1, 4))
def test_pieces_of_a_run_give_the_index_of_the_whole(rows: Any, pieces: int) -> None:
    """A run whose jobs are let go has the same summary."""
    assert index_of(rows, pieces=pieces) == pytest.approx(index_of(rows), abs=2e-6)


@settings(max_examples=10)
@given(st.lists(spans, min_size=2, max_size=4))
def test_runs_that_are_measured_together_have_the_index_that_each_has_alone(runs: Any) -> None:
    """A sweep has the same figures as its runs, however long each of these lasts."""
    # the second lasts longer, in longer steps
    runs[1] = [*runs[1], (0.0, 100.0, 300.0, "a", "x")]
    jobs, party, names = jobs_of([row for rows in runs for row in rows])
    run = np.repeat(np.arange(len(runs)), [len(rows) for rows in runs])
    alone = [index_of(rows) for rows in runs]
    assert indices_of_runs(jobs, run, len(runs), party, names, {}) == alone


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 9), st.floats(0.1, 9)), min_size=1, max_size=6),
    st.floats(0, 1),
)
def test_what_is_not_wanted_goes_to_the_others(parties: Any, part: float) -> None:
    """All is divided, no party has too much, and who has less than wanted has the highest level."""
    wanted, weights = np.array(parties).T
    shares = max_min_shares(wanted[:, None], weights, np.array([part * wanted.sum()]))[:, 0]
    assert shares.sum() == pytest.approx(part * wanted.sum(), abs=1e-9)
    assert (shares <= wanted + 1e-9).all()
    unsatisfied = shares < wanted - 1e-9
    if unsatisfied.any():
        levels = shares / weights
        assert levels[unsatisfied].min() == pytest.approx(levels.max(), abs=1e-9)


def test_fair_share_raises_the_index_of_the_example() -> None:
    """What users expect of the word: with one queue the calm team waits behind the loud one."""
    shared = farm.simulate("fair-share-two-teams")
    one_queue = farm.simulate("fair-share-two-teams", scheduling__fair_share=[])
    assert one_queue.summary["fairness_index"] < 0.7
    assert shared.summary["fairness_index"] > 0.99


@pytest.mark.parametrize(("level", "is_even"), [(0, True), (1, False)])
def test_parties_may_be_kinds(level: int, is_even: bool) -> None:
    """Fair share by a job's own key has parties, too; a level above it lets the others wait."""
    source = {"every": "0s", "service_time": "1s"}
    document = {
        "version": 1,
        "name": "kinds",
        "pools": [{"name": "linux", "builders": 1}],
        "workload": [
            {"arrivals": {**source, "name": "a", "count": 20, "kind": "unit", "level": level}},
            {"arrivals": {**source, "name": "b", "count": 10, "kind": "lint"}},
        ],
        "scheduling": {"fair_share": ["kind"]},
    }
    index = farm.simulate(document).summary["fairness_index"]
    assert (index > 0.95) == is_even
