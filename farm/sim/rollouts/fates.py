"""The fates of builders in a rollout: how long they boot and live, and whether they work at all.

A farm draws each builder's fate by its number, and a rollout of that farm must not know it. So in
each rollout the builders have the fates of others, with numbers that no farm reaches. A builder
that is there has lived so long already, one that boots has not come yet: it has the fate of one of
which that is true as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from farm.core.model import Builder
from farm.core.pools.spec import PoolSpec
from farm.core.state.snapshot import BuilderRecord, FarmSnapshot
from farm.core.state.working_state import PoolCounts

T = TypeVar("T")

#: between the numbers of the builders of two rollouts
APART = 10_000_000
#: fates that are looked at for one that agrees with what is known
MAX_TRIES = 1_000
#: between the numbers of two fates that are looked at for one builder: more than the builders of a
#: pool as a rule, so that what one is given is not what another has
STRIDE = 1_000


def are_drawn(specs: Iterable[PoolSpec]) -> bool:
    """Return whether builders of these pools have fates that are not known before."""
    drawn = ((spec.boot_delay, spec.fails_to_boot, spec.lifetime) for spec in specs)
    return any(fate is not None for of_pool in drawn for fate in of_pool)


def specs_of(specs: Sequence[PoolSpec], number: int) -> list[PoolSpec]:
    """Return the pools of a rollout: later builders have fates of their own."""
    first = (number + 1) * APART
    return [
        msgspec.structs.replace(
            spec,
            boot_delay=_shifted(spec.boot_delay, first),
            fails_to_boot=_shifted(spec.fails_to_boot, first),
            lifetime=_shifted(spec.lifetime, first),
        )
        for spec in specs
    ]


def _shifted(draw: Callable[[int], T] | None, by: int) -> Callable[[int], T] | None:
    return None if draw is None else partial(_at, draw, by)


def _at(draw: Callable[[int], T], by: int, number: int) -> T:
    return draw(number + by)


def snapshot_of_rollout(snapshot: FarmSnapshot, specs: Sequence[PoolSpec]) -> FarmSnapshot:
    """Return the farm with other fates of its builders; ``specs``: the rollout's own pools."""
    by_name = {spec.name: spec for spec in specs}
    longest: dict[str, float] = {}
    return msgspec.structs.replace(
        snapshot,
        builders=tuple(_present(record, by_name, snapshot.at) for record in snapshot.builders),
        pools=tuple(_booting(record, by_name, snapshot.at, longest) for record in snapshot.pools),
    )


def _present(record: BuilderRecord, specs: Mapping[str, PoolSpec], at: float) -> BuilderRecord:
    """Return a builder that will live as long from now on as another one does from its beginning.

    Losses have a constant rate, so a builder's age says nothing of the rest of its life: one that
    has become as old need not be looked for, and under a new rate there may be none.
    """
    builder = record.builder
    spec = specs.get(builder.pool)
    if spec is None or spec.lifetime is None or builder.lifetime is None:
        return record
    lifetime = at - record.joined_at + spec.lifetime(builder.index)
    return msgspec.structs.replace(
        record, builder=msgspec.structs.replace(builder, lifetime=lifetime)
    )


def _booting(
    record: PoolCounts, specs: Mapping[str, PoolSpec], at: float, longest: dict[str, float]
) -> PoolCounts:
    """Return a pool whose booting builders come when others come, which boot as long.

    ``longest``: by pool, the longest delay that was found where none is long enough, which need
    not be looked for again: a boot may be overdue, and then all of its pool are.
    """
    spec = specs.get(record.name)
    if spec is None or not are_drawn([spec]):
        return record
    requested = {}
    for name, request in record.requested.items():
        builder = request.builder
        number = spec.number_of(builder.id)
        if number is not None:
            other = spec.builder(number, builder.index)
            delay = other.boot_delay
            if spec.boot_delay is not None:
                waited = at - request.at - spec.boot_time
                if waited >= longest.get(spec.name, float("inf")):
                    delay = longest[spec.name]
                else:
                    delay = _longer_than(waited, spec.boot_delay, builder)
                    if delay <= waited:
                        longest[spec.name] = delay
            builder = msgspec.structs.replace(
                builder,
                boot_delay=delay,
                lifetime=other.lifetime,
                takes_jobs=other.takes_jobs,
            )
        requested[name] = msgspec.structs.replace(request, builder=builder)
    return msgspec.structs.replace(record, requested=requested)


def _longer_than(least: float, draw: Callable[[int], float], builder: Builder) -> float:
    """Return a draw that is longer than what is known; the longest one if none is."""
    longest = 0.0
    for tries in range(MAX_TRIES):
        found = draw(builder.index + STRIDE * tries)
        if found > least:
            return found
        longest = max(longest, found)
    return longest
