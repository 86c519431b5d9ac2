"""``bundle-without-losses``: the same bundle without attempts that were lost with their runner.

Their jobs arrive when they first could start, and run as long as the attempt that was not lost. So
a farm whose pools have ``losses`` loses and retries them by its own rules: more or fewer losses, or
retries, than were recorded can be tried. A job that was lost and not tried again is as recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from farm.records.attempt import Attempt
from farm.records.traces import bundle
from farm.records.traces.records import Records


def read(path: Path) -> Records:
    """Return the attempts that ran and were not lost; TraceError names the file that is wrong."""
    ran, left_out = bundle.that_ran(path)
    kept = without_losses(ran)
    left_out["of attempts that were lost, and tried again"] = len(ran) - len(kept)
    return bundle.records_of(kept, left_out)


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
