"""An algorithm with late or wrong observations of the queue and of the busy builders."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from operator import attrgetter

import msgspec

from farm.core.pools.algorithm import (
    AnyAlgorithm,
    InForce,
    Memory,
    PoolSnapshot,
    ScalingPlan,
    in_force,
    restore_memory,
    save_memory,
)


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """What could be observed at an instant."""

    at: float
    waiting_jobs: int
    running_jobs: int
    cleaning_slots: int
    waiting_work: float
    oldest_wait_time: float
    next_slot_time: float | None
    #: of the builders that take jobs
    busy_share: float


class PastFigures(Memory, frozen=True):
    """What was seen since the delay began, and what the algorithm itself remembers."""

    seen: tuple[Seen, ...] = ()
    inner: str = ""


class WithFaultyObservations:
    """Passes on an algorithm's plans for what was so ``delay`` seconds ago.

    At a share ``wrong`` of its looks the source answers that nothing waits and nothing runs.
    Builders themselves are counted right: it has started them. Which looks are wrong is a hash
    of ``seed`` and the instant, so that a run can be repeated.
    """

    before_time_outs = False

    def __init__(self, algorithm: AnyAlgorithm, delay: float, wrong: float, seed: str) -> None:
        self._algorithm, self._delay, self._wrong, self._seed = algorithm, delay, wrong, seed
        self.name = getattr(algorithm, "name", type(algorithm).__name__)
        self.min, self.max, self.interval = algorithm.min, algorithm.max, algorithm.interval
        self.first_plan = algorithm.first_plan
        self.looks_closely = algorithm.looks_closely

    def in_force(self, snapshot: PoolSnapshot) -> InForce:
        """Return which limits hold now."""
        return in_force(self._algorithm, snapshot)

    def start(self) -> PastFigures:
        """Return the memory to begin with."""
        return PastFigures(inner=save_memory(self._algorithm.start()).decode())

    def plan(self, snapshot: PoolSnapshot, memory: PastFigures) -> tuple[ScalingPlan, PastFigures]:
        """Plan for the wrong figures."""
        seen = (*memory.seen, _seen(snapshot))
        newest = bisect_right(seen, snapshot.at - self._delay, key=lambda one: one.at) - 1
        seen = seen[max(0, newest) :]
        before = restore_memory(self._algorithm, memory.inner.encode())
        plan, after = self._algorithm.plan(self._as_seen(snapshot, seen[0]), before)
        return plan, PastFigures(seen, save_memory(after).decode())

    def stays_until(self, snapshot: PoolSnapshot, _: PastFigures) -> float:
        """Return that any plan may differ: what happened is still on its way."""
        return snapshot.at

    def _as_seen(self, snapshot: PoolSnapshot, old: Seen) -> PoolSnapshot:
        digest = hashlib.blake2b(f"{self._seed} {snapshot.at!r}".encode(), digest_size=8).digest()
        if int.from_bytes(digest) < self._wrong * 2**64:
            old = Seen(old.at, 0, 0, 0, 0.0, 0.0, 0.0 if snapshot.joined else None, 0.0)
        busy = round(old.busy_share * snapshot.joined)
        return msgspec.structs.replace(
            snapshot,
            waiting_jobs=old.waiting_jobs,
            waiting_work=old.waiting_work,
            oldest_wait_time=old.oldest_wait_time,
            next_slot_time=old.next_slot_time,
            running_jobs=min(old.running_jobs, busy * snapshot.slots),
            cleaning_slots=min(old.cleaning_slots, busy * snapshot.slots),
            busy=busy,
            idle=snapshot.joined - busy,
        )


def _seen(snapshot: PoolSnapshot) -> Seen:
    share = snapshot.busy / snapshot.joined if snapshot.joined else 0.0
    *same, _ = Seen.__struct_fields__
    return Seen(*(*attrgetter(*same)(snapshot), share))
