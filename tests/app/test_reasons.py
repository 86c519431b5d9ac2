"""Why a job went when it did, in the words of who asks."""

from __future__ import annotations

import pytest

from farm.app.jobs.job_descriptions import reason_of
from farm.core.dispatching.decisions import Competitor, Decision


@pytest.mark.parametrize(
    ("key", "its", "said"),
    [
        ((0, 0.0, 143), (0, 0.0, 150), "same level, earliest of 118"),
        ((-2, 9.0, 143), (0, 0.0, 3), "highest level of 118"),
        ((0, 12.5, 143), (0, 13.0, 3), "same level, smallest key of the policy (12.5) of 118"),
    ],
)
def test_the_first_in_line_is_told_by_what_decided(
    key: tuple[float, ...], its: tuple[float, ...], said: str
) -> None:
    """Its whole key was printed, as [0, 0.0, 143]."""
    decision = Decision(
        at=1.0,
        job="a",
        builder="b",
        slot=0,
        platform="amd64/virtual",
        key=key,
        waiting=117,
        next=(Competitor("c", its, ()),),
        free_builders=(),
    )
    assert reason_of(decision) == f"it was first in line: {said}"
