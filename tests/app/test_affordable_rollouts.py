"""What is told at live submissions: rollouts by another process, or the formula."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from farm.app.forecasts import rollout_conversation, rollout_service
from farm.app.forecasts.rollout_conversation import Request, RolloutProcess
from farm.app.forecasts.rollout_process import Roller
from farm.app.forecasts.rollouts_with_fallback import RolloutsWithFallback
from farm.app.recorded.played_again import played_again
from farm.app.runs.estimating import Estimating
from farm.app.runs.own_parts import OwnParts
from farm.core.events import JobFinished, JobsSubmitted
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.at_submission import Forecast
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.scenario import Scenario, parse_scenario
from farm.sim.simulation import Simulation
from farm.testing import small_scenario

LOAD = {
    "count": 80,
    "poisson": {"rate": "0.2/s"},
    "service_time": {"exponential": {"mean": "20s"}},
    "declared": {"factor": {"lognormal": {"median": 1.0, "sigma": 0.5}}},
}
#: seconds that no reply takes
LONG = 20.0


def scenario(policy: str = "fifo", **estimates: Any) -> Scenario:
    """Two builders that soon have a queue, and learn how long jobs take."""
    rules = {"runtime_estimates": "last-3" if policy == "fifo" else "declared", "policy": policy}
    found = small_scenario({"builders": 2}, LOAD, scheduling=rules, estimates=estimates)
    return parse_scenario(found)


class Here:
    """The program of a service, in the test's own process."""

    def __init__(self) -> None:
        self.roller, self.requests = Roller(), list[Request]()
        #: set, it replies
        self.free = threading.Event()
        self.free.set()
        self.broken = False

    def start(self) -> None:
        """There is nothing to start."""

    def reply(self, line: bytes) -> bytes:
        """Return the reply as the process writes it."""
        self.free.wait(LONG)
        if self.broken:
            raise BrokenPipeError("gone")
        self.requests.append(msgspec.json.decode(line, type=Request))
        return msgspec.json.encode(self.roller.reply(self.requests[-1]))

    def close(self) -> None:
        """There is nothing to end."""


class Told:
    """A farm with a queue, whose waiting jobs are asked about."""

    def __init__(self, program: Any, check: Callable[[Told], None], **estimates: Any) -> None:
        wanted = scenario(**estimates)
        estimating = Estimating(wanted, live=True, again=played_again)
        (self.forecaster,) = estimating._forecasters
        assert isinstance(self.forecaster, RolloutsWithFallback)
        (self.service,) = estimating.services
        assert isinstance(estimating.estimator, RuntimeDistribution)
        if program is not None:
            self.service._conversation.program = program
        self.scheduler: Scheduler = estimating.scheduler()
        self.woken, self.at = threading.Event(), 0.0
        self.checked = False
        self.submitted: list[JobsSubmitted] = []

        def watch(event: Any, _: object) -> None:
            self.at = event.at
            if type(event) is JobsSubmitted:
                self.submitted.append(event)
            if len(self.waiting) == 12 and type(event) is JobsSubmitted and not self.checked:
                self.checked = True
                check(self)

        self.service.attach(self.scheduler, lambda: self.at, self.woken.set)
        try:
            Simulation.of(wanted, scheduler=self.scheduler).play([watch])
        finally:
            self.service.close()
        assert self.checked

    @property
    def waiting(self) -> list[JobState]:
        """The jobs in the queue."""
        return [state for state in self.scheduler.jobs.values() if state.slot is None]

    def tell(self, jobs: Sequence[JobState] | None = None) -> list[Forecast]:
        """Return what these jobs are told (None: all), after waiting for replies."""
        jobs = self.waiting if jobs is None else jobs
        for waits in self.forecaster.prepare(self.scheduler, jobs, self.at):
            if waits:
                assert self.woken.wait(LONG)
                self.woken.clear()
        told = self.forecaster.forecast(self.scheduler, jobs, self.at)
        return [one for one in told if one is not None]


