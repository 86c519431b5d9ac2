"""Answers to what only the scheduler's process knows, made between its other work."""

from __future__ import annotations

import bisect
import logging
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

import msgspec

from farm.core.jobs.groups import group_of
from farm.core.jobs.needs import failures_awaited
from farm.core.model import Job
from farm.core.policies import Key, asks_for_path, sort_key
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState, JobStatus
from farm.forecasts.dispatch.at_submission import Forecast
from farm.forecasts.dispatch.forecast_intervals import ForecastCalibration, groups_of
from farm.forecasts.dispatch.in_steps import QueueSweep
from farm.forecasts.dispatch.recent_arrivals import RecentArrivals
from farm.forecasts.dispatch.recent_errors import Lately
from farm.forecasts.dispatch.starvation import Starvation
from farm.forecasts.dispatch.wait_range import WaitRange
from farm.forecasts.runtime.interface import JobProgress, RuntimeEstimator
from farm.live.operating.answers import (
    FAILED,
    RULES,
    Answer,
    Forecasts,
    Refusal,
    Source,
    Waiting,
    why_they_differ,
)
from farm.live.operating.blocked_start import BlockedStart
from farm.live.operating.run_time_answers import run_time_fields
from farm.live.wire.messages import Ask
from farm.units import format_roughly

ProgressOf = Callable[[JobState], JobProgress | None]
Reply = Callable[[Ask, "Answer | Forecasts | Refusal"], None]
RangeByErrors = Callable[[str, float], WaitRange | None]

log = logging.getLogger("farm.scheduler")

#: real seconds for which rollouts are waited for: a submitter waits for the answer
PATIENCE = 2.0
#: needs of a blocked job that an explanation names
SHOWN_NEEDS = 5
#: jobs whose starts one question is about
MAX_FORECASTS = 200
#: questions that wait for an answer; with a million waiting jobs one takes about two seconds
MAX_QUESTIONS = 100


class Asked(Protocol):
    """Jobs that rollouts were asked about; ``done`` when all is there that will be."""

    forecasts: dict[str, Forecast]
    rollouts: int

    @property
    def done(self) -> bool:
        """Whether there is nothing to wait for."""


class RolloutAnswers(Protocol):
    """What can roll out the farm's present state; ``run_times``: the source of run times."""

    run_times: str

    def ask(self, jobs: Sequence[str], patience: float) -> Asked | None:
        """Ask about waiting jobs; None: that is too dear now. ``patience``: real seconds."""

    def basis(self, job: Job) -> tuple[int, Source]:
        """Return how many run times of a job's kind are known, and what its own is drawn from."""


