"""A simulated world that goes on from a farm's snapshot, live or simulated.

What a snapshot does not tell is taken so: a slot that is being cleaned needs the whole cleaning
time again, a builder that shuts down the whole shutdown time; under contention the work that is
left of an attempt is its remaining time at the builder's full speed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from farm.core import events
from farm.core.commands import CancelJob, StartJob
from farm.core.model import Builder, Job
from farm.core.pools.spec import PoolSpec
from farm.core.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.core.state import JobStatus, PoolCounts
from farm.sim.world import Arrivals, SimulatedWorld

EndOf = Callable[[JobRecord, Builder], float]
"""Says at which instant a running attempt will end on its builder."""


class ForkedWorld(SimulatedWorld):
    """The builders, attempts and boots of a snapshot, and what comes of them.

    ``pools`` should name every pool of the snapshot; builders of others live on as they are and
    are not replaced. ``arrivals`` come after the snapshot's instant.
    """

    def __init__(
        self,
        snapshot: FarmSnapshot,
        pools: Sequence[PoolSpec],
        arrivals: Arrivals,
        end_of: EndOf,
    ) -> None:
        opening = events.FarmOpened(snapshot.at, provisioned=False)
        super().__init__(pools_of(snapshot, pools), arrivals, opening=opening)
        self._builders_made = max((v.builder.index for v in snapshot.builders), default=0)
        self._booting: list[tuple[Builder, float]] = []
        jobs = (*snapshot.running, *snapshot.waiting)
        self._open_jobs = sum(not view.abandoned for view in jobs)
        attempts: dict[str, list[JobRecord]] = {}
        for view in snapshot.running:
            if view.builder is not None:
                attempts.setdefault(view.builder, []).append(view)
        for builder in snapshot.builders:
            self._resume(builder, attempts.get(builder.builder.id, []), end_of)
        for pool_view in snapshot.pools:
            for name, requested_at in pool_view.requested.items():
                self._go_on_booting(name, pool_view.name, requested_at)

    def _resume(self, view: BuilderRecord, attempts: Sequence[JobRecord], end_of: EndOf) -> None:
        builder, at = view.builder, self.now
        played = self._emulate(builder)
        running: list[tuple[StartJob, float]] = []
        for attempt in attempts:
            running.append((_order(attempt), max(at, end_of(attempt, builder))))
            if attempt.status is JobStatus.DISPATCHED:
                event = events.JobStarted(at, attempt.job.id, attempt.attempts, builder.id)
                self._at_once.append(event)
        played.resume(running, view.cleaning)
        for attempt in attempts:
            if attempt.status is JobStatus.CANCELLING:
                number = attempt.attempts
                played.cancel(CancelJob(attempt.job.id, number, builder.id, attempt.reason))
        if view.retired:
            played.retire()

    def _go_on_booting(self, name: str, pool_name: str, requested_at: float) -> None:
        pool = self._pools[pool_name]
        self._builders_made += 1
        number = re.search(r"([0-9]+)\Z", name)
        made = pool.builder(int(number[1]) if number else 1, self._builders_made)
        builder = msgspec.structs.replace(made, id=name)
        since = max(requested_at, self.now - pool.boot_time)
        self._emulate(builder).boot(since)
        self._booting.append((builder, since + pool.boot_time))

    def booting_builders(self) -> list[tuple[Builder, float]]:
        """Return the builders that boot at the snapshot, with the instants of their joining."""
        return self._booting


def _order(view: JobRecord) -> StartJob:
    return StartJob(view.job, view.attempts, view.builder or "", view.slot or 0)


def pools_of(snapshot: FarmSnapshot, pools: Sequence[PoolSpec]) -> list[PoolSpec]:
    """Return the pools, and one for each builder's pool that is not among them."""
    found = {pool.name: pool for pool in pools}
    for view in snapshot.builders:
        builder = view.builder
        if builder.pool not in found:
            found[builder.pool] = PoolSpec(
                name=builder.pool,
                processors=builder.processors,
                virtualized=builder.virtualized,
                slots=builder.slots,
                speed=builder.speed,
                provisioned=True,
            )
    for pool in snapshot.pools:
        found.setdefault(pool.name, PoolSpec(name=pool.name, provisioned=True))
    return list(found.values())


def resized(snapshot: FarmSnapshot, pools: Sequence[PoolSpec]) -> FarmSnapshot:
    """Return the snapshot with its fixed pools on the way to the size that the pools have now.

    Missing builders are requested at the snapshot's instant; superfluous ones drain and go, idle
    ones first, then those with the fewest jobs, the longest active first.
    """
    views = {view.builder.id: view for view in snapshot.builders}
    boots = {pool.name: dict(pool.requested) for pool in snapshot.pools}
    for pool in pools:
        if pool.provisioned:
            continue
        booting = boots.setdefault(pool.name, {})
        here = [view for view in views.values() if view.builder.pool == pool.name]
        staying = [view for view in here if not view.retiring]
        missing = pool.builders - len(here) - len(booting)
        for _ in range(missing):
            booting[_new_name(pool.name, [*views, *booting])] = snapshot.at
        # one that goes already is not replaced if the pool is to shrink
        missing += len(here) - len(staying) if missing < 0 else 0
        while missing < 0 and booting:
            booting.popitem()
            missing += 1
        staying.sort(key=lambda v: (v.busy, v.active_at, -v.builder.index))
        for view in staying[: max(0, -missing)]:
            views[view.builder.id] = msgspec.structs.replace(view, draining=True, retiring=True)
    known = {pool.name: pool for pool in snapshot.pools}
    return msgspec.structs.replace(
        snapshot,
        builders=tuple(views.values()),
        pools=tuple(
            msgspec.structs.replace(known[name], requested=names)
            if name in known
            else PoolCounts(name=name, requested=names)
            for name, names in boots.items()
        ),
    )


def _new_name(pool: str, taken: Sequence[str]) -> str:
    pattern = re.compile(re.escape(pool) + r"-([0-9]+)")
    numbers = [int(match[1]) for name in taken if (match := pattern.fullmatch(name))]
    return f"{pool}-{max(numbers, default=0) + 1}"


def no_truth(job: Job, service_time: float) -> Job:
    """Return the job as a rollout sees it: with a drawn service time, and not known to fail."""
    return msgspec.structs.replace(job, service_time=service_time, fails=False)
