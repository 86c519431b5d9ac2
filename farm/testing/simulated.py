"""A simulated run to assert things of."""

from __future__ import annotations

from typing import Any

from farm.app.api import Source, load_scenario
from farm.app.recorded.result import Result
from farm.app.runs.own_parts import OwnParts
from farm.app.runs.simulated_run import simulated_run
from farm.assembly import run_info
from farm.results.summary.objectives import measure, parse_objective
from farm.results.table.records import Recorder, RunRecords
from farm.scenario import Scenario


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
        self._window = run_info(scenario, "simulated", "reference").window

    @property
    def summary(self) -> dict[str, Any]:
        """What ``farm simulate --json`` prints."""
        return self.result.summary

    def measured(self, what: str) -> float:
        """Return a statistic of the run's jobs, such as ``p95(waiting_time)``, in seconds.

        A job that was never served counts as infinity. Raises InputError for an unknown one.
        """
        (term,) = parse_objective(f"{what} <= 1", "measured")
        return measure(self._records, self._window, term)

    def assert_that(self, objective: str) -> None:
        """Raise AssertionError unless the run meets it: ``p95(waiting_time) < 5m and …``."""
        missed = [
            f"{term}: found {term.show(value)}"
            for term in parse_objective(objective, "assert_that")
            if not term.is_met_by(value := measure(self._records, self._window, term))
        ]
        if missed:
            raise AssertionError("; ".join(missed))


def simulated(scenario: Source, **overrides: Any) -> Simulated:
    """Simulate a scenario (a file, an example's name, a mapping) and return it for assertions.

    ``overrides``: keys of the scenario with ``__`` for dots, as ``farm.simulate`` takes them.

    >>> farm.testing.simulated("quickstart", scheduling__policy="sjf").summary["policy"]
    'sjf'
    """
    loaded = load_scenario(scenario, **overrides)
    recorder = Recorder()
    result = simulated_run(loaded, own=OwnParts(), keep_events=True, observers=[recorder])
    return Simulated(loaded, result, recorder.records())
