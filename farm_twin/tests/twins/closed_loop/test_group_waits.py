"""Places in groups, as records show them."""

from __future__ import annotations

from farm_twin.tests.twins.closed_loop.test_foreseen_change import attempt_of
from farm_twin.twins.closed_loop.group_waits import without_wrong_limits


def test_a_place_that_is_left_within_the_clocks_is_no_breach_of_a_limit() -> None:
    """Of a group with another limit than the records say, each overlapping start is one."""
    for overlap, is_kept in ((0.5, True), (5.0, False)):
        attempts = [
            attempt_of(str(place), (10 - overlap) * place, group="deploy:1") for place in range(40)
        ]
        kept, wrong = without_wrong_limits(attempts, tolerance=1.0)
        assert (wrong == []) is is_kept
        assert (kept == attempts) is is_kept
