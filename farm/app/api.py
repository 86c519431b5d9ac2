"""The functions of ``import farm``: loading and running scenarios in either world."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, SupportsIndex, cast, overload

from farm.app.recorded.result import Result, Results
from farm.app.runs.own_parts import AlgorithmChoice, Load, OwnEstimator, OwnParts
from farm.app.runs.simulated_run import simulated_run
from farm.core.errors import InputError, ScenarioError, nearest
from farm.core.model import Job
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.plugins.lookup import is_importable, name_of_part
from farm.scenario import Scenario
from farm.scenario.load import load_scenario as load_from
from farm.sim.engines import Engine

Source = str | Path | Mapping[str, object] | Scenario
"""A scenario, its file, the name of a packaged example, or a mapping like a file's."""

Policy = str | Callable[..., object]
Balancer = str | Callable[..., float]
Estimator = str | RuntimeEstimator | Callable[[Job], float]


#: keys of a scenario that have a word of their own
WORDS = {
    "policy": "scheduling.policy",
    "balancer": "scheduling.balancer",
    "estimator": "scheduling.runtime_estimates",
}


def load_scenario(source: Source, **overrides: object) -> Scenario:
    """Load and validate a scenario, with overrides.

    Args:
        source: a scenario file, the name of a packaged example, or a mapping like a file's.
        overrides: keys of the scenario and their values, dots written as ``__``
            (``scheduling__policy="sjf"``, for which ``policy="sjf"`` is short), or with dots in
            a mapping: ``**{"pools.linux.builders": 4}``.

    Raises ScenarioError with one message: where, what was found, what is allowed.

    >>> scenario = farm.load_scenario("quickstart", scheduling__policy="sjf")
    >>> scenario.scheduling.policy, [pool.name for pool in scenario.pools]
    ('sjf', ['linux', 'windows'])
    """
    return load_from(source, changes=_dotted(overrides))


@overload
def simulate(
    scenario: Source,
    *,
    seeds: SupportsIndex | None = None,
    out: str | Path | None = None,
    policy: Policy | None = None,
    balancer: Balancer | None = None,
    estimator: Estimator | None = None,
    algorithms: Mapping[str, AlgorithmChoice] | None = None,
    jobs: Load | None = None,
    keep_events: bool | None = None,
    engine: Engine = "auto",
    **overrides: object,
) -> Result: ...
@overload
def simulate(scenario: Source, *, seeds: Iterable[SupportsIndex], **how: Any) -> Results: ...
def simulate(
    scenario: Source,
    *,
    seeds: SupportsIndex | Iterable[SupportsIndex] | None = None,
    out: str | Path | None = None,
    policy: Policy | None = None,
    balancer: Balancer | None = None,
    estimator: Estimator | None = None,
    algorithms: Mapping[str, AlgorithmChoice] | None = None,
    jobs: Load | None = None,
    keep_events: bool | None = None,
    engine: Engine = "auto",
    **overrides: object,
) -> Result | Results:
    """Simulate a scenario in virtual time: one run, or one for each of several seeds.

    Args:
        scenario: as for ``load_scenario``.
        seeds: one (a Result is returned), or several (Results); default: the scenario's own.
            NumPy integers are accepted.
        out: a new run directory for a single run; default: the run is kept in memory.
        policy: which job goes next: a name, or a function
            ``key(job, estimate, at, serial)`` to a sort key, the smallest first.
        balancer: which builder takes it: a name, or a function from a builder's state to its rank,
            the smallest first.
        estimator: how long jobs will run: a name, a function from a Job to seconds, or an object
            with the methods of ``farm.forecasts.runtime.RuntimeEstimator`` (for one seed: it
            learns).
        algorithms: by pool with a ``provisioner`` section: the name of an algorithm, a class, an
            instance, or a function from a PoolSnapshot to the desired number of builders.
        jobs: jobs to submit instead of the scenario's workload: Jobs in order of arrival, or a
            function that makes them from a ``random.Random``.
        keep_events: whether to keep events, for ``events`` and ``save``. Default: only for a
            single run.
        engine: ``reference`` (the scheduler itself), ``fast`` (a compiled loop with the same
            results, not for every scenario), or ``auto``: whichever finishes sooner.
        overrides: as for ``load_scenario``; the keys of policy, balancer and estimator take
            functions as well.

    Raises InputError for a scenario that cannot be simulated.

    >>> result = farm.simulate("quickstart", policy="sjf")
    >>> len(result.jobs), result.summary["jobs"]["succeeded"]
    (655, 655)
    >>> waits = result.jobs["waiting_time_s"]
    >>> bool((waits >= 0).all())
    True
    >>> shortest = farm.simulate("quickstart", policy=lambda job, estimate, at, serial: estimate)
    >>> bool((shortest.jobs["waiting_time_s"] == waits).all())
    True
    >>> len(farm.simulate("mm1", seeds=range(3), workload__0__count=100).jobs)
    300
    """
    # NumPy's arrays say that they are integers, and those of no dimension that they are iterable
    single = not isinstance(seeds, Iterable) or getattr(seeds, "ndim", 1) == 0
    if out is not None and not single:
        raise InputError("out: found with several seeds; allowed: with one, or save() each result")
    if isinstance(jobs, Iterable) and not single:
        jobs = list(jobs)
    named = {"policy": policy, "balancer": balancer, "estimator": estimator}
    wanted, own = set_up(scenario, named, overrides, algorithms, jobs)

    def played(seed: SupportsIndex | None) -> Result:
        update = {} if seed is None else {"seed": _whole(seed)}
        seeded = wanted.model_copy(update=update)  # any whole number is a seed: nothing to check
        keep = single if keep_events is None else keep_events
        run = simulated_run(seeded, own=own, out=_path(out), keep_events=keep, engine=engine)
        return Result(*run)

    if isinstance(seeds, Iterable) and not single:
        wished = list(seeds)
        if not wished:
            raise InputError("seeds: found none; allowed: one, or several")
        return Results([played(seed) for seed in wished])
    return played(cast("SupportsIndex | None", seeds))


