"""``python -m farm.processes.ends_with_keeper MODULE …``: a module's process ends with its keeper.

Standard input is the *keeper's pipe*, whose other end only the keeper has. When it closes, however
the keeper ended, this process is asked to end as by SIGTERM, and ended a little later if it has
not. It is watched from the first moment, before anything of MODULE is imported: a process
that is still coming up when its keeper dies ends as well.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading

from farm.processes.child import ORPHANED
from farm.processes.module_command import module_command

#: real seconds between the closing of the pipe and the hard end
LAST_CHANCE = 5.0


def command_with_keeper(*words: str) -> list[str]:
    """Return the command line that runs a module (the first word) on our interpreter so."""
    return module_command("farm.processes.ends_with_keeper", *words)


def watch() -> None:
    """Start a thread that watches the pipe."""
    threading.Thread(target=_watch, name="farm-keeper", daemon=True).start()


def _watch() -> None:
    # not sys.stdin, whose lock a thread that waits in it would hold at the interpreter's end
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(LAST_CHANCE)
    os._exit(ORPHANED)


if __name__ == "__main__":
    watch()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
