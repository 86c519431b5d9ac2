"""The jobs waiting for one platform, in the order in which they will be dispatched."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

from farm.core.policies import Key
from farm.core.queues.heap import walk
from farm.core.state.working_state import JobState, Slot

Keyed = tuple[Key, JobState]
"""A job and its sort key at some instant."""

#: of a plain queue: key, job, number
Entry = tuple[Key, JobState, int]
#: entries that a kept order sorts in one step: about a millisecond
SORTED_AT_ONCE = 1000
#: the maximum number of portions, because merging them costs their square
PORTIONS = 100
#: one in this many entries is sampled, to find where portions begin
SAMPLED = 50


class PlatformQueue:
    """The interface of a platform queue, implemented by ``PlainQueue`` and ``FairShareQueue``.

    A fair-share queue is also notified of the slots that may serve it, because it remembers what
    each of them ran last; others need not be. ``at`` is the time of the event being handled.
    """

    __slots__ = ()

    def __len__(self) -> int:
        """Count the waiting jobs."""
        raise NotImplementedError

    def add(self, state: JobState, at: float) -> None:
        """Queue the job (at its old place, if requeued)."""
        raise NotImplementedError

    def remove(self, state: JobState, at: float) -> None:
        """Remove a waiting job (cancelled, or about to get another key)."""
        raise NotImplementedError

    def choose(self, slot: Slot, at: float) -> JobState | None:
        """Return the job that this free slot would get next; nothing changes."""
        raise NotImplementedError

    def place(self, state: JobState, at: float) -> Slot | None:
        """Return the free slot that a job prefers; None: the balancer decides."""
        return None

    def dispatched(self, state: JobState, slot: Slot, at: float) -> None:
        """Assign a job (waiting or arriving) to the slot."""
        raise NotImplementedError

    def ended(self, state: JobState, slot: Slot, at: float, *, completed: bool) -> None:
        """End the attempt; ``completed`` is False if it was lost or cancelled."""

    def slot_free(self, slot: Slot, at: float) -> None:
        """Add a slot that waits for a job."""

    def slot_unavailable(self, slot: Slot, at: float, *, gone: bool) -> None:
        """Withdraw a slot that waited for a job (draining, cleaning); ``gone``: for good."""

    def joined(self, follower: JobState, at: float) -> None:
        """Add a follower to the execution of its leader."""
        raise NotImplementedError

    def left(self, follower: JobState, at: float) -> None:
        """Detach a follower from the execution that it shares; by default its leader stays."""

    def rekeyed(self, state: JobState, before: Key, at: float) -> None:
        """Move a job that waits or follows: its key has changed from ``before``."""
        raise NotImplementedError

    def in_order(self) -> Iterator[JobState]:
        """Yield the waiting jobs in dispatch order, without changing the queue."""
        raise NotImplementedError

    def first(self, count: int) -> list[JobState]:
        """Return the first ``count`` waiting jobs in dispatch order."""
        return list(islice(self.in_order(), count))

    def order_kept(self) -> Iterator[list[Keyed]]:
        """Yield the jobs and keys as ``in_order`` would now, even if the queue changes afterwards.

        They come in portions, so that no step of the iterator takes more than about a
        millisecond (a portion may be empty).
        """
        raise NotImplementedError


class PlainQueue(PlatformQueue):
    """A queue in policy order: a heap whose void entries are skipped when they surface.

    A job's entries are numbered, and only the one that it names (``JobState.entry``) counts, so
    removing a job costs nothing; the heap is rebuilt when more than half of it is void.
    """

    __slots__ = ("_heap", "_kept", "_waiting")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        #: for each kept order: what the entries were of jobs that have changed since
        self._kept: list[dict[JobState, int]] = []
        #: the number of waiting jobs (the heap may hold more entries)
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, state: JobState, at: float) -> None:
        """Queue the job at the best place of those that its execution serves."""
        self._waiting += 1
        if state.followers:
            state.key = _best_key(state)
        if self._kept:
            self._note_entry(state)
        state.entry = number = abs(state.entry) + 1
        heapq.heappush(self._heap, (state.key, state, number))

    def remove(self, state: JobState, at: float) -> None:
        """Remove a waiting job."""
        self._waiting -= 1
        self._void(state)
        self._limit_void_entries()

    def _move(self, state: JobState) -> None:
        """Give a waiting job another entry, which voids the one that it has."""
        self._waiting -= 1
        self.add(state, 0.0)

    def _void(self, state: JobState) -> None:
        if self._kept:
            self._note_entry(state)
        state.entry = -state.entry

    def _note_entry(self, state: JobState) -> None:
        for changed in self._kept:
            changed.setdefault(state, state.entry)

    def _limit_void_entries(self) -> None:
        if len(self._heap) > 64 and self._waiting * 2 < len(self._heap):
            self._heap = [entry for entry in self._heap if self._counts(entry)]
            heapq.heapify(self._heap)

    @staticmethod
    def _counts(entry: Entry) -> bool:
        return entry[1].entry == entry[2]

    def choose(self, slot: Slot, at: float) -> JobState | None:
        """Return the first waiting job, for any slot."""
        heap = self._heap
        while heap:
            _, state, number = heap[0]
            if state.entry == number:
                return state
            heapq.heappop(heap)
        return None

    def dispatched(self, state: JobState, slot: Slot, at: float) -> None:
        """Remove the job if it waits here."""
        if state.entry > 0:
            self._waiting -= 1
            if self._kept:
                self._note_entry(state)
            state.entry = -state.entry
            if self._heap[0][1] is state:
                heapq.heappop(self._heap)

    def joined(self, follower: JobState, at: float) -> None:
        """Move a waiting leader up to the best place of those that it serves."""
        leader = follower.leader
        if leader is not None and leader.entry > 0 and follower.key < leader.key:
            leader.key = follower.key
            self._move(leader)

    def rekeyed(self, state: JobState, before: Key, at: float) -> None:
        """Move a waiting job to its new place; a follower can only move its leader up."""
        if state.leader is not None:
            self.joined(state, at)
            return
        self._move(state)
        self._limit_void_entries()

    def in_order(self) -> Iterator[JobState]:
        """Yield the waiting jobs in policy order: O(n log n), without changing the queue."""
        for _, state, _ in sorted(filter(self._counts, self._entries())):
            yield state

    def order_kept(self) -> Iterator[list[Keyed]]:
        """Yield the jobs as ``in_order`` would now, even if the queue changes afterwards."""
        order = self._order_kept(list(self._entries()))
        next(order)  # from here on changes are recorded
        return order

    def _order_kept(self, entries: list[Entry]) -> Iterator[list[Keyed]]:
        changed: dict[JobState, int] = {}
        self._kept.append(changed)
        size = max(SORTED_AT_ONCE, len(entries) // PORTIONS)
        portions = []
        try:
            yield []
            for begin in range(0, len(entries), size):
                portions.append(sorted(_counted(entries[begin : begin + size], changed)))
                yield []
        finally:
            self._kept = [one for one in self._kept if one is not changed]
        yield from merged_in_portions(portions, size)

    def _entries(self) -> Iterable[Entry]:
        """Return all entries, void ones too, in no particular order."""
        return self._heap

    def first(self, count: int) -> list[JobState]:
        """Return the first ``count`` waiting jobs in O(count log count), void entries aside."""
        entries = filter(self._counts, walk(self._heap))
        return [state for _, state, _ in islice(entries, count)]


class LookAheadQueue(PlainQueue):
    """A heap with a short sorted front: reading ``k`` jobs costs O(k), not O(k log n).

    Jobs that are held back stay in the front; one that leaves from the middle of it is dropped at
    the next reading, so that void entries do not accumulate.
    """

    __slots__ = ("_front",)

    def __init__(self) -> None:
        super().__init__()
        #: the first entries in order; after ``first``, none in the heap is smaller
        self._front: list[Entry] = []

    def first(self, count: int) -> list[JobState]:
        """Return the first ``count`` waiting jobs."""
        heap = self._heap
        front = self._front = [entry for entry in self._front if self._counts(entry)]
        while heap and (len(front) < count or heap[0][0] < front[-1][0]):
            entry = heapq.heappop(heap)
            if self._counts(entry):
                insort(front, entry)
        return [state for _, state, _ in front[:count]]

    def choose(self, slot: Slot, at: float) -> JobState | None:
        """Return the first waiting job, for any slot."""
        found = self.first(1)
        return found[0] if found else None

    def dispatched(self, state: JobState, slot: Slot, at: float) -> None:
        """Remove the job if it waits here, at whatever place."""
        if state.entry > 0:
            self._waiting -= 1
            self._void(state)

    def _entries(self) -> Iterable[Entry]:
        """Return all entries, void ones too, in no particular order."""
        return chain(self._front, self._heap)


def _counted(entries: list[Entry], changed: Mapping[JobState, int]) -> list[Keyed]:
    """Return the jobs and keys of the entries that counted before these changes."""
    return [
        (key, state) for key, state, number in entries if changed.get(state, state.entry) == number
    ]


def _best_key(state: JobState) -> Key:
    """Return the best key of a job and its followers."""
    return min(state.key, *(follower.key for follower in state.followers))


def merged_in_portions(portions: list[list[Keyed]], size: int) -> Iterator[list[Keyed]]:
    """Merge sorted portions: yield their jobs in order, in new portions of about ``size``.

    Each new portion has the jobs between two marks, taken from a sample of all of them.
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


def _cut(portions: list[list[Keyed]], begins: list[int], ends: list[int]) -> list[Keyed]:
    cuts = zip(portions, begins, ends, strict=True)
    return sorted(chain.from_iterable(portion[begin:end] for portion, begin, end in cuts))
