"""Behaviours that drive their own loop: they claim work, resolve jobs and set timers themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Protocol

from farm.core.commands import StartJob
from farm.core.events import DrainRequested, SlotCleaned, pattern_of
from farm.core.model import Builder, Outcome
from farm.emulation.agenda import LIFE, Agenda, Due
from farm.emulation.behaviour import BuilderBehaviour, BuilderSpec, Loop

#: timers that may follow from each other by less than this many seconds
MOST_SHORT, SHORT = 1000, 0.001
OUTCOMES = ("succeeded", "failed", "cancelled")


class Timer:
    """A function that will be called, until it is cleared."""

    def __init__(self) -> None:
        self.entry: Due | None = None


class OwnLoop(BuilderBehaviour):
    """A behaviour that decides when it asks for work, and when a job has ended.

    A user derives one of his own and overrides ``started``, ``received`` and ``ended``; as they are
    here, the builder does what its pool says. The farm calls them, and they and the functions given
    to timers may call the others. The scheduler decides which job a claim gets. Spans are farm
    seconds.
    """

    #: set while the loop runs
    driver: LoopDriver | None = None

    @property
    def own_loop(self) -> OwnLoop:
        """Itself."""
        return self

    # --- to be overridden -------------------------------------------------------------------

    def started(self) -> None:
        """Handle that the builder has joined; it offers no slot yet."""
        self.claim_work(self.spec.builder.slots)

    def received(self, attempt: StartJob) -> None:
        """Begin an attempt at ``attempt.job``, on ``attempt.slot``."""
        self.run_job(attempt)

    def ended(self, attempt: StartJob) -> None:
        """Handle that an attempt is over (also a cancelled one); its slot is not offered."""
        if rest_time := self.spec.inter_job_time:
            self.set_timeout(self.claim_work, rest_time)
        else:
            self.claim_work()

    # --- to be called -----------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Farm seconds since the builder joined."""
        return self._driver.now

    def claim_work(self, count: int = 1) -> int:
        """Offer up to ``count`` more slots; return how many were left to offer.

        An offer stands until the scheduler has a job for it, which comes as ``received``.
        """
        return self._driver.claim_work(count)

    def run_job(self, attempt: StartJob) -> None:
        """Let the builder run the job, in its service time, slowed down by its neighbours."""
        self._driver.run_job(attempt)

    def resolve_job(
        self, attempt: StartJob, outcome: Outcome | None = None, reason: str = ""
    ) -> bool:
        """End an attempt now; return False if it has ended already.

        Without an ``outcome`` it is the job's own; ``cancelled`` returns the job to the queue.
        """
        if outcome is None:
            outcome = "failed" if attempt.job.fails else "succeeded"
        if outcome not in OUTCOMES:
            raise ValueError(f"found outcome {outcome!r}; allowed: {', '.join(OUTCOMES)}")
        return self._driver.resolve_job(attempt, outcome, reason)

    def next_tick(self, function: Callable[[], object]) -> Timer:
        """Call a function at this instant, after what happens now."""
        return self._driver.set_timer(function, 0.0)

    def set_timeout(self, function: Callable[[], object], after: float) -> Timer:
        """Call a function once, when this span has passed."""
        return self._driver.set_timer(function, after)

    def set_interval(self, function: Callable[[], object], interval: float) -> Timer:
        """Call a function whenever this span has passed."""
        return self._driver.set_timer(function, interval, repeat=True)

    def clear_timer(self, timer: Timer) -> None:
        """Do not call the timer's function any more."""
        if timer.entry is not None:
            timer.entry.action = None

    def shut_down(self) -> None:
        """Offer no slots any more, and leave once the running attempts have ended."""
        self._driver.shut_down()

    @property
    def _driver(self) -> LoopDriver:
        if self.driver is None:
            raise RuntimeError("the builder has not started, or its loop has failed")
        return self.driver


class LoopBuilder(Protocol):
    """What a loop's driver needs of its builder."""

    spec: BuilderSpec
    builder: Builder
    id: str
    place: int
    attempts: dict[str, StartJob]
    retiring: bool
    gone: bool

    def work_on(self, command: StartJob) -> None:
        """Let an attempt take its time."""

    def resolve(self, command: StartJob, outcome: Outcome, reason: str = "") -> bool:
        """End an attempt; return False if it has ended already."""
        ...


