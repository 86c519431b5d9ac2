"""Text that is safe to show on a terminal.

Names come from the users who submit jobs. Control characters (escape sequences, and marks that
reverse the text direction) are made visible instead of being sent; JSON output has every byte.
"""

from __future__ import annotations

import shutil
from typing import TextIO

from farm.terminal.settings import wants_colours

#: width of a table in a file or a pipe, where nothing needs to be folded
WIDE = 1000
#: maximum number of characters shown of a text, and of a message
MAX_TEXT, MAX_MESSAGE = 200, 4000


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


def is_plain(stream: TextIO | None) -> bool:
    """Return whether a stream, such as a pipe, shows no colours: texts are written as they are.

    Who writes to it needs no rich, which takes longer to import than most messages to make.
    """
    return stream is not None and not stream.isatty() and not wants_colours()


def width_of_pipes() -> int:
    """Return how wide tables in files and pipes may be, unless COLUMNS says it."""
    return shutil.get_terminal_size((WIDE, 40)).columns


def write_messages(stream: TextIO, *texts: object, mark: str = "") -> None:
    """Write messages to a plain stream, each on lines of its own, after a mark."""
    stream.writelines(f"{mark}{message(text)}\n" for text in texts)
    stream.flush()


def _spelled(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()
