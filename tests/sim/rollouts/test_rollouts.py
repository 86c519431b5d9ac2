"""Rollouts: forks of a simulation, the compiled loop against the full simulation, and the draws."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.assembly import estimator_of, make_rules, make_scheduler, pool_specs
from farm.core.commands import StartJob
from farm.core.events import JobsSubmitted
from farm.core.model import Job, Platform
from farm.core.state.snapshot import FarmSnapshot, snapshot_of
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.scenario import Scenario, parse_scenario
from farm.sim.fast.kernel import native
from farm.sim.rollouts.draws import Uniforms
from farm.sim.rollouts.rollout import Fork, rollouts, to_come
from farm.sim.rollouts.wait_quantiles import Rollouts
from farm.sim.simulation import Simulation
from farm.testing import small_scenario
from farm.workload import batches, build_jobs
from provisioner.from_scenario import algorithms_of
from tests.fixtures.examples import examples


def scenario_of(pools, workload, **scheduling) -> Scenario:
    """A scenario with known run times."""
    rules = {"runtime_estimates": "oracle", **scheduling}
    wanted = {"seed": 3, "pools": pools, "workload": workload, "scheduling": rules}
    return parse_scenario({**wanted, "allow_unrunnable": True})


def fork_of(
    scenario: Scenario, snapshot: FarmSnapshot, run_times: RuntimeDistribution, **more: Any
) -> Fork:
    """A farm under the pools and rules of a scenario."""
    pools, rules = tuple(pool_specs(scenario)), make_rules(scenario)
    return Fork(snapshot=snapshot, pools=pools, rules=rules, run_times=run_times, **more)


def played(scenario: Scenario, after: int) -> tuple[FarmSnapshot, dict[str, float]]:
    """Simulate; return a snapshot ``after`` events past the last arrival, and what follows.

    That is when each job is dispatched next, if at all.
    """
    events = []
    simulation = Simulation.of(scenario, algorithms=algorithms_of(scenario))
    simulation.play([lambda event, _: events.append(event)])
    last = max(n for n, event in enumerate(events) if isinstance(event, JobsSubmitted))
    return followed(scenario, min(last + after, len(events) - 1))


def followed(scenario: Scenario, wanted: int) -> tuple[FarmSnapshot, dict[str, float]]:
    """Simulate; return a snapshot at the event of this number, and the dispatches after it."""
    scheduler = make_scheduler(scenario)
    seen = itertools.count()
    found: list[FarmSnapshot] = []
    dispatched: dict[str, float] = {}

    def watch(event, commands):
        for command in commands:
            if isinstance(command, StartJob):
                dispatched.setdefault(command.job.id, event.at)
        if next(seen) == wanted:
            dispatched.clear()
            found.append(snapshot_of(scheduler, event.at))

    Simulation.of(scenario, scheduler=scheduler, algorithms=algorithms_of(scenario)).play([watch])
    return found[0], dispatched


POOLS = st.lists(
    st.fixed_dictionaries(
        {
            "platform": st.sampled_from(
                [{"processors": ["a"]}, {"processors": ["b"]}, {"processors": ["a", "b"]}]
            ),
            "builders": st.integers(1, 3),
            "slots": st.integers(1, 3),
            "speed": st.sampled_from([0.5, 1.0, 2.0]),
        },
        optional={
            "idle_timeout": st.sampled_from(["5s", "40s"]),
            "boot_time": st.sampled_from(["7s"]),
            "failure_rate": st.sampled_from([0.4]),
            "uses": st.integers(1, 3),
        },
    ),
    min_size=1,
    max_size=3,
)
SOURCE = st.fixed_dictionaries(
    {
        "platform": st.sampled_from(
            [{"processor": "a"}, {"processor": "b"}, {"virtualized": True}]
        ),
        "count": st.integers(1, 25),
        "poisson": st.fixed_dictionaries({"rate": st.sampled_from(["0.2/s", "2/s"])}),
        "service_time": st.sampled_from(
            [
                {"constant": "10s"},
                {"exponential": {"mean": "20s"}},
                {"uniform": {"min": "1s", "max": "30s"}},
            ]
        ),
        "attributes": st.just({"user": ["x", "y"]}),
        "fails": st.sampled_from([0.0, 0.2]),
    }
)
SCHEDULING = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["fifo", "sjf", "ljf", "ljf-aging", "random"]),
        "fair_share": st.sampled_from([[], ["user"]]),
        "balancer": st.sampled_from(["jenkins", "longest-idle"]),
        "simultaneous_ends": st.sampled_from(["one-by-one", "together"]),
        "failures": st.sampled_from(["fail", "launchpad"]),
    }
)


@examples(80)
@given(POOLS, st.lists(SOURCE, min_size=1, max_size=2), SCHEDULING, st.integers(0, 40))
def test_certain_rollouts_are_the_simulation(pools, sources, scheduling, after):
    """With certain durations and no more arrivals a fork repeats the simulation to the last bit.

    In both lanes, and from a snapshot that went through JSON.
    """
    pools = [{"name": f"p{n}", **pool} for n, pool in enumerate(pools)]
    pools[0]["platform"] = {"processors": ["a", "b"]}  # every job can run on some builder
    scenario = scenario_of(pools, [{"arrivals": source} for source in sources], **scheduling)
    snapshot, dispatched = played(scenario, after)
    snapshot = msgspec.json.decode(msgspec.json.encode(snapshot), type=FarmSnapshot)
    fork = known_fork(scenario, snapshot)
    for fast in (True, False):
        found = rollouts(fork, count=2, fast=fast, processes=1)
        assert found.jobs == tuple(view.job.id for view in snapshot.waiting)
        truth = [dispatched.get(job, math.inf) for job in found.jobs]
        assert found.dispatch_at.tolist() == [truth, truth]


def busy_farm(**scheduling):
    """A busy farm, and the distribution of its run times."""
    load = {
        "count": 200,
        "poisson": {"rate": "0.5/s"},
        "service_time": {"exponential": {"mean": "20s"}},
        "kind": ["x", "y"],
        "attributes": {"user": ["u", "v"]},
    }
    rules = {"runtime_estimates": "last-3", **scheduling}
    scenario = parse_scenario(small_scenario({"builders": 3}, load, scheduling=rules, seed=3))
    run_times = RuntimeDistribution(make_estimator("last-3"))
    scheduler = make_scheduler(scenario, estimator=run_times)
    found = []

    def watch(event, _):
        if event.at > 200 and not found:
            found.append(snapshot_of(scheduler, event.at))
            frozen = RuntimeDistribution(make_estimator("last-3"))
            frozen.load(run_times.dump())
            found.append(frozen)

    Simulation.of(scenario, scheduler=scheduler).play([watch])
    return partial(fork_of, scenario=scenario, snapshot=found[0], run_times=found[1])


@pytest.mark.parametrize("scheduling", [{}, {"policy": "sjf"}, {"fair_share": ["user"]}])
def test_more_builders_never_make_the_queue_slower(scheduling) -> None:
    """With common random numbers a bigger pool empties the queue earlier in every rollout."""
    fork = busy_farm(**scheduling)
    now, then = rollouts(fork, count=20), rollouts(resized(fork, 5), count=20)
    assert now.jobs == then.jobs
    assert (then.waits.max(axis=1) <= now.waits.max(axis=1)).all()
    assert then.mean_wait.mean() < 0.8 * now.mean_wait.mean()


def resized(fork, builders: int):
    """The fork with another number of builders in its only pool."""
    scenario = fork.keywords["scenario"]
    pool = scenario.pools[0].model_copy(update={"builders": builders})
    return partial(fork, scenario=scenario.model_copy(update={"pools": (pool,)}))


def test_a_smaller_pool_shrinks_by_letting_builders_finish() -> None:
    """The idle go first, a busy one finishes its job; the remaining ones serve the queue."""
    fork = busy_farm()
    smaller = resized(fork, 1)
    fast, whole = rollouts(smaller, count=5), rollouts(smaller, count=5, fast=False, processes=1)
    assert fast.dispatch_at.tolist() == whole.dispatch_at.tolist()
    assert fast.mean_wait.mean() > 2 * rollouts(fork, count=5).mean_wait.mean()


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_both_loops_and_several_processes_give_the_same(processes: int) -> None:
    """With drawn run times, both loops and two processes agree exactly."""
    fork = busy_farm()
    fast = rollouts(fork, count=6)
    whole = rollouts(fork, count=6, fast=False, processes=processes)
    assert fast.dispatch_at.tolist() == whole.dispatch_at.tolist()


@pytest.mark.usefixtures("kernel")
def test_compiled_loops_give_the_same(monkeypatch) -> None:
    """Jobs are rolled out by compiled code, split over threads: not a bit is different.

    On platforms that share builders, with cleaning, other speeds, and builders that still boot.
    """
    pools = [
        {"name": "p", "platform": {"processor": "a"}, "builders": 2, "slots": 2},
        {"name": "q", "platform": {"processors": ["a", "b"]}, "builders": 2, "speed": 1.5},
        {"name": "r", "platform": {"processor": "b"}, "builders": 1, "inter_job_time": "1s"},
    ]
    fork = busy_farm()
    sources = [
        {
            "platform": {"processor": processor},
            "count": 40,
            "every": "1s",
            "service_time": {"exponential": {"mean": "20s"}},
            "kind": ["x", "y"],
        }
        for processor in "ab"
    ]
    pools[1]["boot_time"] = "1m"
    scenario = scenario_of(pools, [{"arrivals": source} for source in sources], policy="sjf")
    snapshot, _ = played(scenario, 90)
    fork = partial(fork, scenario=scenario, snapshot=snapshot, rekey=True)
    with monkeypatch.context() as patch:
        patch.setattr(native, "is_there", lambda: False)
        plain = rollouts(fork, count=7)
    assert rollouts(fork, count=7).dispatch_at.tobytes() == plain.dispatch_at.tobytes()
    assert np.ptp(plain.dispatch_at, axis=0).max() > 0


def test_another_policy_keeps_the_columns_apart_by_job() -> None:
    """Jobs are listed in their current order, also if the change reorders them."""
    fork = busy_farm()
    scenario = fork.keywords["scenario"]
    scheduling = scenario.scheduling.model_copy(update={"policy": "random"})
    changed = scenario.model_copy(update={"scheduling": scheduling})
    anew = partial(fork, scenario=changed, rekey=True)
    now, then = rollouts(fork, count=3), rollouts(anew, count=3)
    assert then.jobs == now.jobs
    assert np.argsort(then.mean_wait).tolist() != np.argsort(now.mean_wait).tolist()
    whole = rollouts(anew, count=3, fast=False, processes=1)
    assert whole.dispatch_at.tolist() == then.dispatch_at.tolist()


def test_only_the_jobs_of_interest_are_waited_for() -> None:
    """A rollout of some jobs gives what a rollout of all gives for them."""
    fork = busy_farm()
    every = rollouts(fork, count=5)
    some = rollouts(fork, count=5, jobs=every.jobs[3:5])
    assert some.dispatch_at.tolist() == every.dispatch_at[:, 3:5].tolist()
    with pytest.raises(LookupError):
        rollouts(fork, count=1, jobs=["unknown"])


def test_further_arrivals_delay_the_jobs_that_they_overtake() -> None:
    """Under sjf later short jobs go first, so the last in the queue waits longer."""
    fork = busy_farm(policy="sjf", runtime_estimates="last-3")
    alone = rollouts(fork, count=10)

    def load(seed: int):
        return batches(build_jobs(fork.keywords["scenario"].model_copy(update={"seed": seed})))

    crowd = rollouts(partial(fork, load=load), count=10, processes=1)
    assert crowd.mean_wait.max() > alone.mean_wait.max()


def test_quantiles_and_means_of_waits() -> None:
    """Infinite where that many rollouts never dispatch."""
    waits = np.array([[0.0, 1.0], [10.0, math.inf], [20.0, math.inf]])
    found = Rollouts(5.0, ("a", "b"), waits + 5.0)
    assert found.wait_quantile(0.5).tolist() == [10.0, math.inf]
    assert found.wait_quantile(0.0).tolist() == [0.0, 1.0]
    assert found.wait_quantile(0.625).tolist() == [15.0, math.inf]
    assert found.wait_quantile(0.9).tolist() == [20.0, math.inf]
    assert found.mean_wait.tolist() == [10.0, math.inf]


def test_a_truth_that_is_like_the_rollouts_is_between_p10_and_p90_in_80_percent() -> None:
    """However few the rollouts, from nine on."""
    waits = np.random.default_rng(1).exponential(60.0, (10, 20_000))
    truth, found = waits[0], Rollouts(0.0, (), waits[1:])
    within = (found.wait_quantile(0.1) <= truth) & (truth <= found.wait_quantile(0.9))
    assert within.mean() == pytest.approx(0.8, abs=0.01)


def test_every_job_has_its_own_random_numbers() -> None:
    """A job's numbers do not depend on the other jobs, nor on its place."""
    both = Uniforms(1, "x", ["a", "b"]).of(range(1000))
    assert (both >= 0).all()
    assert (both < 1).all()
    assert both[:, 1].tolist() == Uniforms(1, "x", ["b"]).of(range(1000))[:, 0].tolist()
    assert both[0, 0] != Uniforms(2, "x", ["a"]).of(range(1))[0, 0]
    assert both[0, 0] != Uniforms(1, "y", ["a"]).of(range(1))[0, 0]
    # uniform and unrelated, as far as a thousand draws show it
    assert both.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.04)
    assert abs(np.asarray(np.corrcoef(both.T))[0, 1]) < 0.1


