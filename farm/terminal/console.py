"""Output by rich: tables and colours on a terminal, and unfolded lines in pipes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NoReturn

from rich.console import Console, RenderableType
from rich.text import Text

from farm.terminal.cells import Styled
from farm.terminal.plain_text import message, plain, width_of_pipes

COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "running": "cyan",
    "building": "green",
    "cleaning": "cyan",
    "draining": "yellow",
    "lost": "red",
    "booting": "magenta",
}


class FarmConsole(Console):
    """A console that prints text unchanged: no markup, no emoji names, no guessed colours."""

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        # rich would fold output to a pipe as on a terminal of 80 columns
        piped = stream is None or not stream.isatty()
        width = width_of_pipes() if piped else None
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)

    def note(self, *what: RenderableType) -> None:
        """Print remarks unfolded, their texts made plain, and tables, folded if need be."""
        for one in what:
            shown = message(one) if isinstance(one, str) else one
            self.print(shown, soft_wrap=isinstance(one, str | Styled | Text))

    def on_broken_pipe(self) -> NoReturn:
        """Let the command line handle it, as for all other output (farm.cli.main:Commands)."""
        raise BrokenPipeError


def print_message(mark: str, text: str) -> None:
    """Print a message on standard error, not folded, after a mark in red."""
    shown = Text.assemble((mark, "bold red"), message(text))
    FarmConsole(stderr=True).print(shown, soft_wrap=True)


def coloured(state: str) -> Text:
    """Return a state of a job or builder in its colour."""
    return Text(plain(state), COLOURS.get(state, ""))


def counted(states: Mapping[str, int]) -> Text:
    """Return the number of each state."""
    return Text(" · ").join(
        Text.assemble(f"{count:,} ", coloured(state)) for state, count in states.items() if count
    )
