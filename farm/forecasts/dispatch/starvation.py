"""Jobs that others may always overtake: of these no end of a wait can be told.

Under shortest job first on plain queues a job waits for all shorter ones that come before it has
started. Where these bring as much work as their builders can do, it waits until they come more
rarely.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from farm.columns import Floats
from farm.core.model import Platform
from farm.core.policies import sjf
from farm.core.rules import Choices, SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.recent_arrivals import RecentArrivals

#: the share of what its builders can do, from which work that goes before a job is too much: with
#: more of it a wait is about a hundred times as long as on an empty farm
TOO_MUCH = 0.9
#: jobs of the last hour whose work is added up; of more than these, each second one or so counts
MOST_COUNTED = 300


def starve(rules: SchedulingRules, choices: Choices | None) -> bool:
    """Return whether later arrivals may overtake a long job without end: shortest job first."""
    policy = rules.policy if choices is None else rules.policy_of(choices) or rules.policy
    return policy is sjf.key and rules.path is None


class Starvation:
    """Says of waiting and blocked jobs, at one instant, whether they may starve.

    ``arrivals``: what came lately; None: too little to tell.
    """

    def __init__(self, scheduler: Scheduler, arrivals: Callable[[], RecentArrivals | None]) -> None:
        self._scheduler = scheduler
        self._recent = arrivals() if starve(scheduler.rules, None) else None
        #: by platform: levels and run times of what competes for its builders, and their slots
        self._known: dict[Platform, tuple[Floats, Floats, int]] = {}
        self._jobs = [] if self._recent is None else self._recent.jobs
        self._each = max(1, math.ceil(len(self._jobs) / MOST_COUNTED))
        estimate = scheduler.estimator.estimate
        self._counted = [(job, estimate(job)) for job in self._jobs[:: self._each]]

    def threatens(self, state: JobState) -> bool:
        """Return whether jobs that go before this one bring as much work as can be done."""
        if self._recent is None:
            return False
        levels, times, slots = self._of(state.job.platform)
        before = (levels > state.job.level) | (
            (levels == state.job.level) & (times < state.estimated_time)
        )
        work = float(times[before].sum()) * len(self._jobs) / max(1, len(self._counted))
        return slots > 0 and work >= TOO_MUCH * slots * self._recent.time

    def _of(self, platform: Platform) -> tuple[Floats, Floats, int]:
        """Return levels and run times of the jobs that compete with a platform's, and its slots."""
        found = self._known.get(platform)
        if found is None:
            able = [
                one
                for one in self._scheduler.builders.values()
                if one.accepts and one.builder.can_run(platform)
            ]
            kinds = {(one.builder.processors, one.builder.virtualized): one.builder for one in able}
            platforms = {job.platform for job, _ in self._counted}
            rivals = {its for its in platforms if any(b.can_run(its) for b in kinds.values())}
            rows = [(job.level, time) for job, time in self._counted if job.platform in rivals]
            columns = np.array(rows, float).reshape(-1, 2)
            slots = sum(len(one.slots) for one in able)
            found = self._known[platform] = columns[:, 0], columns[:, 1], slots
        return found
