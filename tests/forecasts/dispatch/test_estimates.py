"""The dispatch estimator, one job at a time: the page's examples, corners, generalisations."""

import pytest

from farm.core.errors import StateError
from farm.core.model import Platform
from farm.forecasts.dispatch.builder_pools import BuilderPools
from farm.forecasts.dispatch.queue_estimates import estimate_queue
from farm.forecasts.dispatch.rules import FARM
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobView
from farm.upstream.launchpad import LAUNCHPAD, LAUNCHPAD_2010, PAGE
from tests.fixtures.estimates import estimate_dispatch, predecessors_of

MINUTE = 60.0


def builders(count, processor="i386", *, virtualized=True, **more):
    """Return equal builders."""
    flag = "v" if virtualized else "n"
    return tuple(
        BuilderView(f"{processor}-{flag}-{i}", (processor,), virtualized, **more)
        for i in range(count)
    )


def queue(*durations, **more):
    """Return waiting i386 virtual jobs p0, p1, … in falling score, then the job of interest."""
    return tuple(
        JobView(i, f"p{i}", **({"processor": "i386", "virtualized": True} | more),
                score=100.0 - i, duration_s=duration)
        for i, duration in enumerate(durations)
    )  # fmt: skip


def running(number, builder, duration, elapsed, **more):
    """Return a job that holds a builder."""
    status = more.pop("status", "running")
    return JobView(
        900 + number, f"r{number}", "i386", True, 0.0, duration, status, builder, elapsed
    )


PAGE_BUILDERS = (
    *builders(4, virtualized=False),
    *builders(3),
    *builders(2, "amd64"),
    *builders(1, "hppa"),
)
PAGE_JOBS = tuple(
    JobView(n, f"J{n}", processor, virtual, 100.0 - n, minutes * MINUTE)
    for n, minutes, processor, virtual in (
        (1, 2, "i386", True),
        (2, 4, "i386", True),
        (3, 5, None, None),
        (4, 1, "i386", True),
        (5, 5, "i386", True),
        (6, 4, None, None),
        (7, 2, "hppa", True),
        (8, 3, None, None),
        (9, 2, "i386", True),
    )
)


def test_example_a():
    """Three predecessors and ten builders: divide by three."""
    jobs = queue(120, 240, 360, 60)
    assert estimate_dispatch(FarmView(builders(10), jobs), 3, PAGE).plt_s == 4 * MINUTE


def test_example_b():
    """Four predecessors and three builders: divide by three."""
    jobs = queue(120, 180, 240, 360, 60)
    assert estimate_dispatch(FarmView(builders(3), jobs), 4, PAGE).plt_s == 5 * MINUTE


@pytest.mark.parametrize("rules", [PAGE, LAUNCHPAD_2010, LAUNCHPAD, FARM], ids=lambda r: r.name)
def test_examples_c_and_d(rules):
    """Several kinds of job: groups are divided by their own pools and added, under all rules."""
    view = FarmView(PAGE_BUILDERS, PAGE_JOBS)
    c, d = estimate_dispatch(view, 9, rules), estimate_dispatch(view, 8, rules)
    assert (c.plt_s, d.plt_s) == (8 * MINUTE, 10.5 * MINUTE)
    assert predecessors_of(view, 9, rules) == ["J1", "J2", "J3", "J4", "J5", "J6", "J8"]
    assert predecessors_of(view, 8, rules) == ["J1", "J2", "J3", "J4", "J5", "J6", "J7"]
    assert [(g.jobs, g.sum_s, g.divisor) for g in d.groups] == [
        (4, 12 * MINUTE, 3),
        (2, 9 * MINUTE, 2),
        (1, 2 * MINUTE, 1),
    ]


@pytest.mark.parametrize("rules", [PAGE, LAUNCHPAD_2010, LAUNCHPAD, FARM], ids=lambda r: r.name)
def test_table_of_builders(rules):
    """The next builder is the one with the shortest remaining time: six minutes, Antarctica."""
    rows = {"Africa": (10, 2), "Americas": (12, 4), "Antarctica": (8, 2), "Australia": (22, 8)}
    busy = (
        running(i, name, duration * MINUTE, elapsed * MINUTE)
        for i, (name, (duration, elapsed)) in enumerate(rows.items())
    )
    view = FarmView(tuple(BuilderView(name, ("i386",)) for name in rows), (*queue(60), *busy))
    result = estimate_dispatch(view, 0, rules)
    assert result.next_builder.tnb_s == result.estimate_s == 6 * MINUTE
    assert result.next_builder.builder == "Antarctica"
    assert result.next_builder.job == "r2"


def test_page_neither_rounds_nor_floors():
    """The page's own numbers may be fractions and zero; the code's are whole and at least five."""
    view = FarmView(builders(2), queue(100.25, 200.5, 60))
    assert estimate_dispatch(view, 2, PAGE).estimate_s == 150.375
    assert estimate_dispatch(view, 2, LAUNCHPAD).estimate_s == 150
    assert estimate_dispatch(view, 0, PAGE).estimate_s == 0
    assert estimate_dispatch(view, 0, LAUNCHPAD).estimate_s == 5


