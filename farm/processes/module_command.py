"""The command line that runs a module of this project on our interpreter."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from farm.plugins.entry_points import is_installed

_CHECKOUT: Final = str(Path(__file__).parents[2])
_FROM_CHECKOUT: Final = (
    f"import runpy, sys; sys.path.append({_CHECKOUT!r}); del sys.argv[0]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def module_command(*words: str) -> list[str]:
    """Return the command line that runs a module (the first word) as a process of its own.

    With ``-P`` the interpreter does not search the present folder for modules: users start farms in
    folders of theirs, where a file ``queue.py`` would take the place of Python's own. In a checkout
    that is not installed that folder is where our modules are, so they are searched there last.
    """
    start = ["-m"] if is_installed() else ["-c", _FROM_CHECKOUT]
    return [sys.executable, "-P", *start, *words]
