"""A part of a bundle: a window of time, and the jobs that have something in common."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime

from farm.core.errors import InputError, not_among
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle
from farm.records.foreign_columns import time_of
from farm.units import format_roughly, parse_time

COLUMNS = ("platform", "kind", "user", "runner", "matrix", "result")
"""What jobs are chosen by, beside attributes."""
MOST_SHOWN = 10


def instant_of(bundle: Bundle, text: str, option: str) -> float:
    """Return the instant that a text means, seconds since 1970.

    It is ISO 8601, in the bundle's zone unless it has one, or a span from the first arrival.
    Raises InputError.
    """
    try:
        time = time_of(text)
    except ValueError:
        try:
            return bundle.arrivals[0] + parse_time(text)
        except ValueError:
            raise InputError(
                f"{option}: found {text!r:.60}; allowed: a time as 2026-11-02T09:00, or a span "
                "from the first arrival as 36h"
            ) from None
    return (time if time.tzinfo else time.replace(tzinfo=bundle.manifest.clock)).timestamp()


def sliced(
    bundle: Bundle,
    begin: float | None = None,
    end: float | None = None,
    where: Mapping[str, Collection[str]] | None = None,
) -> Bundle:
    """Return the attempts that arrived in [begin, end), and those that ran into it.

    The latter waited or ran at ``begin``: they hold runners, without which the others would not
    have waited as they did. All keep their own instants, also those after ``end``. ``where`` has
    allowed values by column or attribute. Raises InputError.
    """
    first, last = bundle.arrivals
    begin = first if begin is None else begin
    if end is not None and end <= begin:
        raise InputError(
            f"--to: found {format_roughly(end - begin)} after --from; allowed: a later time"
        )
    until = math.inf if end is None else end
    chosen = where or {}
    _check(bundle, chosen)
    kept: list[Attempt] = []
    left_out: Counter[str] = Counter()
    noted: Counter[str] = Counter()
    for one in bundle.attempts:
        if one.arrived_at >= until:
            left_out["after the window"] += 1
        elif _over_at(one) <= begin and one.arrived_at < begin:
            left_out["before the window"] += 1
        elif other := next((key for key in chosen if _value(one, key) not in chosen[key]), None):
            left_out[f"of another {other}"] += 1
        else:
            kept.append(one)
            noted["that waited or ran when the window began"] += one.arrived_at < begin
            noted["that ended after the window"] += until < _over_at(one) < math.inf
    if shared := _on_the_same_runners(bundle, kept, begin, until, chosen):
        noted["of other jobs on the same runners, which look idle then"] = shared
    window = (begin, min(until, max(last, begin)))
    return bundle.derived(kept, left_out, noted, _history(bundle, begin, end, chosen),
                          window=window)  # fmt: skip


def _over_at(one: Attempt) -> float:
    """Return when it neither waited nor ran any more."""
    return math.inf if one.finished_at is None else one.finished_at


def _value(one: Attempt, key: str) -> str:
    if key in COLUMNS:
        found: str = getattr(one, key)
        return found
    return one.attributes.get(key, "")


def _check(bundle: Bundle, where: Mapping[str, Collection[str]]) -> None:
    """Refuse columns and values that no attempt has."""
    attributes = {key for one in bundle.attempts for key in one.attributes} if where else set()
    for key, values in where.items():
        if key not in COLUMNS and key not in attributes:
            raise InputError(f"--where: {not_among(key, [*COLUMNS, *sorted(attributes)])}")
        known = Counter(_value(one, key) for one in bundle.attempts)
        for value in values:
            if value not in known:
                most = [name or '""' for name, _ in known.most_common(MOST_SHOWN)]
                more = ["…"] if len(known) > MOST_SHOWN else []
                raise InputError(f"--where: {key}: {not_among(value, [*most, *more])}")


def _on_the_same_runners(
    bundle: Bundle, kept: list[Attempt], begin: float, until: float,
    where: Mapping[str, Collection[str]],
) -> int:  # fmt: skip
    """Return how many attempts were left out that ran in the window on the runners of others."""
    if not where:
        return 0
    runners, ids = {one.runner for one in kept if one.runner}, {one.id for one in kept}
    return sum(
        one.started_at is not None
        and one.runner in runners
        and one.id not in ids
        and one.started_at < until
        and _over_at(one) > begin
        for one in bundle.attempts
    )


def _history(
    bundle: Bundle, begin: float, end: float | None, where: Mapping[str, Collection[str]]
) -> str:
    zone = bundle.manifest.clock
    times = [datetime.fromtimestamp(at, zone).isoformat() for at in (begin, end) if at is not None]
    chosen = [f"{key}={value}" for key, values in where.items() for value in sorted(values)]
    return " ".join(["a part: from", " to ".join(times), *(["where", *chosen] if chosen else [])])
