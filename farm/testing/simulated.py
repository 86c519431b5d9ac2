"""Small scenarios to be varied in a test, and a simulated run to assert things of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from farm.app.api import Source, load_scenario
from farm.app.recorded.result import Result
from farm.app.runs.simulated_run import simulated_run
from farm.results.summary.objectives import Term, check_pools, parse_objective, value_of
from farm.results.table.recorder import Recorder, RunRecords
from farm.scenario import Scenario

Given = Mapping[str, object] | Sequence[Mapping[str, object]]
#: what a source of jobs may be called in a scenario
SOURCES = {"arrivals", "matrices", "trace", "generator"}


class Simulated:
    """A finished simulation: its ``result`` (summary, jobs, events), and objectives on it.

    >>> afternoon = farm.testing.simulated("quickstart")
    >>> afternoon.assert_that("p95(waiting_time) < 30m and mean(stretch) <= 3")
    >>> afternoon.measured("max(waiting_time)") < 3600
    True
    """

    def __init__(self, scenario: Scenario, result: Result, records: RunRecords) -> None:
        self.result = result
        self._records = records
        self._pools = scenario.pools

    @property
    def summary(self) -> dict[str, Any]:
        """What ``farm simulate --json`` prints."""
        return self.result.summary

    def measured(self, what: str) -> float:
        """Return a statistic of the run's jobs, such as ``p95(waiting_time)``, in seconds.

        A job that was never served counts as infinity. Raises InputError for an unknown one.
        """
        (term,) = parse_objective(f"{what} <= 1", "measured")
        return self._value(term, "measured")

    def assert_that(self, objective: str) -> None:
        """Raise AssertionError unless the run meets it: ``p95(waiting_time) < 5m and …``."""
        missed = [
            f"{term}: found {term.show(value)}"
            for term in parse_objective(objective, "assert_that")
            if not term.is_met_by(value := self._value(term, "assert_that"))
        ]
        if missed:
            raise AssertionError("; ".join(missed))

    def _value(self, term: Term, asked: str) -> float:
        check_pools([term], self._pools, asked)
        value = value_of(self._records, self.result.kept.summary, term, self._pools)
        return 0.0 if value is None else value


def simulated(scenario: Source, **overrides: object) -> Simulated:
    """Simulate a scenario (a file, an example's name, a mapping) and return it for assertions.

    ``overrides``: keys of the scenario with ``__`` for dots, as ``farm.simulate`` takes them.

    >>> farm.testing.simulated("quickstart", scheduling__policy="sjf").summary["policy"]
    'sjf'
    """
    loaded = load_scenario(scenario, **overrides)
    recorder = Recorder()
    run = simulated_run(loaded, keep_events=True, observers=[recorder], engine="reference")
    return Simulated(loaded, Result(*run), recorder.records())


def small_scenario(pool: Given = (), load: Given = (), **sections: object) -> dict[str, Any]:
    """Return a scenario of one builder and one job of a second, with these changes.

    ``pool``: keys of the pool (called ``p``, for amd64), or of several pools. ``load``: keys of the
    jobs' ``arrivals``, or of several sources; a source of another kind is named in it.
    ``sections``: more keys of the scenario; with ``phases`` jobs arrive until these end.

    >>> found = farm.testing.small_scenario({"builders": 2}, {"count": 9, "every": "1m"}, seed=3)
    >>> farm.testing.simulated(found).summary["jobs"]["submitted"]
    9
    """
    limit = {} if "phases" in sections else {"count": 1}
    return {
        "pools": [_pool(one) for one in _each(pool)],
        "workload": [_source(one, limit) for one in _each(load)],
        **sections,
    }


def _each(given: Given) -> Sequence[Mapping[str, object]]:
    return [given] if isinstance(given, Mapping) else given or [{}]


def _pool(given: Mapping[str, object]) -> dict[str, object]:
    size = {} if given.get("provisioner") else {"builders": 1}
    return {"name": "p", "platform": {"processor": "amd64"}, **size, **given}


def _source(given: Mapping[str, object], limit: Mapping[str, int]) -> dict[str, object]:
    if SOURCES & given.keys():
        return dict(given)
    every = {} if "poisson" in given else {"every": "1s"}
    limit = {} if "duration" in given else limit
    return {"arrivals": {**every, **limit, "service_time": "1s", **given}}
