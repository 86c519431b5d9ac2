"""Buildbarn's dispatch scenarios, step by step, against the fair-share queue.

A small yard plays the scheduler: it shares executions by action, asks the queue where an
arriving job goes and what a free slot gets, and plays upstream's time-outs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm.core.model import Builder, Job
from farm.core.state.working_state import BuilderState, JobState, PoolCounts, Slot

from .buildbarn_steps import (
    Compatibility,
    Steps,
    check,
    has_mended_stickiness,
    play,
    refuse,
)
from .conftest import IN_TREE


class Worker(msgspec.Struct, eq=False):
    slot: Slot
    running: JobState | None = None
    blocks: bool = False


class Yard(Steps):
    """Play the steps on a queue."""

    def __init__(self, scenario: dict[str, Any], compatibility: Compatibility) -> None:
        super().__init__(scenario, compatibility)
        self.workers: dict[str, Worker] = {}
        self.jobs: dict[str, JobState] = {}
        self.leaders: dict[str, JobState] = {}
        self.serial = 0

    # --- the scheduler's part -----------------------------------------------------------------

    def dispatch(self, state: JobState, name: str) -> None:
        worker = self.workers[name]
        self.queue.dispatched(state, worker.slot, self.now)
        state.slot, worker.running, worker.blocks = worker.slot, state, False
        self.started(self.task(served_by(state)), name)

    def running(self, name: str) -> str | None:
        state = self.workers[name].running if name in self.workers else None
        return None if state is None else self.task(served_by(state))

    def next_job(self, name: str) -> dict[str, Any]:
        worker = self.worker(name)
        if worker.blocks:
            self.do_idle_timer_fires({"worker": name})
        before = dict(self.queue.retained)
        state = self.queue.choose(worker.slot, self.now)
        if state is None:
            self.queue.slot_free(worker.slot, self.now)
            worker.blocks = True
            del self.expires_at[name]
            return {"starts": None, "worker_blocks": True}
        self.dispatch(state, name)
        after = self.queue.retained
        retained = [level for level in after if after[level] != before.get(level, 0)]
        return {
            "starts": self.running(name),
            "stickiness_levels_retained": retained[0],
            "worker_blocks": False,
        }

    def end(self, name: str, *, completed: bool) -> JobState:
        worker = self.workers[name]
        state, worker.running = worker.running, None
        assert state is not None, f"{name} runs nothing"
        self.queue.ended(state, worker.slot, self.now, completed=completed)
        for member in (state, *state.followers):
            member.slot = None
            self.jobs.pop(member.job.id)
        if state.job.action:
            self.leaders.pop(state.job.action)
        return state

    def withdraw(self, name: str) -> None:
        """No client waits for this operation any more; the last one takes the task with it."""
        state = self.jobs.get(name)
        if state is None:
            return
        leader = state.leader or state
        if leader.slot is not None and not leader.followers:
            self.end(self.running_on(leader), completed=False)
            return
        leave = self.queue.remove if leader.slot is None else self.queue.left
        leave(state, self.now)
        del self.jobs[name]
        if state is not leader:
            leader.followers = tuple(f for f in leader.followers if f is not state)
        elif leader.followers:
            self.promote(leader)
        elif leader.job.action:
            del self.leaders[leader.job.action]

    def promote(self, old: JobState) -> None:
        new, *others = old.followers
        new.leader, new.followers, new.slot = None, tuple(others), old.slot
        for other in others:
            other.leader = new
        if old.slot is not None:
            self.workers[self.running_on(old)].running = new
        assert new.job.action is not None
        self.leaders[new.job.action] = new

    def running_on(self, leader: JobState) -> str:
        return next(name for name, worker in self.workers.items() if worker.running is leader)

    def forget(self, name: str) -> None:
        worker = self.workers.pop(name)
        if worker.running is not None:
            self.workers[name] = worker
            self.end(name, completed=False)
            del self.workers[name]
        self.queue.slot_unavailable(worker.slot, self.now, gone=True)

    def worker(self, name: str) -> Worker:
        if name not in self.workers:
            number = len(self.workers)
            builder = BuilderState(
                Builder(id=name, pool="p", index=number),
                self.now,
                self.now,
                group=None,
                pool=PoolCounts("p"),
            )
            self.workers[name] = Worker(builder.slots[0])
        return self.workers[name]

    # --- the steps ----------------------------------------------------------------------------

    def do_arrive(self, step: dict[str, Any]) -> dict[str, Any]:
        action = None if step.get("do_not_cache") else step.get("action")
        leader = self.leaders.get(action) if action else None
        keys = tuple(step["keys"])
        self.serial += 1
        priority, expected = step.get("priority", 0), float(step.get("expected_s", 0))
        # the priority is the operation's, expected duration and age are the task's
        place = (-expected, step.get("queued_timestamp", self.now))
        place = place if leader is None else leader.key[1][1:]
        state = JobState(
            Job(id=str(step["op"]), service_time=expected, priority=priority, action=action),
            serial=self.serial,
            key=(0, (priority, *place), self.serial),
            submitted_at=self.now,
            estimated_time=expected,
            path=keys,
            lane=None,
        )
        self.jobs[state.job.id] = state
        if leader is not None:
            others = (leader, *leader.followers)
            same = next((other.job.id for other in others if other.path == keys), None)
            self.requested(state.job.id, same)
            state.leader = leader
            leader.followers = (*leader.followers, state)
            self.queue.joined(state, self.now)
            kind = "OtherInvocation" if same is None else "SameInvocation"
            return {"dedup": kind, "queued": leader.slot is None}
        self.requested(state.job.id)
        if action:
            self.leaders[action] = state
        slot = self.queue.place(state, self.now)
        if slot is None:
            self.queue.add(state, self.now)
            return {"queued": True, "dedup": "New", "assigned_directly_to_worker": None}
        self.dispatch(state, slot.builder.builder.id)
        return {
            "queued": False,
            "dedup": "New",
            "assigned_directly_to_worker": slot.builder.builder.id,
        }

    def do_idle_timer_fires(self, step: dict[str, Any]) -> dict[str, Any]:
        worker = self.workers[step["worker"]]
        self.queue.slot_unavailable(worker.slot, self.now, gone=False)
        worker.blocks = False
        self.synchronised(step["worker"])
        return {}

    def do_complete(self, step: dict[str, Any]) -> dict[str, Any]:
        name = step["worker"]
        state = self.end(name, completed=True)
        self.synchronised(name)
        last = next(row.last for row in self.queue.memory().slots if row.builder == name)
        completed = self.task(served_by(state))
        happened = {"completed": completed, "worker_last_invocation": list(last or ())}
        if step.get("then_request_more", True):
            happened |= self.next_job(name)
        return happened

    def do_kill(self, step: dict[str, Any]) -> dict[str, Any]:
        if "op" not in step:
            return self.killed(step["worker"])
        state = self.jobs[str(step["op"])]
        leader = state.leader or state
        if leader.slot is not None:
            return self.killed(self.running_on(leader))
        for member in (*leader.followers[::-1], leader):
            self.withdraw(member.job.id)
        return {}

    def killed(self, name: str) -> dict[str, Any]:
        self.end(name, completed=False)
        last = next(row.last for row in self.queue.memory().slots if row.builder == name)
        return {"worker_last_invocation": list(last or ())}


def served_by(state: JobState) -> list[str]:
    """Return the requests that an execution serves."""
    return [member.job.id for member in (state, *state.followers)]


@pytest.mark.conformance("buildbarn", "upstream")
def test_upstream(case: dict[str, Any], path: Path) -> None:
    """What upstream's tests require of dispatch holds here, step by step."""
    check(case, Yard, exact=path.parent == IN_TREE)


@pytest.mark.conformance("buildbarn", "derived")
def test_derived(case: dict[str, Any], path: Path) -> None:
    """What follows from upstream's algorithm holds here, step by step."""
    check(case, Yard, exact=path.parent == IN_TREE)


@pytest.mark.conformance("buildbarn", "derived")
def test_upstream_habits_change_nothing_else(case: dict[str, Any]) -> None:
    """In compatibility mode the scenarios derived from upstream get upstream's answers."""
    if has_mended_stickiness(case):
        pytest.skip("says nothing of which of the two rules its levels follow")
    refuse(case)
    play(Yard(case, "buildbarn"), case)
