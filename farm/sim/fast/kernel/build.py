"""Builds the compiled kernel: ``python -m farm.sim.fast.kernel.build``, or ``make kernel``.

Numba compiles it (``emit``), and a C compiler links it. What results needs neither.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from farm.sim.fast.kernel import native


def build() -> Path:
    """Build the object, unless it is there, and return its path; older ones are removed.

    Raises ImportError without Numba, OSError or CalledProcessError without a C compiler that works.
    """
    made = native.path()
    if made.exists():
        return made
    if not os.access(made.parent, os.W_OK):
        raise PermissionError(f"{made.parent} cannot be written")
    from farm.sim.fast.kernel.emit import emitted  # noqa: PLC0415 - Numba, only to build

    code = emitted()  # for a minute, in which an end would leave the folder
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        compiled_code, linked = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        compiled_code.write_bytes(code)
        # nothing of a C library is needed but fmod, which is in the process
        undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-nostdlib"]
        command = ["cc", "-shared", *undefined, "-o", str(linked), str(compiled_code)]
        subprocess.run(command, check=True)
        linked.replace(made)  # in one step: others may load it
    for other in made.parent.glob("kernel-*.so"):
        if other.name.split("-", 2)[2] == made.name.split("-", 2)[2] and other != made:
            other.unlink(missing_ok=True)
    return made


def main() -> str | None:
    """Build it, and say where it is; return what stands in the way, if something does."""
    os.nice(10)
    if shutil.which("cc") is None and not native.path().exists():
        # said before a minute of compiling
        return "error: found no C compiler (cc), which links the compiled kernel"
    try:
        print(f"the compiled kernel: {build()}")  # noqa: T201 - said by make
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        return f"error: the compiled kernel cannot be built here: {error}"
    return None


if __name__ == "__main__":
    if trouble := main():
        sys.exit(f"{trouble}. Everything works without it, simulations ten times as slowly")
