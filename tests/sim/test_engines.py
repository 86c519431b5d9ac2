"""One load, or many job sets, are played on many farms by whichever engine can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.assembly import make_rules, make_scheduler
from farm.core.model import Job, Platform
from farm.scenario import load_scenario
from farm.sim.engines import Case, OneLoad, ends_of_cases, play
from farm.sim.fast.kernel import native
from farm.sim.setting import Setting
from farm.sim.simulation import Simulation
from farm.testing import small_scenario
from provisioner.from_scenario import algorithms_of
from tests.fixtures.examples import examples

SIZED = {"provisioner": {"algorithm": "taskcluster", "max": 3}, "boot_time": 20, "idle_timeout": 30}


def farm_of(pool, **scheduling):
    """Return a farm without a load of its own."""
    pool = {"platform": {"processor": "x"}, **pool}
    return load_scenario(small_scenario(pool, scheduling=scheduling))


def jobs_of(times):
    """Return jobs by arrival."""
    platform = Platform(processor="x")
    return [
        Job(id=str(n), service_time=took, declared_time=took, arrived_at=at, platform=platform)
        for n, (at, took) in enumerate(sorted(times))
    ]


@pytest.mark.parametrize("pool", [{"builders": 2}, SIZED], ids=["fixed", "sized"])
@pytest.mark.parametrize("policy", ["fifo", "sjf"])
@pytest.mark.parametrize("compiled", [False, True], ids=["reference", "compiled"])
@examples(25)
@given(
    times=st.lists(st.tuples(st.floats(0, 90), st.floats(1, 60)), min_size=1, max_size=12),
    first_plans=st.lists(st.sampled_from([1.0, 2.5, 27.5, 0.1]), min_size=1, max_size=3),
)
def test_a_load_is_played_as_jobs_made_anew(kernel, pool, policy, compiled, times, first_plans):
    """Several times, with provisioners that plan at other instants: waits are those of new jobs."""
    jobs = jobs_of(times)
    load = OneLoad(jobs)
    for first_plan in first_plans:
        changed = dict(pool)
        if "provisioner" in pool:
            changed["provisioner"] = {**pool["provisioner"], "first_plan": first_plan}
        farm = farm_of(changed, policy=policy)
        algorithms = algorithms_of(farm)
        scheduler = make_scheduler(farm)
        setting = Setting.of(farm, scheduler.rules, algorithms)
        found = play(setting, scheduler.estimator, iter(jobs), engine="reference").jobs
        by_id = dict(zip(found.job_id, found.waiting_time.tolist(), strict=True))
        with pytest.MonkeyPatch.context() as patch:
            if not compiled:
                patch.setattr(native, "is_there", lambda: False)
            waits = load.waits(farm, algorithms)
        assert np.array_equal(waits, [by_id[job.id] for job in jobs])


def test_job_sets_end_as_the_scheduler_ends_them(kernel, monkeypatch):
    """In compiled threads where all is covered, else by the scheduler: which case is which, too."""
    pools = {
        "compiled": {"builders": 2},
        "threads": {"builders": 1, "slots": 4, "contention": {"threads": {"cores": 2}}},
        "lost": {"builders": 2, "losses": {"at": [50]}},
    }
    sets = [jobs_of((number, took) for number in range(9)) for took in (20.0, 30.0)]
    farms = {name: farm_of(pool) for name, pool in pools.items()}
    cases = {name: Case(sets, Setting.of(one, make_rules(one))) for name, one in farms.items()}
    truth = {name: [case.ends(jobs) for jobs in sets] for name, case in cases.items()}
    simulated = []
    ends = Case.ends
    monkeypatch.setattr(Case, "ends", lambda *its: simulated.append(its[0]) or ends(*its))
    assert {name: found.tolist() for name, found in ends_of_cases(cases).items()} == truth
    assert simulated == [cases["threads"]] * 2 + [cases["lost"]] * 2


# --- A scenario's runtime estimator with its options, in whole simulated runs ---------------------

LOAD = {
    "every": "30s",
    "service_time": "20s",
    "declared": {"factor": 3},
    "work_size": {"per_second": 1e9},
}


def estimate_after(count: int, **scheduling: Any) -> float:
    """Return a waiting job's estimate after a number of successes."""
    given = {"runtime_estimates": "boinc", **scheduling}
    wanted = small_scenario(load=LOAD | {"count": count}, scheduling=given)
    simulation = Simulation.of(load_scenario(wanted))
    simulation.play()
    waiting = Job(id="next", service_time=20.0, declared_time=60.0, size=2e10)
    return simulation.scheduler.estimator.estimate(waiting)


def test_waiting_jobs_with_sizes_in_flops_climb_the_ladder() -> None:
    """Declared 60 s and true 20 s: after more than 100 successes the kind is known by them."""
    assert estimate_after(100) == 60.0
    assert estimate_after(101) == pytest.approx(20.0)


def test_a_scenario_sets_the_estimators_options() -> None:
    """A small farm lowers the number of samples."""
    assert estimate_after(4) == 60.0
    assert estimate_after(4, runtime_options={"kind_samples": 3}) == pytest.approx(20.0)
