"""The table of ``farm admin estimate``: when waiting jobs will be dispatched, by the formula."""

from __future__ import annotations

import msgspec

from farm.core.errors import StateError, nearest
from farm.core.model import Platform
from farm.forecasts.dispatch.job_estimate import DispatchEstimate, estimate_at
from farm.forecasts.dispatch.launchpad_formula import estimate_queue
from farm.forecasts.dispatch.view import FarmView, JobView
from farm.upstream.launchpad import Rules


class WaitingJobs:
    """The waiting jobs of a farm, in dispatch order: a place is a job's index in ``jobs``.

    ``source``: the farm's name in messages.
    """

    def __init__(self, view: FarmView, rules: Rules, source: str) -> None:
        self.rules = rules
        self.jobs, self._queue = estimate_queue(view, rules)
        self._view = view
        self._source = source

    def place_of(self, name: str) -> int:
        """Return a job's place; raises StateError for one that does not wait."""
        for job in self._view.jobs:
            if job.name == name:
                if job.status != "waiting":
                    raise self._refused(f"{name!r}, which is {job.status}", "a waiting job")
                return next(place for place, one in enumerate(self.jobs) if one.id == job.id)
        near = nearest(name, [job.name for job in self._view.jobs])
        hint = f"; did you mean {near!r}?" if near else ""
        raise self._refused(repr(name), f"a job of the file{hint}")

    def _refused(self, found: str, allowed: str) -> StateError:
        return StateError(f"{self._source}: --job: found {found}; allowed: {allowed}")

    def processors_for(self, job: JobView) -> list[str] | None:
        """Return the builders' processors if none is the job's, so that it has no estimate."""
        known = {processor for builder in self._view.builders for processor in builder.processors}
        return None if job.processor is None or job.processor in known else sorted(known)

    def estimate(self, place: int) -> DispatchEstimate:
        """Return the estimate of the job at this place."""
        return estimate_at(self.jobs, self._queue, place)

    def row(self, place: int, *, names: bool = False, explain: bool = False) -> dict[str, object]:
        """Return it as plain values.

        ``names``: with those of its predecessors, which for a whole queue grow with its square;
        ``explain``: with the arithmetic.
        """
        job, found = self.jobs[place], self.estimate(place)
        row: dict[str, object] = {
            "job": found.job,
            "predecessor_count": found.predecessors,
            "pool_for_job": found.pool_for_job,
            "head_platform": _pair(found.head_platform),
            "free_for_head": found.next_builder.free,
            "tnb_s": _number(found.next_builder.tnb_s),
            "plt_s": _number(found.plt_s),
            "estimate_s": None if found.estimate_s is None else _number(found.estimate_s),
        }
        if names:
            places = self._queue.predecessor_places(place)
            row["predecessors"] = [self.jobs[one].name for one in places]
        if explain:
            both = found.estimate_s is not None and job.duration_s is not None
            completion = (found.estimate_s or 0.0) + (job.duration_s or 0.0)
            row["completion_s"] = _number(completion) if both else None
            row["head_job"] = found.head_job
            row["next_builder"] = found.next_builder
            row["groups"] = [
                msgspec.to_builtins(group) | {"platform": _pair(group.platform)}
                for group in found.groups
            ]
        return row


def _pair(platform: Platform) -> list[str | bool | None]:
    return [platform.processor, platform.virtualized]


def _number(value: float) -> float | int:
    """Return whole numbers as integers: 480, not 480.0."""
    return int(value) if value.is_integer() else value
