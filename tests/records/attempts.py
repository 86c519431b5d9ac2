"""Attempts, and bundles of them, for the tests of what reads records."""

from __future__ import annotations

from collections.abc import Iterable

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


def bundle_of(attempts: Iterable[Attempt], **known: object) -> Bundle:
    """Return the bundle of attempts, in whole seconds."""
    found = sorted(attempts, key=lambda one: (one.arrived_at, one.id))
    usual = Manifest(
        source="github", files=[], begins="", ends="", zone="UTC", resolution_time=1.0,
        kept=len(found), left_out={}, noted={},
    )  # fmt: skip
    return Bundle(replace(usual, **known), found)
