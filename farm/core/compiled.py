"""Marks the functions that the kernel's build compiles; in Python they are called as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def jit(function: Callable[..., Any], **_: bool) -> Any:
    """Return the function; ``kernel.build`` puts a compiler here before it imports the kernel."""
    return function


def compiled(function: Callable[..., Any]) -> Any:
    """Return the function, as a part of the object."""
    return jit(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Return the function, as a part of its callers: passing a farm on takes time."""
    return jit(function, forceinline=True)
