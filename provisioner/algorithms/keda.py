"""Builders in proportion to queued jobs, as an autoscaler does (KEDA scalers and the HPA)."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan, limited
from provisioner.algorithms.sizing import Count, Factor, Seconds, Share, Sizing

#: the triggers' own values of ``list_length`` and ``length``
_TARGETS = {"redis": 5.0, "github-runner": 1.0}
_LENGTHS = {"redis": "waiting", "github-runner": "waiting+running"}

Dated = tuple[tuple[float, int], ...]
"""(instant, number of builders), oldest first."""


class KedaMemory(Memory, frozen=True):
    """The autoscaler's state; ``replicas`` is its last request, not the present number."""

    replicas: int | None = None
    polled_at: float | None = None
    #: when the queue was last active, or else when this began: the cooldown counts from here
    active_at: float = 0.0
    synced_at: float | None = None
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
    max: Count = 100
    trigger: Literal["redis", "github-runner"] = "redis"
    #: None: the trigger's own
    list_length: Annotated[float, msgspec.Meta(gt=0)] | None = None
    activation_length: Count = 0
    #: None: the trigger's own
    length: Literal["waiting", "waiting+running"] | None = None
    polling_interval: Seconds = 30.0
    cooldown: Seconds = 300.0
    tolerance: Share = 0.1
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
        """Poll and sync, each if it is due, and plan for the resulting number."""
        at = snapshot.at
        if memory.replicas is None:
            found = limited(snapshot.present, self.min, self.max)
            memory = KedaMemory(replicas=found, active_at=at, recommended=((at, found),))
        length = snapshot.waiting_jobs + (snapshot.running_jobs if self._counts_running else 0)
        if _due(at, memory.polled_at, self.polling_interval):
            memory = self._poll(at, length, memory)
        if memory.replicas and _due(at, memory.synced_at, self.interval):
            memory = self._sync(at, length, memory)
        replicas = memory.replicas or 0
        return self.towards(snapshot, replicas, f"{length} jobs, {self._target:g} each"), memory

    @property
    def _counts_running(self) -> bool:
        return (self.length or _LENGTHS[self.trigger]) == "waiting+running"

    @property
    def _target(self) -> float:
        return self.list_length or _TARGETS[self.trigger]

    def _is_active(self, length: int) -> bool:
        if self.trigger == "github-runner":
            return length >= self._target
        return length > self.activation_length

    def _poll(self, at: float, length: int, memory: KedaMemory) -> KedaMemory:
        """Switch the pool between none and some."""
        replicas = memory.replicas or 0
        active = self._is_active(length)
        active_at = at if active else memory.active_at
        if active:
            replicas = replicas or limited(max(1, self.min), self.min, self.max)
        elif self.min == 0 and at - active_at >= self.cooldown:
            replicas = 0
        return msgspec.structs.replace(
            memory, polled_at=at, active_at=active_at, replicas=max(replicas, self.min)
        )

    def _sync(self, at: float, length: int, memory: KedaMemory) -> KedaMemory:
        """Let the HPA move a pool that is not at none."""
        now = memory.replicas or 1
        wanted = self._recommendation(length, now)
        recent = (*_since(memory.recommended, at - self.stabilization_window), (at, wanted))
        added = _since(memory.added, at - self.scale_up_period)
        steady = max(wanted, min(now, max(size for _, size in recent)))
        most = self._most_after(now - sum(size for _, size in added))
        replicas = limited(min(steady, max(now, most)), max(1, self.min), self.max)
        if replicas > now:
            added = (*added, (at, replicas - now))
        return msgspec.structs.replace(
            memory, synced_at=at, replicas=replicas, recommended=recent, added=added
        )

    def _recommendation(self, length: int, now: int) -> int:
        if abs(length / (self._target * now) - 1) <= self.tolerance:
            return now
        return math.ceil(length / self._target)

    def _most_after(self, before: int) -> int:
        """Return how far a pool may grow in one period from the size at its beginning."""
        doubled = math.ceil(before * (1 + self.scale_up_percent / 100))
        return max(before + self.scale_up_builders, doubled)


def _due(at: float, last_at: float | None, every: float) -> bool:
    return last_at is None or at >= last_at + every


def _since(dated: Dated, at: float) -> Dated:
    return tuple(entry for entry in dated if entry[0] > at)
