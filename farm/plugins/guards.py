"""The user's own functions, guarded: an error in a policy or balancer is a message, not a crash.

A policy that fails for a job leaves it without a key: it then goes before all that have one (of
its static level), first in, first out among its like, so that no job is lost to a broken policy.
A ranking that fails puts the builder behind all others. A run tells of failures in its warnings at
its end; a farm that stays up logs each function's first, and shows them in ``farm status``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import ClassVar

import msgspec

from farm.core.dispatching.balancers import Ranking
from farm.core.errors import did_you_mean
from farm.core.model import Job
from farm.core.policies import KeyFunction
from farm.core.state.working_state import BuilderState


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


class UnusableError(Exception):
    """What the function returned is of no use."""
