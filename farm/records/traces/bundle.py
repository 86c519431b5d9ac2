"""``bundle``: the attempts that ran on another farm (``farm import SOURCE``), each as a job.

A job arrives when it could start there, and runs as long as it ran there; its platform is the
labels that it asked for (``UNLABELLED``, if it asked for none and others did). Attempts that never
started, or did not end, are left out. The first one arrives at 0.

An attempt that others released (``needs``) is submitted with the last of these, and waits for them
here, too: it comes as long after the last one's end as it did there. What is known to have waited
for its place in a group (``group_wait``) asks for it when it did there, and waits for it here, too.

``bundle-retries-first``: the same, of a farm that gives lost jobs their old place back. A further
attempt is a job of its own, and arrives when the one before it was lost, or failed (some systems
have no word for a loss). Here it has a level above the others', so that it starts before the older
jobs that wait then, and arrives a moment sooner, so that it is there when that slot is free.

``bundle-without-losses``: the same without attempts that were lost with their runner. Their jobs
arrive when they first could start, and run as long as the attempt that was not lost. So a farm
whose pools have ``losses`` loses and retries them by its own rules: more or fewer losses, or
retries, than were recorded can be tried. A job that was lost and not tried again is as recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from farm.columns import Coded, Floats, combined
from farm.core.errors import TraceError
from farm.core.jobs.needs import need_of
from farm.core.model import Platform
from farm.records.attempt import Attempt, Happened, times_of
from farm.records.bundle import read_bundle
from farm.records.traces.trace_records import Records

UNLABELLED = "unlabelled"
"""The platform of jobs that asked for no label, where others did."""
SOONER = 0.001
"""Seconds by which a further attempt arrives before the slot is free."""


def read(path: Path) -> Records:
    """Return the attempts that ran; TraceError names the file that is wrong."""
    return records_of(*_that_ran(path))


def read_retries_first(path: Path) -> Records:
    """Return the same, further attempts before others."""
    ran, left_out = _that_ran(path)
    return records_of(retries_first(ran), left_out)


def read_without_losses(path: Path) -> Records:
    """Return the same without those that were lost and tried again."""
    ran, left_out = _that_ran(path)
    kept = without_losses(ran)
    left_out["of attempts that were lost, and tried again"] = len(ran) - len(kept)
    return records_of(kept, left_out)


def _that_ran(path: Path) -> tuple[list[Attempt], dict[str, int]]:
    """Return the attempts of a bundle that ran, and how many did not; TraceError as for reading."""
    found = read_bundle(path).attempts
    ran = [one for one in found if one.started_at is not None and one.finished_at is not None]
    if not ran:
        raise TraceError(f"{path}: found no attempt that ran; allowed: at least one")
    return ran, {"of attempts that never ran, or did not end": len(found) - len(ran)}


def records_of(ran: list[Attempt], left_out: dict[str, int]) -> Records:
    """Return attempts, each of which ran, as the jobs of a trace.

    Of those that arrived at one instant, as many do where a source rounds to seconds, the one that
    started first comes first.
    """
    eligible = times_of(ran, "eligible_at")
    arrived = np.where(np.isnan(eligible), times_of(ran, "submitted_at"), eligible)
    order = np.lexsort((times_of(ran, "started_at"), arrived))
    ran = [ran[row] for row in order.tolist()]
    happened = Happened.of(ran)
    arrived, details = arrived[order] - arrived.min(), _details(ran)
    if any(attempt.needs or attempt.group_wait for attempt in ran):
        submitted, needs = _released_by_others(ran, arrived)
        happened = happened._replace(blocked=arrived - submitted)
        order = np.argsort(submitted, kind="stable")
        arrived, happened = submitted[order], happened.taken(order)
        ran = [ran[row] for row in order.tolist()]
        details = {field: column[order] for field, column in (details | needs).items()}
    return Records(
        arrived,
        happened.ran,
        [one.id for one in ran],
        details,
        left_out=left_out,
        happened=happened,
    )


def _details(ran: list[Attempt]) -> dict[str, Coded]:
    """Return the further fields of the jobs; what is empty says nothing."""

    def of(name: str) -> Coded:
        return Coded.of(list(map(attrgetter(name), ran)))

    platform, result = of("platform"), of("result")
    unlabelled = Platform(UNLABELLED) if any(platform.values) else ""
    firsts, codes = combined([of("user"), of("attributes")], len(ran))
    each = [ran[first] for first in firsts.tolist()]
    columns = {
        "group": of("group"),
        "platform": platform.with_values(
            [Platform(label) if label else unlabelled for label in platform.values]
        ),
        "kind": of("kind"),
        "matrix": of("matrix"),
        "attributes": Coded(codes, [one.traits for one in each]),
        "level": Coded(codes, [one.level for one in each]),
        "fails": result.with_values([word == "failed" for word in result.values]),
    }
    return {
        field: column.with_values([value or UNSET for value in column.values])
        for field, column in columns.items()
        if any(column.values)
    }


def _released_by_others(ran: Sequence[Attempt], arrived: Floats) -> tuple[Floats, dict[str, Coded]]:
    """Return when attempts are submitted (s), and what they need, and how long after it they come.

    Args:
        ran: attempts in order of arrival; those that need an attempt that never ran do without it.
        arrived: when they came.
    """
    rows = {attempt.id: row for row, attempt in enumerate(ran)}
    submitted = np.maximum(0.0, arrived - times_of(ran, "group_wait"))
    needs: list[object] = []
    delays: list[object] = []
    for row, attempt in enumerate(ran):
        known = [text for text in attempt.needs if need_of(text).job in rows]
        if not known:
            needs.append(UNSET)
            delays.append(UNSET)
            continue
        needed = [rows[need_of(text).job] for text in known]
        delay = attempt.needs_delay
        if delay is None:
            last_end = max(ran[place].finished_at or 0.0 for place in needed)
            delay = max(0.0, attempt.arrived_at - attempt.group_wait - last_end)
        submitted[row] = submitted[needed].max()
        needs.append(tuple(known))
        delays.append(delay)
    return submitted, {"needs": Coded.of(needs), "needs_delay": Coded.of(delays)}


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


def without_losses(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return attempts without the lost ones that were tried again, which bring theirs forward."""
    known = {(one.job, one.attempt) for one in attempts if one.job}
    lost = {(one.job, one.attempt): one for one in attempts if one.job and one.result == "lost"}
    found: list[Attempt] = []
    for one in attempts:
        if one.result == "lost" and (one.job, one.attempt + 1) in known:
            continue
        first = one
        while (before := lost.get((first.job, first.attempt - 1))) is not None:
            first = before
        since = {name: getattr(first, name) for name in ("submitted_at", "eligible_at")}
        found.append(one if first is one else replace(one, **since))
    return found
