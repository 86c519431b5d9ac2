"""``farm sweep``: runs a scenario with many settings and seeds."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from farm.app.sweeps.axes import Grid, parse_axis
from farm.app.sweeps.swept import SHOWN, SweepResult, in_words, play_sweep
from farm.core.errors import InputError
from farm.results.comparison.compared_metrics import Metric, metrics_named
from farm.results.comparison.comparison_tables import render_sweep
from farm.scenario import load_scenario
from farm.terminal.error_messages import on_interrupt
from farm.terminal.options import (
    AsJson,
    Overrides,
    Quiet,
    Relevant,
    ScenarioFile,
    as_typed,
    server_option,
    share_of,
)
from farm.terminal.output import counted_progress, note, remark, shared_progress
from farm.units import many


def sweep(
    scenario: ScenarioFile,
    vary: Annotated[list[str] | None, typer.Option(metavar="KEY=V1,V2")] = None,
    replications: Annotated[int, typer.Option("--replications", "-n")] = 10,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR")] = None,
    baseline: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC", help=f"Metric to show. Default: {', '.join(SHOWN)}."),
    ] = None,
    relevant: Relevant = "1%",
    redis: Annotated[
        str | None,
        server_option(
            "Let Celery workers do the runs: FARM_REDIS_URL=URL celery -A "
            "farm.app.sweeps.worker worker, on any machine.",
            envvar=None,
        ),
    ] = None,
    sets: Overrides = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a scenario with many settings, each with the same seeds, and compare them.

    The first sentence is of the first --metric. For the cheapest setting that meets an objective:
    farm plan --slo 'p95(waiting_time) < 5m' --vary KEY=V1,V2.

    Args:
        vary: A key and its values: scheduling.policy=fifo,sjf; pools.*.idle_timeout=5m,15m sets it
            in every pool, scheduling=@a.yaml,@b.yaml a section; repeatable.
        replications: Number of seeds, the same for every setting.
        out: Keep tables and finished runs; a stopped sweep is continued.
        baseline: The baseline for comparisons. Default: the first values.

    Examples:
        farm sweep quickstart --vary scheduling.policy=fifo,sjf
        farm sweep mine.yaml --vary pools.linux.builders=4,6,8 -n 20
        farm sweep mine.yaml --vary scheduling.policy=fifo,sjf -o sweep  kept, for farm report sweep
    """
    shown = metrics_named(metric or SHOWN, "--metric")
    base = load_scenario(scenario, sets or (), on_step=partial(remark, quiet=quiet or as_json))
    grid = Grid(base, [parse_axis(text) for text in vary or ()])
    chosen = dict(_baseline(text) for text in baseline or ())
    done = 0

    def show_runs(now: int, of: int) -> None:
        nonlocal done
        done = now
        show(now, of)

    with (
        on_interrupt(lambda: _what_stays(done, out)),
        counted_progress("runs", silent=quiet) as show,
    ):
        found = play_sweep(grid, replications, out, chosen, share_of(relevant), show_runs, redis)
    if as_json:
        typer.echo(found.sweep.to_json().decode(), nl=False)
    else:
        note(render_sweep(found.sweep, shown))
        if not quiet:
            _show_advice(found, shown[0], as_typed(scenario, sets))
    if out is not None:
        remark(f"kept in {out}: table.csv, runs.csv, sweep.json", quiet=quiet)


def _show_advice(found: SweepResult, metric: Metric, typed: str) -> None:
    """Say what would shorten the waits further with the setting of the answer.

    ``typed``: the swept scenario as a command takes it.
    """
    with shared_progress("finding where builders are short") as on_share:
        advice = found.advised(metric, on_share, typed)
    if text := in_words(advice, found.sweep, metric):
        note(text)


def _baseline(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--baseline {text}: allowed: KEY=VALUE, such as scheduling.policy=fifo")
    return key.strip(), value.strip()


def _what_stays(done: int, out: Path | None) -> str:
    if out is not None:
        return f"the {many(done, 'finished run')} stay in {out}: the same command continues"
    return (
        f"of {many(done, 'finished run')} nothing is kept; with -o DIR the same command continues"
    )
