"""Jobs made by the user's code, checked one by one as they are made."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec
import numpy as np

from farm.core.errors import InputError, ScenarioError
from farm.core.fields import FieldError, record_of
from farm.core.jobs.needs import flaw_of_needs, renamed
from farm.core.model import Job, Platform
from farm.plugins.lookup import checked_arguments, named
from farm.scenario import Scenario
from farm.scenario.checks import default_platform, refuse_unrunnable
from farm.scenario.workload import Generator


def generated(
    scenario: Scenario, options: Generator, where: str, prefix: str, dice: random.Random
) -> Iterator[Job]:
    """Yield the jobs that the function of a ``generator`` source makes.

    Ids and names of matrices begin with ``prefix``.

    Raises ScenarioError for a function that does not exist, or that raises.
    """
    function = named(options.function, {}, f"{where}.function", "farm.generators")
    checked_arguments(function, 1, f"{where}.function", f"{options.function}(dice)")
    made = _guarded(function, dice, f"{where}.function: {options.function}")
    jobs = sound_jobs(made, scenario, where)
    return (_prefixed(job, prefix) for job in jobs)


def _prefixed(job: Job, prefix: str) -> Job:
    matrix = job.matrix and f"{prefix}{job.matrix}"
    needs = renamed(job.needs, lambda name: f"{prefix}{name}") if job.needs else ()
    return msgspec.structs.replace(job, id=f"{prefix}{job.id}", matrix=matrix, needs=needs)


def _guarded(
    function: Callable[[random.Random], Iterable[object]], dice: random.Random, what: str
) -> Iterator[object]:
    try:
        yield from function(dice)
    except Exception as error:
        raise ScenarioError(f"{what} failed: {type(error).__name__}: {error}") from error


def distinct(jobs: Iterable[Job], source: str, seen: set[str] | None = None) -> Iterator[Job]:
    """Pass jobs on; raises InputError, with ``source``, for an id that is there already.

    ``seen``: gets their ids.
    """
    seen = set() if seen is None else seen
    for job in jobs:
        if job.id in seen:
            raise InputError(f"{source}: {job.id}: found this id twice; allowed: distinct ids")
        seen.add(job.id)
        yield job


def sound_jobs(jobs: Iterable[object], scenario: Scenario, source: str) -> Iterator[Job]:
    """Pass jobs on, each with a platform and an arrival; raises InputError for an invalid one.

    ``source`` names them in messages. A job may need those that came before, or that arrive with
    it.
    """
    seen: set[str] = set()
    return _with_known_needs(distinct(_checked(jobs, scenario, source), source, seen), seen, source)


def _with_known_needs(jobs: Iterable[Job], seen: set[str], source: str) -> Iterator[Job]:
    """Pass jobs on, those of one instant together if one of them needs others."""
    together: list[Job] = []
    at: float | None = None
    needing = False
    for job in jobs:
        if job.arrived_at != at:
            if needing:
                _check_together(together, seen, job.id, source)
            yield from together
            together, at, needing = [], job.arrived_at, False
        together.append(job)
        needing = needing or bool(job.needs)
    if needing:
        _check_together(together, seen, None, source)
    yield from together


def _check_together(jobs: list[Job], seen: set[str], later: str | None, source: str) -> None:
    """Raise InputError for what is wrong with the needs of jobs of one instant.

    ``later``: the only id among those ``seen`` that comes after them.
    """
    flaw = flaw_of_needs(jobs, lambda name: name in seen and name != later)
    if flaw is not None:
        raise InputError(f"{source}: {flaw.job.id}: {flaw.why}")


def _checked(jobs: Iterable[object], scenario: Scenario, source: str) -> Iterator[Job]:
    able: set[Platform] = set()
    last = 0.0
    for number, made in enumerate(jobs, 1):
        if not isinstance(made, Job):
            raise InputError(f"{source}: number {number}: found {made!r:.60}; allowed: a farm.Job")
        where = f"{source}: {made.id}"
        job = _sound(made, where)
        at = last if job.arrived_at is None else float(job.arrived_at)
        if at < last:
            raise InputError(f"{where}: found arrived_at {at:g} after {last:g}; allowed: in order")
        last = at
        platform = job.platform
        if platform == Platform():
            platform = default_platform(scenario, source)
        if platform not in able:
            refuse_unrunnable(scenario, platform, where)
            able.add(platform)
        if platform is not job.platform or job.arrived_at is None:
            job = msgspec.structs.replace(job, platform=platform, arrived_at=at)
        yield job


def _sound(job: Job, where: str) -> Job:
    """Return the job, numbers of NumPy as Python's; raises InputError for a wrong value."""
    given = msgspec.structs.asdict(job)
    with suppress(FieldError):
        record_of(Job, given)
        return job
    plain = {name: v.item() for name, v in given.items() if isinstance(v, np.generic)}
    try:
        return record_of(Job, given | plain)
    except FieldError as error:
        raise InputError(f"{where}: {error.name}: {error}") from None