class Questions:
    """Questions about jobs, answered one after the other in small steps.

    ``clock``: farm time; ``reply``: given an answer, and the question that it is to; ``progress``:
    what a running attempt reported last; ``rollouts``: None: the formula answers alone;
    ``lately``: how good a method, given its rules, was; ``calibration``: of the rollouts;
    ``by_errors``: the range of a wait that a method estimates which has no ranges of its own;
    ``arrivals``: given an instant, what was submitted lately.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Callable[[], float],
        reply: Reply,
        progress: ProgressOf = lambda _: None,
        rollouts: RolloutAnswers | None = None,
        lately: Callable[[str], Lately | None] = lambda _: None,
        calibration: ForecastCalibration | None = None,
        by_errors: RangeByErrors = lambda *_: None,
        arrivals: Callable[[float], RecentArrivals | None] = lambda _: None,
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._reply = reply
        self._progress = progress
        self._rollouts = rollouts
        self._lately = lately
        self._calibration = calibration or ForecastCalibration()
        self._by_errors = by_errors
        self._arrivals = arrivals
        self._waiting: deque[Ask] = deque()
        self._work: Generator[bool, None, Answer | Forecasts] | None = None

    def ask(self, question: Ask) -> bool:
        """Let a question wait for its turn; False: too many wait already."""
        if len(self._waiting) < MAX_QUESTIONS:
            self._waiting.append(question)
            return True
        return False

    def step(self) -> bool:
        """Work for a millisecond or two; return whether more can be done now.

        Whatever fails is of one question: that one is refused, and the scheduler works on.
        """
        if not self._waiting:
            return False
        question = self._waiting[0]
        if self._work is None:
            answering = self._forecasting if question.about == "forecasts" else self._answering
            self._work = answering(question, self._clock())
        answer: Answer | Forecasts | Refusal
        try:
            return not next(self._work)
        except StopIteration as done:
            answer = done.value
        except Exception:
            about = question.job or question.jobs[:SHOWN_NEEDS]
            log.exception("a question about %r could not be answered", about)
            answer = FAILED
        self._work = None
        self._reply(self._waiting.popleft(), answer)
        return bool(self._waiting)

    def _answering(self, question: Ask, at: float) -> Generator[bool, None, Answer]:
        """Return what is known now, after steps between which the scheduler may do other work.

        A step yields whether the next one has to wait for another process.
        """
        scheduler = self._scheduler
        state = scheduler.jobs.get(question.job) if question.about == "job" else None
        decision = scheduler.dispatcher.decisions.get(question.job)
        if state is None:
            return Answer(at=at, decision=decision)
        found, has_pool = _known_at_once(state, scheduler)
        executing = state.leader or state
        more: dict[str, object] = {}
        if state.status is JobStatus.BLOCKED:
            more |= yield from self._rolled(state, at)
            if more.get("method") is None:
                more["dispatch_in_time"] = yield from _start_of_blocked(state, scheduler, at)
            if self._has_ended(state) or state.status is not JobStatus.BLOCKED:
                return (yield from self._answering(question, self._clock()))
            more |= run_time_fields(state, scheduler, at, None, 0.0)
            more["may_starve"] = self._starvation(at).threatens(state)
            found = self._with_range(msgspec.structs.replace(found, **more))
            found = _blocked(found, state, scheduler, at)
            return Answer(at=at, job=found, decision=decision)
        if executing.slot is None:
            more["ahead"], by_formula = yield from _place(executing, scheduler, at)
            if self._has_ended(executing) or executing.slot is not None:
                return (yield from self._answering(question, self._clock()))
            more["dispatch_in_time"] = more["formula_in_time"] = by_formula
            queue = executing.lane.queue
            if isinstance(queue, FairShareQueue):
                more["turns"] = queue.turns(executing)
            more |= yield from self._rolled(state, at)
            more |= run_time_fields(executing, scheduler, at, None, 0.0)
            more["may_starve"] = self._starvation(at).threatens(executing)
        elif executing.started_at is not None:
            builder, elapsed = executing.slot.builder.builder, at - executing.started_at
            reported = self._progress(executing)
            more |= {"elapsed_time": elapsed, "done": None if reported is None else reported.done}
            estimator = scheduler.estimator
            if isinstance(estimator, RuntimeEstimator):
                rest = estimator.remaining(executing.job, builder, elapsed, reported)
                more["remaining_time"] = rest
            more |= run_time_fields(executing, scheduler, at, builder, elapsed)
        found = self._with_range(msgspec.structs.replace(found, **more))
        found = msgspec.structs.replace(
            found,
            why=_why(found, has_pool=has_pool),
            differs=why_they_differ(found),
            may_grow=found.may_grow and found.method == "formula",
            lately=None if found.ahead is None else self._lately(RULES[found.method]),
        )
        return Answer(at=at, job=found, decision=decision)

    def _forecasting(self, question: Ask, at: float) -> Generator[bool, None, Forecasts]:
        """Return when several jobs start: by the same rollouts, or one look at the queue."""
        jobs = self._scheduler.jobs
        asked = (jobs.get(name) for name in question.jobs[:MAX_FORECASTS])
        states = [one for one in asked if one is not None and (one.leader or one).slot is None]
        rolled = yield from self._all_rolled(states, at)
        starvation = self._starvation(at)
        formula: _Formula | None = None
        found: dict[str, Waiting] = {}
        for state in states:
            if self._has_ended(state):
                continue
            fields = dict(rolled.get(state.job.id, {}))
            if fields.get("method") is None:
                if formula is None:
                    formula = _Formula(self._scheduler, at)
                    while formula.sweep.step():
                        yield False
                    if self._has_ended(state):
                        continue
                fields["dispatch_in_time"] = formula.start_of(state)
            fields |= run_time_fields(state.leader or state, self._scheduler, at, None, 0.0)
            waiting = Waiting(
                status=state.status.value,
                attempts=state.attempts,
                submitted_at=state.submitted_at,
                queued_at=state.queued_at,
                estimated_time=state.estimated_time,
                ahead=None if state.status is JobStatus.BLOCKED else 0,
                leader=None if state.leader is None else state.leader.job.id,
                may_starve=starvation.threatens(state.leader or state),
            )
            found[state.job.id] = self._with_range(msgspec.structs.replace(waiting, **fields))
            yield False
        return Forecasts(at=at, jobs=found)

    def _has_ended(self, state: JobState) -> bool:
        """Return whether a job has ended since its question was asked."""
        return self._scheduler.jobs.get(state.job.id) is not state

    def _starvation(self, at: float) -> Starvation:
        return Starvation(self._scheduler, partial(self._arrivals, at))

    def _rolled(self, state: JobState, at: float) -> Generator[bool, None, dict[str, object]]:
        """Return the rollouts' answer on a waiting job; empty: there is none."""
        rolled = yield from self._all_rolled([state], at)
        return rolled.get(state.job.id, {})

    def _all_rolled(
        self, states: Sequence[JobState], at: float
    ) -> Generator[bool, None, dict[str, dict[str, object]]]:
        """Return the rollouts' answers on waiting jobs; without any: they are not wanted."""
        if self._rollouts is None or not states:
            return {}
        names = [state.job.id for state in states]
        asked = self._rollouts.ask(names, PATIENCE)
        if asked is None:
            too_large = "the farm is too large now to be simulated"
            return {name: {"no_rollouts": too_large} for name in names}
        while not asked.done:
            yield True
        found: dict[str, dict[str, object]] = {}
        for state in states:
            forecast = asked.forecasts.get(state.job.id)
            if forecast is None:
                found[state.job.id] = {"no_rollouts": "simulating the farm took too long"}
                continue
            start = forecast.dispatch_at
            known, drawn_from = self._rollouts.basis(state.job)
            found[state.job.id] = {
                "method": "rollouts",
                "dispatch_in_time": None if start is None else max(0.0, start - at),
                "dispatch_range": self._range_of(state, forecast, at),
                "rollouts": asked.rollouts,
                "past_run_times": known,
                "drawn_from": drawn_from,
            }
        return found

    def _with_range(self, found: Waiting) -> Waiting:
        """Return an answer with a range also where the formula has estimated the dispatch."""
        if found.method != "formula" or found.dispatch_in_time is None:
            return found
        made = self._by_errors(RULES["formula"], found.dispatch_in_time)
        return msgspec.structs.replace(found, dispatch_range=made)

    def _range_of(self, state: JobState, forecast: Forecast, at: float) -> WaitRange | None:
        """Return the range of a forecast, by what came of earlier ones."""
        if not forecast.quantiles_at:
            return None
        waits = [max(0.0, instant - at) for instant in forecast.quantiles_at]
        return self._calibration.range_of(groups_of(state), waits)


