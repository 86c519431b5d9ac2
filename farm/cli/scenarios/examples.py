"""``farm examples``: lists the packaged scenarios."""

from __future__ import annotations

from typing import Annotated

import typer

from farm.scenario.packaged_examples import examples as all_examples
from farm.scenario.packaged_examples import find_scenario
from farm.terminal.cells import folding, texts
from farm.terminal.options import AsJson
from farm.terminal.output import note, print_json
from farm.terminal.tables import Listing


def examples(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None, as_json: AsJson = False
) -> None:
    """List the packaged examples, which can be used by name in every command.

    Args:
        name: Print this example, as a start for your own scenario.

    Examples:
        farm examples                  their names
        farm examples mm1 > mine.yaml  one as a start for your own
        farm examples --json
    """
    if name is not None:
        typer.echo(find_scenario(name).read_text(encoding="utf-8"), nl=False)
        return
    rows = list(all_examples().items())
    if as_json:
        print_json(*({"name": key, "about": text} for key, text in rows))
        return
    note(Listing((*texts("example"), *folding("about")), rows))