def provisioned(**changes) -> Scenario:
    """A pool that is sized by its queue, and one of fixed size that fails occasionally."""
    linux = {
        "name": "linux",
        "platform": {"processor": "a"},
        "boot_time": "20s",
        "idle_timeout": "45s",
        "provisioner": {"algorithm": "taskcluster", "max": 6, "interval": "7.5s"},
    }
    linux["provisioner"] |= changes.pop("provisioner", {})
    return scenario_of(
        [
            linux | changes,
            {
                "name": "other",
                "platform": {"processor": "b"},
                "builders": 2,
                "boot_time": "5s",
                "losses": {"rate": "60/h"},
            },
        ],
        [
            {
                "arrivals": {
                    "platform": {"processor": processor},
                    "count": 80,
                    "poisson": {"rate": "1/s"},
                    "service_time": {"exponential": {"mean": "20s"}},
                }
            }
            for processor in "ab"
        ],
        dedup=False,
    )


def known_fork(scenario: Scenario, snapshot: FarmSnapshot):
    """A fork that knows run times and fates, and sizes its pools as the scenario says."""
    run_times = RuntimeDistribution(make_estimator("oracle"))
    algorithms = algorithms_of(scenario)
    known = {"truthful": True, "knows_fates": True}
    return partial(fork_of, scenario, snapshot, run_times, algorithms=algorithms, **known)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("after", [0, 7, 30, 90])
