"""The jobs waiting for one platform, in the order in which they will be dispatched."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Protocol

from farm.core.queues.heap import walk
from farm.core.state import JobState, JobStatus, Slot

Key = tuple[Any, ...]
#: a sort key, as it was when the job was put here, and the job
Entry = tuple[Key, JobState]
#: entries that a kept order sorts in one step: about a millisecond …
SORTED_AT_ONCE = 1000
#: … but no more portions than these, for putting them together costs their square
PORTIONS = 100
#: of this many entries one is looked at, to find where a portion begins
SAMPLED = 50


class PlatformQueue(Protocol):
    """What the scheduler asks of a queue; ``PlainQueue`` and ``FairShareQueue`` answer.

    A fair-share queue also watches the slots that may serve it, because it remembers what each of
    them ran last. ``at`` is the time of the event being handled.
    """

    def __len__(self) -> int:
        """Count the waiting jobs."""

    def add(self, state: JobState, at: float) -> None:
        """Let the job wait (again: at its old place)."""

    def remove(self, state: JobState, at: float) -> None:
        """Take a waiting job out without running it (cancelled, or about to be re-keyed)."""

    def choose(self, slot: Slot, at: float) -> JobState | None:
        """Say which job this free slot would get next, changing nothing."""

    def place(self, state: JobState, at: float) -> Slot | None:
        """Say which free slot a job prefers; None leaves it to the balancer."""

    def dispatched(self, state: JobState, slot: Slot, at: float) -> None:
        """The job (waiting here, or arriving now) goes to the slot."""

    def ended(self, state: JobState, slot: Slot, at: float, *, completed: bool) -> None:
        """The attempt is over; ``completed`` is False when it was lost or cancelled."""

    def slot_free(self, slot: Slot, at: float) -> None:
        """The slot can take a job and waits for one."""

    def slot_unavailable(self, slot: Slot, at: float, *, gone: bool) -> None:
        """The slot no longer waits for a job (draining, cleaning); ``gone``: for good."""

    def joined(self, follower: JobState, at: float) -> None:
        """A job with the same action as ``follower.leader`` shares its execution from now on."""

    def left(self, follower: JobState, at: float) -> None:
        """A follower no longer wants the execution that it shares."""

    def rekeyed(self, state: JobState, before: Key, at: float) -> None:
        """A waiting job, or one that shares its execution, was given another key (``before``)."""

    def in_order(self) -> Iterator[JobState]:
        """Yield the waiting jobs in dispatch order, without disturbing the queue."""

    def order_kept(self) -> Iterator[list[Entry]]:
        """Yield the jobs, with their keys, as ``in_order`` would now, however the queue changes.

        They come in portions, for a long look in small steps: none of the iterator's
        takes more than about a millisecond (an empty portion: nothing to show yet).
        """


class PlainQueue:
    """One queue in policy order: a heap whose void entries are skipped when they surface.

    An entry counts only while its job waits and still has the very key that it was pushed with,
    so taking a job out costs nothing; the heap is rebuilt when more than half of it is void.
    """

    __slots__ = ("_heap", "_kept", "_waiting")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        #: of each order that is being kept: which key a job had that has changed since, None: it
        #: did not wait
        self._kept: list[dict[JobState, Key | None]] = []
        #: how many jobs wait (the heap may hold more entries than that)
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, state: JobState, at: float) -> None:
        """Let the job wait, at the best place of those that its execution serves."""
        self._waiting += 1
        if self._kept:
            self._on_change(state, None)
        if state.followers:
            state.key = _best_key(state)
        heapq.heappush(self._heap, (state.key, state))

    def remove(self, state: JobState, at: float) -> None:
        """Take a waiting job out; call it while its status still says that it waits."""
        self._waiting -= 1
        self._on_change(state, state.key)
        state.key = (*state.key,)  # the entry in the heap no longer carries this very key
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
        """Leave the choice to the balancer."""
        return None

    def dispatched(self, state: JobState, slot: Slot, at: float) -> None:
        """Take the job off the queue if it waits here."""
        if state.status is JobStatus.WAITING:
            self._waiting -= 1
            if self._kept:
                self._on_change(state, state.key)
            if self._heap[0][1] is state:
                heapq.heappop(self._heap)

    def ended(self, state: JobState, slot: Slot, at: float, *, completed: bool) -> None:
        """Nothing to remember."""

    def slot_free(self, slot: Slot, at: float) -> None:
        """Nothing to remember."""

    def slot_unavailable(self, slot: Slot, at: float, *, gone: bool) -> None:
        """Nothing to remember."""

    def joined(self, follower: JobState, at: float) -> None:
        """Let a waiting leader move up to the best place of those that it serves."""
        leader = follower.leader
        if leader is not None and leader.status is JobStatus.WAITING and follower.key < leader.key:
            self._on_change(leader, leader.key)
            leader.key = (*follower.key,)  # of its own, see _best_key
            heapq.heappush(self._heap, (leader.key, leader))

    def left(self, follower: JobState, at: float) -> None:
        """Leave the leader where it is: it was promised that place."""

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
        """Yield the waiting jobs in policy order: O(n log n), the queue is not touched."""
        entries = filter(self._counts, self._entries())
        for _, state in sorted(entries, key=lambda entry: entry[0]):
            yield state

    def order_kept(self) -> Iterator[list[Entry]]:
        """Yield the jobs as ``in_order`` would now, however the queue changes afterwards."""
        order = self._order_kept(list(self._entries()))
        next(order)  # from here on we are notified of changes
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
    """Return those of the entries that counted before these changes."""
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
    """Return the best key of a job and its followers: a new tuple, so that no older entry counts.

    Entries are told from void ones by the identity of their key.
    """
    return (*min(state.key, *(follower.key for follower in state.followers)),)


def merged_in_portions(portions: list[list[Entry]], size: int) -> Iterator[list[Entry]]:
    """Yield the entries of sorted portions in order, in new portions of about ``size``.

    Each is sorted by itself: the entries between two marks, which a sample of all entries gives.
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
