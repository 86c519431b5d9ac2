"""How much work attempts have done that slow each other down."""

from __future__ import annotations

import msgspec
import pytest

from farm.core.contention.laws import ContentionLaw, ThreadSlowdown
from farm.core.contention.work_meter import WorkMeter
from farm.core.model import Builder, Job
from farm.core.pools.spec import PoolSpec

BUILDER = Builder(id="b", pool="shared", index=1)
OTHER = Builder(id="x", pool="other", index=2)
LONG, SHORT = Job(id="long", service_time=100.0), Job(id="short", service_time=5.0)


@pytest.fixture
def meter() -> WorkMeter:
    """A meter of one pool, whose builders share a core among all jobs."""
    return WorkMeter({"shared": ContentionLaw(ThreadSlowdown(cores=1.0))})


def test_work_is_done_at_half_speed_while_two_jobs_share_a_core(meter: WorkMeter) -> None:
    """An estimator would learn times that no job takes alone."""
    meter.started(BUILDER, LONG, 0.0)
    meter.started(BUILDER, SHORT, 10.0)

    assert meter.done("b", "long", 10.0) == 10.0
    assert meter.done("b", "short", 10.0) == 0.0
    assert meter.done("b", "long", 20.0) == 15.0
    assert meter.ended("b", "short", 20.0) == 5.0
    assert meter.ended("b", "short", 20.0) is None
    assert meter.done("b", "long", 30.0) == 25.0
    assert meter.ended("b", "long", 30.0) == 25.0


def test_work_continues_where_an_earlier_scheduler_left_it(meter: WorkMeter) -> None:
    """A successor would count the work from its own beginning; an empty builder starts anew."""
    meter.started(BUILDER, LONG, 5.0, done=3.0)
    assert meter.done("b", "long", 7.0) == 5.0
    assert meter.done("b", "long", 4.0) == 3.0
    meter.ended("b", "long", 8.0)

    meter.started(BUILDER, LONG, 9.0)
    assert meter.done("b", "long", 9.0) == 0.0
    meter.gone("b")
    assert meter.done("b", "long", 9.0) is None


def test_nothing_is_measured_without_a_law(meter: WorkMeter) -> None:
    """All of an attempt's time is its work then."""
    meter.started(OTHER, LONG, 0.0)

    assert meter.done("x", "long", 1.0) is None
    assert meter.ended("x", "long", 1.0) is None


def test_a_restarted_scheduler_measures_on(ledger) -> None:
    """Its estimator would learn times that no job takes alone.

    An attempt that was not measured before, as its pool had no law then, had its builder's whole
    speed until now.
    """
    law = ContentionLaw(ThreadSlowdown(cores=1.0))
    pool = PoolSpec(name="p", processors=("amd64",), law=law, provisioned=True)
    farm = ledger(pools=[pool])
    farm.join("b", slots=2)
    farm.submit("x", "y")
    for name in ("x", "y"):
        farm.started(name)
    farm.restart(at=20.0)
    before = farm.scheduler.meter.done("b", "x", 20.0)
    farm.restart(msgspec.structs.replace(pool, law=None), at=20.0)
    farm.restart(pool, at=20.0)
    began_at = farm.scheduler.jobs["x"].started_at

    assert before == 1.0 + (19.0 - began_at) / 2
    assert farm.scheduler.meter.done("b", "x", 20.0) == 20.0 - began_at
