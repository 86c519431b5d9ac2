"""The live jobs: which are in flight, for which matrix, and which share an execution.

A job enters with its sort key and leaves with one ``EndJob``, which holds its whole record.
"""

from __future__ import annotations

from farm.core.commands import EndJob, Out
from farm.core.dispatching.dispatcher import Dispatcher
from farm.core.dispatching.matching import Lane
from farm.core.jobs.groups import GroupMembers, group_of
from farm.core.model import Cause, Job, Outcome
from farm.core.policies import Key, asks_for_path, sort_key
from farm.core.rules import Estimator, SchedulingRules
from farm.core.state.working_state import JobState, JobStatus

Execution = tuple[object, ...]
"""What jobs that share an execution agree on."""


def _execution(job: Job, lane: Lane) -> Execution:
    """Return what a job executes: an action's name alone would let one submitter fail another's.

    Where actions are named by their content, as in the remote execution API, the name implies it.
    Service times may differ: of one action that was recorded several times they do.
    """
    work = (job.fails, job.mode, job.threads, job.heavy, job.memory_heavy)
    return (job.action, lane, *work)


class JobBook:
    """The live jobs; ended ones are removed."""

    def __init__(
        self, rules: SchedulingRules, estimator: Estimator, dispatcher: Dispatcher, out: Out
    ) -> None:
        self.out = out
        self.rules = rules
        self.estimator = estimator
        self.dispatcher = dispatcher
        self.lanes = dispatcher.matching.by_weight
        self.by_id: dict[str, JobState] = {}
        #: jobs accepted so far
        self.serial = 0
        #: jobs released so far: each takes its place behind those that arrived before
        self.releases = 0
        #: the jobs of the present submission that need others
        self.needing: list[JobState] = []
        self._matrices: dict[str, dict[str, JobState]] = {}
        #: the live jobs of each concurrency group
        self.groups: dict[str, GroupMembers] = {}
        #: the job that executes each action in flight, on its platform (dedup)
        self._leaders: dict[Execution, JobState] = {}

    def of_matrix(self, matrix: str) -> list[JobState]:
        """Return the live jobs of a matrix, in the order of their submission."""
        return list(self._matrices.get(matrix, {}).values())

    def first_of_matrices(self) -> list[JobState]:
        """Return the live job of each matrix that was submitted first."""
        return [next(iter(members.values())) for members in self._matrices.values()]

    def take_in(self, job: Job, at: float) -> JobState | None:
        """Add a submitted job; None if it is known already (submitted twice)."""
        if job.id in self.by_id:
            return None
        rules = self.rules
        self.serial = serial = self.serial + 1
        if job.needs:
            return self._block(job, serial, at)
        estimate = self.estimator.estimate(job)
        lane = self.lanes[job.heavy].get(job.platform) or self.dispatcher.lane(job, at)
        leader = self._leader_for(job, lane) if rules.dedup else None
        if leader is None:
            own_key = rules.policy(job, estimate, at, serial)
        else:  # the execution and its age are the leader's; the urgency is the job's own
            own_key = rules.policy(job, *leader.execution, serial)
        key = sort_key(job, own_key, serial + self.releases)
        state = JobState(job, serial, key, at, estimate, lane=lane)
        if self.releases:
            state.place = serial + self.releases
        if rules.path is not None:
            state.path = rules.path(job)
        if leader is not None:
            state.leader = leader
            leader.followers = (*leader.followers, state)
            leader.lane.queue.joined(state, at)
        if job.matrix is None and job.action is None and job.group is None:
            self.by_id[job.id] = state
        else:
            self.enter(state)
        return state

    def _block(self, job: Job, serial: int, at: float) -> JobState:
        """Add a job that needs others; what it is sorted by is determined at its release."""
        estimate, lane = self.estimator.estimate(job), self.dispatcher.lane(job, at)
        state = JobState(job, serial, (), at, estimate, lane=lane, status=JobStatus.BLOCKED)
        if self.rules.path is not None:
            state.path = self.rules.path(job)
        state.key = self.key_of(state)  # a policy may remember which matrix it saw first
        self.enter(state)
        self.needing.append(state)
        return state

    def release(self, state: JobState, at: float) -> None:
        """Let a blocked job arrive: it may be queued, unless another's execution serves it now."""
        job = state.job
        state.status = JobStatus.ARRIVING
        state.unmet = ()
        state.estimated_time = self.estimator.estimate(job)
        state.lane = lane = self.dispatcher.lane(job, at)
        leader = self._leader_for(job, lane) if self.rules.dedup else None
        if leader is not None:
            state.leader = leader
        state.key = self.key_of(state)
        if leader is not None:
            leader.followers = (*leader.followers, state)
            leader.lane.queue.joined(state, at)
        elif self.rules.dedup and job.action is not None and job.group is None:
            self._leaders[_execution(job, lane)] = state

    def take_place(self, state: JobState) -> None:
        """Give a released job its place in line, behind all that arrived before."""
        self.releases += 1
        state.place = self.serial + self.releases

    def key_of(self, state: JobState) -> Key:
        """Return the sort key of a job by the present rules."""
        job, runs, policy = state.job, state.leader or state, self.rules.policy
        estimate, at = runs.execution
        if state.below and asks_for_path(policy):
            estimate += state.below
        return sort_key(job, policy(job, estimate, at, state.serial), state.place or state.serial)

    def enter(self, state: JobState) -> None:
        """Add a job to the book."""
        job = state.job
        self.by_id[job.id] = state
        if job.matrix is not None and not state.abandoned:
            self._matrices.setdefault(job.matrix, {})[job.id] = state
        if job.group is not None and not state.abandoned:
            self.groups.setdefault(group_of(job.group).name, GroupMembers()).enter(state)
        executes = state.leader is None and state.status is not JobStatus.BLOCKED
        is_shared = job.action is not None and job.group is None
        if self.rules.dedup and is_shared and executes:
            self._leaders[_execution(job, state.lane)] = state

    def _leader_for(self, job: Job, lane: Lane) -> JobState | None:
        """Return the job whose execution will serve this one; None: its action is not in flight."""
        if job.action is None or job.group is not None:  # a place in a group is one job's
            return None
        leader = self._leaders.get(_execution(job, lane))
        return None if leader is None or leader.status is JobStatus.CANCELLING else leader

    def end_all(
        self, state: JobState, at: float, outcome: Outcome, cause: Cause, reason: str
    ) -> None:
        """End a job and those that its execution served."""
        if state.abandoned:
            self.forget(state)
        else:
            self.end(state, at, outcome, cause, reason)
        if state.followers:
            for follower in state.followers:
                self.end(follower, at, outcome, cause, reason, state)
            state.followers = ()  # break the reference cycle: no work for the garbage collector

    def end(
        self,
        state: JobState,
        at: float,
        outcome: Outcome,
        cause: Cause,
        reason: str,
        served_by: JobState | None = None,
    ) -> None:
        """End a job, once, with the record of its life, and remove it."""
        job = state.job
        if job.matrix is None and job.action is None and job.group is None:
            del self.by_id[job.id]
        else:
            self.forget(state)
        source = served_by or state
        slot = source.slot
        builder = None if slot is None else slot.builder.builder
        name, pool = (None, None) if builder is None else (builder.id, builder.pool)
        number = None if slot is None else slot.number
        served = None if served_by is None else served_by.job.id
        released_at = state.released_at
        if job.group is not None and source.dispatched_at is None and released_at is None:
            # it was queued at its arrival, else its group held it back to the end
            released_at = None if state.status is JobStatus.BLOCKED else state.waits_since
        self.out.append(
            EndJob(
                job,
                outcome,
                source.attempts,
                state.submitted_at,
                at,
                source.dispatched_at,
                source.started_at,
                name,
                number,
                reason,
                state.estimated_time,
                served,
                released_at,
                cause,
                pool,
            )
        )

    def forget(self, state: JobState) -> None:
        """Remove a job from the book without ending it."""
        job = state.job
        self.by_id.pop(job.id, None)
        if job.matrix is not None and (members := self._matrices.get(job.matrix)) is not None:
            members.pop(job.id, None)
            if not members:
                del self._matrices[job.matrix]
        if job.group is not None:
            name = group_of(job.group).name
            if (group := self.groups.get(name)) is not None:
                group.leave(job.id)
                if not group.live:
                    del self.groups[name]
        if job.action is not None:
            execution = _execution(job, state.lane)
            if self._leaders.get(execution) is state:
                del self._leaders[execution]

    def leave(self, follower: JobState, leader: JobState, at: float) -> None:
        """Detach a follower from the execution that serves it."""
        leader.lane.queue.left(follower, at)
        leader.followers = tuple(f for f in leader.followers if f is not follower)

    def hand_over(self, leader: JobState, at: float, cause: Cause, reason: str) -> None:
        """Cancel a job whose execution serves others too: they keep the execution."""
        if leader.slot is not None:
            self.end(leader, at, "cancelled", cause, reason)
            leader.lane.queue.left(leader, at)
            leader.abandoned = True
            self.enter(leader)  # its attempt still reports under this id, and others may join
            return
        lane = leader.lane
        self.dispatcher.unwait(leader, lane, at)
        successor, *rest = leader.followers
        leader.followers = ()
        self.end(leader, at, "cancelled", cause, reason)
        successor.leader, successor.followers = None, tuple(rest)
        successor.inherited = leader.execution  # the execution keeps its length and age
        for follower in rest:
            follower.leader = successor
        if successor.job.action is not None:
            self._leaders[_execution(successor.job, lane)] = successor
        self.dispatcher.wait(successor, lane, at)
