"""The blocked jobs of a farm: who needs whom, and who waits for a place in a group.

The rules are those of ``needs.py`` and ``groups.py``.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from farm.core.alarms import Alarms
from farm.core.commands import EndJob
from farm.core.dispatching.matching import Lane
from farm.core.jobs.book import JobBook
from farm.core.jobs.groups import Group, GroupMembers, group_of, turn_of
from farm.core.jobs.needs import UNKNOWN, Ended, needs_first, needs_of, why_skipped
from farm.core.model import Cause, Outcome
from farm.core.policies import asks_for_path
from farm.core.state.working_state import JobState, JobStatus


class BlockedJobs:
    """Releases and skips jobs as those end that they need.

    While no job is blocked nothing is asked of it (``active``).
    """

    def __init__(self, book: JobBook, alarms: Alarms) -> None:
        self._book = book
        self._dispatcher = book.dispatcher
        self._alarms = alarms
        #: by id, in the order of submission
        self.states: dict[str, JobState] = {}
        #: those that need a job, by its id; some of them may have ended since
        self._dependents: dict[str, list[JobState]] = {}
        #: those whose delay runs: when they are released, their serials
        self._due: list[tuple[float, int, JobState]] = []
        self._is_in_order = True
        #: whether any job is blocked, or was until the present event
        self.active = False
        #: where the state is saved: the jobs that have changed since it was, by id
        self.touched: set[str] | None = None
        #: whether jobs were released or skipped since this was last set to False
        self.changed = False

    def submitted(
        self, states: Sequence[JobState], ended: Mapping[str, Outcome], at: float
    ) -> None:
        """Block those jobs of a submission that need others; those whose needs are met arrive.

        ``ended``: how those ended that they need and that are over.
        """
        fresh, self._book.needing = self._book.needing, []
        self._measure_paths(states)
        over: list[dict[str, Ended]] = []
        for state in fresh:
            self._enter(state)
            state.unmet = tuple(dict.fromkeys(need.job for need in needs_of(state.job)))
            known: dict[str, Ended] = {}
            for name in state.unmet:
                if name in ended:
                    known[name] = Ended.earlier(ended[name])
                elif name not in self._book.by_id:
                    known[name] = UNKNOWN
                else:
                    self._dependents.setdefault(name, []).append(state)
            over.append(known)
        for state, known in zip(fresh, over, strict=True):
            if self._note_ends(state, known, at):
                state.released_at = state.job.arrival(at)
                if self._book.releases:
                    state.place = state.serial + self._book.releases
                self._arrive(state, at)

    def follow(self, at: float) -> None:
        """Release and skip the jobs that needed those which have ended in the present event."""
        out, seen = self._book.out, 0
        lanes: dict[int, Lane] = {}
        while seen < len(out):
            news: dict[int, tuple[JobState, dict[str, Ended]]] = {}
            groups: dict[str, None] = {}
            for command in out[seen:]:
                if type(command) is EndJob:
                    if command.job.group is not None:
                        groups[command.job.group] = None
                    end = Ended.of(command.outcome, skipped=command.cause is Cause.SKIPPED)
                    for state in self._dependents.pop(command.job.id, ()):
                        if self.states.get(state.job.id) is state:
                            _, known = news.setdefault(state.serial, (state, {}))
                            known[command.job.id] = end
            seen = len(out)
            turns = sorted(news.items())
            if self._book.groups:
                turns.sort(key=lambda item: turn_of(item[1][0]))
            for _, (state, known) in turns:
                # one that was released before it may have superseded its run
                is_blocked = self.states.get(state.job.id) is state
                if is_blocked and self._note_ends(state, known, at):
                    self._release(state, at, lanes)
            # last: a job that has just been released and was submitted before goes before these
            for group in groups:
                self._admit_held(group, at, lanes)
        if lanes:
            self._dispatcher.fill_lanes(lanes.values(), at)

    def admit_or_hold(self, state: JobState, at: float) -> bool:
        """Give a job that would be queued its place in its group, or hold it back; return which.

        Of a group of ``latest`` a run that is held back ends the blocked jobs of older ones.
        """
        job = state.job
        if job.group is None:
            return True
        group = group_of(job.group)
        members = self._book.groups[group.name]
        if not self._is_overtaking(state, members, group) and self._give_place(
            state, members, group
        ):
            return True
        state.status = JobStatus.BLOCKED
        state.released_at = None
        members.hold(state)
        self._note(state)
        last = next(reversed(self.states.values()), state)
        self._is_in_order = self._is_in_order and last.serial <= state.serial
        self._enter(state)
        if group.mode == "latest":
            *older, newest = members.waiting_runs()
            for run in older:
                for blocked in members.blocked_of(run):
                    self._supersede(blocked, newest, at)
        return False

    def _is_overtaking(self, state: JobState, members: GroupMembers, group: Group) -> bool:
        """Return whether a job submitted before waits for the place that is free."""
        if state.has_place or group.mode != "limit":
            return False
        held = members.next_held()
        return held is not None and held.serial < state.serial

    def _give_place(self, state: JobState, members: GroupMembers, group: Group) -> bool:
        """Give a job a place if there is one; return whether it has one now."""
        admitted = members.admitted(state, group)
        for member in admitted or ():
            self._note(member)
        return admitted is not None

    def put_in_order(self) -> None:
        """Put the jobs of a submission that groups hold back among those that need others."""
        if not self._is_in_order:
            states = sorted(self.states.items(), key=lambda item: item[1].serial)
            self.states.clear()
            self.states.update(states)
            self._is_in_order = True

    def _admit_held(self, text: str, at: float, lanes: dict[int, Lane]) -> None:
        """Queue jobs that waited for a place in a group of which some have ended."""
        members = self._book.groups.get(group_of(text).name)
        while members is not None and (state := members.next_held()) is not None:
            if not self._give_place(state, members, group_of(state.job.group or "")):
                return
            members.take_held()
            self._queue(state, at, lanes)

    def _supersede(self, state: JobState, newer: str, at: float) -> None:
        """End a blocked job for a newer run of its group."""
        self.changed = True
        self.forget(state)
        why = f"superseded by {newer}"
        self._book.end(state, at, "cancelled", Cause.SUPERSEDED, why)

    def go_on(self, at: float) -> None:
        """Release the jobs whose delay is over; set an alarm for the next one."""
        lanes: dict[int, Lane] = {}
        due: list[tuple[float, int, JobState]] = []
        while self._due and self._due[0][0] <= at:
            due.append(heapq.heappop(self._due))
        if self._book.groups:
            due.sort(key=lambda entry: (entry[0], turn_of(entry[2])))
        for _, _, state in due:
            if self.states.get(state.job.id) is state:
                self._release(state, at, lanes)
        if self._due:
            self._alarms.ask(self._due[0][0])
        if lanes:
            self._dispatcher.fill_lanes(lanes.values(), at)

    def _note(self, state: JobState) -> None:
        """Let a job be saved, which has changed."""
        if self.touched is not None:
            self.touched.add(state.job.id)

    def forget(self, state: JobState) -> None:
        """Forget a blocked job, which ends without having been released."""
        state.released_at = None  # though its delay may run
        self._remove(state)

    def restore(self, state: JobState) -> None:
        """Know a blocked job of an earlier scheduler; call it in the order of submission."""
        self._enter(state)
        for name in state.unmet:
            self._dependents.setdefault(name, []).append(state)
        if state.waits_for_place:
            self._book.groups[group_of(state.job.group or "").name].hold(state)
        if state.released_at is not None:
            heapq.heappush(self._due, (state.released_at, state.serial, state))

    def _measure_paths(self, states: Sequence[JobState]) -> None:
        """Determine the longest path of estimates below each of the jobs that others need."""
        among = {state.job.id: state for state in states}
        for job in reversed(needs_first(state.job for state in states)):
            length = among[job.id].below + among[job.id].estimated_time
            for need in needs_of(job):
                needed = among.get(need.job)
                if needed is not None and needed.below < length:
                    needed.below = length
        if asks_for_path(self._book.rules.policy):
            for state in states:
                state.key = self._book.key_of(state)

    def _enter(self, state: JobState) -> None:
        self.states[state.job.id] = state
        self.active = True

    def _remove(self, state: JobState) -> None:
        del self.states[state.job.id]
        if not self.states:
            self._dependents.clear()
            self._due.clear()

    def _note_ends(self, state: JobState, known: Mapping[str, Ended], at: float) -> bool:
        """Note how jobs ended that this one needs: it is released, skipped or blocked still.

        Returns whether it is released now.
        """
        self._note(state)
        needs = needs_of(state.job)
        for need in needs:
            end = known.get(need.job)
            if need.condition == "failed" and end is not None and end.outcome == "failed":
                state.failure_met = True
        state.unmet = tuple(name for name in state.unmet if name not in known)
        why = why_skipped(needs, known, state.unmet, failure_met=state.failure_met)
        if why:
            self.changed = True
            self.forget(state)
            self._book.end(state, at, "cancelled", Cause.SKIPPED, why)
            return False
        if state.unmet:
            return False
        job = state.job
        released_at = max(at + job.needs_delay, job.arrival(state.submitted_at))
        state.released_at = released_at
        if released_at <= at:
            return True
        heapq.heappush(self._due, (released_at, state.serial, state))
        self._alarms.ask(released_at)
        return False

    def _release(self, state: JobState, at: float, lanes: dict[int, Lane]) -> None:
        """Queue a job whose needs are met, unless its group holds it back."""
        if self.admit_or_hold(state, at):
            self._queue(state, at, lanes)

    def _queue(self, state: JobState, at: float, lanes: dict[int, Lane]) -> None:
        """Queue a blocked job, and note its lane."""
        state.released_at = at
        self._book.take_place(state)
        self._arrive(state, at)
        if state.leader is None:
            lane = state.lane
            self._dispatcher.wait(state, lane, at)
            lanes[id(lane)] = lane

    def _arrive(self, state: JobState, at: float) -> None:
        self.changed = True
        self._note(state)
        self._remove(state)
        self._book.release(state, at)
