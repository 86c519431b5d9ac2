"""Jobs that arrive during a rollout: at the recent rates, and only where they can matter."""

from __future__ import annotations

import statistics
from collections import Counter

import msgspec
import pytest

from farm.assembly import make_rules
from farm.core.events import ArrivalsEnded
from farm.core.model import Job
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.dispatch.recent_arrivals import ArrivalMemory, RecentArrivals
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.interface import EstimatorOptions
from farm.forecasts.runtime.oracle import Oracle
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.results.estimate_scores import score
from farm.results.log.reader import Entry
from farm.scenario import parse_scenario
from farm.sim.rollouts.draws import RunTimes, ServiceTimes
from farm.sim.rollouts.later_arrivals import drawn, last_at
from farm.sim.rollouts.rollout import rollouts
from farm.testing import small_scenario
from farm.workload import batches, build_jobs
from tests.sim.rollouts.test_at_submission import estimated
from tests.sim.rollouts.test_rollouts import fork_of


def busy(scheduling, **estimates):
    """Four slots, nearly always busy; teams that submit much and little."""
    load = {
        "count": 3000,
        "poisson": {"rate": "0.34/s"},
        "service_time": {"exponential": {"mean": "10s"}},
        "attributes": {"team": {"big": 4, "small": 1}},
    }
    return parse_scenario(
        small_scenario({"slots": 4}, load, scheduling=scheduling, estimates=estimates)
    )


def played(wanted):
    """Play a scenario; return the farm at 3000 s, and what arrived until then."""
    simulation, snapshots, memory = estimated(wanted), [], ArrivalMemory()

    def watch(event, _) -> None:
        if event.at >= 3000.0 and not snapshots:
            snapshots.append(snapshot_of(simulation.scheduler, event.at))
        if not snapshots and (jobs := getattr(event, "jobs", ())):
            memory.take(event.at, jobs)

    simulation.play([watch])
    return snapshots[0], memory


def known_fork(wanted, snapshot, recent):
    """Return the farm with known run times."""
    known = RuntimeDistribution(Oracle())
    return fork_of(wanted, snapshot, known, truthful=True, recent=recent)


@pytest.mark.parametrize(
    ("scheduling", "off"),
    [
        ({"fair_share": ["team"]}, 0.05),
        pytest.param({"policy": "sjf"}, 0.35, marks=pytest.mark.slow),
        pytest.param({"policy": "ljf"}, 0.35, marks=pytest.mark.slow),
    ],
)
def test_those_who_overtake_are_counted(scheduling, off) -> None:
    """Waits as with the workload that really comes, whatever its seed.

    A job that all others overtake waits the longer the busier the farm is, so that what an hour
    says of the rate is not enough to tell when; without them it is told a third.
    """
    wanted = busy(scheduling)
    snapshot, memory = played(wanted)
    fork = known_fork(wanted, snapshot, memory.recent(snapshot.at))

    def load(seed):
        return batches(build_jobs(wanted.model_copy(update={"seed": seed})))

    true = msgspec.structs.replace(fork, load=load)
    waits = [
        rollouts(lambda one=one: one, count=40, processes=1).mean_wait.mean()
        for one in (fork, true)
    ]
    alone = rollouts(lambda: msgspec.structs.replace(fork, recent=None), count=1).mean_wait.mean()
    assert waits[0] == pytest.approx(waits[1], rel=off)
    assert alone < waits[1] * (1 - 2.5 * off if off < 0.1 else 0.5)


@pytest.mark.slow
def test_an_end_of_arrivals_is_not_forgotten() -> None:
    """What has come for three hours may end within one: waits before the end are not too long."""
    errors = waits = 0.0
    for seed in range(6):
        load = {
            "duration": "3h",
            "poisson": {"rate": "40/h"},
            "service_time": {"exponential": {"mean": "10m"}},
            "attributes": {"team": {"big": 3, "small": 1}},
        }
        asked = {"rules": ["rollout"], "run_times": ["oracle"], "rollouts": 5, "every": 5}
        fair = {"fair_share": ["team"]}
        made = small_scenario({"builders": 6}, load, scheduling=fair, estimates=asked)
        told = scored(parse_scenario(made | {"seed": seed}))
        errors += told.bias_time * told.scored
        waits += told.mean_absolute_error_time / told.relative_error * told.scored
    assert abs(errors) < 0.08 * waits


def scored(wanted):
    """Play a scenario; return how right its estimates were."""
    entries = []

    def observe(event, commands) -> None:
        entries.append(Entry(event, list(commands), len(entries)))

    estimated(wanted).play([observe])
    return score(entries)[0]


def test_in_order_of_arrival_they_do_not_matter() -> None:
    """First in, first out on a fixed pool: the fast method, and the same numbers, as without."""
    wanted = busy({"policy": "fifo"})
    snapshot, memory = played(wanted)
    recent = memory.recent(3000.0)
    assert recent is not None
    with_them, without = (known_fork(wanted, snapshot, one) for one in (recent, None))
    assert with_them.later is None
    found = [rollouts(lambda one=one: one, count=2).dispatch_at for one in (with_them, without)]
    assert found[0].tobytes() == found[1].tobytes()


