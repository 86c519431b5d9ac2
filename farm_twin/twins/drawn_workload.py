"""A synthetic workload with the rates and sizes of recorded jobs.

For each platform a source: releases (matrices, if jobs were released together) at random with the
recorded rate of each hour of the week; of each job independently its name, the service time by the
name, and the attributes that it was recorded with. What this has not: bursts within an hour beyond
matrices, sizes that depend on the hour, and users with hours of their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from operator import attrgetter

import numpy as np

from farm.columns import Floats
from farm.core.errors import TraceError
from farm.records.attempt import Attempt, grouped
from farm.records.bundle import Bundle
from farm.records.traces.bundle import without_losses
from farm.scenario.file.document import document_text
from farm.units import many
from farm_twin.twins.tries import tries_of

HOUR, DAY, WEEK = 3600.0, 24, 168
TOGETHER = 60.0
"""Seconds within which jobs of a matrix arrive that were released together."""
MOST_KINDS, MOST_VALUES, LEAST_VALUES, ALL_VALUES = 500, 200, 20, 20_000
"""Names that have service times of their own, values of each (at most, at least), and of all."""
MOST_SETS = 1000
"""Sets of attributes that are kept."""
OTHERS = "others"
SHORTEST = 0.001


def workload_of(
    attempts: Sequence[Attempt], window: tuple[float, float], zone: tzinfo = UTC
) -> list[dict[str, object]]:
    """Return the sources of a workload like these attempts, as a scenario has them.

    Only attempts count that ran, and arrived in the window (seconds since 1970); ``zone``: of the
    hours of the week. Raises TraceError if there are none.
    """
    ran = [one for one in attempts if one.ran is not None and window[0] <= one.arrived_at]
    if not ran:
        raise TraceError("found no attempt that ran; allowed: at least one")
    by_platform = grouped(ran, attrgetter("platform"))
    week = Week(window, zone)
    busiest = sorted(by_platform.items(), key=lambda one: (-len(one[1]), one[0]))
    each = max(LEAST_VALUES, min(MOST_VALUES, ALL_VALUES // len({one.kind for one in ran})))
    return [_source(name, some, week, each) for name, some in busiest]


class Week:
    """The hours of the week in a window."""

    def __init__(self, window: tuple[float, float], zone: tzinfo) -> None:
        begins, ends = window
        here = datetime.fromtimestamp(begins, zone)
        midnight = here.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        of_day = (here.replace(tzinfo=None) - midnight).total_seconds()
        self.begins = begins
        self.lasts = max(ends - begins, 1.0)
        #: seconds from Monday 00:00 to the window's begin
        self.starts = here.weekday() * DAY * HOUR + of_day
        edges = np.arange(np.floor(self.starts / HOUR), (self.starts + self.lasts) / HOUR + 1)
        inside = np.clip(edges * HOUR, self.starts, self.starts + self.lasts)
        self.spent = np.zeros(WEEK)
        """Seconds of the window in each hour of the week."""
        np.add.at(self.spent, edges[:-1].astype(int) % WEEK, np.diff(inside))

    def factors(self, times: Floats) -> list[float]:
        """Return the rate of arrivals in each hour of the week, as factors of their mean rate.

        First the hours of the day differ from the mean, then those of the week from those of the
        day, each by as much as is more than chance. So an hour that is not in the window has the
        rate of that hour of other days.
        """
        hours = ((times - self.begins + self.starts) // HOUR).astype(int) % WEEK
        counts = np.bincount(hours, minlength=WEEK).astype(np.float64)
        expected = self.spent * len(times) / self.lasts
        daily = [one.reshape(7, DAY).sum(axis=0) for one in (counts, expected)]
        factors = np.tile(_more_than_chance(*daily), 7)
        factors *= _more_than_chance(counts, expected * factors)
        factors *= self.lasts / float((factors * self.spent).sum())
        return [round(one, 5) for one in factors.tolist()]


def _more_than_chance(counts: Floats, expected: Floats) -> Floats:
    """Return the factors by which counts differ from expected ones, without what is chance.

    A count is Poisson, with a mean whose factor is gamma distributed; its variance is what the
    counts vary more than Poisson ones (the method of moments). Otherwise the noise of few counts
    would be a cycle of the load, and make queues longer. Robbins, "An Empirical Bayes Approach to
    Statistics" (1956).
    """
    excess = float(((counts - expected) ** 2 - expected).sum())
    if excess <= 0:
        return np.ones(len(counts))
    prior = float((expected**2).sum()) / excess
    return (counts + prior) / (expected + prior)


def _source(name: str, attempts: list[Attempt], week: Week, most: int) -> dict[str, object]:
    releases = list(_releases(attempts))
    sizes = Counter(len(one) for one in releases)
    first = np.array([one[0].arrived_at for one in releases])
    source: dict[str, object] = {
        "poisson": {"rate": f"{len(releases) / week.lasts * HOUR:.6g}/h"},
        "weekly_cycle": week.factors(first),
        "cycle_start": round(week.starts, 3),
        "duration": round(week.lasts, 3),
    }
    if max(sizes) > 1:
        source["size"] = dict(sorted(sizes.items()))
        if apart := _apart(releases):
            source["jobs_apart"] = apart
    source |= _kinds(attempts, most)
    if name:
        source["platform"] = {"processor": name}
    source |= _attributes(attempts)
    if any(levels := Counter(one.level for one in attempts)):
        source["level"] = dict(sorted(levels.items()))
    return {"matrices" if "size" in source else "arrivals": source}


def _releases(attempts: Sequence[Attempt]) -> Iterator[list[Attempt]]:
    """Yield what was released together, by the first arrival."""
    by_matrix: dict[tuple[str, str], list[Attempt]] = {}
    found = []
    for one in sorted(attempts, key=lambda one: one.arrived_at):
        key = ("matrix", one.matrix) if one.matrix else ("job", one.id)
        some = by_matrix.get(key)
        if some is None or one.arrived_at - some[-1].arrived_at > TOGETHER:
            some = by_matrix[key] = []
            found.append(some)
        some.append(one)
    yield from found


def _apart(releases: Sequence[list[Attempt]]) -> float:
    """Return the mean time between two jobs of a release, seconds."""
    spans = sum(one[-1].arrived_at - one[0].arrived_at for one in releases)
    return round(spans / max(1, sum(len(one) - 1 for one in releases)), 3)


def _kinds(attempts: Sequence[Attempt], most: int) -> dict[str, object]:
    """Return the names of jobs by their numbers, the service times by name, and who fails."""
    counts = Counter(one.kind or "job" for one in attempts)
    kept = {kind for kind, _ in counts.most_common(MOST_KINDS)}
    times: dict[str, list[float]] = defaultdict(list)
    failed: Counter[str] = Counter()
    for one in attempts:
        kind = one.kind or "job"
        kind = kind if kind in kept else OTHERS
        times[kind].append(max(SHORTEST, one.ran or 0.0))
        failed[kind] += one.result == "failed"
    found: dict[str, object] = {
        "kind": {kind: len(some) for kind, some in times.items()},
        "service_time": {
            "by_kind": {
                kind: {"empirical": {"values": _values(some, most)}} for kind, some in times.items()
            }
        },
    }
    if fails := {kind: round(n / len(times[kind]), 5) for kind, n in failed.items() if n}:
        found["fails"] = {"by_kind": fails}
    return found


def _values(times: Sequence[float], most: int) -> list[float]:
    """Return the times, or the means of as many equal parts of them in order of length.

    So their mean, and the work that arrives, stays.
    """
    parts = np.array_split(np.sort(times), min(most, len(times)))
    return [round(float(one.mean()), 3) for one in parts]


def _attributes(attempts: Sequence[Attempt]) -> dict[str, object]:
    """Return the attributes that jobs had together, with the number of these jobs."""
    sets = Counter(tuple(sorted(one.traits.items())) for one in attempts)
    if list(sets) == [()]:
        return {}
    return {
        "attribute_sets": [
            {"weight": count, "attributes": {key: text for key, text in pairs if text}}
            for pairs, count in sets.most_common(MOST_SETS)
        ]
    }


def workload_text(bundle: Bundle, name: str) -> str:
    """Return the section ``workload`` of a scenario with a load like that of a bundle."""
    zone = bundle.manifest.clock
    window = bundle.arrivals
    attempts = without_losses(bundle.attempts)
    sources = workload_of(attempts, window, zone)
    ran = sum(one.ran is not None and one.arrived_at >= window[0] for one in attempts)
    week = Week(window, zone)
    remarks = [
        f"A load like that of the {many(ran, 'job')} recorded in {name}:",
        f"rates by hour of the week ({bundle.manifest.zone}, Monday first), sizes by job name,",
        "users and other attributes.",
    ]
    if lost := len(bundle.attempts) - len(attempts):
        remarks.append(
            f"Without {many(lost, 'attempt')} that were lost with their runner and tried again: "
            f"a pool's key losses draws such (recorded: {tries_of(bundle.attempts).loss_rate:g}/h)."
        )
    if missing := len(attempts) - ran:
        remarks.append(f"Without {many(missing, 'attempt')} that never ran, or did not end.")
    if unseen := int((week.spent == 0).sum()):
        remarks.append(
            f"{many(unseen, 'hour')} of the week are not in the records: they have the mean rate "
            "of that hour of other days."
        )
    return "".join(f"# {line}\n" for line in remarks) + document_text(
        {"workload": sources}, compact=True
    )
