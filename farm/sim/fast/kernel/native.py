"""The compiled kernel: a shared object made of these sources, called by ctypes.

Its functions take the addresses and lengths of arrays as words, one after the other. An object of
other sources, or of another kind of machine, has another name and is not seen. In a clone it is
compiled at first use (``farm.sim.fast.compiler``).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from farm.columns import Array
from farm.sim.fast.kernel import object_file

Arrays: TypeAlias = "Array | tuple[Arrays, ...]"

WITHOUT_COMPILER = (
    f"no C compiler was found ({', '.join(object_file.C_COMPILERS)}); make kernel fetches one"
)
MAX_BUILD_TIME = 600.0
"""Seconds after which the build at first use is ended; it needs three."""


class Loading(NamedTuple):
    """How the object was loaded."""

    library: ctypes.CDLL | None = None
    #: seconds that were spent on compiling it; 0: it was there
    build_time: float = 0.0
    #: why there is none
    reason: str = ""


@cache
def loading() -> Loading:
    """Load the object, which a clone compiles first if its sources have changed."""
    target = object_file.path()
    if target.exists():
        return _loaded(target)
    if not (object_file.CLONE / "pyproject.toml").exists():
        return Loading(reason=f"this installation has none for {object_file.system()}")
    if not os.access(object_file.HERE, os.W_OK):
        return Loading(reason=f"{object_file.HERE} cannot be written")
    if object_file.c_compiler() is None:
        return Loading(reason=WITHOUT_COMPILER)
    log = object_file.CLONE / "build" / f"{target.stem}.log"
    if log.exists():
        return Loading(reason=f"compiling it failed: {log}")
    began = time.monotonic()
    error = _build()
    build_time = time.monotonic() - began
    if not error:
        return _loaded(target)._replace(build_time=build_time)
    with suppress(OSError):  # not again for these sources, but by `make kernel`
        log.parent.mkdir(exist_ok=True)
        log.write_text(error, "utf-8")
    return Loading(reason=error)


def is_there() -> bool:
    """Return whether there is an object that can be loaded."""
    return loading().library is not None


def _loaded(target: Path) -> Loading:
    try:
        return Loading(ctypes.CDLL(str(target)))
    except OSError as error:
        return Loading(reason=f"it cannot be loaded: {error}")


def _build() -> str:
    """Compile the object; return what stands in the way, if something does."""
    # a process of its own: it imports much, and reads the sources as they are
    command = [sys.executable, "-m", "farm.sim.fast.compiler"]
    try:
        built = subprocess.run(
            command,
            cwd=object_file.CLONE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            timeout=MAX_BUILD_TIME,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if built.returncode:
        return built.stderr.decode("utf-8", "replace").strip()
    return ""


class Call:
    """The call of a function of the object with these arrays, in tuples; it can be repeated.

    It holds no lock of the interpreter. The object must be there. Raises TypeError for arrays of
    other types than the function was compiled for; the call raises RuntimeError if it fails.
    """

    def __init__(self, name: str, *arguments: Arrays) -> None:
        self._name = name
        self._call, takes = _function(name)
        self._arrays = _flat(arguments)
        words = [_words(array) for array in self._arrays]
        if (found := " ".join(map(_type, self._arrays))) != takes:
            raise TypeError(f"{name}: found {found}; allowed: {takes}")
        self._begins = [0, *accumulate(map(len, words))]
        self._block = np.array(list(chain.from_iterable(words)), np.int64)
        self._address = self._block.ctypes.data

    def __call__(self) -> int:
        """Make the call; return what the function returns."""
        value: int = self._call(self._address)
        if value < 0:
            raise RuntimeError(f"{self._name} failed in the compiled kernel")
        return value

    def put(self, place: int, array: Array) -> None:
        """Take an array of the same type in the place of one of those given. Raises TypeError."""
        if (found := _type(array)) != (allowed := _type(self._arrays[place])):
            raise TypeError(f"{self._name}: found {found}; allowed: {allowed}")
        self._arrays[place] = array
        self._block[self._begins[place] : self._begins[place + 1]] = _words(array)


def _words(array: Array) -> list[int]:
    """Return what describes an array: the object reads the address and the lengths."""
    return [0, 0, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides]


def _type(array: Array) -> str:
    pieces = "" if array.flags.c_contiguous else " in pieces"
    return f"{array.dtype.str}/{array.ndim}{pieces}"


@cache
def _function(name: str) -> tuple[Any, str]:
    """Return a function of the object, and the types of the arrays that it takes."""
    library: Any = loading().library
    call = library[name]
    call.argtypes, call.restype = (ctypes.c_void_p,), ctypes.c_int64
    takes = ctypes.c_char.in_dll(library, f"{name}_takes")
    return call, ctypes.string_at(ctypes.addressof(takes)).decode()


def _flat(part: Arrays) -> list[Array]:
    if isinstance(part, tuple):
        return [array for item in part for array in _flat(item)]
    return [part]
