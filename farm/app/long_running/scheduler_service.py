"""The scheduler of a long-running farm, which continues from the state in Redis."""

from __future__ import annotations

import logging
from pathlib import Path

from farm.app.recorded.played_again import played_again
from farm.app.runs.estimating import Estimating
from farm.app.runs.live_farm import LiveFarm
from farm.core.errors import StateError
from farm.core.scheduler import Scheduler
from farm.core.state.restore import restore
from farm.core.state.snapshot import FarmSnapshot
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.live.live_options import Stays
from farm.live.redis.connection import redacted
from farm.live.settings import from_environment
from farm.live.store.saved import SchedulerMemory
from farm.live.world import LiveWorld
from farm.metrics.exporter import MetricsPlace
from farm.plugins.guards import first_complaints
from farm.results.log.writer import EventLogLines
from farm.results.recorded_run import now
from farm.results.run_directory import RunDirectory
from farm.scenario import Scenario

log = logging.getLogger("farm.scheduler")


def rules_of(scenario: Scenario) -> str:
    """Return what ``farm set`` may change: a scenario in which it is other is gone by instead."""
    sizes = {"name", "builders", "provisioner"}
    pools = (pool.model_dump_json(include=sizes) for pool in scenario.pools)
    return "\n".join([scenario.scheduling.model_dump_json(), *pools])


def serve(
    scenario: Scenario,
    redis: str,
    *,
    hosts: int,
    keep_ended: int,
    fresh: bool,
    log_folder: Path | None,
    metrics: MetricsPlace,
    accept_loss: bool = False,
) -> None:
    """Schedule until SIGTERM or SIGINT; stand by first while another scheduler is in charge.

    Args:
        scenario: pools, scheduling and speed; its workload is left to others.
        redis: the server.
        hosts: builder hosts to start here.
        keep_ended: how many ended jobs are remembered.
        fresh: forget the farm that is in Redis, and start from nothing.
        log_folder: where the farm's event log goes, a run directory; None: none is kept.
        metrics: where metrics are served.
        accept_loss: go on without what the log has and the server has lost.

    Raises InputError, ServerError without a usable server, RunError if it fails.
    """
    farm = LiveFarm(scenario, metrics, long_lived=True, keep_ended=keep_ended)
    settings = from_environment()
    prefix = settings.prefix

    def on_charge(in_charge: bool) -> None:
        farm.metering.lead(in_charge=in_charge)
        if not in_charge:
            log.info("another scheduler is in charge, or was killed just now: standing by")

    def go_on(snapshot: FarmSnapshot, rekey: bool, learned: SchedulerMemory) -> None:
        _learn_again(farm.scheduler.estimator, learned.statistics)
        restore(farm.scheduler, snapshot, rekey=rekey)
        farm.learned = learned

    def make_log_folder(anew: bool) -> None:
        path = log_folder or Path()
        RunDirectory.reopen(path, scenario=scenario.to_yaml(), started=now(), anew=anew)

    def make_scheduler() -> Scheduler:
        return Estimating(scenario, live=True, again=played_again).scheduler()

    def on_tick(_: LiveWorld) -> float:
        for complaint in first_complaints(farm.scheduler.own_functions):
            log.warning("%s", complaint)
        return farm.control.turn()

    lines = None if log_folder is None else EventLogLines()
    stays = Stays(
        restore=go_on,
        rules=rules_of(scenario),
        fresh=fresh,
        log=None if lines is None else lines.take,
        log_folder=log_folder or Path(),
        make_log_folder=make_log_folder,
        make_scheduler=None if lines is None else make_scheduler,
        accept_loss=accept_loss,
        on_charge=on_charge,
    )
    options = farm.options(
        redis_url=redis, prefix=prefix, hosts=hosts, stays=stays, incarnation=settings.incarnation
    )
    ended = farm.play(
        None,
        options,
        observers=() if lines is None else (lines,),
        on_up=lambda *_: log.info("in charge of %s at %s", scenario.name, redacted(redis)),
        on_tick=on_tick,
    )
    status = ended.status
    log.info("stopped: %d waiting and %d running jobs stay", status.waiting, status.running)


def _learn_again(estimator: object, statistics: dict[str, object] | None) -> None:
    """Take back what the farm's last scheduler had learned about run times."""
    if statistics is None or not isinstance(estimator, RuntimeDistribution):
        return
    try:
        estimator.load(statistics)
    except StateError as error:
        log.info("learns run times from nothing: %s", error)
