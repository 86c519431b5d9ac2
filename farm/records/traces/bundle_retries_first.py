"""``bundle-retries-first``: the same bundle, of a farm that gives lost jobs their old place back.

A further attempt is a job of its own, and arrives when the one before it was lost, or failed (some
systems have no word for a loss). Here it has a level above the others', so that it starts before
the older jobs that wait then, and arrives a moment sooner, so that it is there when that slot is
free.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from farm.records.attempt import Attempt
from farm.records.traces import bundle
from farm.records.traces.records import Records

SOONER = 0.001
"""Seconds."""


def read(path: Path) -> Records:
    """Return the attempts that ran; TraceError names the file that is wrong."""
    ran, left_out = bundle.that_ran(path)
    return bundle.records_of(retries_first(ran), left_out)


def retries_first(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return attempts with levels twice as high, and one more where a job is tried again."""
    again = {one.id for one in further(attempts)}
    found = []
    for one in attempts:
        is_again = one.id in again
        if level := 2 * one.level + is_again:
            since = None if one.eligible_at is None else one.eligible_at - SOONER * is_again
            attributes = {**one.attributes, "level": str(level)}
            found.append(replace(one, eligible_at=since, attributes=attributes))
        else:
            found.append(one)
    return found


def further(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts that followed one that was lost, or failed."""
    before = {(one.job, one.attempt) for one in attempts if one.result in ("lost", "failed")}
    return [one for one in attempts if one.job and (one.job, one.attempt - 1) in before]