def test_page_head_is_the_head_of_the_whole_queue():
    """Literally, the head job is the queue's first even when it wants other builders."""
    hppa = JobView(50, "other", "hppa", True, 999.0, 60.0)
    busy = JobView(51, "busy", "hppa", True, 0.0, 300.0, "running", "hppa-v-0", 0.0)
    view = FarmView((*builders(1), *builders(1, "hppa")), (hppa, busy, *queue(60)))
    page, code = estimate_dispatch(view, 0, PAGE), estimate_dispatch(view, 0, LAUNCHPAD)
    assert (page.head_job, page.next_builder.tnb_s) == ("other", 300)
    assert (code.head_job, code.next_builder.tnb_s) == ("p0", 0)


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


def test_cancelling_job_holds_its_builder():
    """Launchpad ignores a job that is being cancelled; the page waits for its end."""
    job = running(1, "i386-v-0", 100.0, 40.0, status="cancelling")
    view = FarmView(builders(1), (job, *queue(60)))
    assert estimate_dispatch(view, 0, LAUNCHPAD).next_builder.why == "nothing to wait for"
    assert estimate_dispatch(view, 0, PAGE).next_builder.tnb_s == 60


def test_a_job_at_the_head_is_virtual_in_2010():
    """The code of 2010 spells out the job's own platform, and leaves another head's as written."""
    any_builder = [JobView(id=i, name=f"j{i}", duration_s=60.0) for i in (1, 2)]
    view = FarmView((BuilderView("b", ("i386",)),), tuple(any_builder))
    assert estimate_dispatch(view, 1, LAUNCHPAD_2010).head_platform == Platform(None, True)
    assert estimate_dispatch(view, 2, LAUNCHPAD_2010).head_platform == Platform(None, None)


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


def test_unspecified_virtualization_today_is_virtual():
    """Only the code of 2010 loses a job with a processor and no virtualization."""
    view = FarmView(builders(2), (JobView(1, "j", "i386", None, 0.0, 60.0),))
    assert estimate_dispatch(view, 1, LAUNCHPAD_2010).estimate_s is None
    assert estimate_dispatch(view, 1, LAUNCHPAD).estimate_s == 5
    assert estimate_dispatch(view, 1, LAUNCHPAD).head_platform == Platform("i386", True)
    assert estimate_dispatch(view, 1, PAGE).pool_for_job == 2


def test_slots_count_as_builders():
    """One builder of two slots is two builders: pool, free count, and next slot to end."""
    (big,) = builders(1, slots=2)
    view = FarmView((big,), queue(100, 200, 60))
    assert estimate_dispatch(view, 2, PAGE).plt_s == 150
    one = FarmView((big,), (running(1, big.name, 100.0, 40.0), *queue(60)))
    assert estimate_dispatch(one, 0, PAGE).next_builder.free == 1
    both = (running(1, big.name, 100.0, 40.0), running(2, big.name, 30.0, 5.0))
    two = FarmView((big,), (*both, *queue(60)))
    assert estimate_dispatch(two, 0, PAGE).next_builder.tnb_s == 25


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


def test_plain_formula_on_one_platform():
    """Equal one-slot builders and one platform: TNB + sum ÷ min(ahead, builders), for every job."""
    jobs = queue(*(30 + 7 * i for i in range(12)))
    busy = tuple(running(i, f"i386-v-{i}", 500.0, 100.0 * i) for i in range(3))
    ordered, found = estimate_queue(FarmView(builders(3), (*busy, *jobs)), FARM)
    for place, job in enumerate(ordered):
        ahead = [j.duration_s for j in jobs[:place]]
        plain = 300 + (sum(ahead) / min(len(ahead), 3) if ahead else 0)
        assert found.new_job(job.platform, place) == pytest.approx(plain, rel=1e-12), job.name


def test_pools_count_only_usable_builders():
    """Disabled and manual builders are no builder_pools; busy ones are."""
    farm = (
        *builders(2),
        BuilderView("off", ("i386",), ok=False),
        BuilderView("hand", ("i386",), manual=True),
    )
    builder_pools = BuilderPools(farm, (running(1, "i386-v-0", 10.0, 0.0),), LAUNCHPAD)
    assert builder_pools.pool_for_job(Platform("i386", True)) == 2
    assert builder_pools.free(Platform("i386", True)) == 1
    assert builder_pools.free(Platform("i386", False)) == 0


def test_empty_queue_and_new_jobs():
    """With nothing waiting there are no rows, and a new job's estimate is its builder's."""
    view = FarmView(builders(1), (running(1, "i386-v-0", 100.0, 40.0),))
    jobs, found = estimate_queue(view, LAUNCHPAD)
    assert not jobs
    assert len(found) == 0
    assert found.new_job(Platform("i386", True)) == 60
    assert found.head_of_queue(Platform("i386", True)) == 60
    assert found.new_job(Platform("arm", True)) is None
