"""The executions of one tree: which jobs share one, which nodes wait for it, where it runs."""

from __future__ import annotations

from farm.core.errors import InvariantError
from farm.core.policies import Key
from farm.core.queues.fair_share.tree import Execution, InvocationTree, Operation
from farm.core.state.working_state import JobState, Slot


class Executions:
    """The waiting and running executions, by job and by slot.

    Jobs with the same action share an execution; those of one node share an operation of it.
    """

    def __init__(self, tree: InvocationTree) -> None:
        self._tree = tree
        #: the operation of each waiting or running job, by serial
        self.operations: dict[int, Operation] = {}
        #: how many executions wait for a slot
        self.waiting = 0
        #: what each slot runs
        self.running: dict[Slot, Execution] = {}

    def __contains__(self, state: JobState) -> bool:
        return state.serial in self.operations

    def of(self, state: JobState) -> Execution | None:
        """Return the execution that the job shares with others, if one is here."""
        leader = state.leader or state
        for other in (leader, *leader.followers):
            operation = self.operations.get(other.serial)
            if operation is not None:
                return operation.execution
        return None

    def add(self, state: JobState, at: float) -> None:
        """Queue one job, or count it as running if its execution runs."""
        operation = self.attach(state, at)
        execution = operation.execution
        if len(operation.states) > 1:
            return
        if execution.slot is not None:
            self._tree.start(operation, execution.slot, self._tree.instant(at))
        else:
            self._tree.enqueue(operation)
            self.waiting += len(execution.operations) == 1
        self._tree.settle((operation.node,))

    def attach(self, state: JobState, at: float) -> Operation:
        """Assign the job its operation: a new one, or its execution's in its node."""
        if state in self:
            raise InvariantError(f"job {state.job.id} is in this queue already")
        node = self._tree.make(state.path, at)
        execution = self.of(state)
        if execution is None:
            execution = Execution()
        else:
            self._tree.before_sharing(execution)
        for operation in execution.operations:
            if operation.node is node:
                operation.states.append(state)
                break
        else:
            level, priority = state.job.level, state.job.priority
            operation = Operation(node, execution, state.key, level, priority, [state])
            execution.operations.append(operation)
        self.operations[state.serial] = operation
        return operation

    def arrival(self, state: JobState, at: float) -> Execution:
        """Make the execution of a job and its followers without queueing it."""
        wanted = [m for m in (state, *state.followers) if not m.abandoned]
        first, *others = wanted or [state]
        execution = self.attach(first, at).execution
        for member in others:
            self.attach(member, at)
        return execution

    def remove(self, state: JobState, at: float) -> None:
        """Remove a job that waits, or that shares a running execution with others.

        Jobs that share its execution stay. Nothing started or ended, so the nodes' times stay the
        same, unless the job leaves a running execution: then that ends now for its node.
        """
        operation = self.operations.pop(state.serial, None)
        if operation is None and state.abandoned:
            return  # it left before, and so have the others that shared its execution
        if operation is None:
            raise InvariantError(f"job {state.job.id} is not in this queue")
        self._tree.before_sharing(operation.execution)
        operation.states.remove(state)
        if operation.states:
            return
        execution = operation.execution
        if execution.slot is None:
            self._tree.dequeue(operation)
            self.waiting -= len(execution.operations) == 1
        elif len(execution.operations) > 1:
            self._tree.stop(operation, execution.slot, self._tree.instant(at))
        else:
            return  # no job needs it any more, but it occupies its slot until it ends
        execution.operations.remove(operation)
        self._tree.settle((operation.node,))

    def rekeyed(self, state: JobState, before: Key) -> None:
        """Move a waiting job to its new place: its key, level or priority has changed."""
        operation = self.operations.get(state.serial)
        if operation is None or operation.execution.slot is not None:
            raise InvariantError(f"job {state.job.id} does not wait in this queue")
        self._tree.before_sharing(operation.execution, before if state.leader is None else None)
        self._tree.dequeue(operation)
        moved = operation.rekeyed(state)
        self.operations.update((member.serial, moved) for member in moved.states)
        self._tree.enqueue(moved)
        self._tree.settle((moved.node,))

    def begin(self, execution: Execution, slot: Slot, at: float) -> None:
        """Run an execution on a slot."""
        execution.slot = slot
        self.running[slot] = execution
        instant = self._tree.instant(at)
        for operation in execution.operations:
            self._tree.start(operation, slot, instant)

    def end(self, execution: Execution, slot: Slot, at: float) -> None:
        """Remove an execution that has left its slot, with its jobs."""
        instant = self._tree.instant(at)
        for operation in execution.operations:
            self._tree.stop(operation, slot, instant)
            for member in operation.states:
                del self.operations[member.serial]
        execution.operations.clear()  # break the reference cycle: no work for the garbage collector
