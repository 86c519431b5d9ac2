"""The command line that runs a module of an installed package on our interpreter."""

from __future__ import annotations

import sys


def module_command(*words: str) -> list[str]:
    """Return the command line that runs a module (the first word) as a process of its own.

    With ``-P`` the interpreter does not search the present folder for modules: users start farms in
    folders of theirs, where a file ``queue.py`` would take the place of Python's own.
    """
    return [sys.executable, "-P", "-m", *words]
