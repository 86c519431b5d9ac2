"""The user's own policies, balancers and algorithms, guarded: an error is a message, not a crash.

A policy that fails for a job leaves it without a key: it then goes before all that have one (of
its static level), first in, first out among its like, so that no job is lost to a broken policy.
A ranking that fails puts the builder behind all others. An algorithm that fails leaves its pool as
it is; MOST_FAILURES in a row end a simulation, while a live farm continues. A run tells of failures
in its warnings at its end; a farm that stays up logs each function's first, and shows them in
``farm status``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import ClassVar

import msgspec

from farm.core.dispatching.balancers import Ranking
from farm.core.errors import RunError, did_you_mean
from farm.core.model import Job
from farm.core.policies import KeyFunction
from farm.core.pools.algorithm import (
    AnyAlgorithm,
    InForce,
    Memory,
    PoolSnapshot,
    ScalingPlan,
    in_force,
    within,
)
from farm.core.state.working_state import BuilderState
from farm.units import format_roughly


class Guard:
    """Counts the failures of a function and remembers the first."""

    #: how often it failed, and what that meant for the run
    consequence: ClassVar[str]

    def __init__(self, name: str, where: str) -> None:
        self.name = name
        #: its scenario key
        self.where = where
        self.calls = 0
        self.failures = 0
        self.first = ""
        #: ``first_complaints`` has returned it
        self.is_logged = False

    def complaint(self) -> str:
        """Say what went wrong, empty if nothing did."""
        if not self.failures:
            return ""
        consequence = self.consequence.format(failures=self.failures, calls=self.calls)
        return f"{self.where}: {self.name} failed {consequence}; the first was {self.first}"

    def failed(self, of: str, error: Exception) -> str:
        """Count a failure; ``of`` says for what. Return what went wrong."""
        self.failures += 1
        kind = "" if isinstance(error, UnusableError) else f"{type(error).__name__}: "
        # it goes into files and messages, which hold no half of a surrogate pair
        what = f"{kind}{error}{_instead(error)}".encode(errors="backslashreplace").decode()
        self.first = self.first or f"{of}: {what}"
        return what


def complaints_of(functions: Iterable[object]) -> list[str]:
    """Return what went wrong in those of these functions that are guarded, one message each."""
    found = (guard.complaint() for guard in functions if isinstance(guard, Guard))
    return [message for message in found if message]


def first_complaints(functions: Iterable[object]) -> list[str]:
    """Return what went wrong in those that failed for the first time: each once."""
    new = [g for g in functions if isinstance(g, Guard) and g.failures and not g.is_logged]
    for guard in new:
        guard.is_logged = True
    return complaints_of(new)


def _instead(error: Exception) -> str:
    """Return which attributes there are, for a name that one of our values has not."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, msgspec.Struct):
        return ""
    names = [name for name in dir(error.obj) if not name.startswith("_")]
    return f"; {did_you_mean(error.name or '', names)}there are: {', '.join(names)}"


class GuardedPolicy(Guard):
    """A policy whose keys are checked: a number or a tuple of numbers, alike for all jobs.

    NaN is no key. The first key that is good says whether keys are numbers or tuples, and of
    which length.
    """

    consequence = "for {failures} of {calls} jobs; they went first, in the order in which they came"

    def __init__(self, function: KeyFunction, name: str) -> None:
        super().__init__(name, "scheduling.policy")
        self._function = function
        #: numbers in a key; 0: plain numbers; None: no good key was seen yet
        self._length: int | None = None

    def __call__(
        self, job: Job, estimate: float, at: float, serial: int
    ) -> float | tuple[float, ...]:
        """Return the job's key, or the one of a job without."""
        self.calls += 1
        try:
            found = self._function(job, estimate, at, serial)
            return self._checked(found)
        except Exception as error:
            self.failed(f"job {job.id}", error)
            return (-math.inf,) * self._length if self._length else -math.inf

    def _checked(self, found: object) -> float | tuple[float, ...]:
        parts = found if isinstance(found, tuple) else (found,)
        if not parts or not all(isinstance(part, Real) for part in parts):
            raise UnusableError(f"returned {found!r:.60}; a key is a number or a tuple of numbers")
        numbers = tuple(float(part) for part in parts)
        if any(math.isnan(number) for number in numbers):
            raise UnusableError(f"returned {found!r:.60}; NaN cannot be ordered")
        length = len(numbers) if parts is found else 0
        if self._length is None:
            self._length = length
        elif self._length != length:
            raise UnusableError(f"returned {found!r:.60}, of another form than for earlier jobs")
        return numbers if parts is found else numbers[0]


