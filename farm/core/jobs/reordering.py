"""Reordering of waiting jobs: one with another priority, all under other rules or at intervals."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from farm.core import events
from farm.core.alarms import Alarms
from farm.core.commands import StaleEventError
from farm.core.jobs.book import JobBook
from farm.core.model import content_digest
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import Choices
from farm.core.state.working_state import JobState, JobStatus

#: jobs that get new keys in one step: some 20 milliseconds with what is written of them
AT_ONCE = 500


class Reorderer:
    """Changes the sort keys of live jobs.

    All of them are sorted anew in steps, each begun by an alarm of the same instant, so that other
    events need not wait for the last of very many jobs. Until its step a job keeps its old key.
    """

    def __init__(self, book: JobBook, alarms: Alarms) -> None:
        self._book = book
        self._dispatcher = book.dispatcher
        self._alarms = alarms
        #: jobs that are still to get new keys, in order of submission
        self._left: deque[JobState] = deque()
        #: see ``take_rekeyed``
        self.rekeyed: set[str] = set()

    def change_priority(self, event: events.PriorityChanged) -> None:
        """Change the level, score or priority of a job that waits, or is blocked.

        A larger level or score goes first, a smaller priority. The change is one of the job itself,
        so it holds under any later policy, whose key is made of the job as it is then.
        """
        state = self._book.by_id.get(event.job)
        if state is None or state.abandoned:
            raise StaleEventError
        status = (state.leader or state).status
        if status not in (JobStatus.WAITING, JobStatus.BLOCKED):
            raise StaleEventError
        wanted = {"level": event.level, "score": event.score, "priority": event.priority}
        changes = {name: value for name, value in wanted.items() if value is not None}
        submitted = content_digest(state.job)
        state.job = msgspec.structs.replace(state.job, **changes, digest=submitted)
        before, state.key = state.key, self._book.key_of(state)
        if status is JobStatus.BLOCKED:
            return
        state.lane.queue.rekeyed(state, before, event.at)
        self._dispatcher.look_again(event.at)

    def change_rules(self, event: events.SchedulingChanged) -> None:
        """Change the policy, ageing factor or weights; StaleEventError if nothing changes."""
        before = self._book.rules.choices
        choices = before.changed(event)
        if choices == before:
            raise StaleEventError
        # sizes of pools order no job
        if msgspec.structs.replace(choices, pools=before.pools) == before:
            self._book.rules = msgspec.structs.replace(self._book.rules, choices=choices)
        elif self.adopt(choices):
            self.sort(event.at)
        else:
            raise StaleEventError

    def adopt(self, choices: Choices) -> bool:
        """Use these choices from now on; False if the policy is not known."""
        rules = self._book.rules
        policy = rules.policy_of(choices)
        if policy is None:
            return False
        rules.offsets.clear()
        rules.offsets.update(choices.offsets)
        self._book.rules = msgspec.structs.replace(rules, policy=policy, choices=choices)
        for _, tree in self._dispatcher.matching.with_trees():
            tree.weigh()
        return True

    @property
    def unsorted(self) -> tuple[int, int] | None:
        """The serials, first and last, between which jobs still have old keys; None: none has."""
        return (self._left[0].serial, self._left[-1].serial) if self._left else None

    def sort(self, at: float) -> None:
        """Compute all jobs' keys again, and move the waiting ones to their new places.

        In a farm that sorts at intervals this is by the latest estimates.
        """
        for first in self._book.first_of_matrices():
            self._book.key_of(first)  # a policy may remember which matrix it saw first
        self.rekeyed = {name for name in self.rekeyed if name in self._book.by_id}
        self._left = deque(sorted(self._book.by_id.values(), key=lambda state: state.serial))
        self.go_on(at)

    def go_on(self, at: float) -> None:
        """Take the next step, if a sorting is under way."""
        if not self._left:
            return
        self._rekey((self._left.popleft() for _ in range(min(AT_ONCE, len(self._left)))), at)
        if self._left:
            self._alarms.ask(at)
        else:
            self._dispatcher.look_again(at)

    def take_rekeyed(self) -> set[str]:
        """Return the live jobs whose keys a reordering has changed since the last time, by id."""
        rekeyed, self.rekeyed = self.rekeyed, set()
        return rekeyed

    def finish(self, at: float) -> None:
        """Take all steps that are left, as a scheduler does that is restored between two."""
        self._rekey(self._left, at)
        self._left.clear()

    def _rekey(self, states: Iterable[JobState], at: float) -> None:
        for state in states:
            # one that ended needs none, and a follower gets it with its leader
            if state.leader is None and self._book.by_id.get(state.job.id) is state:
                self._rekey_execution(state, at)

    def _rekey_execution(self, state: JobState, at: float) -> None:
        waits = state.status is JobStatus.WAITING
        # without intervals estimates stay those of the submission, so that a change of the policy
        # changes the order by the policy alone
        if waits and state.inherited is None and self._book.rules.sort_every is not None:
            state.estimated_time = self._book.estimator.estimate(state.job)
        members = (state, *state.followers)
        before = [member.key for member in members]
        for member in members:
            key = self._book.key_of(member)
            if key != member.key:
                member.key = key
                self.rekeyed.add(member.job.id)
        moves = [(m, old) for m, old in zip(members, before, strict=True) if not m.abandoned]
        if not waits or all(m.key == old for m, old in moves):
            return
        if isinstance(state.lane.queue, FairShareQueue):  # each waits in a node
            # the jobs of one node share an entry, which has the key of the first
            for member, old in reversed(moves):
                state.lane.queue.rekeyed(member, old, at)
        else:
            state.lane.queue.rekeyed(state, before[0], at)


SORTED_AFTER = (
    events.FarmOpened,
    events.JobsSubmitted,
    events.JobFinished,
    events.AttemptLost,
    events.BuilderLost,
    events.AlarmRang,
)
"""Events after which more jobs may wait, or a sorting may be due."""


class QueueSorter:
    """Computes all waiting jobs' sort keys again at every multiple of ``every`` seconds.

    Between sortings a job keeps its key. While no job waits no alarm is set.
    """

    def __init__(self, every: float, book: JobBook, reorderer: Reorderer, alarms: Alarms) -> None:
        self._every = every
        self._book = book
        self._reorderer = reorderer
        self._alarms = alarms
        self._due_at: float | None = None

    def look(self, at: float) -> None:
        """Sort if it is due; set an alarm for the next sorting if jobs wait."""
        if self._due_at is not None and self._due_at <= at:
            self._due_at = None
            if self._reorderer.unsorted is None:  # else the last sorting takes longer than that
                self._reorderer.sort(at)
        if self._book.dispatcher.matching.waiting():
            if self._due_at is None:
                due_at = (at // self._every + 1) * self._every
                self._due_at = due_at if due_at > at else due_at + self._every
            self._alarms.ask(self._due_at)
