"""Estimates as events of a simulated run: they are right, complete, and change nothing."""

from __future__ import annotations

from collections import deque
from itertools import cycle, repeat

import pytest

from farm.app.recorded.played_again import played_again
from farm.app.runs.estimating import Estimating
from farm.assembly import make_scheduler
from farm.core.errors import InputError
from farm.core.events import EstimateMade, JobsSubmitted
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.dispatch.at_submission import EstimatingWorld
from farm.forecasts.dispatch.formula_at_submission import FormulaForecaster
from farm.forecasts.dispatch.in_steps import QueueSweep, SweepRunTimes
from farm.forecasts.dispatch.launchpad_formula import FARM
from farm.forecasts.dispatch.view import view_of
from farm.results.audit.auditor import Auditor
from farm.scenario import parse_scenario
from farm.sim.simulation import Simulation
from farm.testing import small_scenario
from farm.upstream.launchpad import LAUNCHPAD
from tests.fixtures.estimates import estimate_dispatch, whole_table


def scenario(scheduling=None, **estimates):
    """Two pools that share a platform, some jobs of each platform."""
    pools = [
        {"name": "one", "platform": {"processor": "a"}, "builders": 2, "slots": 2},
        {"name": "two", "platform": {"processors": ["a", "b"]}},
    ]
    load = {
        "count": 60,
        "poisson": {"rate": "0.3/s"},
        "service_time": {"exponential": {"mean": "10s"}},
        "score": [1, 2, 3],
    }
    loads = [load | {"platform": {"processor": processor}} for processor in "ab"]
    rules = {"policy": "score", "runtime_estimates": "last-3", **(scheduling or {})}
    return parse_scenario(small_scenario(pools, loads, scheduling=rules, estimates=estimates))


def estimated(wanted) -> Simulation:
    """Return the simulation of a scenario with the estimates that it asks for."""
    estimating = Estimating(wanted, live=False, again=played_again)
    scheduler = make_scheduler(wanted, estimator=estimating.estimator)
    return Simulation.of(wanted, scheduler=scheduler, around=estimating.around)


def story(wanted) -> list:
    """Simulate; return every event with its commands."""
    told = []
    estimated(wanted).play([lambda event, commands: told.append((event, list(commands)))])
    return told


def test_estimates_change_nothing() -> None:
    """The events and commands of a run are the same with estimates and without."""
    plain = story(scenario())
    asked = {"rules": ["launchpad", "rollout"], "rollouts": 3, "run_times": ["oracle"]}
    told = story(scenario(**asked, every=3))
    estimates = [event for event, _ in told if isinstance(event, EstimateMade)]
    assert [one for one in told if not isinstance(one[0], EstimateMade)] == plain
    assert len(estimates) == 2 * 120 / 3
    assert {one.rules for one in estimates} == {"launchpad", "rollout"}
    deciles = [one.quantiles_at for one in estimates if one.rules == "rollout" and one.waiting]
    assert {len(each) for each in deciles} == {9}
    assert all(list(each) == sorted(each) for each in deciles)


def test_every_nth_job() -> None:
    """Only each fifth job is estimated."""
    told = story(scenario(rules=["farm"], every=5))
    estimates = [event for event, _ in told if isinstance(event, EstimateMade)]
    assert len(estimates) == 120 / 5


@pytest.mark.parametrize("scheduling", [{}, {"policy": "sjf"}, {"fair_share": ["user"]}])
def test_estimates_equal_the_formula_on_the_snapshot(scheduling) -> None:
    """The logged estimate is the same as asking for that one job."""
    simulation = estimated(scenario(scheduling, rules=["launchpad", "farm"]))
    scheduler, checked = simulation.scheduler, 0

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


def test_a_long_queue_is_swept_periodically() -> None:
    """Between sweeps a new job is estimated by its place in the last one."""
    wanted = scenario(rules=["farm"])
    scheduler = make_scheduler(wanted)
    forecaster = FormulaForecaster(FARM, "last-3", refresh=100.0, swept_at_most=0)
    sweeps = []

    def watch(event, _) -> None:
        waiting = [state for state in scheduler.jobs.values() if state.slot is None]
        if waiting:
            for _ in forecaster.prepare(scheduler, waiting[-1:], event.at):
                pass
            (given,) = forecaster.forecast(scheduler, waiting[-1:], event.at)
            assert given.dispatch_at is not None
            sweeps.append(forecaster.swept_at)

    Simulation.of(wanted, scheduler=scheduler).play([watch])
    assert len(sweeps) > 100
    assert len(set(sweeps)) <= sweeps[-1] / 100 + 2


