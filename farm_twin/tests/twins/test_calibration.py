"""What the bounded search tells where the records leave a number open."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from farm.columns import Floats
from farm_twin.twins.candidates import DIGITS, Candidate
from farm_twin.twins.search import ANEW, DRAWN, SPREADS, Search

RECORDED = np.full(10, 100.0)


def play(candidate: Candidate) -> Floats:
    """Return waits as recorded from a time-out of 500 s on, however many runners are kept."""
    return RECORDED * (1 + max(0.0, 500 / candidate.free["idle_timeout"] - 1))


def test_the_fewest_runners_kept_and_a_round_time_near_the_one_found():
    """Three kept for none, or 600 s for one of 500, are no rounder: they are other farms."""
    one = Candidate(algorithm="taskcluster", options={"min": 3}, free={"idle_timeout": 510.0})
    [best] = Search(play, RECORDED, lambda: False).best([one])
    assert best.candidate.options == {"min": 0}
    assert best.candidate.free["idle_timeout"] == 540.0


def test_a_time_that_no_wait_depends_on():
    """The shortest is told for which none of the times without work is too long, and that."""
    one = Candidate(
        algorithm="target-wait",
        free={"idle_timeout": 1300.0},
        bounds={"idle_timeout": (610.0, 1e9)},
        likely={"idle_timeout": (610.0, 670.0)},
    )
    search = Search(play, RECORDED, lambda: False)
    fits = search.best([one])
    assert fits[0].candidate.free["idle_timeout"] == 660.0
    assert list(search.evidence(fits)) == [
        "idle_timeout: 22m explains as much as 11m, no record tells"
    ]
    # where the records bound it they tell
    near = msgspec.structs.replace(one, bounds={"idle_timeout": (610.0, 700.0)})
    assert not list(search.evidence(search.best([near])))


def test_what_is_late_ends_with_the_best_so_far():
    """The first candidate is played in any case; then rounder ones, which are few."""
    others = [Candidate(algorithm="taskcluster", free={"idle_timeout": 100.0 * n}) for n in (1, 2)]
    search = Search(play, RECORDED, lambda: search.played >= 1)
    [best] = search.best(others)
    assert search.is_over
    assert best.candidate.free["idle_timeout"] < 200.0


def test_a_first_plan_is_never_at_zero():
    """One that rounds to it, as the first arrival is at 0, is a period later."""
    one = Candidate(algorithm="jenkins", first_plan=0.1**DIGITS / 3, period=10.0)
    assert one.document()["provisioner"]["first_plan"] == 10.0


@pytest.mark.parametrize(("off", "rounds"), [(0.1, 1 + ANEW), (0.004, 1)])
def test_what_is_not_exact_is_searched_anew(off, rounds):
    """From the first points, with other draws: one search may end at a wrong place."""
    search = Search(lambda _: (1 + off) * RECORDED, RECORDED, lambda: False)
    search.best([Candidate(algorithm="arc", free={"boot_time": 60.0})])
    assert search.played == 1 + rounds * DRAWN * len(SPREADS)
