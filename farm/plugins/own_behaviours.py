"""The user's own behaviours of builders, guarded: an error in one is a message, not a crash."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from farm.core.errors import RunError, ScenarioError
from farm.core.model import Job
from farm.emulation.behaviour import BuilderBehaviour, BuilderSpec, Loop
from farm.emulation.own_loop import OwnLoop
from farm.plugins.guards import Guard, UnusableError
from farm.plugins.lookup import checked_arguments, named

Time = TypeVar("Time", bound=float | None)


class OwnBehaviours(Guard):
    """Makes the behaviours of a pool's builders, by a class or a function of the user's.

    A class derives from BuilderBehaviour; a function from a job and its Builder returns the job as
    that runs it. A job for which it fails fails; a span that is none is the pool's own. Raises
    ScenarioError, with the scenario key ``where``, for a name that is neither.
    """

    consequence = "{failures} times"

    def __init__(self, name: str, where: str) -> None:
        super().__init__(name, where)
        found = named(name, {}, where, "farm.behaviours")
        if not isinstance(found, type):
            checked_arguments(found, 2, where, f"{name}(job, builder)")
        elif not issubclass(found, BuilderBehaviour):
            raise ScenarioError(
                f"{where}: found the class {name}; allowed: a function from a job and a builder to "
                "a job, or a class derived from farm.emulation.behaviour.BuilderBehaviour"
            )
        self._found: Callable[..., Any] = found

    @property
    def claims(self) -> bool:
        """Whether its builders claim their work: the class drives its own loop."""
        return isinstance(self._found, type) and issubclass(self._found, OwnLoop)

    def of(self, spec: BuilderSpec) -> BuilderBehaviour:
        """Return the behaviour of one builder."""
        return _Guarded(spec, self, self._made(spec))

    def _made(self, spec: BuilderSpec) -> BuilderBehaviour:
        if not isinstance(self._found, type):
            return _ByFunction(spec, self._found)
        try:
            made: BuilderBehaviour = self._found(spec)
        except Exception as error:
            self.failed(f"builder {spec.builder.id}", error)
            return BuilderBehaviour(spec)
        return made


class _ByFunction(BuilderBehaviour):
    def __init__(self, spec: BuilderSpec, function: Callable[..., Job]) -> None:
        super().__init__(spec)
        self._function = function

    def run(self, job: Job) -> Job:
        return self._function(job, self.spec.builder)


class _Guarded(BuilderBehaviour):
    """Checks what the user's own behaviour returns."""

    def __init__(self, spec: BuilderSpec, guard: OwnBehaviours, own: BuilderBehaviour) -> None:
        super().__init__(spec)
        self._guard = guard
        self._own = own

    def run(self, job: Job) -> Job:
        """Return the job as it is run; raises RunError if the user's code failed."""
        try:
            return _same_job(self._own.run(job), job)
        except Exception as error:
            raise RunError(self.failed(f"job {job.id}", error)) from error

    @property
    def own_loop(self) -> Loop | None:
        """The user's loop, if it is one."""
        return self._own.own_loop

    def failed(self, of: str, error: Exception) -> str:
        """Count a failure; return the reason for which jobs fail."""
        return f"{self._guard.name} failed: {self._guard.failed(of, error):.200}"

    def boot_time(self) -> float:
        """Return the user's time."""
        own = self.spec.boot_time
        return self._time("boot_time", lambda: _span(self._own.boot_time()), own)

    def rest_time(self, job: Job) -> float | None:
        """Return the user's time, or None."""
        own: float | None = self.spec.inter_job_time
        return self._time("rest_time", lambda: _rest(self._own.rest_time(job)), own)

    def shutdown_time(self) -> float:
        """Return the user's time."""
        own = self.spec.shutdown_time
        return self._time("shutdown_time", lambda: _span(self._own.shutdown_time()), own)

    def _time(self, name: str, user: Callable[[], Time], own: Time) -> Time:
        try:
            return user()
        except Exception as error:
            self._guard.failed(name, error)
            return own


def _same_job(found: object, job: Job) -> Job:
    if not isinstance(found, Job) or found.id != job.id:
        raise UnusableError(f"returned {found!r:.60}; allowed: the job, with other values")
    _span(found.service_time)
    return found


def _rest(found: object) -> float | None:
    return None if found is None else _span(found)


def _span(found: object) -> float:
    if not isinstance(found, int | float) or not 0 <= found < math.inf:
        raise UnusableError(f"returned {found!r:.60}; allowed: seconds, 0 or more")
    return float(found)
