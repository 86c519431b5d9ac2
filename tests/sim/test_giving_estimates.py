"""Estimates as facts of a simulated run: they are right, complete, and change nothing."""

from __future__ import annotations

import pytest

from farm.assembly import make_scheduler
from farm.cli.estimating import Estimating
from farm.core.dispatch_estimator import FARM, LAUNCHPAD, estimate_dispatch
from farm.core.dispatch_estimator.farm_snapshot import view_of
from farm.core.errors import InputError
from farm.core.events import EstimateMade
from farm.core.giving_estimates import FormulaGiver, sweep_of, waiting_in_order
from farm.core.snapshot import snapshot_of
from farm.scenario import parse_scenario
from farm.sim.simulation import Simulation


def scenario(scheduling=None, **estimates):
    """Two pools that share a platform, some jobs of each platform."""
    return parse_scenario(
        {
            "pools": [
                {"name": "one", "platform": {"processor": "a"}, "builders": 2, "slots": 2},
                {"name": "two", "platform": {"processors": ["a", "b"]}, "builders": 1},
            ],
            "workload": [
                {
                    "arrivals": {
                        "platform": {"processor": processor},
                        "count": 60,
                        "poisson": {"rate": "0.3/s"},
                        "service_time": {"exponential": {"mean": "10s"}},
                        "score": [1, 2, 3],
                    }
                }
                for processor in "ab"
            ],
            "scheduling": {"policy": "score", "runtime_estimates": "last-3", **(scheduling or {})},
            "estimates": estimates,
        }
    )


def story(wanted) -> list:
    """Simulate; return every fact with its orders."""
    estimating = Estimating(wanted, live=False)
    scheduler = make_scheduler(wanted, estimator=estimating.estimator)
    simulation = Simulation(wanted, scheduler=scheduler, around=estimating.around)
    told = []
    simulation.play([lambda event, commands: told.append((event, list(commands)))])
    return told


def test_estimates_change_nothing() -> None:
    """The facts and orders of a run are the same with estimates and without."""
    plain = story(scenario())
    told = story(scenario(rules=["launchpad", "rollout"], rollouts=3, run_times=["oracle"]))
    estimates = [event for event, _ in told if isinstance(event, EstimateMade)]
    assert [one for one in told if not isinstance(one[0], EstimateMade)] == plain
    assert len(estimates) == 2 * 120
    assert {one.rules for one in estimates} == {"launchpad", "rollout"}
    deciles = [one.quantiles_at for one in estimates if one.rules == "rollout" and one.waiting]
    assert deciles
    assert all(len(each) == 9 and list(each) == sorted(each) for each in deciles)


def test_every_so_many_jobs() -> None:
    """Only each fifth job is estimated."""
    told = story(scenario(rules=["farm"], every=5))
    estimates = [event for event, _ in told if isinstance(event, EstimateMade)]
    assert len(estimates) == 120 / 5


@pytest.mark.parametrize("scheduling", [{}, {"policy": "sjf"}, {"fair_share": ["user"]}])
def test_given_estimates_equal_the_formula_on_the_snapshot(scheduling) -> None:
    """What is logged at a submission is what asking for that one job gives."""
    wanted = scenario(scheduling, rules=["launchpad", "farm"])
    estimating = Estimating(wanted, live=False)
    scheduler = make_scheduler(wanted, estimator=estimating.estimator)
    simulation = Simulation(wanted, scheduler=scheduler, around=estimating.around)
    checked = 0

    def watch(event, _) -> None:
        nonlocal checked
        if not isinstance(event, EstimateMade) or not event.waiting:
            return
        view = view_of(snapshot_of(scheduler, event.at))
        state = scheduler.jobs[event.job]
        rules = {"launchpad": LAUNCHPAD, "farm": FARM}[event.rules]
        found = estimate_dispatch(view, state.serial, rules)
        assert event.dispatch_at == pytest.approx(event.at + found.estimate_s, abs=1e-9)
        checked += 1

    simulation.play([watch])
    assert checked > 100


def test_a_long_queue_is_swept_now_and_then() -> None:
    """Between sweeps a new job is estimated by its place in the last one."""
    wanted = scenario(rules=["farm"])
    scheduler = make_scheduler(wanted)
    giver = FormulaGiver(FARM, "last-3", refresh=100.0, swept_at_most=0)
    sweeps = []

    def watch(event, _) -> None:
        waiting = waiting_in_order(scheduler)
        if waiting:
            (given,) = giver.give(scheduler, waiting[-1:], event.at)
            assert given.dispatch_at is not None
            sweeps.append(giver._swept_at)

    Simulation(wanted, scheduler=scheduler).play([watch])
    assert len(sweeps) > 100
    assert len(set(sweeps)) <= sweeps[-1] / 100 + 2


def test_unknown_estimators_are_refused() -> None:
    """One message that names the key."""
    with pytest.raises(InputError, match=r"estimates\.run_times"):
        Estimating(scenario(rules=["farm"], run_times=["guess"]), live=False)


def test_running_jobs_count_with_their_builders_time() -> None:
    """Kind-level while waiting, builder-level on a builder: a slow builder is waited for longer."""
    wanted = parse_scenario(
        {
            "pools": [
                {"name": "slow", "platform": {"processor": "a"}, "builders": 1, "speed": 0.5}
            ],
            "workload": [
                {
                    "arrivals": {
                        "platform": {"processor": "a"},
                        "count": 2,
                        "every": "1s",
                        "service_time": {"constant": "10s"},
                    }
                }
            ],
        }
    )
    scheduler = make_scheduler(wanted)
    found = []

    def watch(event, _) -> None:
        waiting = waiting_in_order(scheduler)
        if waiting and not found:
            found.append(event.at + float(sweep_of(scheduler, waiting, event.at, FARM).tnb_s[0]))

    Simulation(wanted, scheduler=scheduler).play([watch])
    assert found == [pytest.approx(20.0)]
