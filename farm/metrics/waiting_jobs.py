"""A look at every waiting job: dispatch estimates, and who has waited longest."""

from __future__ import annotations

import math
from collections.abc import Callable

from farm.core.dispatching.matching import Lane
from farm.core.scheduler import Scheduler
from farm.core.state import JobState
from farm.forecasts.dispatch.in_steps import QueueSweep


class CloseLook:
    """Examines the jobs waiting at its creation, in small steps between which the farm continues.

    ``label`` returns the label that stands for a platform's name.
    """

    def __init__(self, scheduler: Scheduler, label: Callable[[str], str], at: float) -> None:
        lanes = scheduler.dispatcher.matching.lanes
        self._labels: dict[Lane, str] = {lane: label(str(lane.platform)) for lane in lanes}
        self._waiting = [lane for lane in lanes if lane.waiting]
        self._at = at
        #: how long the oldest waiting job of each platform has waited, seconds
        self.oldest = dict.fromkeys(self._labels.values(), 0.0)
        builders = scheduler.builders.values()
        self._sweep = QueueSweep(lanes, builders, at, look=self._look, since=math.inf)

    def step(self) -> bool:
        """Look on a little; return whether there is more to look at."""
        return self._sweep.step()

    def _look(self, state: JobState) -> None:
        label, wait = self._labels[state.lane], self._at - state.submitted_at
        if wait > self.oldest[label]:
            self.oldest[label] = wait

    def heads(self) -> dict[str, float]:
        """Return the seconds until the head of each platform's queue is dispatched, if ever."""
        of = self._sweep.estimates.head_of_queue
        found = {self._labels[lane]: of(lane.platform) for lane in self._waiting}
        return {label: value for label, value in found.items() if value is not None}

    def new_jobs(self) -> dict[str, float]:
        """Return the seconds until a job submitted now is dispatched, if ever, by platform."""
        of = self._sweep.estimates.new_job
        found = {label: of(lane.platform) for lane, label in self._labels.items()}
        return {label: value for label, value in found.items() if value is not None}