def test_unknown_estimators_are_refused() -> None:
    """One message that names the key."""
    with pytest.raises(InputError, match=r"estimates\.run_times"):
        Estimating(scenario(rules=["farm"], run_times=["guess"]), live=False, again=played_again)


def test_running_jobs_count_with_their_builders_time() -> None:
    """Kind-level while waiting, builder-level on a builder: a slow builder is waited for longer."""
    wanted = parse_scenario(small_scenario({"speed": 0.5}, {"count": 2, "service_time": "10s"}))
    scheduler = make_scheduler(wanted)
    found = []

    def watch(event, _) -> None:
        lanes = scheduler.dispatcher.matching.lanes
        if any(lane.waiting for lane in lanes) and not found:
            own = SweepRunTimes(held=scheduler.estimator.estimate)
            sweep = QueueSweep(lanes, scheduler.builders.values(), event.at, FARM, own)
            while sweep.step():
                pass
            found.append(event.at + (whole_table(sweep.estimates)[0] or 0.0))

    Simulation.of(wanted, scheduler=scheduler).play([watch])
    assert found == [pytest.approx(20.0)]


class Hasty:
    """A world that handles events later, with a number of steps between two events."""

    def __init__(self, world, steps) -> None:
        self.world = world
        self.steps = steps
        self.execute = world.execute
        self.around = None
        self.events = deque()
        self.at = 0.0

    def next_event(self):
        """Return the added event, else the world's next one."""
        for _ in range(next(self.steps)):
            self.around.step()
        if self.events:
            return self.events.popleft()
        event = self.world.next_event()
        self.at = self.at if event is None else event.at
        return event

    def add_event(self, make) -> None:
        """Add an event."""
        self.events.append(make(self.at))


def in_steps(wanted, steps, rules=(FARM, LAUNCHPAD), **more) -> list:
    """Simulate with estimates in steps, audited; return every event with its commands."""
    scheduler = make_scheduler(wanted)

    def around(world, _):
        hasty = Hasty(world, steps)
        forecasters = [FormulaForecaster(one, "last-3", **more) for one in rules]
        hasty.around = EstimatingWorld(hasty, scheduler, forecasters, add_event=hasty.add_event)
        return hasty.around

    told, auditor = [], Auditor()
    simulation = Simulation.of(wanted, scheduler=scheduler, around=around)
    simulation.play([auditor, lambda event, commands: told.append((event, list(commands)))])
    auditor.close()
    return told


def estimates_of(told) -> dict:
    """Return the estimates of a story by job and rules."""
    made = [event for event, _ in told if isinstance(event, EstimateMade)]
    found = {(one.job, one.rules): one for one in made}
    assert len(found) == len(made)
    return found


@pytest.mark.parametrize("scheduling", [{}, {"fair_share": ["user"]}])
def test_estimates_in_steps_are_those_made_at_once(scheduling) -> None:
    """With time for all steps between two events, both give the same."""
    at_once = estimates_of(story(scenario(scheduling, rules=["farm", "launchpad"])))
    assert estimates_of(in_steps(scenario(scheduling), repeat(1000))) == at_once


@pytest.mark.parametrize("scheduling", [{}, {"fair_share": ["user"]}])
def test_a_busy_farm_is_not_delayed(scheduling, monkeypatch) -> None:
    """With one step in three events the run is unchanged, and each job has its estimate in the end.

    An estimate that comes later says when it was asked for, and is of the farm of then or later.
    """
    monkeypatch.setattr("farm.forecasts.dispatch.in_steps.STEP", 5)
    plain = story(scenario(scheduling))
    told = in_steps(scenario(scheduling), cycle([0, 0, 1]))
    assert [one for one in told if not isinstance(one[0], EstimateMade)] == plain
    found = estimates_of(told)
    assert len(found) == 2 * 120
    late = [one for one in found.values() if one.asked_at is not None]
    assert late
    submitted = {
        job.id: event.at
        for event, _ in plain
        if isinstance(event, JobsSubmitted)
        for job in event.jobs
    }
    for one in found.values():
        assert submitted[one.job] == (one.at if one.asked_at is None else one.asked_at) <= one.at
        assert one.dispatch_at is not None
        assert one.dispatch_at >= submitted[one.job]


def test_pending_estimates_are_answered_at_the_end() -> None:
    """Without any steps the estimates follow the last event."""
    told = in_steps(scenario(), repeat(0), rules=(FARM,))
    assert len(estimates_of(told)) == 120
    late = [isinstance(event, EstimateMade) and event.waiting > 0 for event, _ in told]
    assert late == sorted(late)