def test_certain_rollouts_of_provisioned_pools_are_the_simulation(
    after: int, processes: int
) -> None:
    """Booting builders, plans to come, idle time-outs and losses too, to the last bit.

    On one process and on two, from a snapshot that went through JSON.
    """
    scenario = provisioned()
    snapshot, dispatched = played(scenario, after)
    snapshot = msgspec.json.decode(msgspec.json.encode(snapshot), type=FarmSnapshot)
    truth = [dispatched[record.job.id] for record in snapshot.waiting]
    assert truth
    found = rollouts(known_fork(scenario, snapshot), count=2, processes=processes)
    assert found.dispatch_at.tolist() == [truth, truth]


def test_a_provisioned_pool_grows_in_the_fork_and_a_higher_maximum_lets_it_grow_more() -> None:
    """A fork of a farm with a long queue and no builder yet: the algorithm decides, up to max."""
    scenario = provisioned(provisioner={"max": 3})
    snapshot, _ = followed(scenario, 20)
    waits = {
        most: rollouts(known_fork(provisioned(provisioner={"max": most}), snapshot), count=1)
        for most in (1, 3, 30)
    }
    linux = [n for n, r in enumerate(snapshot.waiting) if r.job.platform.processor == "a"]
    last = {most: found.waits[0, linux].max() for most, found in waits.items()}
    assert not any(record.builder.pool == "linux" for record in snapshot.builders)
    assert 2 * last[30] < 1.4 * last[3] < last[1] < math.inf


