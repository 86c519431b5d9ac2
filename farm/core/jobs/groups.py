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
later, whatever the order of the others. A run waits while a job of it has no place and nothing else
blocks it. Each job goes by what it says itself, also where others name the same group otherwise. A
suffix that is neither a number, nor ``latest`` or ``cancel``, belongs to the name.

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
from collections import Counter
from typing import Literal, NamedTuple

from farm.core.model import Job, run_of
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


def mode_of(job: Job) -> Mode:
    """Return how a job that names a group goes about it."""
    return group_of(job.group or "").mode


def turn_of(state: JobState) -> int:
    """Return by which serial a job asks for a place, of those that do at one instant.

    A job of ``latest`` goes by its run's first: where the jobs of runs are mixed in a submission,
    they are as if the runs had been submitted one after the other.
    """
    is_latest = state.job.group is not None and mode_of(state.job) == "latest"
    return state.run_serial if is_latest else state.serial


class GroupMembers:
    """The live jobs of a group."""

    def __init__(self) -> None:
        #: in order of submission, by id
        self.live: dict[str, JobState] = {}
        #: ids of those that have a place
        self.inside: dict[str, None] = {}
        #: how many live jobs of each run there are, and how many of them have a place
        self._runs: Counter[str] = Counter()
        self._runs_inside: Counter[str] = Counter()
        #: how many jobs of the run that has the place of ``latest`` are inside
        self._latest_inside: Counter[str] = Counter()
        #: how many live jobs of each run cancel older runs
        self._cancelling: Counter[str] = Counter()
        #: the serial of each run's first job
        self._began: dict[str, int] = {}
        #: those that wait for a place: their serials, or 0 for those whose run has it now
        self._held: list[tuple[int, JobState]] = []

    def enter(self, state: JobState) -> None:
        """Add a live job; one of a run that has the place of ``latest`` has it, too."""
        run = run_of(state.job)
        self.live[state.job.id] = state
        self._runs[run] += 1
        state.run_serial = self._began.setdefault(run, state.run_serial or state.serial)
        mode = mode_of(state.job)
        if mode == "cancel":
            self._cancelling[run] += 1
        if run in self._latest_inside and mode == "latest":
            state.has_place = True
        if state.has_place:
            self._take_place(state)

    def leave(self, name: str) -> None:
        """Remove a job that has ended."""
        state = self.live.pop(name, None)
        if state is None:
            return
        run = run_of(state.job)
        if name in self.inside:
            del self.inside[name]
            _take_one(self._runs_inside, run)
            if mode_of(state.job) == "latest":
                _take_one(self._latest_inside, run)
        if mode_of(state.job) == "cancel":
            _take_one(self._cancelling, run)
        _take_one(self._runs, run)
        if run not in self._runs:
            del self._began[run]

    @property
    def runs_inside(self) -> list[str]:
        """The runs of the jobs that have a place."""
        return list(self._runs_inside)

    def admitted(self, state: JobState, group: Group) -> list[JobState] | None:
        """Give a job a place, and with one of ``latest`` all jobs of its run; None: there is none.

        Returns those that had none before.
        """
        if state.has_place or group.mode == "cancel":
            return []
        run = run_of(state.job)
        if group.mode == "limit":
            if len(self.inside) >= group.limit:
                return None
            members = [state]
        else:
            if self._runs_inside.keys() - {run}:
                return None
            members = [
                member
                for member in self.live.values()
                if not member.has_place
                and run_of(member.job) == run
                and mode_of(member.job) == "latest"
            ]
        for member in members:
            member.has_place = True
            self._take_place(member)
            if member.waits_for_place:
                self.hold(member)
        return members

    def _take_place(self, state: JobState) -> None:
        self.inside[state.job.id] = None
        self._runs_inside[run_of(state.job)] += 1
        if mode_of(state.job) == "latest":
            self._latest_inside[run_of(state.job)] += 1

    def hold(self, state: JobState) -> None:
        """Let a job wait for a place; one whose run has it goes before all others."""
        heapq.heappush(self._held, (0 if state.has_place else state.serial, state))

    def next_held(self) -> JobState | None:
        """Return the job that waits for a place, and is next: as a rule the one submitted first."""
        while self._held and not self._is_held(self._held[0][1]):
            heapq.heappop(self._held)
        return self._held[0][1] if self._held else None

    def _is_held(self, state: JobState) -> bool:
        is_live = self.live.get(state.job.id) is state
        return is_live and state.status is JobStatus.BLOCKED

    def take_held(self) -> None:
        """Remove the job that ``next_held`` returned."""
        heapq.heappop(self._held)

    def newest_cancelling(self) -> str | None:
        """Return the newest run that cancels older ones."""
        return max(self._cancelling, key=self._began.__getitem__, default=None)

    def older_than(self, run: str) -> list[JobState]:
        """Return the jobs of older runs, in order of submission."""
        began = self._began[run]
        return [member for member in self.live.values() if self._began[run_of(member.job)] < began]

    def waiting_runs(self) -> list[str]:
        """Return the runs of ``latest`` that wait for a place, the oldest first."""
        runs = {
            run_of(state.job)
            for _, state in self._held
            if self._is_held(state) and mode_of(state.job) == "latest"
        }
        return sorted(runs, key=self._began.__getitem__)

    def blocked_of(self, run: str) -> list[JobState]:
        """Return the blocked jobs of a run of ``latest``, in order of submission."""
        return [
            member
            for member in self.live.values()
            if run_of(member.job) == run
            and member.status is JobStatus.BLOCKED
            and mode_of(member.job) == "latest"
        ]


def _take_one(counts: Counter[str], run: str) -> None:
    counts[run] -= 1
    if not counts[run]:
        del counts[run]
