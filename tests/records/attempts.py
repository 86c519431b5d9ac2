"""Attempts, and bundles of them, for the tests of what reads records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
    **known: Any,
) -> Attempt:
    """Return an attempt that could start since it was submitted."""
    times = {"submitted_at": at, "eligible_at": at}
    usual = {"id": f"{number:05}", "result": "succeeded", **times}
    return Attempt(started_at=started_at, finished_at=finished_at, **{**usual, **known})


def bundle_of(attempts: Iterable[Attempt], **known: Any) -> Bundle:
    """Return the bundle of attempts, in whole seconds."""
    found = sorted(attempts, key=lambda one: (one.arrived_at, one.id))
    usual = {"source": "github", "zone": "UTC", "left_out": {}, **known}
    manifest = Manifest(
        files=[], begins="", ends="", resolution_time=1.0, kept=len(found), noted={}, **usual
    )
    return Bundle(manifest, found)
