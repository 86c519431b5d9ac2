"""``farm admin audit``: checks that a recorded run is consistent and reproducible."""

from __future__ import annotations

import typer

from farm.app.recorded.auditing import audit_run
from farm.core.errors import InvariantError
from farm.terminal.options import AsJson, Quiet, RunPath
from farm.terminal.output import print_json, progress


def audit(run: RunPath, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Check that a recorded run is consistent, and that its replay gives the same decisions.

    Otherwise prints the first error, with exit code 1.

    Examples:
        farm admin audit run        is the log sound, and does it replay?
        farm admin audit .farm/log  the log of a farm that farm up started
        farm admin audit run --json
    """
    with progress("replaying", silent=quiet or as_json):
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
