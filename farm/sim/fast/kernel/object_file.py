"""The file of the compiled kernel: its sources, its name, and what could compile it.

Whatever builds the package imports this before NumPy is there.
"""

from __future__ import annotations

import os
import shutil
import sys
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent
FARM = HERE.parents[2]
CLONE = FARM.parent
ALGORITHMS = CLONE / "provisioner/algorithms"
COMPILER = HERE.parent / "compiler"
#: what the object is made of and by, beside this package
SOURCES = (
    "farm/core/contention/laws.py",
    "farm/core/jobs/failure_judgement.py",
    "farm/core/pools/algorithm.py",
    "farm/core/pools/spec.py",
    "farm/core/pools/unrunnable_jobs.py",
    "farm/core/simultaneity.py",
    "farm/emulation/agenda.py",
    "farm/sim/fast/compiler/python_in_c.h",
    *sorted(f"farm/sim/fast/compiler/{path.name}" for path in COMPILER.glob("*.py")),
    "farm/sim/provisioning.py",
    "farm/sim/rollouts/fair_loops.py",
    "farm/sim/rollouts/loops.py",
    *sorted(
        f"provisioner/algorithms/{path.name}"
        for path in ALGORITHMS.glob("[a-z]*.py")
        if path.name != "registry.py"
    ),
)
CALLERS = ("native.py", "object_file.py")
"""Modules here that are no part of the object."""
C_COMPILERS = ("cc", "gcc", "clang")


def digest() -> str:
    """Return what tells the present sources from others."""
    kernel = sorted(path for path in HERE.glob("*.py") if path.name not in CALLERS)
    sources = [*kernel, *(CLONE / name for name in SOURCES)]
    return sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def system() -> str:
    """Return what kind of machine this is: its system and C library, and its processor."""
    libc = ""
    if sys.platform == "linux" and "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        libc = "-musl"
    return f"{sys.platform}{libc}-{os.uname().machine}"


def path(for_system: str = "") -> Path:
    """Return where the object of these sources is, or would be; by default for this machine."""
    return HERE / f"kernel-{digest()}-{for_system or system()}.so"


def c_compiler() -> str | None:
    """Return the path of a C compiler; None: there is none."""
    paths = map(shutil.which, C_COMPILERS)
    return next((path for path in paths if path is not None), None)
