"""Attempts, and bundles of them, for the tests of what reads records."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from farm.records.attempt import Attempt
from farm.records.bundle import Bundle, Manifest

MONDAY = 1_793_577_600.0
"""2026-11-02, midnight UTC."""
HOUR = 3600.0


def attempt(
    number: int,
    at: float,
    started_at: float | None = None,
    finished_at: float | None = None,
    **known: object,
) -> Attempt:
    """Return an attempt that could start since it was submitted."""
    usual = Attempt(
        id=f"{number:05}", submitted_at=at, eligible_at=at, started_at=started_at,
        finished_at=finished_at, result="succeeded",
    )  # fmt: skip
    return replace(usual, **known)


def served(
    arrivals: Iterable[float],
    lasts: Callable[[], float],
    servers: int,
    gap: float = 0.0,
    patience: float = math.inf,
) -> list[Attempt]:
    """Return jobs by arrival, first come, first served, with ``gap`` between two of a server.

    One that would wait for longer than ``patience`` is cancelled then.
    """
    free, found = [(-math.inf, n) for n in range(servers)], []
    for number, at in enumerate(arrivals):
        begins, server = max(at, free[0][0]), free[0][1]
        if begins - at > patience:
            found.append(attempt(number, at, None, at + patience, result="cancelled"))
            continue
        ends = begins + lasts()
        heapq.heapreplace(free, (ends + gap, server))
        found.append(attempt(number, at, begins, ends, runner=f"r-{server}"))
    return found


def bundle_of(attempts: Iterable[Attempt], **known: object) -> Bundle:
    """Return the bundle of attempts, in whole seconds."""
    found = sorted(attempts, key=lambda one: (one.arrived_at, one.id))
    usual = Manifest(
        source="github", files=[], begins="", ends="", zone="UTC", resolution_time=1.0,
        kept=len(found), left_out={}, noted={},
    )  # fmt: skip
    return Bundle(replace(usual, **known), found)
