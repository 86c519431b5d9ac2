"""The compiled loop of a clone, built in the background when a command has missed it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from shlex import quote

from farm.sim.fast.kernel import native

CLONE = Path(__file__).parents[2]
WORTH_BUILDING = 2.0
"""Seconds of processor time that a command has taken without the loop, at least."""
MAX_TIME = 1800
"""Seconds after which the build is ended, where there is a command for that."""


def build_in_background(spent: float) -> Path | None:
    """Start ``make kernel`` if this command would have gained from it; return its log.

    ``spent``: the processor time of the command (s). Only in a clone's own environment, where a C
    compiler is found, and once for the present sources, also if it fails.
    """
    make, cc = shutil.which("make"), shutil.which("cc")
    if spent < WORTH_BUILDING or make is None or cc is None:
        return None
    if Path(sys.prefix) != CLONE / ".venv" or not (CLONE / "Makefile").exists():
        return None
    if not native.is_there.cache_info().currsize or native.is_there():
        return None  # nothing has asked for it, or it is there
    log = CLONE / "build" / f"{native.path().stem}.log"
    try:
        log.parent.mkdir(exist_ok=True)
        with log.open("x") as written:
            written.write("make kernel: installs Numba into build/numba, compiles\n")
            written.flush()
            bound = f"timeout {MAX_TIME} " if shutil.which("timeout") else ""
            # by a shell that ends at once: the build is no child of this command
            subprocess.run(
                ["/bin/sh", "-c", f"{bound}{quote(make)} --silent kernel &"],
                cwd=CLONE,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,
                check=False,
                timeout=10.0,
            )
    except (OSError, subprocess.TimeoutExpired):  # begun before, or a clone that cannot be written
        return None
    return log
