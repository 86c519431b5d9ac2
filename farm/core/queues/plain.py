"""The jobs waiting for one platform, in the order in which they will be dispatched."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Protocol

from farm.core.queues.heap import walk
from farm.core.state.working_state import JobState, JobStatus, Slot

Key = tuple[Any, ...]
#: a job and its sort key when it was added
Entry = tuple[Key, JobState]
#: entries that a kept order sorts in one step: about a millisecond
SORTED_AT_ONCE = 1000
#: the maximum number of portions, because merging them costs their square
PORTIONS = 100
#: one in this many entries is sampled, to find where portions begin
SAMPLED = 50


class PlatformQueue(Protocol):
    """The interface of a platform queue, implemented by ``PlainQueue`` and ``FairShareQueue``.

    A fair-share queue is also notified of the slots that may serve it, because it remembers what
    each of them ran last. ``at`` is the time of the event being handled.
    """

    def __len__(self) -> int:
        """Count the waiting jobs."""

    def add(self, state: JobState, at: float) -> None:
        """Queue the job (at its old place, if requeued)."""

    def remove(self, state: JobState, at: float) -> None:
        """Remove a waiting job (cancelled, or about to get another key)."""

    def choose(self, slot: Slot, at: float) -> JobState | None:
        """Return the job that this free slot would get next; nothing changes."""

    def place(self, state: JobState, at: float) -> Slot | None:
        """Return the free slot that a job prefers; None: the balancer decides."""

    def dispatched(self, state: JobState, slot: Slot, at: float) -> None:
        """Assign a job (waiting or arriving) to the slot."""

    def ended(self, state: JobState, slot: Slot, at: float, *, completed: bool) -> None:
        """End the attempt; ``completed`` is False if it was lost or cancelled."""

    def slot_free(self, slot: Slot, at: float) -> None:
        """Add a slot that waits for a job."""

    def slot_unavailable(self, slot: Slot, at: float, *, gone: bool) -> None:
        """Withdraw a slot that waited for a job (draining, cleaning); ``gone``: for good."""

    def joined(self, follower: JobState, at: float) -> None:
        """Add a follower to the execution of its leader."""

    def left(self, follower: JobState, at: float) -> None:
        """Detach a follower from the execution that it shares."""

    def rekeyed(self, state: JobState, before: Key, at: float) -> None:
        """Move a job that waits or follows: its key has changed from ``before``."""

    def in_order(self) -> Iterator[JobState]:
        """Yield the waiting jobs in dispatch order, without changing the queue."""

    def order_kept(self) -> Iterator[list[Entry]]:
        """Yield the jobs and keys as ``in_order`` would now, even if the queue changes afterwards.

        They come in portions, so that no step of the iterator takes more than about a
        millisecond (a portion may be empty).
        """


class PlainQueue:
    """A queue in policy order: a heap whose void entries are skipped when they surface.

    An entry is valid only while its job waits and has the very key with which it was pushed, so
    removing a job costs nothing; the heap is rebuilt when more than half of it is void.
    """

    __slots__ = ("_heap", "_kept", "_waiting")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        #: for each kept order: the old keys of jobs that have changed since; None: it did not wait
        self._kept: list[dict[JobState, Key | None]] = []
        #: the number of waiting jobs (the heap may hold more entries)
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, state: JobState, at: float) -> None:
        """Queue the job at the best place of those that its execution serves."""
        self._waiting += 1
        if self._kept:
            self._on_change(state, None)
        if state.followers:
            state.key = _best_key(state)
        heapq.heappush(self._heap, (state.key, state))

    def remove(self, state: JobState, at: float) -> None:
        """Remove a waiting job; to be called before its status changes."""
        self._waiting -= 1
        self._on_change(state, state.key)
        state.key = (*state.key,)  # the entry in the heap no longer has this very key
        self._limit_void_entries()

    def _limit_void_entries(self) -> None:
        if len(self._heap) > 64 and self._waiting * 2 < len(self._heap):
            self._heap = [entry for entry in self._heap if self._counts(entry)]
            heapq.heapify(self._heap)

    @staticmethod
    def _counts(entry: Entry) -> bool:
        key, state = entry
        return state.key is key and state.status is JobStatus.WAITING

    def choose(self, slot: Slot, at: float) -> JobState | None:
        """Return the first waiting job, for any slot."""
        heap = self._heap
        while heap:
            key, state = heap[0]
            if state.key is key and state.status is JobStatus.WAITING:
                return state
            heapq.heappop(heap)
        return None

    def place(self, state: JobState, at: float) -> Slot | None:
        """Return None: the balancer decides."""
        return None

    def dispatched(self, state: JobState, slot: Slot, at: float) -> None:
        """Remove the job if it waits here."""
        if state.status is JobStatus.WAITING:
            self._waiting -= 1
            if self._kept:
                self._on_change(state, state.key)
            if self._heap[0][1] is state:
                heapq.heappop(self._heap)

    def ended(self, state: JobState, slot: Slot, at: float, *, completed: bool) -> None:
        """Do nothing."""

    def slot_free(self, slot: Slot, at: float) -> None:
        """Do nothing."""

    def slot_unavailable(self, slot: Slot, at: float, *, gone: bool) -> None:
        """Do nothing."""

    def joined(self, follower: JobState, at: float) -> None:
        """Move a waiting leader up to the best place of those that it serves."""
        leader = follower.leader
        if leader is not None and leader.status is JobStatus.WAITING and follower.key < leader.key:
            self._on_change(leader, leader.key)
            leader.key = (*follower.key,)  # a new tuple, see _best_key
            heapq.heappush(self._heap, (leader.key, leader))

    def left(self, follower: JobState, at: float) -> None:
        """Do nothing: the leader keeps its place."""

    def rekeyed(self, state: JobState, before: Key, at: float) -> None:
        """Move a waiting job to its new place; a follower can only move its leader up."""
        if state.leader is not None:
            self.joined(state, at)
            return
        self._on_change(state, before)
        if state.followers:
            state.key = _best_key(state)
        heapq.heappush(self._heap, (state.key, state))
        self._limit_void_entries()

    def in_order(self) -> Iterator[JobState]:
        """Yield the waiting jobs in policy order: O(n log n), without changing the queue."""
        entries = filter(self._counts, self._entries())
        for _, state in sorted(entries, key=lambda entry: entry[0]):
            yield state

    def order_kept(self) -> Iterator[list[Entry]]:
        """Yield the jobs as ``in_order`` would now, even if the queue changes afterwards."""
        order = self._order_kept(list(self._entries()))
        next(order)  # from here on changes are recorded
        return order

    def _order_kept(self, entries: list[Entry]) -> Iterator[list[Entry]]:
        changed: dict[JobState, Key | None] = {}
        self._kept.append(changed)
        size = max(SORTED_AT_ONCE, len(entries) // PORTIONS)
        portions = []
        try:
            yield []
            for begin in range(0, len(entries), size):
                portion = _counted(entries[begin : begin + size], changed)
                portion.sort()
                portions.append(portion)
                yield []
        finally:
            self._kept = [one for one in self._kept if one is not changed]
        yield from merged_in_portions(portions, size)

    def _on_change(self, state: JobState, before: Key | None) -> None:
        for changed in self._kept:
            changed.setdefault(state, before)

    def _entries(self) -> Iterable[Entry]:
        """Return all entries, void ones too, in no particular order."""
        return self._heap

    def first(self, count: int) -> list[JobState]:
        """Return the first ``count`` waiting jobs in O(count log count), void entries aside."""
        entries = filter(self._counts, walk(self._heap))
        return [state for _, state in islice(entries, count)]


def _counted(entries: list[Entry], changed: Mapping[JobState, Key | None]) -> list[Entry]:
    """Return the entries that were valid before these changes."""
    waiting = JobStatus.WAITING
    return [
        entry
        for entry in entries
        if (
            changed[entry[1]] is entry[0]
            if entry[1] in changed
            else entry[1].key is entry[0] and entry[1].status is waiting
        )
    ]


def _best_key(state: JobState) -> tuple[Any, ...]:
    """Return the best key of a job and its followers, as a new tuple that voids older entries.

    Void entries are recognised by the identity of their key.
    """
    return (*min(state.key, *(follower.key for follower in state.followers)),)


def merged_in_portions(portions: list[list[Entry]], size: int) -> Iterator[list[Entry]]:
    """Merge sorted portions: yield their entries in order, in new portions of about ``size``.

    Each new portion has the entries between two marks, taken from a sample of all entries.
    """
    if len(portions) < 2:
        yield from portions
        return
    sample = sorted(chain.from_iterable(portion[::SAMPLED] for portion in portions))
    apart = max(1, size // SAMPLED)
    begins = [0] * len(portions)
    for mark in sample[apart::apart]:
        ends = [bisect_left(p, mark, begin) for p, begin in zip(portions, begins, strict=True)]
        yield _cut(portions, begins, ends)
        begins = ends
    yield _cut(portions, begins, [len(portion) for portion in portions])


def _cut(portions: list[list[Entry]], begins: list[int], ends: list[int]) -> list[Entry]:
    cuts = zip(portions, begins, ends, strict=True)
    return sorted(chain.from_iterable(portion[begin:end] for portion, begin, end in cuts))
