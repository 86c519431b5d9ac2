"""Concurrency groups: how many jobs of a group are there at once, and what a newer run cancels.

CI systems have them under many names: ``concurrency`` (GitHub), ``resource_group`` and
``interruptible`` (GitLab), ``concurrency_group`` (Buildkite), throttled categories (Jenkins). Here
a job names its group, and how that goes about it:

==================  ===========================================================================
``deploy``          one job of the group at a time; the others wait for it, by their submission
``deploy:3``        three at a time
``main:latest``     one run at a time; of the runs that wait only the newest is kept
``main:cancel``     a newer run cancels all that is left of older ones, also what runs
==================  ===========================================================================

A run is a matrix, or a job that is in none. It is newer than another if its first job was submitted
later. A suffix that is neither a number, nor ``latest`` or ``cancel``, belongs to the name.

A job takes its place in the group when it would be queued: on arrival, or once its needs are met.
Until it has one it is *blocked*: no builder could run it, so it is no waiting that more builders
would shorten, and its waiting time counts from then on. It keeps the place until it ends, also
while it is lost and tried again. The jobs of a run of ``latest`` have one together, until the last
of them has ended. Jobs
that are cancelled for a newer run end with the cause ``superseded``. A job with a group has an
execution of its own, whatever its action.
"""

from __future__ import annotations

import heapq
from typing import Literal, NamedTuple

from farm.core.model import Job
from farm.core.state.working_state import JobState, JobStatus

Mode = Literal["limit", "latest", "cancel"]
_MODES: dict[str, Mode] = {"latest": "latest", "cancel": "cancel"}


class Group(NamedTuple):
    """A group as a job names it."""

    name: str
    mode: Mode = "limit"
    #: jobs of it at once, where it has a limit
    limit: int = 1


def group_of(text: str) -> Group:
    """Return the group that a text names.

    >>> from farm.core.jobs.groups import group_of
    >>> group_of("deploy:3"), group_of("main:cancel")
    (Group(name='deploy', mode='limit', limit=3), Group(name='main', mode='cancel', limit=1))
    """
    name, _, suffix = text.rpartition(":")
    if name and suffix in _MODES:
        return Group(name, _MODES[suffix])
    if name and suffix.isascii() and suffix.isdigit() and int(suffix) > 0:
        return Group(name, "limit", int(suffix))
    return Group(text)


def run_of(job: Job) -> str:
    """Return the run that a job belongs to: its matrix, or itself."""
    return job.id if job.matrix is None else job.matrix


class GroupMembers:
    """The live jobs of a group."""

    def __init__(self) -> None:
        #: in order of submission, by id
        self.live: dict[str, JobState] = {}
        #: ids of those that have a place
        self.inside: set[str] = set()
        #: those that wait for one: their serials
        self._held: list[tuple[int, JobState]] = []

    def enter(self, state: JobState) -> None:
        """Add a live job; one of a run that has the place of ``latest`` has it, too."""
        self.live[state.job.id] = state
        if group_of(state.job.group or "").mode == "latest" and run_of(state.job) in self.runs():
            state.has_place = True
        if state.has_place:
            self.inside.add(state.job.id)

    def runs(self) -> set[str]:
        """Return the runs of the jobs that have a place."""
        return {run_of(self.live[name].job) for name in self.inside}

    def leave(self, name: str) -> None:
        """Remove a job that has ended."""
        self.live.pop(name, None)
        self.inside.discard(name)

    def admits(self, state: JobState, group: Group) -> bool:
        """Return whether there is a place for a job; it has it then.

        With a job of ``latest`` all of its run have it.
        """
        if state.has_place or group.mode == "cancel":
            return True
        if group.mode == "limit":
            if len(self.inside) >= group.limit:
                return False
            members = [state]
        else:
            if self.inside:
                return False
            run = run_of(state.job)
            members = [member for member in self.live.values() if run_of(member.job) == run]
        for member in members:
            member.has_place = True
            self.inside.add(member.job.id)
        return True

    def hold(self, state: JobState) -> None:
        """Let a job wait for a place."""
        heapq.heappush(self._held, (state.serial, state))

    def next_held(self) -> JobState | None:
        """Return the job that waits for a place, and was submitted first."""
        while self._held:
            _, state = self._held[0]
            if self.live.get(state.job.id) is state and state.status is JobStatus.BLOCKED:
                return state
            heapq.heappop(self._held)
        return None

    def take_held(self) -> None:
        """Remove the job that ``next_held`` returned."""
        heapq.heappop(self._held)

    def older_than(self, state: JobState, *, waiting: bool = False) -> list[JobState]:
        """Return the jobs of older runs, in order of submission.

        ``waiting``: only of runs none of whose jobs has a place.
        """
        run = run_of(state.job)
        began: dict[str, int] = {}
        for member in self.live.values():
            began.setdefault(run_of(member.job), member.serial)
        own = began.get(run, state.serial)
        inside = self.runs() if waiting else set()
        return [
            member
            for member in self.live.values()
            if began[run_of(member.job)] < own and run_of(member.job) not in inside
        ]

    def newer_run(self, state: JobState) -> str | None:
        """Return the newest run, if that is newer than a job's; None: it is not."""
        run = run_of(state.job)
        began: dict[str, int] = {}
        for member in self.live.values():
            began.setdefault(run_of(member.job), member.serial)
        newest = max(began, key=began.__getitem__, default=run)
        return newest if began.get(run, state.serial) < began.get(newest, 0) else None
