"""Keeps one pool at the size planned by its algorithm: a pure function of its observations.

Three sets are kept apart, as values, and never guessed from one another:

* the *plan*: how many builders the algorithm wants (``Keeping.desired``);
* *requested*: the builders that were requested from the scheduler and have not joined;
* *observed*: the builders that have joined, and the instances (containers) that exist.

``decide`` compares plan and pool and says how many to start or stop; ``reconcile`` compares
requested and observed and says which instances to start and which to remove. Both return a new
``Keeping``, which is all there is to save: a provisioner that starts again continues from it
and adopts what exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

import msgspec

from farm.core.pools.algorithm import (
    AnyAlgorithm,
    InForce,
    in_force,
    next_multiple,
    restore_memory,
    save_memory,
    within,
)
from farm.live.wire.messages import GiveUpBuilder, Plan
from farm.live.wire.pool_report import PoolReport


class ReconcilerTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Time-outs and pauses, in real seconds."""

    #: a builder that has not joined this long after its boot time is given up; it is counted from
    #: the start of its instance, or if the backend has none from the request
    boot_timeout: float = 120.0
    #: pause after the first failed boot; it doubles with every further one in a row …
    first_pause: float = 2.0
    #: … up to this
    longest_pause: float = 300.0
    #: an instance of no known builder is removed after this time
    orphan_time: float = 5.0


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of one builder, started by a backend (a container)."""

    #: the backend's own handle
    name: str
    builder: str
    pool: str
    running: bool = True
    #: it has ended as one that is stopped in order does: its builder's loss counts against no job
    #: (``farm.core.jobs.requeueing``)
    excused: bool = False
    #: its state, as text
    detail: str = ""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a decision."""

    least: int = 0
    most: int | None = None
    #: the times for which the scenario has them; empty: all
    period: str = ""
    #: what determined the size
    reason: Literal["demand", "minimum", "maximum"] = "demand"

    @property
    def words(self) -> str:
        """What is added to the algorithm's own reason."""
        bound = {"minimum": self.least, "maximum": self.most}.get(self.reason)
        limit = "" if bound is None else f"{self.reason} {bound}"
        return f"{limit} ({self.period})".strip() if self.period else limit


