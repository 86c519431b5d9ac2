"""Answers to what only the scheduler's process knows: why a job waits, why it went where it did."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping

import msgspec

from farm.core.dispatching.decisions import Decision
from farm.core.pools.spec import PoolSpec
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.queues.fair_share.turn_explanation import Turn
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.in_steps import QueueSweep
from farm.forecasts.runtime.interface import Progress, RuntimeEstimator
from farm.live.wire.messages import Ask

ProgressOf = Callable[[JobState], Progress | None]

#: questions that wait for an answer; with a million waiting jobs one takes about two seconds
MAX_QUESTIONS = 100


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A live job as its scheduler sees it; times are farm seconds."""

    status: str
    attempts: int
    submitted_at: float
    estimated_time: float
    #: jobs before it in dispatch order on its platform; None: it does not wait
    ahead: int | None = None
    #: builders that may run it: all there are, those that take jobs, those with a free slot
    builders: int = 0
    accepting: int = 0
    free: int = 0
    #: those that have taken as many attempts as they may
    used_up: int = 0
    #: requested builders of pools whose builders may run it
    booting: int = 0
    #: whether a provisioner may ask for more of them, or others take the place of those with
    #: ``uses``; the estimate counts those that are there
    may_grow: bool = False
    #: seconds until it is dispatched, as estimated; None: no builder could run it
    dispatch_in_time: float | None = None
    #: while it runs: for how long, which part is done by its builder's last report (0 to 1), and
    #: the expected rest
    elapsed_time: float | None = None
    done: float | None = None
    remaining_time: float | None = None
    #: whose execution serves it too
    leader: str | None = None
    path: tuple[str, ...] = ()
    #: under fair share, level by level: whose turn it is where it waits
    turns: tuple[Turn, ...] = ()
    why: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler knows of a job now; both None: nothing (any more)."""

    at: float
    job: Waiting | None = None
    decision: Decision | None = None


class Refusal(msgspec.Struct, frozen=True):
    """Sent in the place of an answer; an answer, read as one, has refused nothing."""

    refused: str = ""


BUSY = Refusal("too many questions wait for the scheduler: ask again later")


class Questions:
    """Questions about jobs, answered one after the other in small steps.

    ``clock``: farm time; ``reply``: given an answer, and the question that it is to; ``progress``:
    what a running attempt reported last.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        pools: Mapping[str, PoolSpec],
        clock: Callable[[], float],
        reply: Callable[[Ask, Answer], None],
        progress: ProgressOf = lambda _: None,
    ) -> None:
        self._scheduler = scheduler
        self._pools = pools
        self._clock = clock
        self._reply = reply
        self._progress = progress
        self._waiting: deque[Ask] = deque()
        self._work: Generator[None, None, Answer] | None = None

    def ask(self, question: Ask) -> bool:
        """Let a question wait for its turn; False: too many wait already."""
        if len(self._waiting) < MAX_QUESTIONS:
            self._waiting.append(question)
            return True
        return False

    def step(self) -> bool:
        """Work for a millisecond or two; return whether there is more to do."""
        if not self._waiting:
            return False
        question = self._waiting[0]
        if self._work is None:
            self._work = self._answering(question, self._clock())
        try:
            next(self._work)
        except StopIteration as done:
            self._work = None
            self._reply(self._waiting.popleft(), done.value)
        return bool(self._waiting)

    def _answering(self, question: Ask, at: float) -> Generator[None, None, Answer]:
        """Return what is known now, after steps between which the scheduler may do other work."""
        scheduler = self._scheduler
        state = scheduler.jobs.get(question.job) if question.about == "job" else None
        decision = scheduler.dispatcher.decisions.get(question.job)
        if state is None:
            return Answer(at=at, decision=decision)
        found, has_pool = _known_at_once(state, scheduler, self._pools)
        executing = state.leader or state
        more: dict[str, object] = {}
        if executing.slot is None:
            more["ahead"], more["dispatch_in_time"] = yield from _place(executing, scheduler, at)
            queue = executing.lane.queue
            if isinstance(queue, FairShareQueue):
                more["turns"] = queue.turns(executing)
        elif executing.started_at is not None:
            builder, elapsed = executing.slot.builder.builder, at - executing.started_at
            reported = self._progress(executing)
            more |= {"elapsed_time": elapsed, "done": None if reported is None else reported.done}
            estimator = scheduler.estimator
            if isinstance(estimator, RuntimeEstimator):
                rest = estimator.remaining(executing.job, builder, elapsed, reported)
                more["remaining_time"] = rest
        found = msgspec.structs.replace(found, **more)
        found = msgspec.structs.replace(found, why=_why(found, has_pool=has_pool))
        return Answer(at=at, job=found, decision=decision)


def _known_at_once(
    state: JobState, scheduler: Scheduler, pools: Mapping[str, PoolSpec]
) -> tuple[Waiting, bool]:
    """Return what needs no look at other jobs, and whether a pool has builders for the job."""
    able = [b for b in scheduler.builders.values() if b.builder.can_run(state.job.platform)]
    named = [n for n, p in pools.items() if p.builder(1, 0).can_run(state.job.platform)]
    found = Waiting(
        status=state.status.value,
        attempts=state.attempts,
        submitted_at=state.submitted_at,
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


def _place(
    state: JobState, scheduler: Scheduler, at: float
) -> Generator[None, None, tuple[int | None, float | None]]:
    """Return how many jobs of its platform are ahead of a job, and when it is dispatched."""
    lane, mates = state.lane, list[int]()

    def look(other: JobState) -> None:
        if other.lane is lane:
            mates.append(other.serial)

    lanes, builders = scheduler.dispatcher.matching.with_jobs(), scheduler.builders.values()
    sweep = QueueSweep(lanes, builders, at, look=look)
    while sweep.step():
        yield
    if state.serial not in sweep.places:
        return None, None
    return mates.index(state.serial), sweep.estimate_of(state)


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
            return f"all {job.builders} builders that could run it are {closed}"
        return f"all {job.builders} builders that could run it are drained, failed or leaving"
    ahead = "1 job is ahead" if job.ahead == 1 else f"{job.ahead:,} jobs are ahead"
    first = ahead if job.ahead else "it is the next"
    if not job.free:
        return f"all {job.accepting} builders that could run it are busy, {first}"
    if not job.ahead:
        return f"{first}; {job.free} builders have room, but it is kept for one that suits better"
    return first
