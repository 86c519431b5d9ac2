"""A scenario on the live farm: its pools and its jobs, handed to ``run_live``."""

from __future__ import annotations

from collections.abc import Callable

from farm.driver import Observer
from farm.live.pool import LivePool
from farm.live.run import LiveOptions, LiveRun, LiveScheduler, run_live
from farm.live.world import LiveStatus
from farm.scenario import Scenario
from farm.scenario.pools import Pool
from farm.workload.build import batches, build_jobs

BootLottery = Callable[[int], bool]
"""Whether the n-th builder of a pool boots and then never takes a job."""


def run_scenario(
    scenario: Scenario,
    scheduler: LiveScheduler,
    options: LiveOptions,
    *,
    observe: Observer,
    progress: Callable[[LiveStatus], None] | None = None,
    lottery: Callable[[Pool], BootLottery | None] = lambda _: None,
) -> LiveRun:
    """Run the scenario live; raises what ``build_jobs`` and ``run_live`` raise.

    ``lottery`` gives, for a pool with a failure rate, the draws that the simulation uses too.
    """
    jobs = build_jobs(scenario)
    pools = [live_pool(pool, lottery(pool)) for pool in scenario.pools]
    return run_live(scheduler, pools, batches(jobs), options, observe=observe, progress=progress)


def live_pool(pool: Pool, fails_to_boot: BootLottery | None = None) -> LivePool:
    """Return what the live world needs to know of a scenario's pool."""
    contention = (
        pool.contention.model_dump(mode="json", exclude_none=True) if pool.contention else None
    )
    return LivePool(
        name=pool.name,
        processors=pool.platform.processors,
        virtualized=pool.platform.virtualized,
        slots=pool.slots,
        builders=pool.builders or 0,
        boot_time=pool.boot_time,
        idle_timeout=pool.idle_timeout,
        inter_job_time=pool.inter_job_time,
        shutdown_time=pool.shutdown_time,
        speed=pool.speed,
        fails_to_boot=fails_to_boot,
        contention=contention,
        provisioned=pool.provisioner is not None,
        labels=dict(pool.labels),
    )
