"""Builders in proportion to queued jobs, as an autoscaler does (KEDA scalers and the HPA)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import (
    NEVER,
    Count,
    Factor,
    Seconds,
    Share,
    Sizing,
    limited,
    rounded_up,
)

#: the triggers' own values of ``list_length`` and ``length``
_TARGETS = {"redis": 5.0, "github-runner": 1.0}
_LENGTHS = {"redis": "waiting", "github-runner": "waiting+running"}

Dated = tuple[tuple[float, int], ...]
"""(instant, number of builders), oldest first."""


class KedaMemory(Memory, frozen=True):
    """The autoscaler's state; ``replicas`` is its last request, not the present number."""

    #: below 0: none yet
    replicas: int = -1
    polled_at: float = NEVER
    #: when the queue was last active, or else when this began: the cooldown counts from here
    active_at: float = 0.0
    synced_at: float = NEVER
    #: recommendations inside the stabilisation window
    recommended: Dated = ()
    #: builders added inside the scale-up period
    added: Dated = ()


class Keda(Sizing[KedaMemory], frozen=True, kw_only=True):
    """A scaler of KEDA's with the Kubernetes HPA behind it, both with their defaults.

    Every ``polling_interval`` KEDA looks whether the queue is active (length >
    activation_length): an active queue brings a pool from none to max(1, min); one that was
    inactive for ``cooldown`` brings it to none, if ``min`` is 0.

    Every ``interval`` (the HPA's sync) a pool that is not at none gets ceil(length ÷ list_length)
    builders, except that a ratio length ÷ (list_length * builders) within ``tolerance`` of 1
    changes nothing; growth is at most the larger of ``scale_up_percent`` and
    ``scale_up_builders`` per ``scale_up_period``; shrinking goes to the highest recommendation of
    the last ``stabilization_window``.

    With the trigger ``redis`` the length is that of the waiting list: running jobs are invisible,
    as in KEDA, so a pool may be asked to shrink while all its builders work. ``length:
    waiting+running`` counts them too. The trigger ``github-runner`` does so by itself: it counts
    jobs queued and in progress, with a ``list_length`` (targetWorkflowQueueLength) of 1 instead of
    5, and is active from list_length jobs on; it knows no activation_length.
    """

    remembers = KedaMemory
    formula = "keda"
    max: Count = 100
    trigger: Literal["redis", "github-runner"] = "redis"
    #: None: the trigger's own
    list_length: Annotated[float, msgspec.Meta(gt=0)] | None = None
    activation_length: Count = 0
    #: None: the trigger's own
    length: Literal["waiting", "waiting+running"] | None = None
    polling_interval: Seconds = 30.0
    #: KEDA's own (cooldownPeriod), before a pool goes to none
    cooldown: Seconds = 300.0
    tolerance: Share = 0.1
    #: the HPA's own (scaleDown.stabilizationWindowSeconds), before it shrinks
    stabilization_window: Seconds = 300.0
    scale_up_percent: Factor = 100.0
    scale_up_builders: Count = 4
    scale_up_period: Seconds = 15.0
    interval: Seconds = 15.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation_length and self.trigger == "github-runner":
            raise ValueError(
                f"activation_length: found {self.activation_length}; the trigger github-runner has "
                "none, it is active from list_length jobs on"
            )

    def plan(self, snapshot: PoolSnapshot, memory: KedaMemory) -> tuple[ScalingPlan, KedaMemory]:
        """Poll and sync, each if it is due, and plan for the resulting number.

        Two programs scale one number of replicas, each at its own pace: KEDA between none and some,
        by a poll, and the HPA between some and many, by a sync. The poll comes first, so a pool
        that it wakes is synced in the same plan, and one that it brings to none is left alone.
        """
        at, length = snapshot.at, queue_length(snapshot, self)
        if memory.replicas < 0:
            present = limited(snapshot.present, self)
            memory = KedaMemory(replicas=present, active_at=at, recommended=((at, present),))
        if is_due(at, memory.polled_at, self.polling_interval):
            replicas = polled(at, length, self, memory.replicas, memory.active_at)
            active_at = at if length >= self.active_from else memory.active_at
            memory = msgspec.structs.replace(
                memory, polled_at=at, active_at=active_at, replicas=replicas
            )
        if memory.replicas and is_due(at, memory.synced_at, self.interval):
            memory = self._sync(at, length, memory)
        why = f"{length} jobs, {self.target:g} each"
        return self.towards(snapshot, memory.replicas, why), memory

    @property
    def counts_running(self) -> bool:
        """Whether running jobs are in the length of the queue."""
        return (self.length or _LENGTHS[self.trigger]) == "waiting+running"

    @property
    def target(self) -> float:
        """Jobs for a builder."""
        return self.list_length or _TARGETS[self.trigger]

    @property
    def active_from(self) -> float:
        """The length from which on the queue is active."""
        return self.target if self.trigger == "github-runner" else self.activation_length + 1.0

    def _sync(self, at: float, length: int, memory: KedaMemory) -> KedaMemory:
        """Let the HPA move a pool that is not at none."""
        present = memory.replicas
        wanted = recommended(length, self, present)
        recent = (*_since(memory.recommended, at - self.stabilization_window), (at, wanted))
        added = _since(memory.added, at - self.scale_up_period)
        highest, grown = max(size for _, size in recent), sum(size for _, size in added)
        replicas = synced(self, wanted, present, highest, grown)
        if replicas > present:
            added = (*added, (at, replicas - present))
        return msgspec.structs.replace(
            memory, synced_at=at, replicas=replicas, recommended=recent, added=added
        )


def _since(dated: Dated, at: float) -> Dated:
    return tuple(entry for entry in dated if entry[0] > at)


def queue_length(snapshot: PoolSnapshot, options: Keda) -> int:
    """Return the length of the queue that the trigger sees."""
    if options.counts_running:
        return snapshot.waiting_jobs + snapshot.running_jobs
    return snapshot.waiting_jobs


def is_due(at: float, last_at: float, interval: float) -> bool:
    """Return whether it is time for what is done at intervals."""
    return last_at < 0.0 or at >= last_at + interval


def polled(at: float, length: int, options: Keda, replicas: int, active_at: float) -> int:
    """Return the builders wanted after a poll, which switches between none and some."""
    if length >= options.active_from:
        replicas = replicas or limited(max(1, options.least), options)
    elif options.least == 0 and at - active_at >= options.cooldown:
        replicas = 0
    return max(replicas, options.least)


def recommended(length: int, options: Keda, replicas: int) -> int:
    """Return the HPA's recommendation for a pool that is not at none."""
    if abs(length / (options.target * replicas) - 1) <= options.tolerance:
        return replicas
    return rounded_up(length / options.target)


def synced(options: Keda, wanted: int, replicas: int, highest: int, added: int) -> int:
    """Return the builders wanted after a sync of the HPA's.

    ``highest`` is the largest recommendation of the stabilisation window, ``added`` the number of
    builders added in this scale-up period.
    """
    at_period_start = replicas - added
    by_percent = rounded_up(at_period_start * (1 + options.scale_up_percent / 100))
    most = max(at_period_start + options.scale_up_builders, by_percent)
    steady = max(wanted, min(replicas, highest))
    return limited(max(1, min(steady, max(replicas, most))), options)