def test_an_idle_timeout_makes_room_for_builders_that_take_jobs() -> None:
    """Builders whose boot failed stand idle and count: the sooner they go, the sooner it ends."""
    scenario = provisioned(failure_rate=0.6, idle_timeout="10m")
    snapshot, _ = played(scenario, 0)
    slow = rollouts(known_fork(scenario, snapshot), count=1)
    hasty = provisioned(failure_rate=0.6, idle_timeout="10s")
    quick = rollouts(known_fork(hasty, snapshot), count=1)
    assert quick.waits.max() < 0.8 * slow.waits.max() < math.inf


@pytest.mark.parametrize("estimates", ["oracle", "declared", "last-3"])
def test_contention_counts_once(estimates) -> None:
    """Jobs that share a builder take twice their work, in the past and in a rollout alike.

    Two at a time, of 100 s each: what was learned is the work, or each wait would be doubled. The
    snapshot is made in the midst of two attempts, and goes through JSON.
    """
    pool = {"name": "p", "platform": {"processor": "a"}, "builders": 1, "slots": 2}
    pool["contention"] = {"slowdown": [1, 1, 2]}
    job = {"platform": {"processor": "a"}, "every": 0, "service_time": "100s", "heavy": True}
    loads = [{"arrivals": job | {"count": 20, "start": at}} for at in ("0s", "5000s")]
    scenario = scenario_of([pool], loads, runtime_estimates=estimates)
    run_times = RuntimeDistribution(estimator_of(scenario))
    scheduler = make_scheduler(scenario, estimator=run_times)
    found, dispatched = [], {}

    def watch(event, commands):
        if event.at == 5200.0:
            found.append(snapshot_of(scheduler, 5300.0))
        dispatched.update((c.job.id, event.at) for c in commands if isinstance(c, StartJob))

    Simulation.of(scenario, scheduler=scheduler).play([watch])
    snapshot = msgspec.json.decode(msgspec.json.encode(found[-1]), type=FarmSnapshot)
    rolled = rollouts(partial(fork_of, scenario, snapshot, run_times), count=3, processes=1)
    truth = [dispatched[job] for job in rolled.jobs]
    assert len(truth) > 10
    assert rolled.dispatch_at == pytest.approx(np.array([truth] * 3), abs=0.01)