def test_they_overtake_by_the_estimates_of_the_farm() -> None:
    """Not by those of the forecast: where the farm takes new jobs for long ones, none overtakes."""
    wanted = busy({"policy": "sjf"})
    snapshot, memory = played(wanted)
    fork = known_fork(wanted, snapshot, memory.recent(3000.0))
    long = make_estimator("declared", EstimatorOptions(default_time=1e6))
    jobs = tuple((msgspec.structs.replace(one, declared_time=None),) for one in fork.recent.jobs)
    recent = msgspec.structs.replace(fork.recent, submissions=jobs)
    own = msgspec.structs.replace(fork, estimator=long, recent=recent)
    alone = msgspec.structs.replace(fork, recent=None)
    found = [
        rollouts(lambda one=one: one, count=1, processes=1).dispatch_at
        for one in (fork, own, alone)
    ]
    assert found[1].tolist() == found[2].tolist() != found[0].tolist()


def test_the_slow_method_is_bounded() -> None:
    """Once this number of events was simulated there are no more rollouts than the least."""
    wanted = busy({"policy": "ljf"})
    snapshot, memory = played(wanted)
    fork = known_fork(wanted, snapshot, memory.recent(3000.0))
    assert fork.later is not None
    found = rollouts(
        lambda: fork, count=30, processes=1, events=1, jobs=[snapshot.waiting[0].job.id]
    )
    assert len(found.dispatch_at) == 10


def test_the_end_of_arrivals_is_drawn() -> None:
    """The older a rate, the longer it will last; but days have nights."""
    recent = RecentArrivals((), 600.0)
    plain, fair = (make_rules(busy(one)) for one in ({"policy": "sjf"}, {"fair_share": ["team"]}))
    ends = [
        [last_at(recent, plain, 1, n, at) - at for n in range(2000)] for at in (0.0, 3600.0, 1e7)
    ]
    medians = [statistics.median(one) for one in ends]
    expected = [age * (2**0.25 - 1) for age in (600.0, 3600.0, 43_200.0)]
    assert medians == pytest.approx(expected, rel=0.1)
    assert statistics.fmean(ends[1]) == pytest.approx(1200.0, rel=0.1)
    longer = [last_at(recent, fair, 1, n, 3600.0) - 3600.0 for n in range(2000)]
    assert statistics.median(longer) == pytest.approx(3600.0, rel=0.1)


@pytest.mark.parametrize(
    ("scheduling", "means"),
    [
        ({"policy": "sjf"}, False),
        ({"policy": "sjf-aging"}, True),
        ({"policy": "sjf", "fair_share": ["team"]}, True),
    ],
)
def test_where_jobs_starve_the_median_is_told(scheduling, means) -> None:
    """The mean is of the few long jobs that wait for all others: most start far earlier."""
    wanted = busy(scheduling)
    snapshot, memory = played(wanted)
    assert known_fork(wanted, snapshot, memory.recent(snapshot.at)).tells_means == means


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
        found = []
        for at, jobs in drawn(recent, times, 1, number, 4000.0):
            if at > 7600:
                return found
            found.extend((at, job) for job in jobs)
        return drawn

    first = hour(0)
    assert first == hour(0) != hour(1)
    assert 300 < len(first) < 420
    teams = Counter(job.attributes["team"] for _, job in first)
    assert teams["small"] / len(first) == pytest.approx(0.2, abs=0.06)
    assert {job.service_time for _, job in first} == {3.0, 4.0}
    assert all(job.id not in {one.id for one in recent.jobs} for _, job in first)
    assert "m" not in {job.matrix for _, job in first}


def test_a_bounded_memory_knows_the_rate_of_what_it_keeps() -> None:
    """The submissions that came last, as long as their jobs are no more than that."""
    memory = ArrivalMemory(most_jobs=100)
    for number in range(200):
        memory.take(number * 10.0, [Job(id=f"{number}-{n}", service_time=1.0) for n in range(5)])
    recent = memory.recent(1990.0)
    assert recent is not None
    assert (len(recent.submissions), recent.time) == (20, 200.0)
    memory.take(2000.0, [Job(id=f"x{n}", service_time=1.0) for n in range(101)])
    assert memory.recent(2000.0) is None


def test_arrivals_that_follow_verdicts_are_like_those_before() -> None:
    """Where users push again nothing may be known to come, and forecasts once forgot the hour."""
    memory = ArrivalMemory()
    for number in range(30):
        memory.take(number * 10.0, [Job(id=str(number), service_time=1.0)])
    memory.observe(ArrivalsEnded(290.0))
    assert memory.recent(300.0) is None
    memory.take(310.0, [Job(id="again", service_time=1.0)])
    recent = memory.recent(310.0)
    assert recent is not None
    assert (len(recent.submissions), recent.time) == (30, 310.0)
