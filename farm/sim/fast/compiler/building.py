"""Compiles the loop of simulations: by a C compiler that is there, or by one that is fetched."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from farm.sim.fast.compiler.program import kernel
from farm.sim.fast.kernel import object_file

FLAGS = (
    *("-std=gnu11", "-O2", "-fPIC", "-shared"),
    # a product that is added is rounded first, as in Python
    "-ffp-contract=off",
    # integers wrap around: no compiler may assume that they do not
    "-fwrapv",
)
SYSTEMS = {
    "linux-x86_64": "x86_64-linux-gnu.2.17",
    "linux-aarch64": "aarch64-linux-gnu.2.17",
    "linux-musl-x86_64": "x86_64-linux-musl",
    "linux-musl-aarch64": "aarch64-linux-musl",
    "darwin-x86_64": "x86_64-macos.11.0",
    "darwin-arm64": "aarch64-macos.11.0",
}
"""Systems that a wheel has an object for (``object_file.system``), as Zig calls them."""
ZIG = "ziglang>=0.17,<0.18"
ZIG_SIZE = "101 MB"
"""A package with a C compiler for all of these systems, and what has to be fetched for it."""
MAX_COMPILE_TIME = 300.0
"""Seconds after which a compiler is ended; it needs two, and Zig's some more at first."""
MAX_FETCH_TIME = 600.0
"""Seconds after which fetching a compiler is given up."""


class BuildError(Exception):
    """The loop cannot be compiled here; the message says why."""


class Compiler(NamedTuple):
    """How a C compiler is called."""

    command: tuple[str, ...]
    #: variables of its environment, beside those of this process
    environment: Mapping[str, str] = {}


def build(*, fetch: bool = False) -> Path:
    """Build the object for this machine, unless it is there, and return its path.

    Raises BuildError if there is no C compiler, it does not work, or the folder cannot be written.

    Args:
        fetch: whether a compiler is fetched from the package index if none is there that works.
    """
    target = object_file.path()
    if _can_be_loaded(target):
        return target
    program = kernel()
    found = object_file.c_compiler()
    error = BuildError(f"no C compiler was found ({', '.join(object_file.C_COMPILERS)})")
    if found is not None:
        try:
            compile_c(program, target, Compiler((found,)))
        except BuildError as failure:
            error = failure
        else:
            remove_other_objects()
            return target
    if not fetch:
        raise error
    with zig(f"{error}: fetching {ZIG_SIZE}, to compile the loop of simulations") as compiler:
        compile_for(object_file.system(), program, compiler)
    remove_other_objects()
    return target


def build_for_all_systems() -> list[Path]:
    """Build the objects that a wheel carries; raises BuildError."""
    program = kernel()
    with zig(f"fetching {ZIG_SIZE}: a C compiler for other systems") as compiler:
        paths = [compile_for(system, program, compiler) for system in SYSTEMS]
    remove_other_objects()
    return paths


def compile_for(system: str, program: str, compiler: Compiler) -> Path:
    """Compile the object for a system by Zig's compiler; return its path. Raises BuildError."""
    # of a system that a wheel has none for, it knows best itself
    options = ("-target", SYSTEMS[system]) if system in SYSTEMS else ()
    target = object_file.path(system)
    compile_c(program, target, compiler._replace(command=(*compiler.command, *options, "-s")))
    return target


def compile_c(program: str, target: Path, compiler: Compiler) -> None:
    """Compile a program in C to a shared object; raises BuildError.

    It comes to its place in one step, as other processes may load it, or build it, too.
    """
    if not os.access(target.parent, os.W_OK):
        raise BuildError(f"{target.parent} cannot be written")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        text = Path(folder, "kernel.c")
        text.write_text(program, "utf-8")
        compiled = Path(folder, target.name)
        command = [*compiler.command, *FLAGS, "-o", str(compiled), str(text), "-lm"]
        _run(command, dict(os.environ, **compiler.environment), MAX_COMPILE_TIME)
        compiled.replace(target)


@contextmanager
def zig(reason: str) -> Iterator[Compiler]:
    """Yield Zig's C compiler, which is fetched if it is not installed, and removed again.

    Raises BuildError if it cannot be fetched.

    Args:
        reason: what is printed before it is fetched.
    """
    with tempfile.TemporaryDirectory() as folder:
        cache = str(Path(folder, "cache"))
        environment = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
        if find_spec("ziglang") is None:
            sys.stderr.write(f"{reason}\n")
            sys.stderr.flush()
            packages = str(Path(folder, "packages"))
            _fetch(packages)
            environment["PYTHONPATH"] = packages
        yield Compiler((sys.executable, "-m", "ziglang", "cc"), environment)


def remove_other_objects() -> None:
    """Remove the objects of other sources than the present ones."""
    digest = object_file.digest()
    for path in object_file.HERE.glob("kernel-*.so"):
        if digest not in path.name:
            path.unlink(missing_ok=True)


def _fetch(folder: str) -> None:
    """Install Zig into a folder, by pip or uv with their own settings; raises BuildError."""
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)  # that of a package's build has no pip
    options = ["install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target", folder]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    try:
        _run([*pip, *options, ZIG], environment, MAX_FETCH_TIME)
    except BuildError:
        uv = shutil.which("uv")
        if uv is None:
            raise
        _run([uv, "pip", *options, ZIG], environment, MAX_FETCH_TIME)


def _run(command: list[str], environment: Mapping[str, str], limit: float) -> None:
    """Run a command for ``limit`` seconds at most; raises BuildError with what it wrote."""
    try:
        subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=limit,
        )
    except subprocess.CalledProcessError as error:
        output = error.stderr.decode("utf-8", "replace").strip()
        raise BuildError(f"{command[0]} failed: {output}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]} failed: {error}") from None


def _can_be_loaded(target: Path) -> bool:
    """Return whether an object is there that is not, for example, of a newer C library."""
    try:
        ctypes.CDLL(str(target))
    except OSError:
        return False
    return True