def limits_of(found: InForce, desired: int) -> Limits:
    """Return the limits of a plan for ``desired`` builders."""
    least, most, period = found
    reason: Literal["demand", "minimum", "maximum"] = "demand"
    if desired == least > 0:
        reason = "minimum"
    elif desired == most:
        reason = "maximum"
    return Limits(least=least, most=most, period=period, reason=reason)


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a pool between checks (JSON in Redis)."""

    #: which algorithm wrote ``memory``
    algorithm: str = ""
    memory: str = ""
    #: how many decisions were sent; the pool's reports say which one they follow
    serial: int = 0
    desired: int | None = None
    #: … within which limits, and whether one of them decided
    limits: Limits = Limits()
    #: farm time of the next decision
    next_at: float = 0.0
    #: requested and joined builders, as last seen
    requested: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    #: builders that were given up and that the scheduler still shows as requested
    given_up: tuple[str, ...] = ()
    #: boots that failed in a row
    failures: int = 0
    #: no builder is requested or started before this real instant
    not_before: float = 0.0
    #: what the last failure was
    trouble: str = ""
    #: what the backend cannot do now
    backend: str = ""
    #: when the instances of requested builders were started (real)
    launched: dict[str, float] = {}
    #: when each instance of no known builder was first seen (real)
    unknown_since: dict[str, float] = {}


class Launch(msgspec.Struct, frozen=True):
    """Start an instance for this requested builder."""

    builder: str


class Remove(msgspec.Struct, frozen=True):
    """Remove an instance: it is dead, has done its work, or belongs to no builder."""

    instance: Instance
    why: Literal["retired", "orphan", "exited", "boot time-out"]


Action = Launch | Remove | GiveUpBuilder


def decide(
    algorithm: AnyAlgorithm, keeping: Keeping, report: PoolReport, now: float
) -> tuple[Keeping, Plan | None]:
    """Ask the algorithm for a plan if it is time; return what to send to the scheduler.

    None: it is not time yet, the report does not yet show what came of the last decision (acting
    on it would ask twice), or the plan is the same as before, within the same limits. ``now`` is
    real.
    """
    snapshot, first = report.snapshot, algorithm.first_plan or 0.0
    if snapshot.at < first:
        return keeping, None
    if snapshot.at < keeping.next_at <= snapshot.at + algorithm.interval:
        return keeping, None
    if report.heard != keeping.serial:
        return keeping, None
    algorithm = within(algorithm, report.chosen.min, report.chosen.max)
    name = getattr(algorithm, "name", type(algorithm).__name__)  # a guard has the name of its own
    saved = keeping.memory.encode() if keeping.algorithm == name and keeping.memory else None
    plan, memory = algorithm.plan(snapshot, restore_memory(algorithm, saved))
    following = msgspec.structs.replace(
        keeping,
        algorithm=name,
        memory=save_memory(memory).decode(),
        next_at=first + next_multiple(algorithm.interval, snapshot.at - first),
    )
    limits = limits_of(in_force(algorithm, snapshot), plan.desired)
    start = boots_allowed(keeping, plan.start, now, is_booting=snapshot.booting > 0)
    why = "; ".join(filter(None, (plan.why, limits.words)))
    if plan.start and keeping.failures:
        why = f"{why}; {describe_trouble(keeping, now)}".lstrip("; ")
    is_same = plan.desired == keeping.desired and limits == keeping.limits
    if is_same and not start and not plan.stop:
        return following, None
    following = msgspec.structs.replace(
        following, serial=keeping.serial + 1, desired=plan.desired, limits=limits
    )
    return following, Plan(
        pool=snapshot.pool,
        serial=following.serial,
        desired=plan.desired,
        start=start,
        stop=plan.stop,
        booting=snapshot.booting,
        joined=snapshot.joined,
        waiting=snapshot.waiting_jobs,
        why=why,
        least=limits.least,
        most=limits.most,
        period=limits.period,
        token=report.watcher,
    )


def reconcile(
    keeping: Keeping,
    report: PoolReport,
    instances: Iterable[Instance] | None,
    now: float,
    patience: ReconcilerTimes,
) -> tuple[Keeping, list[Action]]:
    """Compare requested with joined builders; return the actions for the difference.

    ``instances``: all of the pool's; None: the backend has none of its own (hosts play the
    builders), so only time-outs are looked after. ``now`` is real.
    """
    keeping = _without_future(keeping, now, patience)
    joined = set(report.joined)
    requested = set(report.requested).difference(keeping.given_up)
    if joined.intersection(keeping.requested):
        keeping = msgspec.structs.replace(keeping, failures=0, not_before=0.0, trouble="")
    found = None if instances is None else list(instances)
    late = sorted(requested.intersection(_too_late(keeping, report, found, now, patience)))
    requested.difference_update(late)
    look = _Look(keeping, requested, joined, now, late)
    if late:
        reason = f"did not join within {_allowed(report, patience):g}s"
        look.actions.extend(GiveUpBuilder(builder, reason) for builder in late)
        look.keeping = failed(keeping, reason, now, patience)
    if found is not None:
        look.take(found, patience)
    now_given_up = {action.builder for action in look.actions if isinstance(action, GiveUpBuilder)}
    given_up = now_given_up.union(keeping.given_up).intersection(report.requested)
    following = msgspec.structs.replace(
        look.keeping,
        requested=tuple(sorted(look.requested)),
        given_up=tuple(sorted(given_up)),
        observed=tuple(sorted(joined)),
        launched={name: at for name, at in keeping.launched.items() if name in report.requested},
        unknown_since=look.unknown_since,
    )
    return following, look.actions


def _without_future(keeping: Keeping, now: float, patience: ReconcilerTimes) -> Keeping:
    """Return the memory without what a clock that was set back has left in the future."""
    return msgspec.structs.replace(
        keeping,
        not_before=min(keeping.not_before, now + patience.longest_pause),
        launched={name: min(at, now) for name, at in keeping.launched.items()},
        unknown_since={name: min(since, now) for name, since in keeping.unknown_since.items()},
    )


def boots_allowed(keeping: Keeping, wanted: int, now: float, *, is_booting: bool) -> int:
    """Return how many of the wanted builders may boot now.

    All limits of booting are listed in ``farm.core.pools.keeper``. This is one of them: while boots
    fail, one builder at a time is tried, after a pause that doubles with each failure
    (``failed``).

    Args:
        keeping: the pool's memory.
        wanted: how many are to be requested, or to be started.
        now: the real instant.
        is_booting: a builder boots already.
    """
    if not keeping.failures:
        return wanted
    may_try = now >= keeping.not_before and not is_booting
    return min(wanted, 1) if may_try else 0


def failed(keeping: Keeping, trouble: str, now: float, patience: ReconcilerTimes) -> Keeping:
    """Return the memory after one more failed boot."""
    pause = min(patience.longest_pause, patience.first_pause * 2.0 ** min(keeping.failures, 60))
    failures, until = keeping.failures + 1, max(keeping.not_before, now + pause)
    return msgspec.structs.replace(keeping, failures=failures, not_before=until, trouble=trouble)


def not_launched(
    keeping: Keeping, builder: str, trouble: str, now: float, patience: ReconcilerTimes
) -> Keeping:
    """Return what is remembered after an instance could not be started: its builder is given up.

    Several that were being started at once, and all fail, are one failure.
    """
    following = keeping
    if not keeping.failures or now >= keeping.not_before:
        following = failed(keeping, trouble, now, patience)
    return msgspec.structs.replace(following, given_up=(*keeping.given_up, builder))


def launched(keeping: Keeping, builder: str, now: float) -> Keeping:
    """Return what is remembered after an instance of this builder was started."""
    return msgspec.structs.replace(keeping, launched={**keeping.launched, builder: now})


def describe_trouble(keeping: Keeping, now: float) -> str:
    """Return a message on why no builder joins; empty if they do."""
    if not keeping.failures:
        return ""
    wait = max(0.0, keeping.not_before - now)
    count = f"{keeping.failures} boots" if keeping.failures > 1 else "a boot"
    row = " in a row" if keeping.failures > 1 else ""
    following = f"next try in {wait:.0f}s" if wait else "trying again"
    return f"{count} failed{row} ({keeping.trouble}); {following}"


def _allowed(report: PoolReport, patience: ReconcilerTimes) -> float:
    return report.boot_time / report.speed + patience.boot_timeout


def _too_late(
    keeping: Keeping,
    report: PoolReport,
    instances: Collection[Instance] | None,
    now: float,
    patience: ReconcilerTimes,
) -> list[str]:
    """Return the requested builders that should have joined by now.

    One whose instance is still to be started is not late: a busy Engine starts a hundred of them
    in some minutes.
    """
    allowed = _allowed(report, patience)
    latest = report.snapshot.at - allowed * report.speed
    there = {instance.builder for instance in instances or ()}
    late = []
    for builder, asked_at in report.requested.items():
        if builder in keeping.launched:
            is_late = now - keeping.launched[builder] > allowed
        elif instances is None or builder in there:
            is_late = asked_at < latest
        else:
            is_late = False
        if is_late:
            late.append(builder)
    return late


class _Look(msgspec.Struct):
    """One comparison of requested and joined builders with the existing instances."""

    keeping: Keeping
    requested: set[str]
    joined: set[str]
    now: float
    #: builders that are given up now
    late: Collection[str]
    actions: list[Action] = []
    unknown_since: dict[str, float] = {}

    def take(self, instances: Iterable[Instance], patience: ReconcilerTimes) -> None:
        """Say which instances go, and which are missing."""
        there: set[str] = set()
        for instance in sorted(instances, key=lambda i: i.name):
            builder = instance.builder
            if builder not in self.requested and builder not in self.joined:
                self._unknown(instance, patience)
            elif not instance.running:
                self._ended(instance, patience)
            elif builder in there:
                self.actions.append(Remove(instance, "orphan"))
            else:
                there.add(builder)
        # one that had joined and is not listed any more is left to the scheduler, which hears no
        # more of its host: an Engine that lists too little must not cost running jobs
        missing = sorted(self.requested - there)
        is_booting = bool(there & self.requested)
        allowed = boots_allowed(self.keeping, len(missing), self.now, is_booting=is_booting)
        self.actions.extend(Launch(builder) for builder in missing[:allowed])

    def _unknown(self, instance: Instance, patience: ReconcilerTimes) -> None:
        since = self.keeping.unknown_since.get(instance.name, self.now)
        if not instance.running:
            self.actions.append(Remove(instance, "exited"))
        elif instance.builder in self.late:
            self.actions.append(Remove(instance, "boot time-out"))
        elif instance.builder in (*self.keeping.observed, *self.keeping.requested):
            # one that was only requested may have come and gone since then
            self.actions.append(Remove(instance, "retired"))
        elif self.now - since >= patience.orphan_time:
            self.actions.append(Remove(instance, "orphan"))
        else:
            self.unknown_since[instance.name] = since

    def _ended(self, instance: Instance, patience: ReconcilerTimes) -> None:
        reason = f"its container ended: {instance.detail or 'no reason known'}"
        self.actions.append(Remove(instance, "exited"))
        self.actions.append(GiveUpBuilder(instance.builder, reason, instance.excused))
        if instance.builder in self.requested:
            self.requested.discard(instance.builder)
            self.keeping = failed(self.keeping, reason, self.now, patience)
