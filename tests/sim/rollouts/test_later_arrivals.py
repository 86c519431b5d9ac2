"""Jobs that arrive during a rollout: at the recent rates, and only where they can matter."""

from __future__ import annotations

from collections import Counter

import pytest

from farm.app.runs.estimates import Estimating
from farm.assembly import make_rules, make_scheduler, pool_specs
from farm.core.events import EstimateMade
from farm.core.model import Job
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.runtime.oracle import Oracle
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.results.estimate_scores import score
from farm.results.log.reader import Entry
from farm.scenario import parse_scenario
from farm.sim.rollouts.draws import RunTimes, ServiceTimes
from farm.sim.rollouts.later_arrivals import ArrivalMemory
from farm.sim.rollouts.rollout import Fork, rollouts
from farm.sim.simulation import Simulation
from farm.testing import small_scenario


def busy(scheduling, **estimates):
    """Four slots, nearly always busy; teams that submit much and little."""
    load = {
        "count": 600,
        "poisson": {"rate": "0.38/s"},
        "service_time": {"exponential": {"mean": "10s"}},
        "attributes": {"team": {"big": 4, "small": 1}},
    }
    return parse_scenario(
        small_scenario({"slots": 4}, load, scheduling=scheduling, estimates=estimates)
    )


def played(wanted, stop_at=float("inf")):
    """Play a scenario; return its log, and the farm at an instant with what arrived until then."""
    estimating = Estimating(wanted, live=False)
    scheduler = make_scheduler(wanted, estimator=estimating.estimator)
    entries, snapshots, memory = [], [], ArrivalMemory()

    def watch(event, commands) -> None:
        entries.append(Entry(event, list(commands), len(entries)))
        if not isinstance(event, EstimateMade) and event.at >= stop_at and not snapshots:
            snapshots.append(snapshot_of(scheduler, event.at))
        if not snapshots and (jobs := getattr(event, "jobs", ())):
            memory.take(event.at, jobs)

    Simulation(wanted, scheduler=scheduler, around=estimating.around).play([watch])
    return entries, snapshots, memory


@pytest.mark.parametrize(
    "scheduling", [{"policy": "sjf"}, {"policy": "ljf"}, {"fair_share": ["team"]}]
)
@pytest.mark.slow
def test_estimates_count_those_who_overtake(scheduling) -> None:
    """With known run times estimates are as often too early as too late: within 5 % together."""
    wanted = busy(scheduling, rules=["rollout"], run_times=["oracle"], rollouts=20, every=3)
    entries, _, _ = played(wanted)
    # the estimates of those who will see the end of all arrivals are left out: it is not known
    early = [
        one for one in entries if not isinstance(one.event, EstimateMade) or one.event.at < 1200
    ]
    (found,) = score(early)
    (mean,) = {found.mean_absolute_error_time / found.relative_error}
    assert abs(found.bias_time) < 0.05 * mean


def fork_of(wanted, snapshot, recent):
    """Return the farm with known run times."""
    return Fork(
        snapshot=snapshot,
        pools=tuple(pool_specs(wanted)),
        rules=make_rules(wanted),
        run_times=RuntimeDistribution(Oracle()),
        truthful=True,
        recent=recent,
    )


def test_in_order_of_arrival_they_do_not_matter() -> None:
    """First in, first out on a fixed pool: the fast method, and the same numbers, as without."""
    wanted = busy({"policy": "fifo"})
    _, (snapshot,), memory = played(wanted, stop_at=600.0)
    recent = memory.recent(600.0)
    assert recent is not None
    with_them, without = fork_of(wanted, snapshot, recent), fork_of(wanted, snapshot, None)
    assert with_them.later is None
    found = [rollouts(lambda one=one: one, count=2).dispatch_at for one in (with_them, without)]
    assert found[0].tobytes() == found[1].tobytes()


def test_the_slow_method_is_bounded() -> None:
    """Once so many events were simulated there are no more rollouts than the least."""
    wanted = busy({"policy": "ljf"})
    _, (snapshot,), memory = played(wanted, stop_at=600.0)
    fork = fork_of(wanted, snapshot, memory.recent(600.0))
    assert fork.later is not None
    found = rollouts(
        lambda: fork, count=30, processes=1, events=1, jobs=[snapshot.waiting[0].job.id]
    )
    assert len(found.dispatch_at) == 10


def test_what_came_lately_comes_again() -> None:
    """The rate, teams and times of the last hour; the same for a seed, as own jobs."""
    memory = ArrivalMemory()
    assert memory.recent(10.0) is None
    for number in range(400):
        team = "small" if number % 5 == 0 else "big"
        job = Job(
            id=str(number), service_time=3.0 + number % 2, attributes={"team": team}, matrix="m"
        )
        memory.take(number * 10.0, (job,))
    recent = memory.recent(4000.0)
    assert recent is not None
    assert len(recent.jobs) == 360
    run_times = RuntimeDistribution(Oracle())
    times = ServiceTimes(RunTimes(run_times, [], 4000.0, 1, 2), recent.jobs, 1, 2)

    def hour(number):
        drawn = []
        for at, jobs in recent.drawn(times, 1, number, 4000.0):
            if at > 7600:
                return drawn
            drawn.extend((at, job) for job in jobs)
        return drawn

    first = hour(0)
    assert first == hour(0) != hour(1)
    assert 300 < len(first) < 420
    teams = Counter(job.attributes["team"] for _, job in first)
    assert teams["small"] / len(first) == pytest.approx(0.2, abs=0.06)
    assert {job.service_time for _, job in first} == {3.0, 4.0}
    assert all(job.id not in {one.id for one in recent.jobs} for _, job in first)
    assert "m" not in {job.matrix for _, job in first}
