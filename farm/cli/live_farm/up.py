"""``farm up``: starts a long-running farm."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from farm.app.long_running.background_farm import locked, refuse_second, start_in_background
from farm.app.long_running.farm_daemon import (
    FarmKeeper,
    check_services,
    metrics_place,
    own_options,
    refuse_other_speed,
)
from farm.app.runs.planning_pace import too_fast_to_plan
from farm.core.errors import InputError
from farm.live.redis.connection import redacted
from farm.metrics.exporter import LOOPBACK
from farm.scenario import load_scenario
from farm.scenario.model import StandingFarm
from farm.terminal.error_messages import on_interrupt
from farm.terminal.options import (
    DEFAULT_DIR,
    AsJson,
    Dir,
    MetricsAddress,
    MetricsPort,
    Overrides,
    Quiet,
    ScenarioFile,
    Speed,
    server_option,
    speed_set,
)
from farm.terminal.output import log_to_stderr, print_json, progress, remark, this_command, warn
from farm.whole_files import STDIN


def up(
    scenario: ScenarioFile,
    sets: Overrides = None,
    speed: Speed = None,
    redis: Annotated[
        str | None, server_option("Use this server. Default: a new one, with its data in DIR.")
    ] = None,
    folder: Dir = DEFAULT_DIR,
    fresh: Annotated[bool, typer.Option("--fresh")] = False,
    accept_loss: Annotated[bool, typer.Option("--accept-loss")] = False,
    foreground: Annotated[bool, typer.Option("--foreground")] = False,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Start a long-running farm: server, scheduler, provisioner, builder hosts.

    Jobs are submitted with farm submit; the scenario needs no workload. Jobs that were waiting when
    the farm was last stopped (or killed) are resumed.

    Args:
        fresh: Discard the state of an earlier farm.
        accept_loss: Go on without what the event log has and the server has lost.
        foreground: Stay in this terminal; Ctrl-C drains, twice stops.

    Examples:
        farm up mine.yaml                      in the background; its state is in .farm
        farm --dir night up mine.yaml --fresh  another one, from nothing
        farm up mine.yaml --foreground --policy sjf
    """
    overrides = [*(sets or ()), *speed_set(speed)]
    if scenario == STDIN and not foreground:
        raise InputError("-: allowed with --foreground: a farm in the background reads a file")
    wanted = load_scenario(scenario, overrides, kind=StandingFarm)
    check_services(wanted)
    refuse_second(folder)
    if redis is None and not fresh:
        refuse_other_speed(folder, wanted, is_given=speed is not None)
    metrics = metrics_place(folder, metrics_port, metrics_address)
    warn(*too_fast_to_plan(wanted))
    if foreground:
        log_to_stderr()
        with locked(folder):
            FarmKeeper(wanted, redis, folder, metrics, fresh=fresh, accept_loss=accept_loss).run()
        return
    with locked(folder):
        pass  # so that errors of the folder are reported now
    options = [f"--set={override}" for override in overrides]
    options += ["--fresh"] if fresh else []
    options += ["--accept-loss"] if accept_loss else []
    options += own_options(metrics)
    again = f"its jobs stay in {folder}, and the same command starts it"
    stays = f'farm "{wanted.name}" was stopped; {again}'
    with (
        on_interrupt(lambda: stays),
        progress(f"starting {wanted.name}", silent=quiet or as_json),
    ):
        place = start_in_background(scenario, redis, folder, options)
    if as_json:
        document = {"name": wanted.name, "redis_url": redacted(place.redis_url), "pid": place.pid}
        document |= {"prefix": place.prefix, "speed": place.speed, "dir": str(folder)}
        document |= {"restored": place.restored}
        print_json(document)
    elif not quiet:
        warn(place.restored)
        typer.echo(
            f"farm {wanted.name} is up at {redacted(place.redis_url)} (speed {place.speed:g})"
        )
        where = "" if folder == DEFAULT_DIR else f" --dir {shlex.quote(str(folder))}"
        me = this_command()
        remark(
            f"  {me} submit{where} --service-time 90s --count 20   submit jobs",
            f"  {me} status{where} --watch                         show its state",
            f"  {me} down{where}                                   end it",
        )
        if metrics.targets is not None:
            files = f"{metrics.targets.absolute()}/*.json"
            remark(f"metrics for Prometheus (file_sd_configs): {files}")
