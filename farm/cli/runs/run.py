"""``farm run``: runs a scenario on a live farm."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from farm.app.recorded.result import Result
from farm.app.runs.live_run import live_run
from farm.app.runs.planning_pace import too_fast_to_plan
from farm.cli.runs.run_summary import (
    EventLines,
    exit_code,
    kept_in,
    parse_checks,
    share_done,
    show,
    show_checks,
    with_size,
)
from farm.live.wire.pool_report import FarmStatus
from farm.metrics.exporter import LOOPBACK, MetricsPlace
from farm.results.run_directory import SCENARIO
from farm.scenario import load_scenario
from farm.terminal.options import (
    AsJson,
    Checks,
    LearnFrom,
    Log,
    MetricsAddress,
    MetricsPort,
    MetricsTargets,
    NoSave,
    Out,
    Overrides,
    Quiet,
    ScenarioFile,
    Speed,
    learning,
    server_option,
    speed_set,
)
from farm.terminal.output import progress, remark, this_command, warn
from farm.units import format_roughly


def run(
    scenario: ScenarioFile,
    sets: Overrides = None,
    out: Out = None,
    no_save: NoSave = False,
    learn_from: LearnFrom = None,
    speed: Speed = None,
    duration: str | None = None,
    redis: Annotated[
        str | None, server_option("Use this server. Default: a new one, stopped at the end.")
    ] = None,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    metrics_targets: MetricsTargets = None,
    check: Checks = None,
    log: Log = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a scenario on a live farm: real server, real Celery builders, real time.

    Ctrl-C stops the load and lets running jobs end; twice stops them immediately. Either way the
    run is reported.

    Args:
        duration: Stop the load after this farm time, such as 2h, and drain.

    Examples:
        farm run quickstart                            an afternoon of jobs, in half a minute
        farm run quickstart --speed 60 -o runs/slow    a minute a second; kept for farm report
        farm run mine.yaml --policy sjf --duration 2h  another policy, and two hours of load
    """
    overrides = [*(sets or ()), *learning(learn_from), *speed_set(speed)]
    wanted = load_scenario(scenario, overrides, on_step=partial(remark, quiet=quiet or as_json))
    terms = parse_checks(check, wanted)
    warn(*too_fast_to_plan(wanted))
    with (
        kept_in(out, wanted, save=not no_save) as kept,
        progress(f"starting {wanted.name}", silent=quiet or as_json or log) as update,
    ):
        ended = live_run(
            wanted,
            out=kept,
            redis=redis,
            duration=duration,
            metrics=MetricsPlace(metrics_port, metrics_address, metrics_targets),
            show=lambda now: update(
                description=_words(now), **share_done(wanted, now.at, sum(now.ended.values()))
            ),
            observers=[EventLines()] if log else (),
        )
    result = Result(*ended)
    show(result, as_json=as_json, quiet=quiet)
    met_all = show_checks(result, terms, as_json=as_json)
    if kept is not None and not (quiet or as_json):
        _what_next(scenario if not overrides else kept / SCENARIO, kept)
    if result.interrupted:
        raise typer.Exit(130)
    raise typer.Exit(exit_code(result.kept.summary) if met_all else 1)


def _words(now: FarmStatus) -> str:
    """Return the farm's status in few words, so that they fit in a line of 80 columns."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(now.builders.items()))
    return (
        f"{'stopping, ' if now.stopping else ''}{format_roughly(now.at)}: {now.waiting} waiting, "
        f"{now.running} running, {sum(now.ended.values())}/{now.submitted} done; "
        f"builders: {states or 'none'}"
    )


def _what_next(scenario: Path, live: Path) -> None:
    """Suggest commands that work as they are printed; ``scenario`` has the run's overrides."""
    farm, kept, played = this_command(), quote(str(live)), quote(str(scenario))
    simulated, sjf = (quote(f"{live}-{name}") for name in ("simulated", "sjf"))
    remark(
        "",
        f"kept in {with_size(live)}. What next:",
        "  the same farm in virtual time:",
        f"    {farm} simulate {played} --out {simulated}",
        "  how well the two agree:",
        f"    {farm} compare {kept} {simulated}",
        f"  a page of it: {farm} report {kept} -o {quote(live.name)}.html",
        "  another policy, the same jobs:",
        f"    {farm} simulate {played} --set scheduling.policy=sjf --out {sjf}",
    )
