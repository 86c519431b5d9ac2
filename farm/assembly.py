"""Builds rules, scheduler and pools from a scenario.

Both worlds are built from what this module returns, so that they interpret scenarios in the same
way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from farm.core.contention.laws import ContentionLaw, LoadLimits
from farm.core.dispatching.balancers import RANKINGS, Ranking
from farm.core.errors import ScenarioError
from farm.core.policies import POLICIES, KeyFunction, PolicyOptions
from farm.core.pools.spec import PoolSpec
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.core.queues.plain import PlainQueue, PlatformQueue
from farm.core.rules import Choices, HeavyLightOptions, SchedulingRules
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.interface import EstimatorOptions, RuntimeEstimator
from farm.plugins.guards import GuardedPolicy, GuardedRanking, complaints_of
from farm.plugins.lookup import checked_arguments, named
from farm.results.summary.costs import Bill
from farm.results.summary.figures import RunInfo, WorldName
from farm.results.summary.run_phase import Window
from farm.scenario.model import Scenario
from farm.scenario.pools import Losses, Pool
from farm.workload.builder_draws import draws_of

if TYPE_CHECKING:  # a compiled run needs none
    from farm.core.scheduler import Scheduler

Functions = Mapping[str, Callable[..., Any]]
"""By scenario key, a function of the caller that replaces the named one."""


def make_scheduler(
    scenario: Scenario,
    *,
    explain_last: int = 0,
    estimator: RuntimeEstimator | None = None,
    own: Functions | None = None,
) -> Scheduler:
    """Return the scheduler described by a scenario, in its initial state.

    ``estimator``: one with a history, instead of the scenario's. Raises
    ScenarioError for a policy, balancer, key or estimator that does not exist.
    """
    from farm.core.scheduler import Scheduler  # noqa: PLC0415 - a compiled run needs none

    rules = make_rules(scenario, explain_last=explain_last, own=own)
    return Scheduler(rules, estimator or estimator_of(scenario), pool_specs(scenario))


def make_rules(
    scenario: Scenario, *, explain_last: int = 0, own: Functions | None = None
) -> SchedulingRules:
    """Resolve the ``scheduling`` section into the functions that the scheduler calls."""
    scheduling, own = scenario.scheduling, own or {}
    choices = Choices(scheduling.policy, scheduling.aging_factor, dict(scheduling.weights))
    offsets = choices.offsets
    return SchedulingRules(
        policy=_policy_of(scenario, own),
        choices=choices,
        policy_of=_choose_policy(scenario, own),
        offsets=offsets,
        ranking=_ranking_of(scenario, own),
        heavy_light=_heavy_light_of(scenario),
        by_speed=scheduling.balancer == "fastest",
        make_queue=_queue_maker(scenario, offsets),
        path=PathExtractor(scheduling.fair_share) if scheduling.fair_share else None,
        ends_together=scheduling.simultaneous_ends == "together",
        sort_every=scheduling.sort_every,
        retries=scheduling.retries,
        platform_grace=scheduling.platform_grace,
        max_builders_lost=scheduling.max_builders_lost,
        max_resets=scheduling.max_resets if scheduling.failures == "launchpad" else None,
        fail_fast=scheduling.fail_fast,
        dedup=scheduling.dedup,
        explain_last=explain_last,
    )


def _choose_policy(scenario: Scenario, own: Functions) -> Callable[[Choices], KeyFunction | None]:
    """Return the function that finds a policy chosen by an operator while the farm runs.

    A message must not make the scheduler import what its scenario does not name.
    """
    scheduling = scenario.scheduling

    def policy_of(choices: Choices) -> KeyFunction | None:
        if ":" in choices.policy and choices.policy != scheduling.policy:
            return None
        chosen = {"policy": choices.policy, "aging_factor": choices.aging_factor}
        changed = {"scheduling": scheduling.model_copy(update=chosen)}
        try:
            mine = own if choices.policy == scheduling.policy else {}
            return _policy_of(scenario.model_copy(update=changed), mine)
        except ScenarioError:
            return None

    return policy_of


def _policy_of(scenario: Scenario, own: Functions) -> KeyFunction:
    """Return the scenario's policy as a key function."""
    scheduling = scenario.scheduling
    options = PolicyOptions(scheduling.aging_factor, scheduling.aging, scenario.seed)
    where = "scheduling.policy"
    found = own.get(where) or named(scheduling.policy, POLICIES, where, "farm.policies")
    if where not in own and scheduling.policy in POLICIES:
        key: KeyFunction = found(options)
        return key
    checked_arguments(found, 4, where, f"{scheduling.policy}(job, estimate, at, serial)")
    return GuardedPolicy(found, scheduling.policy)


def complaints(scheduler: Scheduler, others: Iterable[object] = ()) -> list[str]:
    """Return the errors of the user's functions during a run, one message each."""
    return complaints_of((*scheduler.own_functions, *others))


#: these are more than a ranking: they hold jobs back for a better builder
_DISPATCHERS: dict[str, Ranking] = dict.fromkeys(("fastest", "heavy-light"), RANKINGS["jenkins"])


def _ranking_of(scenario: Scenario, own: Functions) -> Ranking:
    where = "scheduling.balancer"
    name, known = scenario.scheduling.balancer, RANKINGS | _DISPATCHERS
    found: Ranking = own.get(where) or named(name, known, where, "farm.balancers")
    if where not in own and name in known:
        return found
    checked_arguments(found, 1, where, f"{name}(builder)")
    return GuardedRanking(found, name)


