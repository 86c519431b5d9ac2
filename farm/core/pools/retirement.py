"""Which builders to stop when a pool shrinks: idle ones first, then those with fewest jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sized

from farm.core.pools.spec import PoolSpec
from farm.core.state.working_state import BuilderLife, BuilderState


def surplus_of(spec: PoolSpec, builders: Iterable[BuilderLife], requested: Sized) -> int:
    """Return how many builders a fixed pool has too many; negative: too few.

    Those that have been asked to leave do not count: they are not stopped twice. (What
    ``PoolKeeper.replace`` requests counts them, as a successor waits until they have left.)
    """
    there = sum(b.builder.pool == spec.name and not b.retiring for b in builders)
    return there + len(requested) - spec.builders


def builders_to_stop(builders: Iterable[BuilderState], pool: str, count: int) -> list[BuilderState]:
    """Return ``count`` builders of the pool that take jobs, in the order to stop them.

    Fewest busy slots first; then the one active longest ago; then the youngest.
    """
    candidates = [b for b in builders if b.builder.pool == pool and b.accepts]
    candidates.sort(key=lambda b: (b.busy, b.active_at, -b.builder.index))
    return candidates[:count]


def pattern_of(builder: str) -> str:
    """Return the pattern (of ``DrainRequested``) that matches only this builder."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in builder)
