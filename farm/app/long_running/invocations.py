"""The invocations of a farm at one instant: waiting jobs, executing slots, idle builders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from farm.assembly import estimator_of, make_rules
from farm.core.errors import InputError, did_you_mean
from farm.core.queues.fair_share.listing import Filter, InvocationView
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.state.restore import restored
from farm.core.state.working_state import JobState
from farm.live.operating.farm_image import FarmImage
from farm.scenario import load_scenario

Path = tuple[str, ...]


class QueuedJob(msgspec.Struct, frozen=True):
    """A waiting job of an invocation or below."""

    job: str
    invocation: Path
    priority: int


class ExecutingJob(msgspec.Struct, frozen=True):
    """A job of an invocation or below that a builder executes."""

    job: str
    invocation: Path
    builder: str
    slot: int


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

    ``limit``: the maximum length of each list. Raises InputError without fair share, and
    for a path that no platform has.
    """
    scenario = load_scenario(image.scenario)
    keys = scenario.scheduling.fair_share
    if not keys:
        raise InputError(
            "this farm has no fair share, so no invocations: farm jobs lists its queue "
            "(scheduling.fair_share in its scenario)"
        )
    scheduler = restored(image.snapshot, make_rules(scenario), estimator_of(scenario))
    trees = {
        f"{lane.platform}{', heavy jobs' if lane.heavy else ''}": lane.queue
        for lane in scheduler.dispatcher.matching.lanes
        if isinstance(lane.queue, FairShareQueue)
    }
    found = [
        _look(name, tree, node, show, limit)
        for name, tree in trees.items()
        if (node := tree.listing.node(path)) is not None
    ]
    if path and not found:
        raise InputError(_unknown(path, keys, trees.values()))
    return found


def _look(
    platform: str, tree: FairShareQueue, node: InvocationView, show: Filter, limit: int | None
) -> Invocations:
    listing, path = tree.listing, node.path
    return Invocations(
        platform=platform,
        invocation=path,
        waiting=node.waiting,
        executing_slots=node.executing,
        idle_slots=node.free,
        children=tuple(listing.children(path, show, limit=limit)),
        queue=tuple(islice(_queued(tree, path), limit)),
        executing=tuple(islice(map(_executing, listing.running_in(path)), limit)),
        idle=tuple(
            IdleSlot(slot.builder.builder.id, slot.number, last)
            for slot, last in islice(listing.idle_in(path), limit)
        ),
    )


def _queued(tree: FairShareQueue, path: Path) -> Iterator[QueuedJob]:
    for state in tree.in_order():
        for member in (state, *state.followers):
            if member.path[: len(path)] == path:
                yield QueuedJob(member.job.id, member.path, member.job.priority)


def _executing(state: JobState) -> ExecutingJob:
    slot = (state.leader or state).slot
    builder, number = ("", 0) if slot is None else (slot.builder.builder.id, slot.number)
    return ExecutingJob(state.job.id, state.path, builder, number)


def _unknown(path: Path, keys: Sequence[str], trees: Iterable[FairShareQueue]) -> str:
    """Say at which level a path leads nowhere, and what is there."""
    depth = len(path)
    known: set[str] = set()
    while depth and not known:
        depth -= 1
        known = {view.path[-1] for tree in trees for view in tree.listing.children(path[:depth])}
    here = f"in {'/'.join(path[:depth])}" if depth else "at the top"
    key = keys[depth] if depth < len(keys) else "key"
    listed = ", ".join(sorted(known)[:10]) or "none: nothing waits, runs or idles there"
    return (
        f"invocation {'/'.join(path)!r}: found no {key} {path[depth]!r} {here}; "
        f"{did_you_mean(path[depth], known)}there is: {listed}"
    )
