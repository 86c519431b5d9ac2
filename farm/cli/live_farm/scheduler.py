"""``farm scheduler``: the scheduler of a farm that stays up, as a service."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from farm.app.staying_up.scheduler_service import serve
from farm.core.errors import InputError
from farm.metrics.exporter import LOOPBACK, MetricsPlace
from farm.scenario import load_scenario
from farm.terminal.options import (
    MetricsAddress,
    MetricsPort,
    MetricsTargets,
    Overrides,
    ScenarioFile,
    server_option,
)

#: ended jobs whose story stays in Redis
KEEP_ENDED = 100_000


def scheduler(
    scenario: ScenarioFile,
    sets: Overrides = None,
    redis: Annotated[
        str | None,
        server_option("The farm's server; it must outlive us."),
    ] = None,
    hosts: Annotated[
        int, typer.Option(min=0, help="Builder hosts to start here; 0: they come from elsewhere.")
    ] = 0,
    keep_ended: Annotated[
        int, typer.Option(min=1, help="How many ended jobs are remembered.")
    ] = KEEP_ENDED,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget the farm that is in Redis.")
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(help="Where the farm's event log is kept: a directory that is a run's."),
    ] = None,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    metrics_targets: MetricsTargets = None,
) -> None:
    """Run the scheduler of a farm that stays up, until SIGTERM or Ctrl-C.

    Pools, scheduling and speed are the scenario's; its workload is left to others (submit, load).
    It goes on with what is in Redis: after a restart, or a kill, no job is lost. A second
    scheduler on the same farm stands by until the first one is gone.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    wanted = load_scenario(scenario, sets or ())
    if not redis:
        raise InputError("--redis: found none; give the farm's server, or set FARM_REDIS_URL")
    serve(
        wanted,
        redis,
        hosts=hosts,
        keep_ended=keep_ended,
        fresh=fresh,
        log_folder=log,
        metrics=MetricsPlace(metrics_port, metrics_address, metrics_targets),
    )
