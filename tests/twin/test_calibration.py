"""The bounded search finds parameters, and options that fit worse at first."""

from __future__ import annotations

import math

import numpy as np
import pytest

from farm.results.table.columns import Floats
from farm.twin.calibration import Search
from farm.twin.candidates import Candidate

RECORDED = np.full(10, 100.0)


def play(candidate: Candidate) -> Floats:
    """Return waits as recorded if no runner is kept for 480 s; a fifth too long if some are."""
    idle_timeout = candidate.free["idle_timeout"]
    if candidate.options["min"]:
        return RECORDED * (1.2 + abs(math.log(idle_timeout / 600)) / 20)
    return RECORDED * (1 + abs(math.log(idle_timeout / 480)))


@pytest.mark.parametrize("played", [0, 7, 14])
def test_what_fits_worse_at_first_may_fit_best(played):
    """Three runners kept explain more at once; none, with a time-out not yet tried, explain all."""
    candidates = [
        Candidate(algorithm="taskcluster", options={"min": number}, free={"idle_timeout": lasts})
        for number, lasts in ((0, 60.0), (1, 300.0), (3, 300.0))
    ]
    search = Search(play, RECORDED, 1000)
    search.played = played  # other draws
    [best] = search.best(candidates)
    assert best.candidate.options == {"min": 0}
    assert best.candidate.free["idle_timeout"] == pytest.approx(480.0)
