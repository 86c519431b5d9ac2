"""Plays the inputs of a run again, and makes sure that it comes out as it did."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from farm.core.errors import InputError
from farm.results.run_directory import SCENARIO, Meta, Run, digest_of, versions
from farm.results.summary.summary import Summary

if TYPE_CHECKING:
    from farm.app.recorded.run_recorder import KeptRun
    from farm.results.recorded_run import FinishedRun
    from farm.scenario import Scenario
    from farm.sim.engines import Engine

MAX_JOBS_AGAIN = 20_000_000
"""Jobs that are played again to be looked at one by one: they are held, in 200 bytes each."""
MAX_LOGGED_AGAIN = 3_000_000
"""Jobs that are played again with their events: these are held, in 400 bytes a job."""

#: keys of a summary in which a run and its repetition may differ
_OF_ONE_PLAY = ("engine", "not_compiled", "wall_time_s", "warnings", "remarks")


class Simulate(Protocol):
    """Simulates a scenario (``farm.app.runs.simulated_run``), which may learn from another run."""

    def __call__(self, scenario: Scenario, *, keep_events: bool, engine: Engine) -> KeptRun:
        """Simulate a scenario."""
        ...


def replayed(run: Run, events: bool, simulate: Simulate) -> FinishedRun:
    """Return a run that is kept as its inputs, simulated again.

    Raises InputError if it has too many jobs, an input has changed or is missing, or the summary
    comes out differently.
    """
    from farm.sim.engines import MOST_JOBS  # noqa: PLC0415 - most runs are written

    jobs, limit = run.summary.jobs.submitted, MAX_LOGGED_AGAIN if events else MAX_JOBS_AGAIN
    if jobs > limit:
        wanted = "with their events" if events else "where each has to be looked at"
        raise InputError(
            f"{run.path}: found {jobs:,} jobs in a run that is kept as its inputs; allowed "
            f"{wanted}: {limit:,}"
        )
    _check_inputs(run)
    # auto does not hold more of them
    engine: Engine = "fast" if jobs > MOST_JOBS else "auto"
    played = simulate(run.scenario, engine=engine, keep_events=events).kept
    difference = next(differences(run.written_figures, _plain(played.summary)), None)
    if difference is not None:
        name, before, now = difference
        raise InputError(
            f"{run.path}: kept as its inputs, and played again {name} is {now}, not {before}: "
            f"{_other_versions(run.meta)}"
        )
    return played


def _check_inputs(run: Run) -> None:
    """Raise InputError that names an input which is not there, or is not what it was."""
    from farm.app.inputs import digests_of  # noqa: PLC0415 - as above

    before = dict(run.meta.inputs)
    scenario = before.pop(SCENARIO, None)
    if scenario not in (None, digest_of((run.path / SCENARIO).read_bytes())):
        raise InputError(f"{run.path / SCENARIO}: has changed since the run was kept")
    now = digests_of(run.scenario) if before else {}
    for name, digest in before.items():
        if now.get(name) != digest:
            trouble = "has changed since" if name in now else "is not there any more"
            raise InputError(f"{run.path}: kept as its inputs, of which {name} {trouble}")


def differences(
    before: dict[str, Any], now: dict[str, Any], within: str = ""
) -> Iterator[tuple[str, object, object]]:
    """Yield the figures that differ: the key, with dots, and the two values.

    What only one of two versions of the farm knows is not compared.
    """
    for key, value in before.items():
        if key not in now or (not within and key in _OF_ONE_PLAY):
            continue
        if isinstance(value, dict) and isinstance(now[key], dict):
            yield from differences(value, now[key], f"{within}{key}.")
        elif value != now[key]:
            yield f"{within}{key}", value, now[key]


def _plain(summary: Summary) -> dict[str, Any]:
    """Return a summary as summary.json has it."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(summary))
    return plain


def _other_versions(meta: Meta) -> str:
    """Say why a run may come out differently: by the versions that have changed, if any have."""
    before = {"Python": meta.python, **meta.packages}
    now = {"Python": platform.python_version(), **versions()}
    changed = [
        f"{name} is {now.get(name, 'absent')}, and was {version}"
        for name, version in before.items()
        if now.get(name) != version
    ]
    unchanged = "no version has changed, but the farm's own code, or what its inputs import, has"
    return "; ".join(changed) or unchanged