def run(
    scenario: Source,
    *,
    seed: SupportsIndex | None = None,
    speed: float | None = None,
    duration: float | str | None = None,
    redis: str | None = None,
    out: str | Path | None = None,
    policy: Policy | None = None,
    balancer: Balancer | None = None,
    estimator: Estimator | None = None,
    algorithms: Mapping[str, AlgorithmChoice] | None = None,
    jobs: Load | None = None,
    **overrides: object,
) -> Result:
    """Run a scenario on a live farm: a real server, real Celery builders, real time.

    Call it from the main thread. Ctrl-C ends the load and lets running jobs end, as ``farm run``
    does; the result is then ``interrupted``. A script that calls it needs no
    ``if __name__ == "__main__"``.

    Args:
        scenario: as for ``load_scenario``.
        seed: seed of the workload; default: the scenario's own.
        speed: farm seconds per real second; default: the scenario's.
        duration: the load ends after this farm time (seconds, or as ``"2h"``).
        redis: the URL of a server; default: a new one, stopped at the end.
        out: a new run directory; default: the run is kept in memory.
        policy, balancer, estimator, algorithms, jobs, overrides: as for ``simulate``.

    Raises InputError for a scenario that cannot be run, ServerError without a usable server,
    RunError if the run fails.

    >>> farm.run("mm1", speed=1000, workload__0__count=50)
    <farm.Result: live mm1 (fifo, seed 1), 50 jobs, 0 lost>
    """
    from farm.app.runs.live_run import live_run  # noqa: PLC0415 - Celery and Redis, for live runs only

    named: dict[str, object] = {"policy": policy, "balancer": balancer, "estimator": estimator}
    named |= {"live.speed": speed, "seed": None if seed is None else _whole(seed)}
    wanted, own = set_up(scenario, named, overrides, algorithms, jobs)
    ended = live_run(
        wanted, own=own, out=_path(out), keep_events=True, redis=redis, duration=duration
    )
    return Result(*ended)


def set_up(
    source: Source,
    named: Mapping[str, object],
    overrides: Mapping[str, object],
    algorithms: Mapping[str, AlgorithmChoice] | None,
    jobs: Load | None,
) -> tuple[Scenario, OwnParts]:
    """Return the scenario with all named parts, and the unnamed parts."""
    given = {word: part for word, part in named.items() if part is not None}
    changes = _dotted({**overrides, **given})
    functions: dict[str, Any] = {}
    for key in WORDS.values():
        if (part := changes.pop(key, None)) is not None:
            changes[key] = name_of_part(part)
            if not isinstance(part, str):
                functions[key] = part
    own_estimator = own_estimator_of(functions.pop(WORDS["estimator"], ""))
    own_algorithms = {}
    for pool, algorithm in (algorithms or {}).items():
        if isinstance(algorithm, str):
            changes[f"pools.{pool}.provisioner.algorithm"] = algorithm
        else:
            own_algorithms[pool] = algorithm
    scenario = load_from(source, changes=changes)
    if "rollout" in (scenario.estimates.rules or ()):
        for key, part in functions.items():
            if not is_importable(part):
                raise InputError(
                    f"{key}: estimates by rollout need a function that can be imported; found "
                    f"{name_of_part(part)}"
                )
    own = OwnParts(
        functions=functions, estimator=own_estimator, algorithms=own_algorithms, jobs=jobs
    )
    return scenario, own


def own_estimator_of(given: Estimator) -> RuntimeEstimator | None:
    """Return the estimator of a function or an object; None for a name. Raises InputError."""
    if isinstance(given, str):
        return None
    if callable(given) and not hasattr(given, "estimate"):
        return OwnEstimator(given, name_of_part(given))
    if not hasattr(given, "estimate"):
        allowed = "a name, a function from a farm.Job to seconds, or a RuntimeEstimator"
        raise InputError(f"estimator: found {given!r:.60}; allowed: {allowed}")
    return cast("RuntimeEstimator", given)


def _dotted(overrides: Mapping[str, object]) -> dict[str, object]:
    """Return overrides by key; raises ScenarioError for a word that is almost another one."""
    changes = {WORDS.get(key, key).replace("__", "."): value for key, value in overrides.items()}
    known = [*WORDS, "algorithms", "seeds", "jobs", *Scenario.model_fields]
    for key in changes:
        if "." not in key and key not in known and (near := nearest(key, known)):
            raise ScenarioError(f"{key}: unknown; did you mean {near}?")
    return changes


def _whole(seed: SupportsIndex) -> int:
    try:
        return operator.index(seed)
    except TypeError:
        raise InputError(f"seeds: found {seed!r:.60}; allowed: whole numbers") from None


def _path(out: str | Path | None) -> Path | None:
    return None if out is None else Path(out)
