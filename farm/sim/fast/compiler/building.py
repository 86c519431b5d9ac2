"""Compiles the loop of simulations, by a C compiler that is there."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from farm.sim.fast.compiler.program import kernel
from farm.sim.fast.kernel import native

FLAGS = (
    *("-std=gnu11", "-O2", "-fPIC", "-shared"),
    # a product that is added is rounded first, as in Python
    "-ffp-contract=off",
    # integers wrap around: no compiler may assume that they do not
    "-fwrapv",
)
MAX_COMPILE_TIME = 300.0
"""Seconds after which a compiler is ended; it needs two."""


class BuildError(Exception):
    """The loop cannot be compiled here; the message says why."""


def build() -> Path:
    """Build the object for this machine, unless it is there, and return its path.

    Objects of other sources are removed. Raises BuildError if there is no C compiler, it does not
    work, or the folder cannot be written.
    """
    target = native.path()
    if target.exists():
        return target
    compiler = native.c_compiler()
    if compiler is None:
        raise BuildError(f"no C compiler was found ({', '.join(native.C_COMPILERS)})")
    compile_c(kernel(), target, [compiler])
    digest = native.digest()
    for other in target.parent.glob("kernel-*.so"):
        if digest not in other.name:
            other.unlink(missing_ok=True)
    return target


def compile_c(program: str, target: Path, compiler: Sequence[str]) -> None:
    """Compile a program in C to a shared object; raises BuildError.

    It comes to its place in one step, as other processes may load it, or build it, too.

    Args:
        program: the text.
        target: the object's path.
        compiler: the command, and options beside the usual ones.
    """
    if not os.access(target.parent, os.W_OK):
        raise BuildError(f"{target.parent} cannot be written")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        text = Path(folder, "kernel.c")
        text.write_text(program, "utf-8")
        compiled = Path(folder, target.name)
        command = [*compiler, *FLAGS, "-o", str(compiled), str(text), "-lm"]
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=MAX_COMPILE_TIME,
            )
        except subprocess.CalledProcessError as error:
            output = error.stderr.decode("utf-8", "replace").strip()
            raise BuildError(f"{compiler[0]} failed: {output}") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"{compiler[0]} failed: {error}") from None
        compiled.replace(target)
