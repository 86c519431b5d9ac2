"""When a blocked job starts, where it is too expensive to simulate the farm: by what it needs.

It is released when the last of its needs has ended and its delay is over, and then waits behind
the jobs that wait now, as far as they are not gone by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from farm.core.jobs.groups import group_of
from farm.core.jobs.needs import failures_awaited
from farm.core.model import Job
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState, JobStatus

#: jobs that are looked at, through which a blocked job waits for others
MAX_NEEDS = 1000

StartOf = Callable[[JobState], float | None]
"""Seconds until a job that waits, or would be released now, is dispatched; None: never."""


class BlockedStart:
    """Estimates the starts of blocked jobs at an instant; ``start_of``: of those that wait."""

    def __init__(self, scheduler: Scheduler, at: float, start_of: StartOf) -> None:
        self._scheduler = scheduler
        self._at = at
        self._start_of = start_of
        #: of all blocked jobs that were looked at: many need the same ones
        self._starts: dict[str, float | None] = {}

    def of(self, state: JobState) -> float | None:
        """Return the seconds until a blocked job starts; None: too much, or nothing, is known."""
        if state.job.id in self._starts:
            return self._starts[state.job.id]
        stack = [(state, self._blocked_needs(state))]
        open_jobs = {state.job.id}
        while stack:
            blocked, needs = stack[-1]
            need = next(needs, None)
            if need is None:
                self._starts[blocked.job.id] = self._start(blocked)
                stack.pop()
            elif need.job.id not in open_jobs and need.job.id not in self._starts:
                if len(open_jobs) >= MAX_NEEDS:
                    return None
                open_jobs.add(need.job.id)
                stack.append((need, self._blocked_needs(need)))
        return self._starts[state.job.id]

    def _blocked_needs(self, state: JobState) -> Iterator[JobState]:
        return (need for need in self._unmet(state) if need.status is JobStatus.BLOCKED)

    def _unmet(self, state: JobState) -> list[JobState]:
        jobs = self._scheduler.jobs
        return [need for name in state.unmet if (need := jobs.get(name)) is not None]

    def _start(self, state: JobState) -> float | None:
        released = self._released(state)
        waits = self._start_of(state)
        if released is None or waits is None:
            return None
        return max(released, waits)

    def _released(self, state: JobState) -> float | None:
        """Return in which time nothing blocks a job any more."""
        if state.released_at is not None:
            return max(0.0, state.released_at - self._at)
        if not state.unmet and state.job.group is not None:
            return self._place_in_group(state.job)
        if not state.failure_met and failures_awaited(state.job, state.unmet):
            return None
        ends = [self._end(need) for need in self._unmet(state)]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends):
            return None
        return max(known, default=0.0) + state.job.needs_delay

    def _place_in_group(self, job: Job) -> float | None:
        """Return when the first of those that have the places of a job's group has ended."""
        members = self._scheduler.book.groups.get(group_of(job.group or "").name)
        if members is None:
            return None
        jobs = self._scheduler.jobs
        inside = [jobs[name] for name in members.inside if name in jobs]
        ends = [end for state in inside if (end := self._end(state)) is not None]
        return min(ends, default=None)

    def _end(self, state: JobState) -> float | None:
        """Return in which time a job that others wait for has ended."""
        executing = state.leader or state
        if executing.slot is not None:
            began = executing.started_at
            elapsed = 0.0 if began is None else self._at - began
            return max(0.0, executing.estimated_time - elapsed)
        if state.status is JobStatus.BLOCKED:
            start = self._starts.get(state.job.id)
        else:
            start = self._start_of(executing)
        return None if start is None else start + state.estimated_time
