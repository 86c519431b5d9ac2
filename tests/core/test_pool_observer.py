"""What provisioning algorithms see of a pool."""

from __future__ import annotations

import pytest

from farm.core.model import Platform
from farm.core.pools.algorithm import PoolSnapshot
from farm.core.pools.observer import PoolObserver
from farm.core.pools.spec import PoolSpec


def pool(**more) -> PoolSpec:
    """Return a pool that a provisioner sizes, from none."""
    given = {"name": "p", "processors": ("amd64",), "builders": 0, "provisioned": True}
    return PoolSpec(**{**given, **more})


def test_a_snapshot_counts_every_builder_once(ledger):
    """Idle (including broken ones), busy, booting, draining and stopping ones."""
    spec = pool(slots=2)
    farm = ledger(pools=[spec, pool(name="other")])
    for name in ("busy", "draining"):
        farm.join(name, slots=2)
        farm.submit(f"{name} 1", f"{name} 2")
    farm.drain("draining")
    farm.join("stopping", slots=2)
    farm.drain("stopping", retire=True)
    farm.join("elsewhere", pool="other", processors=("odd",))
    farm.drain("elsewhere")
    farm.join("failed boot", slots=2, takes_jobs=False)
    farm.plan(start=1)
    farm.submit("waits")
    farm.submit("odd", platform=Platform("s390x"))
    seen = PoolObserver(farm.scheduler, spec).look(99.0)
    assert seen == PoolSnapshot(
        pool="p",
        at=99.0,
        slots=2,
        idle=1,
        busy=1,
        booting=1,
        draining=1,
        stopping=1,
        waiting_jobs=1,
        running_jobs=2,
        draining_jobs=2,
    )


def test_a_slot_that_is_cleaned_runs_no_job_and_takes_none(ledger):
    """Its job has ended, so no plan counts it; on a draining builder it will never be free."""
    spec = pool(slots=2, inter_job_time=5.0)
    farm = ledger(pools=[spec])
    for name in ("stays", "drains"):
        farm.join(name, slots=2, cleans=True)
        farm.submit(f"{name} 1", f"{name} 2")
        farm.finish(f"{name} 1")
    farm.drain("drains")

    def seen() -> tuple[int, int, int, int]:
        look = PoolObserver(farm.scheduler, spec).look(9.0)
        return look.running_jobs, look.draining_jobs, look.cleaning_slots, look.free_slots

    for _ in "ab":
        assert seen() == (1, 1, 1, 0)
        farm.restart()
    farm.cleaned("stays")
    farm.finish("drains 2")
    assert seen() == (1, 0, 0, 1)
    farm.finish("stays 2")
    farm.lose("stays")
    assert seen() == (0, 0, 0, 0)


@pytest.mark.parametrize("started_at", [0.0, 1.0])
def test_a_job_that_started_at_the_beginning_is_nearly_over_too(ledger, started_at):
    """The instant 0 is an instant like any other: nine tenths of the job have passed."""
    farm = ledger()
    for happen in (
        lambda: farm.join("b"),
        lambda: farm.submit(farm.job("a", 100.0)),
        lambda: farm.started("a"),
    ):
        farm.at = started_at
        happen()
    observer = PoolObserver(farm.scheduler, pool(), closely=True)
    assert observer.look(started_at + 90.0).next_slot_time == 10.0


def test_blocked_jobs_are_counted_apart_for_those_who_look_closely(ledger):
    """They are no demand yet; an algorithm that boots ahead for them would else not see them."""
    farm = ledger()
    farm.submit("build", farm.job("test", needs=("build",)), farm.job("odd", needs=("build",)))
    farm.submit(farm.job("elsewhere", needs=("build",), platform=Platform("s390x")))
    spec = pool()
    seen = PoolObserver(farm.scheduler, spec, closely=True).look(0.0)
    assert (seen.waiting_jobs, seen.blocked_jobs) == (1, 2)
    farm.join("b")
    farm.finish("build")
    seen = PoolObserver(farm.scheduler, spec, closely=True).look(0.0)
    assert (seen.waiting_jobs, seen.running_jobs, seen.blocked_jobs) == (1, 1, 0)
