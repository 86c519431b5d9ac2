"""Compiling by Numba, and caching compiled code as long as its sources are unchanged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numba import config, njit

from farm.core import simultaneity
from farm.core.pools import unrunnable_jobs
from farm.emulation import agenda
from farm.sim import provisioning
from farm.upstream import taskcluster

_numba: Any = config
_jit: Any = njit


def compiled(function: Callable[..., Any]) -> Any:
    """Return the function, compiled when it is first called.

    It makes no array, so references are not counted: that would take ten times as long as the work.
    """
    return _jit(nogil=True, _nrt=False)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Return the function, compiled into its callers: passing a farm on takes time."""
    return _jit(nogil=True, _nrt=False, forceinline=True)(function)


@cache
def kept(function: Callable[..., Any]) -> Any:
    """Return the function, compiled at its first call, with those it calls, and cached on disk.

    If nothing can be written it is compiled in every process.
    """
    place, before = _place(Path(function.__code__.co_filename)), _numba.CACHE_DIR
    _numba.CACHE_DIR = str(place or "")
    try:
        return _jit(cache=place is not None, nogil=True, _nrt=False)(function)
    finally:
        _numba.CACHE_DIR = before


def by_attribute(farm: Any) -> Any:
    """Return the farm as the kernel reads it; without compilation records need a type for that.

    With NUMBA_DISABLE_JIT=1 the kernel is plain Python: slow, but without a delay, and debuggable.
    """
    if not _numba.DISABLE_JIT:
        return farm
    if isinstance(farm, tuple):
        return type(farm)(*map(by_attribute, farm))
    return farm.view(np.recarray) if farm.dtype.names else farm


@cache
def _place(source: Path) -> Path | None:
    """Return the directory of compiled code of this source; None: there is none.

    Numba checks only the file of the outermost function, and would miss a change in another file.
    """
    here = Path(__file__).parent
    sources = [source]
    if source.parent == here:
        others = (agenda, simultaneity, unrunnable_jobs, taskcluster, provisioning)
        sources = [*sorted(here.glob("*.py")), *(Path(str(one.__file__)) for one in others)]
    digest = sha256(b"".join(one.read_bytes() for one in sources)).hexdigest()[:16]
    own = [Path(_numba.CACHE_DIR)] if _numba.CACHE_DIR else []
    for folder in (*own, here / "__pycache__", Path.home() / ".cache" / "build-farm-emulator"):
        place = folder / f"compiled-{digest}"
        try:
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                return place
        except OSError:
            continue
    return None
