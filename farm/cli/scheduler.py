"""``farm scheduler``: the scheduler of a farm that stays up, as a service."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from farm.assembly import make_scheduler, pool_specs
from farm.cli.estimating import Estimating
from farm.cli.metering import Metering
from farm.cli.options import MetricsAddress, MetricsPort, MetricsTargets, Overrides, ScenarioFile
from farm.core.errors import InputError, StateError
from farm.core.restore import restore
from farm.core.scheduler import Scheduler
from farm.core.snapshot import FarmSnapshot
from farm.forecasts.runtime import RuntimeDistribution
from farm.live.hosts.processes import HostProcesses
from farm.live.hosts.registry import Patience
from farm.live.operating.control_plane import Desk
from farm.live.operating.operator import Operator
from farm.live.redis.connection import redacted
from farm.live.run import LiveOptions, Stays, run_live
from farm.live.settings import from_environment
from farm.live.world import LiveWorld
from farm.metrics.exporter import LOOPBACK, MetricsPlace
from farm.scenario import Scenario, load_scenario
from farm.sim.simulation import together

log = logging.getLogger("farm.scheduler")

#: ended jobs whose story stays in Redis
KEEP_ENDED = 100_000


def scheduler(
    scenario: ScenarioFile,
    sets: Overrides = None,
    redis: Annotated[
        str | None,
        typer.Option(envvar="FARM_REDIS_URL", help="The farm's server; it must outlive us."),
    ] = None,
    hosts: Annotated[
        int, typer.Option(min=0, help="Builder hosts to start here; 0: they come from elsewhere.")
    ] = 0,
    keep_ended: Annotated[
        int, typer.Option(min=1, help="How many ended jobs are remembered.")
    ] = KEEP_ENDED,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget the farm that is in Redis, and begin anew.")
    ] = False,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    metrics_targets: MetricsTargets = None,
) -> None:
    """Run the scheduler of a farm that stays up, until SIGTERM or Ctrl-C.

    Pools, scheduling and speed are the scenario's; its workload is left to others (submit, load).
    What is in Redis is gone on with: after a restart, or a kill, no job is lost. A second
    scheduler on the same farm stands by until the first one is gone.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    wanted = load_scenario(scenario, sets or ())
    if not redis:
        raise InputError("--redis: found none; give the farm's server, or set FARM_REDIS_URL")
    estimating = Estimating(wanted, live=True)
    brain = make_scheduler(wanted, explain_last=1000, estimator=estimating.estimator)
    pools = pool_specs(wanted)
    place = MetricsPlace(metrics_port, metrics_address, metrics_targets)
    metering = Metering(brain, pools, wanted.live.speed, place)
    plain = wanted.model_dump(mode="json", exclude_none=True)
    desk = Desk(brain, pools, long_lived=True, keep_ended=keep_ended, scenario=plain)

    def up(world: LiveWorld, hosts: HostProcesses) -> None:
        metering.adopt()
        metering.meet(world, hosts)
        log.info("in charge of %s at %s", wanted.name, redacted(redis))

    with metering:
        if metering.url is not None:
            log.info("metrics at %s", metering.url)
        ended = run_live(
            brain,
            pools,
            None,
            _options(wanted, brain, redis, hosts, metering, place, fresh=fresh),
            observe=together([desk.observe, *metering.observers]),
            progress=metering.progress(),
            on_up=up,
            on_tick=desk.tick,
            meter=metering.metrics,
            around=lambda world: estimating.around_live(world, brain),
        )
    status = ended.status
    log.info("stopped: %d waiting and %d running jobs stay", status.waiting, status.running)


def _options(
    scenario: Scenario,
    brain: Scheduler,
    redis: str,
    hosts: int,
    metering: Metering,
    metrics: MetricsPlace,
    *,
    fresh: bool,
) -> LiveOptions:
    def on_charge(in_charge: bool) -> None:
        metering.lead(in_charge=in_charge)
        if not in_charge:
            log.info("another scheduler is in charge, or was killed just now: standing by")

    def go_on(snapshot: FarmSnapshot, rekey: bool) -> None:
        _learn_again(brain.estimator, redis)
        restore(brain, snapshot, rekey=rekey)

    return LiveOptions(
        speed=scenario.live.speed,
        redis_url=redis,
        prefix=from_environment().prefix,
        hosts=hosts,
        patience=Patience(silence=scenario.live.lost_after),
        beat_interval=scenario.live.heartbeat,
        metrics_address=metrics.address,
        metrics_targets=metrics.targets,
        stays=Stays(
            restore=go_on,
            rules=scenario.scheduling.model_dump_json(),
            fresh=fresh,
            on_charge=on_charge,
        ),
    )


def _learn_again(estimator: object, redis: str) -> None:
    """Take back what the farm's last scheduler had learned about run times."""
    with Operator(redis, from_environment().prefix) as operator:
        statistics = operator.statistics()
    if statistics is None or not isinstance(estimator, RuntimeDistribution):
        return
    try:
        estimator.load(statistics)
    except StateError as error:
        log.info("begins to learn run times anew: %s", error)
