"""Keeps Python's garbage collector from delaying the farm."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

#: middle collections (7,000 new objects each that live on) after which all objects are looked at
RARELY = 2000


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Make the collector examine all objects rarely, and existing ones never.

    A full collection takes about 50 ms for the loaded modules alone, and as much again for every
    10,000 live jobs; reports wait for it, and by default there is one for every few thousand
    submissions. A farm's objects are freed without the collector, except for a few cycles
    (builders that left), which can wait.
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
