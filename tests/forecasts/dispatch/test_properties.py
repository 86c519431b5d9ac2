"""The dispatch estimator on random farms: what must hold on every farm."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.model import Platform
from farm.forecasts.dispatch.job_estimate import estimate_at
from farm.forecasts.dispatch.launchpad_formula import FARM, RULES, estimate_queue
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobView
from tests.fixtures.estimates import by_the_formula, estimate_dispatch, predecessors_of
from tests.fixtures.examples import examples

each_rule_set = pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())

#: no deadline: a slow machine is not a wrong estimate
on_random_farms = examples(60)

PROCESSORS = ("a", "b", "c")
BEHIND_ALL = 10_000


@st.composite
def farms(draw, *, max_slots=3, max_processors=3):
    """Draw a farm: few builders, few scores (so that ties happen), fractions of seconds."""
    builders = tuple(
        BuilderView(
            f"b{i}",
            tuple(
                draw(st.lists(st.sampled_from(PROCESSORS), unique=True, max_size=max_processors))
            ),
            draw(st.booleans()),
            ok=draw(st.integers(0, 5)) > 0,
            manual=draw(st.integers(0, 5)) == 0,
            slots=draw(st.integers(1, max_slots)),
        )
        for i in range(draw(st.integers(0, 6)))
    )
    ids = draw(st.lists(st.integers(0, 500), unique=True, max_size=16))
    jobs = tuple(draw(a_job(job, [builder.name for builder in builders])) for job in ids)
    waiting = [job.id for job in jobs if job.status == "waiting"]
    order = tuple(draw(st.permutations(waiting))) if draw(st.booleans()) else None
    return FarmView(builders, jobs, order)


@st.composite
def a_job(draw, job_id, builders):
    """Draw a job, waiting more often than not."""
    statuses = ["waiting"] * 4 + ["suspended"] + ["running", "cancelling"] * bool(builders)
    status = draw(st.sampled_from(statuses))
    holds = status in ("running", "cancelling")
    seconds = st.none() | st.integers(0, 4000).map(lambda tenths: tenths / 10)
    return JobView(
        job_id,
        f"j{job_id}",
        draw(st.sampled_from((None, *PROCESSORS, "no-such-processor"))),
        draw(st.sampled_from((True, False, None))),
        float(draw(st.integers(0, 3))),
        draw(seconds),
        status,
        draw(st.sampled_from(builders)) if holds else None,
        draw(seconds) if holds else None,
    )


@each_rule_set
@on_random_farms
@given(view=farms())
def test_the_table_equals_the_formula(rules, view):
    """Every job's estimate, read off the table, is to the last bit what a plain walk adds up."""
    jobs, queue = estimate_queue(view, rules)
    assert jobs == view.waiting()
    for place, job in enumerate(jobs):
        found = estimate_at(jobs, queue, place)
        ahead, expected = by_the_formula(view, job, rules)
        assert found == expected
        assert found.predecessors == len(ahead)
        assert [jobs[other].name for other in queue.predecessor_places(place)] == ahead
        assert queue.new_job(job.platform, place) == found.estimate_s


@each_rule_set
@on_random_farms
@given(view=farms())
def test_estimates_are_never_below_the_floor(rules, view):
    """A number is at least the rule set's floor, a lead time never negative."""
    for job in view.waiting():
        alone = estimate_dispatch(view, job.id, rules)
        assert alone.plt_s >= 0
        assert alone.next_builder.tnb_s >= 0
        assert alone.estimate_s is None or alone.estimate_s >= rules.floor_s
        assert (alone.estimate_s is None) == (alone.pool_for_job == 0)


@each_rule_set
@on_random_farms
@given(view=farms(), data=st.data())
def test_disabling_a_builder_never_makes_an_estimate(rules, view, data):
    """Fewer builders never turn "no estimate" into a number."""
    if not view.builders:
        return
    victim = data.draw(st.sampled_from(view.builders))
    fewer = tuple(msgspec.structs.replace(b, ok=False) if b is victim else b for b in view.builders)
    with_fewer = msgspec.structs.replace(view, builders=fewer)
    for job in view.waiting():
        was, is_now = (estimate_dispatch(v, job.id, rules).estimate_s for v in (view, with_fewer))
        assert was is not None or is_now is None


@each_rule_set
@on_random_farms
@given(view=farms(), data=st.data())
def test_a_job_that_is_not_submitted_yet(rules, view, data):
    """`new_job` gives the formula's result for a job as if it stood in the queue."""
    platform = Platform(
        data.draw(st.sampled_from((None, *PROCESSORS))),
        data.draw(st.sampled_from((True, False, None))),
    )
    waiting = view.waiting()
    place = data.draw(st.integers(0, len(waiting)))
    newcomer = JobView(BEHIND_ALL, "new", platform.processor, platform.virtualized, 0.0, 60.0)
    order = [job.id for job in waiting]
    order.insert(place, newcomer.id)
    joined = FarmView(view.builders, (*view.jobs, newcomer), tuple(order))
    _, found = estimate_queue(view, rules)
    there = estimate_dispatch(joined, newcomer.id, rules).estimate_s
    assert found.new_job(platform, place) == there
    assert place < len(waiting) or found.new_job(platform) == there


@on_random_farms
@given(view=farms(max_slots=4))
def test_a_slot_is_a_builder(view):
    """Splitting every builder into builders of one slot changes no estimate."""
    split, seats = [], {}
    for builder in view.builders:
        names = [f"{builder.name}.{i}" for i in range(builder.slots)]
        seats[builder.name] = iter(names)
        split += [msgspec.structs.replace(builder, name=name, slots=1) for name in names]
    jobs = []
    for job in view.jobs:
        # a job beyond the existing slots would hold a slot that does not exist
        seat = next(seats[job.builder], None) if job.builder else None
        if job.builder and seat is None:
            continue
        jobs.append(msgspec.structs.replace(job, builder=seat))
    kept = {job.id for job in jobs}
    whole = FarmView(view.builders, tuple(j for j in view.jobs if j.id in kept), view.order)
    parts = FarmView(tuple(split), tuple(jobs), view.order)
    for rules in RULES.values():
        for job in whole.waiting():
            one, other = (estimate_dispatch(v, job.id, rules) for v in (whole, parts))
            assert (one.estimate_s, one.groups) == (other.estimate_s, other.groups)
            assert one.next_builder.free == other.next_builder.free


@on_random_farms
@given(view=farms(max_processors=1))
def test_our_rules_are_launchpads_on_launchpads_farm(view):
    """With one processor per builder, ours are the code's groups and head job, untruncated.

    Platforms that no builder has are the one difference: no job competes with them.
    """
    for job in view.waiting():
        ours = estimate_dispatch(view, job.id, FARM)
        theirs = estimate_dispatch(view, job.id, RULES["launchpad"])
        if not ours.pool_for_job or any(not group.pool for group in theirs.groups):
            continue
        if all((j.duration_s or 0.0).is_integer() for j in view.jobs):
            exact = sum(group.sum_s / group.divisor for group in theirs.groups)
            assert ours.plt_s == pytest.approx(exact)
        ahead = [predecessors_of(view, job.id, rules) for rules in (FARM, RULES["launchpad"])]
        assert ahead[0] == ahead[1]
        assert ours.head_job == theirs.head_job
