"""``farm admin scheduler``: the scheduler of a long-running farm, as a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.long_running.scheduler_service import serve
from farm.app.runs.live_farm import KEEP_ENDED
from farm.core.errors import InputError
from farm.metrics.exporter import LOOPBACK, MetricsPlace
from farm.scenario import load_scenario
from farm.scenario.model import StandingFarm
from farm.terminal.options import (
    MetricsAddress,
    MetricsPort,
    MetricsTargets,
    Overrides,
    ScenarioFile,
    server_option,
)
from farm.terminal.output import log_to_stderr


def scheduler(
    scenario: ScenarioFile,
    sets: Overrides = None,
    redis: Annotated[
        str | None, server_option("The farm's server; it must outlive the scheduler.")
    ] = None,
    hosts: Annotated[int, typer.Option(min=0)] = 0,
    keep_ended: Annotated[int, typer.Option(min=1)] = KEEP_ENDED,
    fresh: Annotated[bool, typer.Option("--fresh")] = False,
    accept_loss: Annotated[bool, typer.Option("--accept-loss")] = False,
    log: Path | None = None,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    metrics_targets: MetricsTargets = None,
) -> None:
    """Run the scheduler of a long-running farm, until SIGTERM or Ctrl-C.

    Pools, scheduling and speed are taken from the scenario, but not the workload (farm
    submit SCENARIO). It continues from the state in Redis: no job is lost by a restart or a crash.
    A second scheduler of the same farm is on standby until the first one has ended.

    Args:
        hosts: Number of builder hosts to start here; 0: they are started elsewhere.
        keep_ended: Number of ended jobs to keep.
        fresh: Discard the farm's state in Redis.
        accept_loss: Go on without what the event log has and the server has lost.
        log: Directory for the farm's event log, in the form of a run.

    Examples:
        farm admin scheduler mine.yaml --hosts 2
        farm admin scheduler mine.yaml --log run  with an event log
        farm admin scheduler mine.yaml --keep-ended 1000
    """
    log_to_stderr()
    wanted = load_scenario(scenario, sets or (), kind=StandingFarm)
    if not redis:
        raise InputError("--redis: found none; give the farm's server, or set FARM_REDIS_URL")
    serve(
        wanted,
        redis,
        hosts=hosts,
        keep_ended=keep_ended,
        fresh=fresh,
        log_folder=log,
        accept_loss=accept_loss,
        metrics=MetricsPlace(metrics_port, metrics_address, metrics_targets),
    )
