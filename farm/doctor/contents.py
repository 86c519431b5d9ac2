"""What a bundle holds, by platform; what it means is the doctor's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

import msgspec

from farm.core.fields import json_name
from farm.doctor.figures import Waits
from farm.records.attempt import Attempt, grouped
from farm.records.bundle import Bundle
from farm.results.descriptive_statistics import Spread, spread_of

MOST_USERS = 10


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
    slots = {one.runner: one.slots for one in bundle.runners()}
    by_platform = grouped(bundle.attempts, attrgetter("platform"))
    last = max((one.finished_at or 0.0 for one in bundle.attempts), default=ends)
    found = [_platform(some, window, max(ends, last), slots) for some in by_platform.values()]
    found.sort(key=lambda one: (-one.attempts, one.platform))
    users = Counter(one.user for one in bundle.attempts if one.user)
    attributes = {key for one in bundle.attempts for key in one.attributes}
    return Contents(
        (ends - begins) / 3600, found, dict(users.most_common(MOST_USERS)), sorted(attributes)
    )


def _platform(
    attempts: Sequence[Attempt], window: tuple[float, float], until: float, slots: dict[str, int]
) -> PlatformContents:
    begins, ends = window
    hours = (ends - begins) / 3600
    waits = Waits(attempts, until)
    runners = {one.runner for one in attempts if one.runner in slots}
    arrivals = sum(one.arrived_at >= begins for one in attempts)
    return PlatformContents(
        platform=attempts[0].platform,
        attempts=len(attempts),
        arrivals=arrivals,
        arrivals_per_hour=arrivals / hours if hours else None,
        results=dict(Counter(one.result for one in attempts).most_common()),
        waits=spread_of(waits.ended),
        wait_p50=waits.quantile(0.5),
        wait_p95=waits.quantile(0.95),
        censored=len(waits.broken_off),
        unknown_waits=waits.unknown,
        service_times=spread_of([ran for one in attempts if (ran := one.ran) is not None]),
        kinds=len({one.kind for one in attempts if one.kind}),
        runners=len(runners),
        slots=sum(slots[one] for one in runners),
        users=len({one.user for one in attempts if one.user}),
    )
