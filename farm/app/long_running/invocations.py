"""The invocations of a farm at one instant: waiting jobs, executing slots, idle builders."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from farm.app.jobs.filter import unknown_invocation
from farm.app.long_running.snapshots import farm_of
from farm.assembly import estimator_of, make_rules
from farm.core.errors import InputError
from farm.core.queues.fair_share.listing import Filter, InvocationView
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.state.restore import restored
from farm.core.state.working_state import JobState
from farm.live.operating.answers import FarmImage

Path = tuple[str, ...]


class QueuedJob(msgspec.Struct, frozen=True):
    """A waiting job of an invocation or below; times in seconds."""

    job: str
    invocation: Path
    priority: int
    estimated_time: float
    waiting_time: float


class ExecutingJob(msgspec.Struct, frozen=True):
    """A job of an invocation or below that a builder executes."""

    job: str
    invocation: Path
    builder: str
    slot: int
    priority: int
    estimated_time: float
    #: since its start (before it is confirmed: its dispatch)
    running_time: float


class IdleSlot(msgspec.Struct, frozen=True):
    """A free slot, with the invocation that it served last (empty: none worth staying with)."""

    builder: str
    slot: int
    last_invocation: Path


class Invocations(msgspec.Struct, frozen=True, kw_only=True):
    """An invocation on one platform, with what is below it."""

    platform: str
    invocation: Path
    waiting: int
    executing_slots: int
    idle_slots: int
    #: ``queued``: the first to go first; else by name
    children: tuple[InvocationView, ...]
    #: in dispatch order, as long as nothing ends or arrives
    queue: tuple[QueuedJob, ...]
    executing: tuple[ExecutingJob, ...]
    #: by last invocation
    idle: tuple[IdleSlot, ...]


def invocations_of(
    image: FarmImage, path: Path = (), show: Filter = "all", limit: int | None = None
) -> list[Invocations]:
    """Return what is at a path of the fair-share trees, platform by platform.

    ``queued``: the children with waiting jobs, in order of their turn, and the queue; ``active``:
    those that run jobs, and what is executing, too; ``all``: also idle builders and what only they
    keep. The counts are of everything. ``limit``: the maximum length of each list. Raises
    InputError without fair share, and for a path that no platform has.
    """
    scenario = farm_of(image)
    keys = scenario.scheduling.fair_share
    if not keys:
        raise InputError(
            "this farm has no fair share, so no invocations: farm jobs lists its queue "
            "(scheduling.fair_share in its scenario)"
        )
    scheduler = restored(image.snapshot, make_rules(scenario), estimator_of(scenario))
    trees = {
        f"{lane.platform}{', heavy jobs' if lane.heavy else ''}": tree
        for lane, tree in scheduler.dispatcher.matching.with_trees()
    }
    found = [
        _look(name, tree, node, show, limit, image.snapshot.at)
        for name, tree in trees.items()
        if (node := tree.listing.node(path)) is not None
    ]
    if path and not found:
        paths = [path for tree in trees.values() for path in tree.listing.paths()]
        raise InputError(unknown_invocation(path, keys, paths))
    return found


def _look(
    platform: str,
    tree: FairShareQueue,
    node: InvocationView,
    show: Filter,
    limit: int | None,
    at: float,
) -> Invocations:
    listing, path = tree.listing, node.path
    executing = () if show == "queued" else listing.running_in(path)
    idle = listing.idle_in(path) if show == "all" else ()
    return Invocations(
        platform=platform,
        invocation=path,
        waiting=node.waiting,
        executing_slots=node.executing,
        idle_slots=node.free,
        children=tuple(listing.children(path, show, limit=limit)),
        queue=tuple(islice(_queued(tree, path, at), limit)),
        executing=tuple(_executing(state, at) for state in islice(executing, limit)),
        idle=tuple(
            IdleSlot(slot.builder.builder.id, slot.number, last)
            for slot, last in islice(idle, limit)
        ),
    )


def _queued(tree: FairShareQueue, path: Path, at: float) -> Iterator[QueuedJob]:
    for state in tree.in_order():
        for member in (state, *state.followers):
            if member.path[: len(path)] == path:
                job, waited = member.job, at - member.submitted_at
                yield QueuedJob(job.id, member.path, job.priority, member.estimated_time, waited)


def _executing(state: JobState, at: float) -> ExecutingJob:
    leader, job = state.leader or state, state.job
    slot, began_at = leader.slot, leader.began_at
    builder, number = ("", 0) if slot is None else (slot.builder.builder.id, slot.number)
    expected, ran = state.estimated_time, 0.0 if began_at is None else at - began_at
    return ExecutingJob(job.id, state.path, builder, number, job.priority, expected, ran)