def test_a_rollout_releases_blocked_jobs() -> None:
    """With known run times it is the simulation: when each of them is released, and dispatched."""
    jobs = [
        {"name": "lint"},
        {"name": "build", "needs": ["lint"], "service_time": "9m"},
        {"name": "test", "needs": ["build"], "count": 3, "needs_delay": "30s"},
    ]
    load = {"every": "2m", "count": 5, "service_time": "3m", "jobs": jobs}
    scenario = scenario_of(
        [{"name": "p", "platform": {"processor": "a"}, "builders": 2}], [{"matrices": load}]
    )
    snapshot, dispatched = followed(scenario, 30)
    assert snapshot.blocked
    names = [record.job.id for record in (*snapshot.waiting, *snapshot.blocked)]
    run_times = RuntimeDistribution(make_estimator("oracle"))
    fork = fork_of(scenario, snapshot, run_times, truthful=True)
    found = rollouts(lambda: fork, count=2, jobs=names)
    expected = [dispatched[name] for name in names]
    assert found.dispatch_at.tolist() == [expected, expected]


def test_jobs_to_come_need_what_is_live_and_not_what_has_ended() -> None:
    """They would be released at once, or never; and their runs are not those of other draws."""
    jobs = [
        Job(id="over", service_time=10.0, arrived_at=0.0, matrix="m"),
        Job(id="live", service_time=1000.0, arrived_at=0.0, matrix="m"),
        Job(id="a", service_time=1.0, arrived_at=200.0, matrix="m", needs=("over", "live:ended")),
        Job(id="b", service_time=1.0, arrived_at=200.0, matrix="n", needs=("a:failed",)),
    ]
    ((at, (a, b)),) = to_come(batches(jobs), 100.0, {"live", "waits"})
    assert (at, a.id, a.needs, a.matrix) == (200.0, "a~to-come", ("live:ended",), "m")
    assert (b.id, b.needs, b.matrix) == ("b~to-come", ("a~to-come:failed",), "n~to-come")


def test_a_released_job_that_another_execution_serves_starts_then() -> None:
    """It is dispatched no more, and has an end nevertheless."""
    scenario = scenario_of(
        [{"name": "p", "platform": {"processor": "a"}, "builders": 2}],
        [{"arrivals": {"every": 1, "count": 1, "service_time": 1}}],
        dedup=True,
    )
    platform = Platform("a")
    jobs = [
        Job(id="long", service_time=1000.0, arrived_at=0.0, action="x", platform=platform),
        Job(id="n", service_time=10.0, arrived_at=0.0, platform=platform),
        Job(
            id="d", service_time=1000.0, arrived_at=0.0, action="x", needs=("n",), platform=platform
        ),
    ]
    scheduler = make_scheduler(scenario, estimator=make_estimator("oracle"))
    snapshots = []

    def watch(event, commands):
        if any(isinstance(command, StartJob) for command in commands):
            snapshots.append(snapshot_of(scheduler, event.at))

    Simulation.of(scenario, scheduler=scheduler, load=batches(jobs)).play([watch])
    fork = fork_of(
        scenario, snapshots[0], RuntimeDistribution(make_estimator("oracle")), truthful=True
    )
    assert rollouts(lambda: fork, count=1, jobs=["d"]).dispatch_at.tolist() == [[10.0]]
