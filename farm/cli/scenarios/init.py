"""``farm init``: writes a first scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from farm.app.first_scenario import write_first_scenario
from farm.core.errors import InputError
from farm.scenario import scenario_schema
from farm.terminal.options import Columns, Quiet, columns_of
from farm.terminal.output import reading_progress, remark, this_command

FIRST = Path("scenario.yaml")


def init(
    trace: Annotated[Path | None, typer.Argument(metavar="[TRACE]")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE")] = FIRST,
    column: Columns = None,
    schema: Annotated[bool, typer.Option("--schema")] = False,
    strict: Annotated[bool, typer.Option("--strict")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a commented, runnable scenario, with a pool for each platform of a trace.

    Args:
        trace: Recorded jobs: a trace, a bundle, or records as they were fetched, also in a folder,
            which become a bundle beside the scenario. Default: some that are drawn.
        out: The new file.
        schema: Write nothing, but print the JSON Schema of all keys, for editors and checkers.
        strict: Refuse records that a check finds doubtful.

    Examples:
        farm init                              scenario.yaml: the twelve keys that a farm needs
        farm init jobs.csv -o mine.yaml        one for a table of your own jobs
        farm init --schema > farm.json         every key, with its meaning
    """
    if schema:
        if out != FIRST:
            raise InputError("--schema: found with --out; allowed: one of them, as > FILE")
        typer.echo(json.dumps(scenario_schema(), indent=2, ensure_ascii=False))
        return
    fields = columns_of(column)
    with reading_progress(silent=quiet) as on_read:
        remarks = write_first_scenario(out, trace, fields, on_read, strict=strict)
    tried = f"{out}: written; try it: {this_command()} simulate {out}"
    remark(*remarks, tried, quiet=quiet)
