"""What the bounded search tells where the records leave a number open."""

from __future__ import annotations

import numpy as np

from farm.results.table.columns import Floats
from farm.twin.calibration import Search
from farm.twin.candidates import Candidate

RECORDED = np.full(10, 100.0)


def play(candidate: Candidate) -> Floats:
    """Return waits as recorded from a time-out of 500 s on, however many runners are kept."""
    return RECORDED * (1 + max(0.0, 500 / candidate.free["idle_timeout"] - 1))


def test_the_fewest_runners_kept_and_a_round_time_near_the_one_found():
    """Three kept for none, or 600 s for one of 500, are no rounder: they are other farms."""
    one = Candidate(algorithm="taskcluster", options={"min": 3}, free={"idle_timeout": 510.0})
    [best] = Search(play, RECORDED, 1000).best([one])
    assert best.candidate.options == {"min": 0}
    assert best.candidate.free["idle_timeout"] == 540.0
