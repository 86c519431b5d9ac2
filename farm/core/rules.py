"""What the scheduler decides by: the rules of a scenario as functions, and a runtime estimator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import msgspec

from farm.core.contention.laws import LoadLimits
from farm.core.dispatching.balancers import RANKINGS, Ranking
from farm.core.events import PoolSize, SchedulingChanged
from farm.core.model import Builder, Job, Outcome
from farm.core.policies import KeyFunction, fifo
from farm.core.policies.ageing import AGING_FACTOR
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.core.queues.plain import PlainQueue, PlatformQueue
from farm.core.state.working_state import BuilderState


class EndedAttempt(msgspec.Struct, frozen=True):
    """An attempt that succeeded or failed; instants are farm time."""

    job: Job
    builder: Builder
    began_at: float
    ended_at: float
    outcome: Outcome
    #: seconds that it would have taken alone on its builder (``WorkMeter``); None: all of them
    work: float | None = None


class Estimator(Protocol):
    """The interface of a runtime estimator; ``farm.forecasts.runtime`` implements it.

    One with a method ``size_sent(job, builder)`` says which size a builder with labels is sent; one
    with ``learn_attempt(ended)`` learns by that instead of ``learn``.
    """

    #: False: ``learn`` does nothing and need not be called
    learns: bool

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected run time in seconds.

        Without a builder (the job waits) it is for a builder of speed 1; with one (the job is
        dispatched, or might be) it is for that builder. Never raises; always finite and >= 0.
        """

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Learn from an ended attempt: once for each, after ``elapsed`` seconds of it."""


def teach(estimator: Estimator, ended: EndedAttempt) -> None:
    """Let an estimator learn from an ended attempt."""
    learn_attempt = getattr(estimator, "learn_attempt", None)
    if learn_attempt is not None:
        learn_attempt(ended)
    else:
        elapsed = ended.ended_at - ended.began_at
        estimator.learn(ended.job, ended.builder, elapsed, ended.outcome)


class HeavyLightOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When the heavy-light balancer holds heavy jobs back from a builder."""

    limits: LoadLimits
    #: the load of a builder, measured by the scheduler; None: builders report it
    measure: Callable[[BuilderState], float] | None = None
    #: seconds after which one of a platform's heavy jobs may go to an overloaded builder; a
    #: scenario gives it (``scenario.scheduling.HeavyLight``), and without one there is no limit
    hold_at_most: float = float("inf")
    #: a builder with room takes a waiting heavy job before any light one of the same level
    heavy_first: bool = False


class Choices(msgspec.Struct, frozen=True):
    """The choices that can be changed while a farm runs."""

    #: the policy's name, or ``module:function``
    policy: str = "fifo"
    #: seconds of run time that a second in the queue weighs
    aging_factor: float = AGING_FACTOR
    #: of invocations (keys joined with ``/``) among their siblings; by default 1
    weights: dict[str, float] = {}
    #: of pools that are not as the scenario has them
    pools: dict[str, PoolSize] = {}

    def changed(self, event: SchedulingChanged) -> Choices:
        """Return the choices after a change."""
        given = {"policy": event.policy, "aging_factor": event.aging_factor}
        weights = {**self.weights, **(event.weights or {})}
        pools = {**self.pools}
        for name, size in (event.pools or {}).items():
            given_of_it = {
                key: n for key, n in msgspec.structs.asdict(size).items() if n is not None
            }
            pools[name] = msgspec.structs.replace(pools.get(name, PoolSize()), **given_of_it)
        return msgspec.structs.replace(
            self,
            **{name: value for name, value in given.items() if value is not None},
            weights={name: weight for name, weight in weights.items() if weight != 1},
            pools=pools,
        )

    @property
    def offsets(self) -> dict[tuple[str, ...], int]:
        """What the weights add to the priorities: 100 points are a factor of two."""
        return {
            tuple(name.split("/")): round(-100 * math.log2(weight))
            for name, weight in self.weights.items()
        }


def _no_other(_: Choices) -> KeyFunction | None:
    return None


class SchedulingRules(msgspec.Struct, frozen=True, kw_only=True):
    """How the scheduler decides."""

    #: sort key of a waiting job, smallest first
    policy: KeyFunction = fifo.key
    #: the current choices, and the function that finds another policy; None: unknown name
    choices: Choices = Choices()
    policy_of: Callable[[Choices], KeyFunction | None] = _no_other
    #: added to the priority of invocations among their siblings; read by the queues
    offsets: dict[tuple[str, ...], int] = {}
    #: rank of a free builder, smallest first
    ranking: Ranking = RANKINGS["jenkins"]
    #: overloaded builders get light jobs only
    heavy_light: HeavyLightOptions | None = None
    #: a job goes to the builder that is expected to finish it first, free now or later
    by_speed: bool = False
    #: makes the queue of one platform (plain, or a fair-share tree)
    make_queue: Callable[[], PlatformQueue] = PlainQueue
    #: the invocation path that a job is charged to; None: no fair share
    path: PathExtractor | None = None
    #: all slots whose jobs end at the same instant are free before any of them takes a job
    ends_together: bool = False
    #: seconds after which waiting jobs get new keys, if estimates learn; None: never
    sort_every: float | None = None
    #: how often a job may be retried after its builder was lost; the default is the scenario's
    retries: int = 2
    #: seconds after which jobs fail whose platform has no builder; None: they wait
    platform_grace: float | None = None
    #: a job fails once this many builders were lost while running it; 0: no limit
    max_builders_lost: int = 3
    #: failed attempts are judged, and while the culprit is unknown a job is reset at most this
    #: often (Launchpad has no limit); None: a failed attempt is a failed job
    max_resets: int | None = None
    #: a failed job cancels the rest of its matrix
    fail_fast: bool = False
    #: jobs with the same action that are in flight together run only once
    dedup: bool = False
    #: how many decisions are kept for `explain`
    explain_last: int = 0
