"""Reordering of waiting jobs: one with another priority, or all under other rules."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farm.core import events
from farm.core.commands import IGNORED, NO_COMMANDS, Command
from farm.core.dispatching.dispatcher import Dispatcher
from farm.core.jobs.book import JobBook
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import Choices, sort_key
from farm.core.state import JobState, JobStatus


class Reorderer:
    """Changes the sort keys of live jobs."""

    def __init__(self, book: JobBook, dispatcher: Dispatcher) -> None:
        self._book = book
        self._dispatcher = dispatcher
        #: live jobs whose keys a reordering changed, by id, until their reader clears it
        self.rekeyed: set[str] = set()

    def change_priority(self, event: events.PriorityChanged) -> Sequence[Command]:
        """Change a waiting job's level, score or priority."""
        state = self._book.by_id.get(event.job)
        waiting = JobStatus.WAITING
        if state is None or state.abandoned or (state.leader or state).status is not waiting:
            return IGNORED
        wanted = {"level": event.level, "score": event.score, "priority": event.priority}
        changes = {name: value for name, value in wanted.items() if value is not None}
        state.job = msgspec.structs.replace(state.job, **changes)
        before, state.key = state.key, self._key(state)
        state.lane.queue.rekeyed(state, before, event.at)
        return self._look_again(event.at)

    def change_rules(self, event: events.SchedulingChanged) -> Sequence[Command]:
        """Change the policy, ageing factor or weights; IGNORED if nothing changes."""
        choices = self._book.rules.choices.changed(event)
        if choices == self._book.rules.choices or not self.adopt(choices):
            return IGNORED
        self.rekey_all(event.at)
        return self._look_again(event.at)

    def adopt(self, choices: Choices) -> bool:
        """Use these choices from now on; False if the policy is not known."""
        rules = self._book.rules
        policy = rules.policy_of(choices)
        if policy is None:
            return False
        offsets = choices.offsets
        rules.offsets.clear()
        rules.offsets.update(offsets)
        self._book.rules = msgspec.structs.replace(rules, policy=policy, choices=choices)
        for lane in self._dispatcher.matching.lanes:
            if isinstance(lane.queue, FairShareQueue):
                lane.queue.weigh()
        return True

    def rekey_all(self, at: float) -> None:
        """Compute all jobs' keys again, and move the waiting ones to their new places."""
        # in order of submission: a policy may remember which matrices it has seen
        live = sorted(self._book.by_id.values(), key=lambda state: state.serial)
        before = {state.serial: state.key for state in live}
        for state in live:
            key = self._key(state)
            if key != state.key:  # queues recognise an entry by the identity of its key
                state.key = key
        changed = {state.job.id for state in live if state.key is not before[state.serial]}
        self.rekeyed = {name for name in self.rekeyed if name in self._book.by_id} | changed
        for state in live:
            if state.leader is not None or state.status is not JobStatus.WAITING:
                continue
            members = [state]
            if isinstance(state.lane.queue, FairShareQueue):  # each waits in a node
                # the jobs of one node share an entry, which has the key of the first
                members = [m for m in (*reversed(state.followers), state) if not m.abandoned]
            if all(member.key is before[member.serial] for member in members):
                continue
            for member in members:
                member.lane.queue.rekeyed(member, before[member.serial], at)

    def _key(self, state: JobState) -> tuple[float, ...]:
        job, runs = state.job, state.leader or state
        own = self._book.rules.policy(job, *runs.execution, state.serial)
        return sort_key(job, own, state.serial)

    def _look_again(self, at: float) -> Sequence[Command]:
        commands: list[Command] = []
        self._dispatcher.look_again(at, commands)
        return commands or NO_COMMANDS