class LoopDriver:
    """Calls a loop, does for its builder what it asks for, and replaces it if it fails.

    ``failed`` is given what failed, and the exception; it raises, or returns the reason. A loop
    that fails in ``received`` fails the job. Otherwise all running jobs fail, and from then on the
    builder works as its pool says, so that no job waits for a loop that will not continue.
    """

    def __init__(
        self,
        own: Loop,
        failed: Callable[[str, Exception], str],
        builder: LoopBuilder,
        agenda: Agenda,
        report: Callable[[SlotCleaned | DrainRequested], None],
    ) -> None:
        self._own = own
        self._failed = failed
        self._builder = builder
        self._agenda = agenda
        self._report = report
        self._joined_at = 0.0
        #: slots that run nothing and are not offered
        self._unclaimed: set[int] = set()
        #: the jobs that the builder runs
        self._run: set[str] = set()
        #: short timers that led to the present call, one after the other
        self._depth = 0

    def start(self, unclaimed: set[int]) -> None:
        """Start the loop: the builder has joined."""
        self._joined_at = self._agenda.now
        self._unclaimed = unclaimed
        self._own.driver = self
        self._call("started", self._own.started)

    def received(self, attempt: StartJob) -> None:
        """Give an attempt to the loop."""
        self._unclaimed.discard(attempt.slot)
        self._call(f"job {attempt.job.id}", partial(self._own.received, attempt), attempt)

    def ended(self, attempt: StartJob) -> None:
        """Handle that an attempt is over."""
        self._unclaimed.add(attempt.slot)
        self._run.discard(attempt.job.id)
        if self._own.driver is self:
            self._call(f"end of job {attempt.job.id}", partial(self._own.ended, attempt))

    def _call(self, of: str, function: Callable[[], object], job: StartJob | None = None) -> None:
        own = self._own
        try:
            function()
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises
            reason = self._failed(of, error)
            if job is not None:
                self._builder.resolve(job, "failed", reason)
            elif self._own is own:  # not replaced by a call within this one
                self._replace(reason)

    def _replace(self, reason: str) -> None:
        self._own.driver = None
        self._own = OwnLoop(self._builder.spec)
        for attempt in list(self._builder.attempts.values()):
            self._builder.resolve(attempt, "failed", reason)
        self.start(self._unclaimed)

    # --- what the loop asks for -------------------------------------------------------------

    @property
    def now(self) -> float:
        """Farm seconds since the builder joined."""
        return self._agenda.now - self._joined_at

    def claim_work(self, count: int) -> int:
        """Offer slots, the lowest numbers first."""
        builder = self._builder
        if builder.gone or builder.retiring or not builder.builder.takes_jobs:
            return 0
        slots = sorted(self._unclaimed)[: max(0, count)]
        self._unclaimed.difference_update(slots)
        for slot in slots:
            self._report(SlotCleaned(self._agenda.now, builder.id, slot))
        return len(slots)

    def run_job(self, attempt: StartJob) -> None:
        """Let the attempt take its time, unless it does already, or has ended."""
        job = attempt.job.id
        if self._builder.attempts.get(job) is attempt and job not in self._run:
            self._run.add(job)
            self._builder.work_on(attempt)

    def resolve_job(self, attempt: StartJob, outcome: Outcome, reason: str) -> bool:
        """End the attempt."""
        return self._builder.resolve(attempt, outcome, reason)

    def shut_down(self) -> None:
        """Ask to be drained and retired."""
        if not (self._builder.gone or self._builder.retiring):
            name = pattern_of(self._builder.id)
            self._report(DrainRequested(self._agenda.now, name, retire=True))

    def set_timer(
        self, function: Callable[[], object], after: float, *, repeat: bool = False
    ) -> Timer:
        """Call a function after a span, once or repeatedly."""
        if not callable(function):
            raise TypeError(f"found {function!r:.60}; allowed: a function without arguments")
        if not isinstance(after, int | float) or not 0 <= after < math.inf:
            raise ValueError(f"found {after!r:.60}; allowed: seconds, 0 or more")
        timer = Timer()
        self._expect(timer, function, after, repeat=repeat)
        return timer

    def _expect(
        self, timer: Timer, function: Callable[[], object], after: float, *, repeat: bool
    ) -> None:
        depth = self._depth + 1 if after < SHORT else 0
        if depth > MOST_SHORT:
            raise RuntimeError(
                f"{MOST_SHORT:,} timers of less than {SHORT:g}s followed from each other"
            )
        own = self._own

        def fire() -> None:
            if repeat:
                self._expect(timer, function, after, repeat=True)
            function()

        def due(_: float) -> None:
            if self._own is own and not self._builder.gone:
                self._depth = depth
                self._call("a timer", fire)
                self._depth = 0

        timer.entry = self._agenda.put(self._agenda.now + after, LIFE, self._builder.place, due)
