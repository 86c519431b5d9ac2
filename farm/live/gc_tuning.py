"""Keeps Python's cycle collector from holding the farm up."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

#: middle collections (7,000 new objects each that live on) after which all objects are looked at
RARELY = 2000


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector look at all objects rarely, and never at those that exist now.

    A look at everything takes about 50 ms for the loaded modules alone, and as much again for
    every 10,000 live jobs; reports wait for it, and by default it comes after every few
    thousand submissions. What a farm makes is freed without the collector, but for a few cycles
    (builders that are gone), which may wait.
    """
    gc.collect()
    gc.freeze()
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, RARELY)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()
