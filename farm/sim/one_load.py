"""Plays one load on many farms, of which only the jobs' waits are wanted."""

from __future__ import annotations

import numpy as np

from farm.assembly import make_scheduler, pool_specs
from farm.core.scheduler import Scheduler
from farm.results.table.columns import Floats
from farm.scenario import Scenario
from farm.sim.engines import Algorithms, play
from farm.sim.fast.coverage import why_not
from farm.sim.fast.job_arrays import Jobs, Load, load_of
from farm.sim.fast.play import play as play_compiled


class OneLoad:
    """Jobs by arrival, with ids of their own; as columns they are made once."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._columns: dict[str, Load] = {}

    def waits(self, scenario: Scenario, algorithms: Algorithms) -> Floats:
        """Return start - arrival of each job (s), by arrival; nan: it never started.

        The scenario's own workload is not played. Raises InputError for what cannot be played.
        """
        scheduler = make_scheduler(scenario)
        waits = self._compiled(scenario, scheduler, algorithms)
        if waits is not None:
            return waits
        jobs = play(scenario, scheduler, iter(self._jobs), algorithms, engine="reference").jobs
        waits = np.full(len(self._jobs), np.nan)
        places = {job.id: place for place, job in enumerate(self._jobs)}
        waits[[places[name] for name in jobs.job_id]] = jobs.waiting_time
        return waits

    def _compiled(
        self, scenario: Scenario, scheduler: Scheduler, algorithms: Algorithms
    ) -> Floats | None:
        """Return the waits by the compiled loop, if it covers the farm."""
        pools, rules = pool_specs(scenario), scheduler.rules
        if why_not(rules, scheduler.estimator, pools, algorithms):
            return None
        order = scenario.scheduling.policy
        if order not in self._columns:
            self._columns[order] = load_of(rules.policy, scheduler.estimator, self._jobs)
        played = play_compiled(self._columns[order].copy(), pools, rules, algorithms)
        if played is None:
            return None
        columns = played.farm.jobs
        waits: Floats = columns["dispatched_at"] - columns["submitted_at"]
        return np.where(columns["ended"] != 0, waits, np.nan)