class GuardedRanking(Guard):
    """A ranking whose ranks are checked: numbers, and not NaN."""

    consequence = "{failures} times of {calls}, and the builder counted as the last choice"

    def __init__(self, function: Ranking, name: str) -> None:
        super().__init__(name, "scheduling.balancer")
        self._function: Callable[[BuilderState], object] = function

    def __call__(self, state: BuilderState) -> float:
        """Return the builder's rank, or the worst there is."""
        self.calls += 1
        try:
            return _rank(self._function(state))
        except Exception as error:
            self.failed(f"builder {state.builder.id}", error)
            return math.inf


def _rank(found: object) -> float:
    if not isinstance(found, Real) or math.isnan(found):
        raise UnusableError(f"returned {found!r:.60}; a rank is a number")
    return float(found)


MOST_FAILURES = 10
"""Plans in a row that fail, after which a simulation would show nothing of the algorithm."""


class GuardedAlgorithm(Guard):
    """An algorithm whose plans are checked: whole numbers within the pool's limits.

    One that fails for a snapshot leaves the pool at the size that it has, within the limits, and
    keeps its memory; it is asked again at the next interval.
    """

    consequence = "for {failures} of {calls} plans, and the pool stayed as it was"

    def __init__(self, algorithm: AnyAlgorithm, name: str, where: str) -> None:
        super().__init__(name, where)
        self._algorithm = self._given = algorithm
        #: since the last plan that was good
        self.failures_in_a_row = 0
        self.min, self.max, self.interval = algorithm.min, algorithm.max, algorithm.interval
        self.first_plan = getattr(algorithm, "first_plan", None)
        self.before_time_outs = bool(getattr(algorithm, "before_time_outs", False))
        self.looks_closely = bool(getattr(algorithm, "looks_closely", False))

    def within(self, least: int | None, most: int | None) -> GuardedAlgorithm:
        """Have the algorithm plan within other limits from now on (None: its own)."""
        self._algorithm = within(self._given, least, most)
        self.min, self.max = self._algorithm.min, self._algorithm.max
        return self

    def in_force(self, snapshot: PoolSnapshot) -> InForce:
        """Return which limits hold now."""
        return in_force(self._algorithm, snapshot)

    def start(self) -> Memory:
        """Return the memory to begin with."""
        try:
            return _memory(self._algorithm.start())
        except Exception as error:
            self.failed("its memory to begin with", error)
            return Memory()

    def plan(self, snapshot: PoolSnapshot, memory: Memory) -> tuple[ScalingPlan, Memory]:
        """Return the algorithm's plan, or one that keeps what is there."""
        self.calls += 1
        try:
            plan, following = self._algorithm.plan(snapshot, memory)
            found = self._checked(plan), _memory(following)
        except Exception as error:
            self.failures_in_a_row += 1
            self.failed(f"at {format_roughly(snapshot.at)}", error)
            return self._as_it_is(snapshot), memory
        self.failures_in_a_row = 0
        return found

    def stays_until(self, snapshot: PoolSnapshot, _: Memory) -> float:
        """Return that any plan may differ: nothing is known of the user's own."""
        return snapshot.at

    def _checked(self, plan: object) -> ScalingPlan:
        if not isinstance(plan, ScalingPlan):
            raise UnusableError(f"returned {plan!r:.60}; a plan is a ScalingPlan")
        for key in ("desired", "start", "stop"):
            found = getattr(plan, key)
            if type(found) is not int or not 0 <= found <= self.max:
                raise UnusableError(
                    f"returned {key} {found!r:.60}; allowed: whole numbers from 0 to {self.max}"
                )
        return plan

    def _as_it_is(self, snapshot: PoolSnapshot) -> ScalingPlan:
        desired = min(max(self.min, snapshot.present), self.max)
        start = max(0, min(desired - snapshot.present, self.max - snapshot.total))
        return ScalingPlan(desired, start, 0, "the algorithm failed")

    def refuse_more_failures(self) -> None:
        """Raise RunError if the last plans failed, ``MOST_FAILURES`` in a row."""
        if self.failures_in_a_row >= MOST_FAILURES:
            raise RunError(
                f"{self.where}: {self.name} failed {MOST_FAILURES} times in a row, {self.first}"
            )

    @property
    def trouble(self) -> str:
        """What went wrong first, in words that stay the same; empty if nothing did."""
        return f"{self.where}: {self.name} failed {self.first}" if self.failures else ""


def _memory(found: object) -> Memory:
    if not isinstance(found, Memory):
        raise UnusableError(f"remembers {found!r:.60}; allowed: a Memory")
    return found


class UnusableError(Exception):
    """What the function returned is of no use."""
