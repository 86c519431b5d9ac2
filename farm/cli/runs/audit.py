"""``farm audit``: whether a recorded run makes sense, and would be decided the same again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.recorded.run_audit import audit_run
from farm.core.errors import InvariantError
from farm.terminal.options import AsJson, Quiet
from farm.terminal.output import print_json


def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check a recorded run: its event log makes sense, and replays the same.

    Exit code 1, with the first thing that is wrong, if not.
    """
    found = audit_run(run)
    if as_json:
        print_json(found)
        raise typer.Exit(1 if found.wrong else 0)
    if found.wrong:
        raise InvariantError(f"{run}: {found.wrong}")
    if not quiet:
        why = found.not_replayed
        replayed = f"not replayed ({why})" if why else "replayed the same"
        typer.echo(f"{run}: sound: {found.events:,} events, {found.jobs:,} jobs; {replayed}")
