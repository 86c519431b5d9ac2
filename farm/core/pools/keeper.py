"""Keeps pools at their size: which builders are requested, with which name and number.

*How many builders of a pool boot at once* is limited in several places. What is beyond a limit is
not queued: the next plan or look asks for it again.

===============================  ====================================  ============================
limit                            applied by                            beyond it
===============================  ====================================  ============================
the pool's maximum, in which     ``plan_for_size`` of its algorithm,   not requested; the next
draining builders count, too     again ``PoolKeeper.grow``             plan asks again
``MAX_STARTS`` for each plan     ``PoolKeeper.grow``                   the same
an algorithm's own pace, as in   the algorithm                         the same
gitlab's ``max_booting``
one at a time while boots fail,  the provisioner of a live farm,       the same; no container is
after a pause that doubles       ``boots_allowed``                     started until then
``LAUNCHES_AT_ONCE`` containers  the provisioner of a live farm,       stays requested, and starts
that an Engine is starting       ``Launches``                          at a later look
===============================  ====================================  ============================

A fixed pool requests all that it misses at once, and has no other limit than the last two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized

import msgspec

from farm.core.commands import Out, RequestBuilder
from farm.core.events import PoolPlanned, PoolSize
from farm.core.model import Builder
from farm.core.pools.spec import MAX_STARTS, PoolSpec
from farm.core.state.working_state import BuilderLife, BuilderRequest, BuilderState, PoolCounts


class PoolKeeper:
    """Keeps the pools and their counts, and numbers builders.

    A fixed pool is kept at its size: a builder that leaves it is replaced. A provisioned pool
    starts with its minimum; from then on its provisioner plans its size.
    """

    def __init__(
        self, specs: Iterable[PoolSpec], builders: Mapping[str, BuilderState], out: Out
    ) -> None:
        self._out = out
        self.specs = {spec.name: spec for spec in specs}
        self._as_given = dict(self.specs)
        #: all pools seen so far
        self.pools: dict[str, PoolCounts] = {}
        #: builders numbered so far: the next one's index follows
        self.made = 0
        #: builders whose requests were taken back while they booted; no command stops a boot, so
        #: such a builder is let go when it joins
        self.taken_back: set[str] = set()
        self._builders = builders

    def counts(self, name: str) -> PoolCounts:
        """Return the counts of a pool, created on first use."""
        found = self.pools.get(name)
        if found is None:
            found = self.pools[name] = PoolCounts(name)
        return found

    def kills_busy(self, name: str) -> bool:
        """Return whether stopped builders of the pool that are busy are lost, not drained."""
        return name in self.specs and self.specs[name].kills

    def numbered(self, builder: Builder) -> Builder:
        """Return a joining builder with an index; one that was not requested gets the next."""
        if builder.index < 0:
            builder = msgspec.structs.replace(builder, index=self.made + 1)
        self.made = max(self.made, builder.index)
        return builder

    def resize(self, sizes: Mapping[str, PoolSize]) -> None:
        """Let pools have these sizes from now on, and all others the size that they were given."""
        for name, spec in self._as_given.items():
            self.specs[name] = _sized(spec, sizes.get(name, _AS_GIVEN))

    def open(self, at: float, *, provisioned: bool) -> None:
        """Request the missing builders of fixed pools, and of provisioned pools' minimum."""
        for spec in self.specs.values():
            if provisioned or not spec.provisioned:
                self._request(spec, self._missing(spec), at)

    def grow(self, plan: PoolPlanned) -> None:
        """Request the builders of a plan: as many as the pool may have, and start together.

        Does nothing for a pool without a specification.
        """
        if (spec := self.specs.get(plan.pool)) is not None:
            most = spec.max if spec.provisioned else spec.builders
            room = MAX_STARTS if most is None else most - self._size(spec)
            start = min(plan.start, room, MAX_STARTS)
            self._request(spec, start, plan.at, outside=plan.outside)

    def shrink(self) -> dict[str, int]:
        """Take back the surplus requests of fixed pools, the last ones first.

        Returns, by pool, how many builders must be stopped beside those. A builder that boots on
        nevertheless leaves as soon as it has joined.
        """
        left = {}
        for name, spec in self.specs.items():
            requested = self.counts(name).requested
            surplus = surplus_of(spec, self._builders.values(), requested)
            if surplus > 0 and not spec.provisioned:
                booting = list(requested)[-surplus:]
                for builder in booting:
                    del requested[builder]
                self.taken_back.update(booting)
                left[name] = surplus - len(booting)
        return left

    def replace(self, pool: PoolCounts, at: float, returning: Builder | None = None) -> None:
        """Request the replacement of a builder that left, if its pool is fixed.

        ``returning``: the builder, if its machine comes back; the same one is requested then.
        """
        spec = self.specs.get(pool.name)
        if spec is None or spec.provisioned or self._missing(spec) <= 0:
            return
        number = None if returning is None else spec.number_of(returning.id)
        if returning is None or number is None:
            self._request(spec, 1, at)
            return
        # its properties are those that the pool has now
        again = spec.builder(number, returning.index)
        self._ask_for(again, at, outside=False)

    def _request(self, spec: PoolSpec, count: int, at: float, *, outside: bool = False) -> None:
        for _ in range(count):
            self._ask_for(self._next(spec), at, outside=outside)

    def _ask_for(self, builder: Builder, at: float, *, outside: bool) -> None:
        self.counts(builder.pool).requested[builder.id] = BuilderRequest(builder, at)
        self._out.append(RequestBuilder(builder, outside))

    def may_make(self, spec: PoolSpec) -> bool:
        """Return whether a pool may still get builders, provisioned or as replacements."""
        return spec.provisioned or spec.loses or self.counts(spec.name).stopping > 0

    def _missing(self, spec: PoolSpec) -> int:
        return spec.builders - self._size(spec)

    def _size(self, spec: PoolSpec) -> int:
        """Return how many builders the pool has, in any state."""
        pool = self.counts(spec.name)
        return pool.builders + len(pool.requested)

    def _next(self, spec: PoolSpec) -> Builder:
        """Return the pool's next builder, skipping ids that are in use."""
        pool = self.counts(spec.name)
        self.made += 1
        while True:
            pool.made += 1
            builder = spec.builder(pool.made, self.made)
            if builder.id not in self._builders and builder.id not in pool.requested:
                return builder


_AS_GIVEN = PoolSize()


def _sized(spec: PoolSpec, size: PoolSize) -> PoolSpec:
    """Return the specification with this size; a provisioned pool's initial one is its minimum."""
    least, most = (size.min, size.max) if spec.provisioned else (size.builders, None)
    return msgspec.structs.replace(
        spec,
        builders=spec.builders if least is None else least,
        max=spec.max if most is None else most,
    )


def surplus_of(spec: PoolSpec, builders: Iterable[BuilderLife], requested: Sized) -> int:
    """Return how many builders a fixed pool has too many; negative: too few.

    Those that have been asked to leave do not count: they are not stopped twice. (What
    ``PoolKeeper.replace`` requests counts them, as a successor waits until they have left.)
    """
    there = sum(b.builder.pool == spec.name and not b.retiring for b in builders)
    return there + len(requested) - spec.builders