def test_another_process_tells_what_rollouts_here_do() -> None:
    """The same numbers to the last bit, history included: the process has all that matters."""
    in_process = Estimating(
        scenario(rules=["rollout"]), OwnParts(functions={"x": len}), live=True, again=played_again
    )

    def check(told: Told) -> None:
        (here,) = in_process._forecasters
        here._distribution = told.scheduler.estimator  # type: ignore[attr-defined]
        expected = here.forecast(told.scheduler, told.waiting, told.at)
        assert told.tell() == expected
        assert len({one.mean_at for one in expected if one}) == 12
        # of none the truth is known yet: the intervals are the rollouts' own
        assert {len(one.quantiles_at) for one in expected if one} == {9}
        known, source = told.service.basis(told.waiting[0].job)
        assert (known > 10, source) == (True, "kind")

    Told(RolloutProcess(), check)


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_jobs_arrive_as_lately_where_they_can_overtake(policy: str) -> None:
    """As rollouts in this process have it; in order of arrival nothing of it is sent."""
    own = OwnParts(functions={"x": len})
    rules = {"policy": policy, "rules": ["rollout"], "rollouts": 20}
    in_process, program = Estimating(scenario(**rules), own, live=True, again=played_again), Here()

    def check(told: Told) -> None:
        (here,) = in_process._forecasters
        here._distribution = told.scheduler.estimator  # type: ignore[attr-defined]
        alone = told.tell()
        assert program.requests[-1].recent is None
        for event in told.submitted:
            told.service.take(event)
            here.take(event, told.scheduler)
        later = told.tell()
        assert later == here.forecast(told.scheduler, told.waiting, told.at)
        recent = program.requests[-1].recent
        assert (recent is None, later == alone) == ((policy == "fifo",) * 2)
        if recent is not None:
            assert len(recent.jobs) == len(told.submitted) - 1
            means = [[one.mean_at or 0.0 for one in some] for some in (alone, later)]
            assert sum(means[1]) > sum(means[0])

    Told(program, check, policy=policy, rollouts=20)


def test_a_live_farm_tells_rollouts_unless_told_otherwise() -> None:
    """The formula stays by name; a simulated run makes no estimates, and has no second process."""

    def rules(*, live: bool = True, own: OwnParts | None = None, **estimates: Any) -> list[str]:
        found = Estimating(scenario(**estimates), own or OwnParts(), live=live, again=played_again)
        assert bool(found.services) == (live and not own and "launchpad" not in str(estimates))
        return [one.rules for one in found._forecasters]

    assert rules() == ["rollout"]
    assert rules(rules=["launchpad"]) == ["launchpad"]
    assert rules(live=False) == []
    # a caller's function is not there in another process
    assert rules(own=OwnParts(functions={"scheduling.policy": len})) == ["launchpad"]


def test_too_many_jobs_are_told_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under its name, and no process is asked."""
    monkeypatch.setattr(rollout_service, "MAX_QUEUED_JOBS", 13)
    program = Here()

    def check(told: Told) -> None:
        assert told.service.ask([told.waiting[0].job.id]) is None
        assert {one.rules for one in told.tell()} == {"launchpad"}
        assert not program.requests

    Told(program, check)


def test_requests_gather_while_one_is_worked_on() -> None:
    """The next one is about all of their jobs that still wait by then."""
    program = Here()

    def check(told: Told) -> None:
        program.free.clear()
        names = [state.job.id for state in told.waiting]
        tickets = [told.service.ask([name]) for name in names[:4]]
        assert not any(one is None or one.done for one in tickets)
        leaving = next(s for s in told.scheduler.builders.values() if s.slots[0].running)
        done = leaving.slots[0].running
        assert done is not None
        name, builder = done.job.id, leaving.builder.id
        told.scheduler.handle(JobFinished(told.at, name, done.attempts, builder, "succeeded"))
        program.free.set()
        while not all(one is not None and one.done for one in tickets):
            assert told.woken.wait(LONG)
            told.woken.clear()
        first, *others = (set(one.forecasts) for one in tickets if one is not None)
        assert first == {names[0]}
        assert all(found == set(names[1:4]) for found in others)
        assert len(program.requests) == 2
        assert program.requests[1].scenario is None

    Told(program, check)


@pytest.mark.parametrize("size", [2, 1_000_000])
def test_a_process_that_never_answers_is_ended(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be stopped, and its pipe full."""
    monkeypatch.setattr(rollout_conversation, "REPLY_TIMEOUT", 0.05)
    program = RolloutProcess()
    program.start()
    try:
        assert program.pid is not None
        os.kill(program.pid, signal.SIGSTOP)
        with pytest.raises(BrokenPipeError):
            program.reply(b"x" * size)
    finally:
        program.close()


def test_a_process_that_is_gone_leaves_the_formula() -> None:
    """At once and from then on; the farm continues."""
    program = Here()
    program.broken = True

    def check(told: Told) -> None:
        assert {one.rules for one in told.tell()} == {"launchpad"}
        assert told.service.ask(["any"]) is None

    Told(program, check)