def _heavy_light_of(scenario: Scenario) -> HeavyLightOptions | None:
    scheduling = scenario.scheduling
    if scheduling.balancer != "heavy-light":
        return None
    from farm.core.dispatching.heavy_light import (  # noqa: PLC0415 - few farms have this balancer
        heavy_share,
        slowdown_by,
    )

    rule = scheduling.heavy_light
    laws = laws_of(scenario)
    if rule.load != "heavy-share" and not laws:
        raise ScenarioError(
            f"scheduling.heavy_light.load: found {rule.load}, and no pool has contention; "
            "allowed: heavy-share, or contention for a pool"
        )
    measures = {"heavy-share": heavy_share, "slowdown": slowdown_by(laws), "reported": None}
    return HeavyLightOptions(
        limits=rule.limits,
        measure=measures[rule.load],
        hold_at_most=rule.hold_at_most,
        heavy_first=rule.heavy_first,
    )


def laws_of(scenario: Scenario) -> dict[str, ContentionLaw]:
    """Return by pool how jobs on its builders slow each other down, if they do."""
    return {pool.name: pool.contention.law for pool in scenario.pools if pool.contention}


def estimator_of(scenario: Scenario) -> RuntimeEstimator:
    """Return the scenario's runtime estimator, without history."""
    return estimator_named(scenario.scheduling.runtime_estimates, scenario)


def estimator_named(name: str, scenario: Scenario) -> RuntimeEstimator:
    """Return the named runtime estimator with the scenario's options, without history."""
    options = scenario.scheduling.runtime_options
    return make_estimator(name, EstimatorOptions(**options.model_dump()))


def _queue_maker(
    scenario: Scenario, offsets: Mapping[tuple[str, ...], int]
) -> Callable[[], PlatformQueue]:
    scheduling = scenario.scheduling
    if not scheduling.fair_share:
        return PlainQueue
    from farm.core.queues.fair_share.queue import (  # noqa: PLC0415 - many farms have no fair share
        FairShareQueue,
    )

    upstream = scheduling.compatibility == "buildbarn"
    return lambda: FairShareQueue(
        scheduling.stickiness, compatibility="buildbarn" if upstream else None, offsets=offsets
    )


def pool_specs(scenario: Scenario) -> list[PoolSpec]:
    """Return the specifications of the pools."""
    rule = scenario.scheduling.heavy_light
    reports = scenario.scheduling.balancer == "heavy-light" and rule.load == "reported"
    limits = rule.limits if reports else None
    starts = scenario.time_of_week
    return [_pool_spec(pool, scenario.seed, limits, starts) for pool in scenario.pools]


def _pool_spec(pool: Pool, seed: int, limits: LoadLimits | None, starts: float) -> PoolSpec:
    drawn = draws_of(pool, seed)
    behaviour = pool.behaviour or ""
    claims = False
    if behaviour:
        from farm.plugins.own_behaviours import OwnBehaviours  # noqa: PLC0415 - few pools have one

        claims = OwnBehaviours(behaviour, f"pools.{pool.name}.behaviour").claims
    sizing = pool.provisioner
    return PoolSpec(
        name=pool.name,
        processors=pool.platform.processors,
        virtualized=pool.platform.virtualized,
        slots=pool.slots if pool.uses is None else min(pool.slots, pool.uses),
        cores=pool.cores,
        builders=pool.builders or 0 if sizing is None else sizing.min_at_start(starts),
        max=None if sizing is None else sizing.highest_max,
        starts=starts,
        boot_time=pool.boot_time,
        idle_timeout=pool.idle_timeout,
        uses=pool.uses,
        pickup_time=pool.pickup_time,
        switch_times=pool.times_to_switch,
        inter_job_time=pool.inter_job_time,
        shutdown_time=pool.shutdown_time,
        boot_delay=drawn.boot_delay,
        has_signals=pool.signals is not None,
        kills=pool.signals is not None and pool.signals.kills,
        speed=pool.speed,
        fails_to_boot=drawn.fails_to_boot,
        lifetime=drawn.lifetime,
        lost_at=(pool.losses or Losses()).at,
        law=None if pool.contention is None else pool.contention.law,
        load_limits=limits,
        behaviour=behaviour,
        claims=claims,
        provisioned=sizing is not None,
        labels=dict(pool.labels),
    )


def run_info(scenario: Scenario, world: WorldName, engine: str) -> RunInfo:
    """Return the information on a run for its summary."""
    phases = scenario.phases
    window = Window()
    if phases is not None:
        window = Window(phases.ramp_up, phases.ramp_up + phases.run)
    return RunInfo(
        name=scenario.name,
        world=world,
        engine=engine,
        seed=scenario.seed,
        policy=scenario.scheduling.policy,
        workload=scenario.workload_kind,
        window=window,
        ends_at=None if phases is None else phases.ends_at,
        keeps={
            pool.name: pool.builders or (pool.provisioner.min if pool.provisioner else 0)
            for pool in scenario.pools
        },
        until=scenario.ends_at,
        fair_share=scenario.scheduling.fair_share,
        weights=scenario.scheduling.weights,
        switch_times={
            pool.name: pool.times_to_switch for pool in scenario.pools if pool.times_to_switch
        },
        as_taskcluster=scenario.scheduling.compatibility == "taskcluster",
        bills={pool.name: Bill(pool.price, pool.billing_unit) for pool in scenario.pools},
        currency=msgspec.UNSET if scenario.unit_of_cost is None else scenario.unit_of_cost,
    )
