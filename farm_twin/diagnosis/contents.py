"""What a bundle holds, by platform; what it means is the doctor's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter

import msgspec
import numpy as np

from farm.core.fields import json_name
from farm.records.attempt import Attempt, grouped
from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Bundle
from farm.results.descriptive_statistics import Spread, spread_of
from farm_twin.diagnosis.waits import Waits

MAX_USERS = 10
"""Users that are named, those with most attempts."""


class PlatformContents(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The records of a platform; spans in seconds."""

    platform: str
    #: attempts, of those the ones that arrived in the window, and how many an hour these are
    attempts: int
    arrivals: int
    arrivals_per_hour: float | None
    results: dict[str, int]
    #: of those that started
    waits: Spread
    #: with those that were broken off (Kaplan-Meier); None: too many were
    wait_p50: float | None
    wait_p95: float | None
    #: waits that were broken off, and those that are not known
    censored: int
    unknown_waits: int
    service_times: Spread
    kinds: int
    runners: int
    #: of those runners, together
    slots: int
    users: int


class Contents(msgspec.Struct, frozen=True, rename=json_name):
    """What a bundle holds."""

    #: between the first arrival and the last, hours
    hours: float
    platforms: list[PlatformContents]
    #: the attempts of those who had most
    users: dict[str, int]
    attributes: list[str]


def contents_of(bundle: Bundle) -> Contents:
    """Return what a bundle holds, the platform with most attempts first."""
    window = begins, ends = bundle.arrivals
    slots = {runner.runner: runner.slots for runner in bundle.runners()}
    last_end = max((attempt.finished_at or 0.0 for attempt in bundle.attempts), default=ends)
    platforms = [
        _platform(attempts, window, max(ends, last_end), slots)
        for attempts in grouped(bundle.attempts, attrgetter("platform")).values()
    ]
    platforms.sort(key=lambda platform: (-platform.attempts, platform.platform))
    users = Counter(attempt.user for attempt in bundle.attempts if attempt.user)
    attributes = {name for attempt in bundle.attempts for name in attempt.attributes}
    return Contents(
        hours=(ends - begins) / 3600,
        platforms=platforms,
        users=dict(users.most_common(MAX_USERS)),
        attributes=sorted(attributes),
    )


def _platform(
    attempts: Sequence[Attempt],
    window: tuple[float, float],
    until: float,
    slots: Mapping[str, int],
) -> PlatformContents:
    """Return what one platform's attempts hold.

    Args:
        attempts: all of that platform.
        window: from when to when jobs of any platform arrived.
        until: when the records end.
        slots: of every runner that started an attempt.
    """
    begins, ends = window
    hours = (ends - begins) / 3600
    columns = AttemptColumns.of(attempts)
    waits = Waits.of(columns, until)
    run_times = columns.ran
    runners = {name for name in columns.runner.values if name in slots}
    arrivals = int((columns.arrived_at >= begins).sum())
    return PlatformContents(
        platform=attempts[0].platform,
        attempts=len(attempts),
        arrivals=arrivals,
        arrivals_per_hour=arrivals / hours if hours else None,
        results=dict(Counter(attempt.result for attempt in attempts).most_common()),
        waits=spread_of(waits.ended),
        wait_p50=waits.quantile(0.5),
        wait_p95=waits.quantile(0.95),
        censored=len(waits.broken_off),
        unknown_waits=waits.unknown,
        service_times=spread_of(run_times[~np.isnan(run_times)]),
        kinds=len({name for name in columns.kind.values if name}),
        runners=len(runners),
        slots=sum(slots[name] for name in runners),
        users=len({attempt.user for attempt in attempts if attempt.user}),
    )
