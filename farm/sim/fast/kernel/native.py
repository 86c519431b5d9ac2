"""The compiled kernel: a shared object that ``build`` has made of these sources, called by ctypes.

Its functions take the words that Numba takes for arrays, one after the other. An object of other
sources, or of another kind of machine, has another name and is not seen.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from hashlib import sha256
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays: TypeAlias = "Array | tuple[Arrays, ...]"

HERE = Path(__file__).parent
_FARM = HERE.parents[2]
_FORMULAS = _FARM / "core/pools/formulas"
#: what the object is made of, beside this package
SOURCES = (
    "core/compiled.py",
    *sorted(f"core/pools/formulas/{one.name}" for one in _FORMULAS.glob("[a-z]*.py")),
    "core/pools/spec.py",
    "core/pools/unrunnable_jobs.py",
    "core/simultaneity.py",
    "emulation/agenda.py",
    "sim/provisioning.py",
    "sim/rollouts/fair_loops.py",
    "sim/rollouts/loops.py",
    "upstream/taskcluster.py",
)


def path() -> Path:
    """Return where the object of these sources is, or would be."""
    kernel = sorted(set(HERE.glob("*.py")) - {Path(__file__)})
    sources = [*kernel, *(_FARM / name for name in SOURCES)]
    digest = sha256(b"".join(one.read_bytes() for one in sources)).hexdigest()[:16]
    return HERE / f"kernel-{digest}-{sys.platform}-{os.uname().machine}.so"


@cache
def is_there() -> bool:
    """Return whether there is an object that can be loaded."""
    return _library() is not None


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
    # not by __array_interface__, which describes every field
    return [0, 0, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides]


def _type(array: Array) -> str:
    pieces = "" if array.flags.c_contiguous else " in pieces"
    return f"{array.dtype.str}/{array.ndim}{pieces}"


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(path()))
    except OSError:  # not built, or not for this system
        return None


@cache
def _function(name: str) -> tuple[Any, str]:
    """Return a function of the object, and the types of the arrays that it takes."""
    library: Any = _library()
    call = library[name]
    call.argtypes, call.restype = (ctypes.c_void_p,), ctypes.c_int64
    takes = ctypes.c_char.in_dll(library, f"{name}_takes")
    return call, ctypes.string_at(ctypes.addressof(takes)).decode()


def _flat(part: Arrays) -> list[Array]:
    if isinstance(part, tuple):
        return [array for one in part for array in _flat(one)]
    return [part]
