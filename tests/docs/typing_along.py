"""Run the documents' commands and compare their output.

Real time is not compared, nor are the numbers of a live farm.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell command with this interpreter's ``farm`` first in the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    plain = {"PATH": path, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=os.environ | plain,
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )


def assert_prints(expected: str, found: str, *, live: bool) -> None:
    """Compare, ignoring white space and what differs between machines."""
    hide = without_numbers if live else same_speed
    expected, found = hide(expected), hide(found)
    if not doctest.OutputChecker().check_output(expected, found, LENIENT):
        assert found == expected


def same_speed(text: str) -> str:
    """Hide the real time that a run took."""
    return re.sub(r"^took +.*? of real time", "took TIME of real time", text, flags=re.MULTILINE)


def without_numbers(text: str) -> str:
    """Hide numbers with their units, and the name of the server."""
    text = re.sub(r"\b(?:redis|valkey)\b(?= \d)", "SERVER", same_speed(text))
    number = r"[-+]?\d[\d.,]*(?: ?(?:ms|[smhd%])(?![a-z]))?(?:\d+(?:ms|[smhd]))*"
    return re.sub(number, "N", text)
