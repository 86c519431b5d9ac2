"""The dispatch estimator beyond the cases of tests/conformance: corners, generalisations."""

import pytest

from farm.core.errors import StateError
from farm.core.model import Platform
from farm.forecasts.dispatch.launchpad_formula import FARM, estimate_queue
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobView
from farm.upstream.launchpad import LAUNCHPAD, LAUNCHPAD_2010, PAGE
from tests.fixtures.estimates import estimate_dispatch, predecessors_of


def builders(count, processor="i386", *, virtualized=True, **more):
    """Return equal builders."""
    flag = "v" if virtualized else "n"
    return tuple(
        BuilderView(f"{processor}-{flag}-{i}", (processor,), virtualized, **more)
        for i in range(count)
    )


def queue(*durations, **more):
    """Return waiting i386 virtual jobs p0, p1, … in falling score, then the job of interest."""
    need = {"processor": "i386", "virtualized": True} | more
    return tuple(
        JobView(i, f"p{i}", **need, score=100.0 - i, duration_s=duration)
        for i, duration in enumerate(durations)
    )


def running(number, builder, duration, elapsed, **more):
    """Return a job that holds a builder."""
    status = more.pop("status", "running")
    return JobView(
        900 + number, f"r{number}", "i386", True, 0.0, duration, status, builder, elapsed
    )


@pytest.mark.parametrize(
    ("duration", "elapsed", "tnb", "why"),
    [
        (100.0, 40.0, 60.0, "finishes"),
        (100.0, 100.0, 0.0, "finishes"),
        (100.0, 100.5, 120.0, "overdue"),
        (100.0, None, 120.0, "unknown"),
        (None, 40.0, 120.0, "unknown"),
    ],
)
def test_remaining_time(duration, elapsed, tnb, why):
    """Exactly on time is zero, late or unknown is two minutes."""
    view = FarmView(builders(1), (running(1, "i386-v-0", duration, elapsed), *queue(60)))
    found = estimate_dispatch(view, 0, LAUNCHPAD).next_builder
    assert (found.tnb_s, found.why) == (tnb, why)


def test_rounding_is_per_group_as_written_in_2010():
    """In 2010 unspecified and virtual sums were rounded apart, then added, then divided."""
    jobs = (
        JobView(1, "a", None, None, 9.0, 10.4),
        JobView(2, "b", None, True, 8.0, 10.4),
        JobView(3, "joi", None, True, 1.0, 1.0),
    )
    view = FarmView(builders(1), jobs)
    assert estimate_dispatch(view, 3, LAUNCHPAD_2010).plt_s == 20
    assert estimate_dispatch(view, 3, LAUNCHPAD).plt_s == 21


def test_place_in_dispatch_order():
    """With an order of dispatch, "ahead" means ahead in it; the score is ignored."""
    jobs = queue(100, 200, 300)
    shortest_last = FarmView(builders(1), jobs, order=(2, 1, 0))
    assert predecessors_of(shortest_last, 0, PAGE) == ["p2", "p1"]
    assert estimate_dispatch(shortest_last, 2, PAGE).plt_s == 0
    by_score = FarmView(builders(1), jobs, order=(0, 1, 2))
    for job in jobs:
        given = estimate_dispatch(by_score, job.id, LAUNCHPAD)
        assert given == estimate_dispatch(FarmView(builders(1), jobs), job.id, LAUNCHPAD)


@pytest.mark.parametrize("order", [(0, 1), (0, 1, 1), (0, 1, 2, 3), (0, 1, 7)])
def test_order_must_name_every_waiting_job(order):
    """An order that forgets, repeats or invents a job is refused."""
    with pytest.raises(StateError, match="order"):
        FarmView(builders(1), queue(1, 2, 3), order).waiting()


def test_builder_with_several_processors():
    """Launchpad ignores a sibling processor's job ahead on the only builder; the farm counts it."""
    both = BuilderView("m1", ("i386", "amd64"))
    jobs = (JobView(1, "p", "amd64", True, 9.0, 600.0), JobView(2, "joi", "i386", True, 1.0, 60.0))
    view = FarmView((both,), jobs)
    assert estimate_dispatch(view, 2, LAUNCHPAD).estimate_s == 5
    ours = estimate_dispatch(view, 2, FARM)
    assert (ours.predecessors, ours.estimate_s, ours.head_job) == (1, 600, "p")


def test_empty_queue_and_new_jobs():
    """With nothing waiting there are no rows, and a new job's estimate is its builder's."""
    view = FarmView(builders(1), (running(1, "i386-v-0", 100.0, 40.0),))
    jobs, found = estimate_queue(view, LAUNCHPAD)
    assert not jobs
    assert len(found) == 0
    assert found.new_job(Platform("i386", True)) == 60
    assert found.head_of_queue(Platform("i386", True)) == 60
    assert found.new_job(Platform("arm", True)) is None
