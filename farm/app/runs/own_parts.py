"""Functions and values of the caller that replace parts of a scenario."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile

import msgspec

from farm.core.errors import InputError
from farm.core.model import Builder, Job
from farm.core.pools.algorithm import AnyAlgorithm, PoolSnapshot
from farm.forecasts.runtime.interface import RuntimeEstimator, is_time
from farm.plugins.guards import Guard, UnusableError
from farm.plugins.lookup import name_of_part
from farm.scenario import Scenario
from farm.workload import Workload, build_workload, stream
from farm.workload.own_jobs import sound_jobs

AlgorithmChoice = str | type[object] | AnyAlgorithm | Callable[[PoolSnapshot], float]
"""A provisioning algorithm: a name, class, instance, or function to the desired size."""

Load = Iterable[Job] | Callable[[random.Random], Iterable[Job]]
"""Jobs in order of arrival, or a function that makes them from a random generator."""


class OwnParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a farm that no scenario can name; where there is none, the scenario's are taken."""

    #: by scenario key: ``scheduling.policy``, ``scheduling.balancer``
    functions: Mapping[str, Callable[..., object]] = {}
    estimator: RuntimeEstimator | None = None
    #: by pool
    algorithms: Mapping[str, object] = {}
    jobs: Load | None = None

    def functions_by_name(self) -> Iterator[tuple[str, Callable[..., object]]]:
        """Yield policy, balancer and estimator that are functions, by where they stand."""
        for function in self.functions.values():
            yield name_of_part(function), function
        if isinstance(self.estimator, OwnEstimator):
            yield name_of_part(self.estimator.function), self.estimator.function

    def load(self, scenario: Scenario) -> Workload:
        """Return what is submitted, by arrival.

        Raises InputError for what cannot be submitted.
        """
        if self.jobs is None:
            return build_workload(scenario)
        made = self.jobs(stream(scenario.seed, "jobs")) if callable(self.jobs) else self.jobs
        if not isinstance(made, Iterable):
            raise InputError(f"jobs: found {made!r:.60}; allowed: farm.Jobs, or a function to them")
        jobs = sound_jobs(made, scenario, "jobs")
        if scenario.phases is not None:
            end = scenario.phases.load_ends_at
            jobs = takewhile(lambda job: (job.arrived_at or 0.0) < end, jobs)
        return Workload(jobs, [], [])


NONE = OwnParts()


class OwnEstimator(Guard, RuntimeEstimator):
    """A function from a job to its run time (s), as a runtime estimator that learns nothing."""

    consequence = "for {failures} of {calls} estimates; the default time was taken"

    def __init__(self, function: Callable[[Job], float], name: str) -> None:
        RuntimeEstimator.__init__(self)
        Guard.__init__(self, name, "scheduling.runtime_estimates")
        self.function = function

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return what the function says, or the default time if that is no span of time."""
        self.calls += 1
        try:
            work = _run_time(self.function(job))
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises
            self.failed(f"job {job.id}", error)
            return self.options.default_time
        return work / (builder.speed if builder else 1.0)


def _run_time(found: float) -> float:
    work = float(found)
    if not is_time(work):
        raise UnusableError(f"returned {work}; a run time is finite and not negative")
    return work
