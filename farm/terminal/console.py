"""Output on a terminal: safe text, and unfolded lines in pipes.

Names come from the users who submit jobs. Control characters (escape sequences, and marks that
reverse the text direction) are made visible instead of being sent; JSON output has every byte.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import NoReturn

from rich.console import Console, RenderableType
from rich.text import Text

#: maximum number of characters shown of a text, and of a message
MAX_TEXT, MAX_MESSAGE = 200, 4000
#: width of a table in a file or a pipe, where nothing needs to be folded
WIDE = 1000

COLOURS = {
    "succeeded": "green", "failed": "red", "cancelled": "yellow", "running": "cyan",
    "building": "green", "cleaning": "cyan", "draining": "yellow", "lost": "red",
    "booting": "magenta",
}  # fmt: skip


class FarmConsole(Console):
    """A console that prints text unchanged: no markup, no emoji names, no guessed colours."""

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        # rich would fold output to a pipe as on a terminal of 80 columns
        piped = stream is None or not stream.isatty()
        width = shutil.get_terminal_size((WIDE, 40)).columns if piped else None
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)

    def note(self, *what: RenderableType) -> None:
        """Print remarks unfolded, their texts made plain, and tables, folded if need be."""
        for one in what:
            shown = message(one) if isinstance(one, str) else one
            self.print(shown, soft_wrap=isinstance(one, str | Text))

    def on_broken_pipe(self) -> NoReturn:
        """Let the command line handle it, as for all other output (farm.cli.main:Commands)."""
        raise BrokenPipeError


def plain(text: object, most: int = MAX_TEXT) -> str:
    """Return the text without effects on a terminal, truncated if it is very long."""
    shown = str(text)
    cut = len(shown) > most
    if cut:
        shown = shown[: most - 1]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else _spelled(c) for c in shown)
    return f"{shown}…" if cut else shown


def message(text: object) -> str:
    """Return a message of several lines, each made plain."""
    lines = str(text)[:MAX_MESSAGE].split("\n")
    return "\n".join(plain(line, MAX_MESSAGE) for line in lines)


def print_message(text: str, *, error: bool) -> None:
    """Print a message on standard error, not folded; an error is marked as such."""
    mark = [("error: ", "bold red")] if error else []
    FarmConsole(stderr=True).print(Text.assemble(*mark, message(text)), soft_wrap=True)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def coloured(state: str) -> Text:
    """Return a state of a job or builder in its colour."""
    return Text(plain(state), COLOURS.get(state, ""))


def counted(states: Mapping[str, int]) -> Text:
    """Return the number of each state."""
    return Text(" · ").join(
        Text.assemble(f"{count:,} ", coloured(state)) for state, count in states.items() if count
    )