def _known_at_once(state: JobState, scheduler: Scheduler) -> tuple[Waiting, bool]:
    """Return what needs no look at other jobs, and whether a pool has builders for the job."""
    pools = scheduler.keeper.specs
    able = [b for b in scheduler.builders.values() if b.builder.can_run(state.job.platform)]
    named = [n for n, p in pools.items() if p.builder(1, 0).can_run(state.job.platform)]
    found = Waiting(
        status=state.status.value,
        attempts=state.attempts,
        submitted_at=state.submitted_at,
        queued_at=state.queued_at,
        estimated_time=state.estimated_time,
        builders=len(able),
        accepting=sum(b.accepts for b in able),
        free=sum(b.accepts and b.busy < len(b.slots) for b in able),
        used_up=sum(b.used_up for b in able),
        booting=sum(len(scheduler.pool(name).requested) for name in named),
        may_grow=any(pools[name].provisioned or pools[name].uses for name in named),
        leader=None if state.leader is None else state.leader.job.id,
        path=state.path,
    )
    return found, bool(named)


def _blocked(found: Waiting, state: JobState, scheduler: Scheduler, at: float) -> Waiting:
    """Return what is known of a blocked job: which needs it waits for, and for how long."""
    since = format_roughly(at - state.submitted_at)
    if state.released_at is not None:
        rest = format_roughly(max(0.0, state.released_at - at))
        why = f"its needs are met, and its delay of {state.job.needs_delay:g}s is over in {rest}"
        return msgspec.structs.replace(found, released_at=state.released_at, why=why)
    if not state.unmet and state.job.group is not None:
        return msgspec.structs.replace(found, why=_held_by_group(state, scheduler))
    unmet = {name: _standing(scheduler.jobs.get(name), at) for name in state.unmet}
    shown = [f"{name} ({where})" for name, where in islice(unmet.items(), SHOWN_NEEDS)]
    shown += [f"{len(unmet) - SHOWN_NEEDS:,} more"] * (len(unmet) > SHOWN_NEEDS)
    why = f"for {since} it has been waiting for the end of {', '.join(shown)}"
    if hoped := [] if state.failure_met else failures_awaited(state.job, state.unmet):
        one_of = "one of " * (len(hoped) > 1)
        names = ", ".join(hoped[:SHOWN_NEEDS])
        why += f"; unless {one_of}{names} fails, it is skipped"
    return msgspec.structs.replace(found, unmet=unmet, why=why)


