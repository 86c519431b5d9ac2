"""What a farm that stays up keeps in Redis for the next scheduler, and what that makes of it.

Beside what anybody may read (jobs, attempts, builders) a successor needs the place of each job in
its queue, whom each builder host plays, and where the counting stood. All of it is written in the
same transaction as the decisions, so whenever a scheduler dies, what lies in Redis is one instant.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farm.core.model import Job
from farm.core.snapshot import BuilderView, FarmSnapshot, JobView, PoolView
from farm.live.wire.messages import Play


class Standing(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a scheduler knows of a live job beside the job itself; see ``JobState``."""

    serial: int
    key: tuple[Any, ...]
    submitted_at: float
    estimated_time: float
    path: tuple[str, ...] = ()
    #: attempts begun while it waits; a running job's number is in its Attempt
    attempts: int = 0
    leader: str | None = None
    abandoned: bool = False
    reason: str = ""
    failures: int = 0
    resets: int = 0
    losses: int = 0


class HostLife(msgspec.Struct, frozen=True, omit_defaults=True):
    """One life of a builder host, and whom it plays; see ``HostState``."""

    name: str
    life: str
    own: bool = False
    room: int = 0
    pool: str = ""
    leaving: bool = False
    plays: dict[str, Play] = {}
    joined: tuple[str, ...] = ()
    retiring: tuple[str, ...] = ()


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the counting stood."""

    #: builders ever made, in all and by pool: the next one's number follows
    made: int = 0
    made_by_pool: dict[str, int] = {}
    #: serial of the last job taken in
    serial: int = 0
    #: jobs ended so far, by outcome
    ended: dict[str, int] = {}


class Attempt(msgspec.Struct, frozen=True):
    """A job that is on a builder."""

    job: str
    attempt: int
    builder: str
    slot: int
    dispatched_at: float
    started_at: float | None = None
    cancelling: bool = False


class Try(msgspec.Struct, frozen=True):
    """An attempt that came to nothing: the job waited again after it."""

    attempt: int
    builder: str
    #: when that was known, farm time
    at: float
    reason: str


class SavedFarm(msgspec.Struct, frozen=True, kw_only=True):
    """A whole farm as it lies in Redis."""

    #: farm time of the last commit, and the speed
    at: float
    speed: float
    #: up to where the inbox was taken in
    cursor: str
    #: real seconds since that report came, by the server's clock
    age: float
    rules: str
    counts: Counts
    jobs: dict[str, Job]
    standings: dict[str, Standing]
    attempts: dict[str, Attempt]
    builders: dict[str, BuilderView]
    lives: dict[str, HostLife]
    #: requested builders that hosts of their own are to play
    requested: dict[str, Play]

    @property
    def now(self) -> float:
        """Farm time now: it ran on while nobody was in charge."""
        return self.at + self.age * self.speed

    @property
    def booting(self) -> dict[str, str]:
        """Builders that were asked for and are not there, with their pools."""
        plays = [play for life in self.lives.values() for play in life.plays.values()]
        plays.extend(self.requested.values())
        return {p.builder.id: p.builder.pool for p in plays if p.builder.id not in self.builders}


def snapshot_of_saved(saved: SavedFarm) -> FarmSnapshot:
    """Return the farm as ``farm.core.restore`` wants it.

    A job whose execution belonged to a job that is gone waits anew.
    """
    views = [_job_view(saved, name, job) for name, job in saved.jobs.items()]
    views.sort(key=lambda view: view.serial)
    running = [view for view in views if view.builder is not None]
    return FarmSnapshot(
        at=saved.at,
        waiting=tuple(view for view in views if view.builder is None),
        running=tuple(sorted(running, key=lambda view: view.dispatched_at or 0.0)),
        builders=_by_joining(saved),
        pools=_pools(saved),
        serial=max([saved.counts.serial, *(view.serial for view in views)]),
        made=saved.counts.made,
    )


def _job_view(saved: SavedFarm, name: str, job: Job) -> JobView:
    standing = saved.standings[name]
    attempt = saved.attempts.get(name)
    leader = standing.leader if standing.leader in saved.jobs else None
    if attempt is not None and attempt.builder not in saved.builders:
        attempt = None
    told = msgspec.structs.asdict(standing) | {"leader": leader}
    view = JobView(job=job, status="waiting", **told)
    if attempt is None:
        return view
    status = "running" if attempt.started_at is not None else "dispatched"
    return msgspec.structs.replace(
        view,
        status="cancelling" if attempt.cancelling else status,
        attempts=attempt.attempt,
        builder=attempt.builder,
        slot=attempt.slot,
        dispatched_at=attempt.dispatched_at,
        started_at=attempt.started_at,
    )


def _by_joining(saved: SavedFarm) -> tuple[BuilderView, ...]:
    views = saved.builders.values()
    return tuple(sorted(views, key=lambda view: (view.joined_at, view.builder.index)))


def _pools(saved: SavedFarm) -> tuple[PoolView, ...]:
    made = saved.counts.made_by_pool
    requested: dict[str, dict[str, float]] = {name: {} for name in made}
    for builder, pool in saved.booting.items():
        requested.setdefault(pool, {})[builder] = saved.at
    return tuple(
        PoolView(name=name, made=made.get(name, 0), requested=asked)
        for name, asked in requested.items()
    )
