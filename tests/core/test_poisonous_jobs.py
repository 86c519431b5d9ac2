"""A job that ends its builders is retried only a few times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farm.core.model import Cause


def test_a_job_that_ends_its_builders_fails_whatever_its_retries(ledger):
    """It names them; a builder that did not know it or was stopped on purpose does not count."""
    farm = ledger("x", retries=99, max_builders_lost=2)
    farm.submit("a")
    assert farm.attempt_lost("a") == ["requeue a/1", "start a/2 on x.0"]
    assert farm.lose("x", "its host left", excused=True) == ["requeue a/2"]
    farm.join("y")
    assert farm.lose("y", "its host is silent") == ["requeue a/3"]
    farm.restart()
    assert farm.scheduler.jobs["a"].builders_lost == ("y",)
    farm.join("z")
    assert farm.lose("z", "its host is silent") == ["end a failed"]
    (end,) = farm.commands
    assert (end.cause, end.attempts) == (Cause.POISONOUS, 4)
    assert end.reason == "its host is silent (builders lost under it: y, z)"


@given(
    retries=st.integers(0, 20),
    bound=st.integers(1, 5),
    losses=st.lists(st.sampled_from(["lost", "excused", "unknown", "restart"]), max_size=40),
)
def test_no_job_takes_more_builders_with_it_than_the_bound(ledger, retries, bound, losses):
    """Whatever else happens to its attempts, and however often the scheduler is restarted."""
    farm = ledger(retries=retries, max_builders_lost=bound)
    farm.submit("a")
    lost = 0
    for number, how in enumerate(losses):
        if "a" not in farm.scheduler.jobs:
            break
        if how == "restart":
            farm.restart()
            continue
        if not farm.running:
            farm.join(f"b{number}")
        (place,) = farm.running.values()
        if how == "unknown":
            farm.attempt_lost("a")
        else:
            farm.lose(place.partition(".")[0], excused=how == "excused")
            lost += how == "lost"
    assert lost <= bound
    if lost == bound:
        assert farm.commands[-1].cause is Cause.POISONOUS