def _held_by_group(state: JobState, scheduler: Scheduler) -> str:
    """Return who has the places of the group for which a job waits."""
    group = group_of(state.job.group or "")
    members = scheduler.book.groups.get(group.name)
    if members is None:
        return f"group {group.name}: a place is free"
    if group.mode == "latest":
        return f"group {group.name}: run {', '.join(members.runs_inside)} has it"
    inside = f"{len(members.inside):,} of {group.limit:,}"
    return (
        f"group {group.name}: {inside} at once ({', '.join(islice(members.inside, SHOWN_NEEDS))})"
    )


def _standing(state: JobState | None, at: float) -> str:
    """Return where a needed job stands, and since when."""
    if state is None:
        return "unknown"
    since = state.queued_at if state.began_at is None or state.slot is None else state.began_at
    return f"{state.status.value} for {format_roughly(max(0.0, at - since))}"


def _place(
    state: JobState, scheduler: Scheduler, at: float
) -> Generator[bool, None, tuple[int | None, float | None]]:
    """Return how many jobs that compete with a job are ahead of it, and when it is dispatched.

    Jobs of other platforms are among them where builders run both: of a job that runs anywhere,
    they are all that came before it.
    """
    lanes = scheduler.dispatcher.matching.with_jobs()
    sweep = QueueSweep(lanes, scheduler.builders.values(), at)
    while sweep.step():
        yield False
    place = sweep.places.get(state.serial)
    if place is None:
        return None, None
    return sweep.estimates.predecessor_count(place), sweep.estimate_of(state)


def _start_of_blocked(
    state: JobState, scheduler: Scheduler, at: float
) -> Generator[bool, None, float | None]:
    """Return when a blocked job is dispatched, by the needs that it still has."""
    formula = _Formula(scheduler, at)
    while formula.sweep.step():
        yield False
    return formula.start_of(state)


class _Formula:
    """When waiting and blocked jobs are dispatched, by one look at the queue: once it is over."""

    def __init__(self, scheduler: Scheduler, at: float) -> None:
        self._scheduler = scheduler
        self._at = at
        #: of the waiting jobs in dispatch order; under fair share their turns decide
        self._keys: list[Key] = []
        look = None if scheduler.rules.path else self._look
        lanes = scheduler.dispatcher.matching.with_jobs()
        self.sweep = QueueSweep(lanes, scheduler.builders.values(), at, look=look)
        self._blocked = BlockedStart(scheduler, at, self._if_released)

    def _look(self, state: JobState) -> None:
        self._keys.append(state.key)

    def start_of(self, state: JobState) -> float | None:
        """Return the seconds until a job is dispatched; None: never, as far as is known."""
        if state.status is JobStatus.BLOCKED:
            return self._blocked.of(state)
        return self.sweep.estimate_of(state.leader or state)

    def _if_released(self, state: JobState) -> float | None:
        """Return the same, of a blocked job as if it were released now: its policy places it."""
        if state.status is not JobStatus.BLOCKED or self._scheduler.rules.path:
            return self.sweep.estimate_of(state)
        policy = self._scheduler.rules.policy
        work = state.estimated_time + (state.below if asks_for_path(policy) else 0.0)
        own = policy(state.job, work, self._at, state.serial)
        # behind those that are alike
        place = bisect.bisect(self._keys, sort_key(state.job, own, sys.maxsize))
        return self.sweep.estimates.new_job(state.job.platform, place)


def _why(job: Waiting, *, has_pool: bool) -> str:
    """Return in one sentence why a job waits; empty if it does not."""
    if job.leader is not None:
        return f"{job.leader}, which does the same action, is executed for both"
    if job.ahead is None:
        return ""
    if not job.builders:
        if not has_pool:
            return "no pool of the farm has builders that could run it"
        return f"no builder that could run it is there, and {job.booting or 'none'} of them boot"
    if not job.accepting:
        if job.used_up:
            closed = f"closed, {job.used_up} of them because all their uses are taken"
            return f"{_all_builders(job.builders)} {closed}"
        return f"{_all_builders(job.builders)} drained, failed or leaving"
    ahead = "1 job is ahead" if job.ahead == 1 else f"{job.ahead:,} jobs are ahead"
    first = ahead if job.ahead else "it is the next"
    if not job.free:
        return f"{_all_builders(job.accepting)} busy, {first}"
    if not job.ahead:
        return f"{first}; {job.free} builders have room, but it is kept for one that suits better"
    return first


def _all_builders(count: int) -> str:
    if count == 1:
        return "the only builder that could run it is"
    return f"all {count:,} builders that could run it are"
