"""Builds this package: setuptools, and a compiled loop of simulations if none is here yet.

A release carries the loop for all systems. Where it is installed from the sources, as from a
clone or by git, it is compiled: by a C compiler, or one that is fetched. If that fails,
the package is built without, and works, simulations ten times as slowly.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).parent
#: what the loop's sources import
NEEDED = ("numpy", "msgspec")

Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return what building a wheel needs: more if the loop has to be compiled."""
    _refuse_windows()
    required: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    if not _is_there():
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        required += [one for one in project["dependencies"] if one.startswith(NEEDED)]
    return required


def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel, with the loop if it can be compiled."""
    _refuse_windows()
    if not _is_there():
        command = [sys.executable, "-m", "farm.sim.fast.compiler", "--fetch"]
        subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
    name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def _is_there() -> bool:
    """Return whether there is an object for this machine, of the present sources."""
    sys.path.insert(0, str(ROOT))
    try:
        from farm.sim.fast.kernel import object_file  # noqa: PLC0415 - from these sources

        ctypes.CDLL(str(object_file.path()))
    except OSError:
        return False
    finally:
        sys.path.remove(str(ROOT))
    return True


def _refuse_windows() -> None:
    if sys.platform == "win32":
        sys.stderr.write("error: the farm runs on Linux and macOS; on Windows use WSL\n")
        sys.exit(2)
