"""Since when the open jobs of a run in progress wait.

A record of a job says when it was released once the job has ended. Until then this follows from the
log: from the ends of what the job needs, and of the other jobs of its group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from farm.core.commands import Command, EndJob
from farm.core.events import Event, JobsSubmitted
from farm.core.jobs.groups import group_of
from farm.core.jobs.needs import needs_of
from farm.core.model import Job, run_of


class OpenReleases:
    """Follows the releases of the jobs that have not ended."""

    def __init__(self) -> None:
        #: by id, in order of submission, and when they were submitted
        self._open: dict[str, tuple[Job, float]] = {}
        self._ended_at: dict[str, float] = {}
        #: by name: when the last job of a group ended
        self._group_ended_at: dict[str, float] = {}

    def take(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in one event and its commands."""
        if isinstance(event, JobsSubmitted):
            for job in event.jobs:
                self._open.setdefault(job.id, (job, event.at))
            for name in event.ended:
                self._ended_at.setdefault(name, event.at)
        for command in commands:
            if isinstance(command, EndJob):
                self._open.pop(command.job.id, None)
                self._ended_at[command.job.id] = event.at
                if command.job.group is not None:
                    self._group_ended_at[group_of(command.job.group).name] = event.at

    def submitted_at(self, job: str, at: float) -> float:
        """Return when an open job was submitted; of one that is not known, the instant ``at``."""
        return self._open[job][1] if job in self._open else at

    def dispatched(self, job: Job, at: float) -> float | None:
        """Return when a job was released that is dispatched now; None: nothing blocked it.

        With a group of several jobs at once it may have had its place before another of them ended;
        that is known once it has ended.
        """
        if not job.needs and job.group is None:
            return None
        released_at = self._free_at(job, self.submitted_at(job.id, at))
        if released_at is None:
            return at
        if job.group is not None and group_of(job.group).mode != "cancel":
            ended_at = self._group_ended_at.get(group_of(job.group).name, released_at)
            released_at = max(released_at, ended_at)
        return min(released_at, at)

    def waiting(self, running: Collection[str], at: float) -> dict[str, float]:
        """Return since when the jobs wait that others blocked once, and that run nowhere; by id.

        Args:
            running: the ids of the jobs that run.
            at: now, farm time.
        """
        inside: defaultdict[str, list[str]] = defaultdict(list)
        for name in running:
            if name in self._open and (group := self._open[name][0].group) is not None:
                inside[group_of(group).name].append(run_of(self._open[name][0]))
        found: dict[str, float] = {}
        for name, (job, submitted_at) in self._open.items():
            if name in running or (not job.needs and job.group is None):
                continue
            free_at = self._free_at(job, submitted_at)
            if free_at is None or free_at > at or not _has_place(job, inside):
                continue
            found[name] = self.dispatched(job, at) or free_at
        return found

    def _free_at(self, job: Job, submitted_at: float) -> float | None:
        """Return when a job that has not been skipped had all that it needs; None: not yet."""
        free_at = job.arrival(submitted_at)
        for need in needs_of(job):
            ended_at = self._ended_at.get(need.job)
            if ended_at is None:
                return None
            free_at = max(free_at, ended_at + job.needs_delay)
        return free_at


def _has_place(job: Job, inside: defaultdict[str, list[str]]) -> bool:
    """Return whether a job has a place in its group beside the runs of those ``inside``; enter it.

    Those that wait for a builder have their places in the order of submission.
    """
    if job.group is None:
        return True
    group = group_of(job.group)
    if group.mode == "cancel":
        return True
    runs = inside[group.name]
    is_full = len(runs) >= group.limit if group.mode == "limit" else bool({*runs} - {run_of(job)})
    if not is_full:
        runs.append(run_of(job))
    return not is_full
