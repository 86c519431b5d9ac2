"""Bundles made of others: a part, a load of another size, several as one, without names."""

from __future__ import annotations

import hmac
import math
import random
import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby

import msgspec

from farm.core.errors import InputError, not_among
from farm.records.attempt import Attempt, grouped
from farm.records.bundle import Bundle, Manifest
from farm.records.columns import time_of
from farm.records.reading import SourceFile
from farm.units import format_roughly, parse_time

Release = list[Attempt]

CHOSEN_BY = ("platform", "kind", "user", "runner", "matrix", "result")
"""What jobs are chosen by, beside attributes."""
MOST_SHOWN = 10
NAMES = ("id", "job", "runner", "kind", "matrix", "user")
"""What an anonymized bundle has hashes of, beside the values of attributes."""
HOUR = 3600.0
MOST = 1000.0
"""Allowed factors: up to this, and down to one over it."""
SAME = 2.0
"""Seconds within which an attempt was submitted in two records of it."""


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
    if chosen and (shared := _on_the_same_runners(bundle, kept, begin, until)):
        noted["of other jobs on the same runners, which look idle then"] = shared
    window = (begin, min(until, max(last, begin)))
    done = _history(bundle, begin, end, chosen)
    return bundle.derived(kept, left_out, noted, done, window=window)


def _over_at(one: Attempt) -> float:
    """Return when it neither waited nor ran any more."""
    return math.inf if one.finished_at is None else one.finished_at


def _value(one: Attempt, key: str) -> str:
    if key in CHOSEN_BY:
        found: str = getattr(one, key)
        return found
    return one.attributes.get(key, "")


def _check(bundle: Bundle, where: Mapping[str, Collection[str]]) -> None:
    """Refuse columns and values that no attempt has."""
    attributes = {key for one in bundle.attempts for key in one.attributes} if where else set()
    for key, values in where.items():
        if key not in CHOSEN_BY and key not in attributes:
            raise InputError(f"--where: {not_among(key, [*CHOSEN_BY, *sorted(attributes)])}")
        known = Counter(_value(one, key) for one in bundle.attempts)
        for value in values:
            if value not in known:
                most = [name or '""' for name, _ in known.most_common(MOST_SHOWN)]
                more = ["…"] if len(known) > MOST_SHOWN else []
                raise InputError(f"--where: {key}: {not_among(value, [*most, *more])}")


def _on_the_same_runners(
    bundle: Bundle, kept: Sequence[Attempt], begin: float, until: float
) -> int:
    """Return how many attempts were left out that ran in the window on the runners of others."""
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


def scaled(
    bundle: Bundle, *, arrivals: float = 1.0, service_times: float = 1.0, seed: int = 1
) -> Bundle:
    """Return the bundle with ``arrivals`` times as many jobs, ``service_times`` times as long.

    What was released together (a matrix, the attempts of a job) stays so. Within each hour of the
    clock, the releases that are left out or repeated are drawn, as many as the factor demands up to
    that hour's end; a repetition begins at an instant drawn from the same hour. So the pattern of
    days and weeks stays.

    Nothing waited like this: the jobs have no recorded wait, runner or capacity any more. Those
    that never started, or did not end, have no service time, and are left out. Raises InputError.
    """
    for option, factor in (("--arrivals", arrivals), ("--service-times", service_times)):
        if not 1 / MOST <= factor <= MOST:
            raise InputError(f"{option}: found {factor:g}; allowed: {1 / MOST:g} to {MOST:g}")
    if arrivals == service_times == 1:
        raise InputError("found no factor but 1; allowed: --arrivals, --service-times, or both")
    window = bundle.arrivals
    ran = [one for one in bundle.attempts if one.ran is not None]
    there = [one for one in ran if one.arrived_at >= window[0]]
    found: list[Attempt] = []
    thinned = repeated = 0
    mark, rng = _mark(there), random.Random(seed)  # noqa: S311 - it must be repeatable
    for release, begins in _drawn(_releases(there), arrivals, window, rng):
        thinned += 0 if begins else len(release)
        repeated += len(release) * max(0, len(begins) - 1)
        first_at = _first_at(release)
        for number, at in enumerate(begins):
            name = f"{mark}{number + 1}" if number else ""
            found.extend(
                _again(one, at + (one.arrived_at - first_at), name, service_times)
                for one in release
            )
    left_out = {
        "that never ran, or did not end": len(bundle.attempts) - len(ran),
        "from before the window": len(ran) - len(there),
        "left out by chance": thinned,
    }
    noted = {
        "repeated at another instant of their hour": repeated,
        "without the recorded wait and runner, as the load is another": len(found),
    }
    done = f"scaled: arrivals by {arrivals:g}, service times by {service_times:g}, seed {seed}"
    return bundle.derived(found, left_out, noted, done, window=bundle.manifest.window)


def _mark(attempts: Sequence[Attempt]) -> str:
    """Return what no name has, to tell repetitions apart."""
    mark = "+"
    while any(mark in one.id or mark in one.job or mark in one.matrix for one in attempts):
        mark += "+"
    return mark


def _releases(attempts: Sequence[Attempt]) -> list[Release]:
    """Return what was released together, by the first arrival."""
    found = grouped(
        attempts, lambda one: ("matrix" if one.matrix else "job", one.matrix or one.job or one.id)
    )
    return sorted(found.values(), key=_first_at)


def _first_at(release: Release) -> float:
    return min(one.arrived_at for one in release)


def _drawn(
    releases: Sequence[Release], factor: float, window: tuple[float, float], rng: random.Random
) -> Iterator[tuple[Release, list[float]]]:
    """Yield each release, and when it and its repetitions begin; never: it is left out."""
    seen = made = 0
    for hour, group in groupby(releases, key=lambda one: _first_at(one) // HOUR):
        some = list(group)
        begins, ends = max(hour * HOUR, window[0]), min((hour + 1) * HOUR, window[1])
        seen += len(some)
        each, more = divmod(round(factor * seen) - made, len(some))
        made += each * len(some) + more
        chosen = set(rng.sample(range(len(some)), more))
        for place, release in enumerate(some):
            copies = each + (place in chosen)
            again = [rng.uniform(begins, ends) for _ in range(copies - 1)]
            yield release, [_first_at(release), *again][:copies]


def _again(one: Attempt, arrived_at: float, name: str, factor: float) -> Attempt:
    return msgspec.structs.replace(
        one,
        id=one.id + name,
        job=one.job and one.job + name,
        matrix=one.matrix and one.matrix + name,
        submitted_at=arrived_at,
        eligible_at=None,
        started_at=arrived_at,
        finished_at=arrived_at + (one.ran or 0.0) * factor,
        runner="",
    )


def merged(
    bundles: Sequence[Bundle], names: Sequence[str], *, apart: bool = False, align: bool = False
) -> Bundle:
    """Return the attempts of several bundles by clock time.

    ``align`` moves them, so that all begin when the first one did.

    Records of one farm may overlap: an attempt that is in two of them is taken once, as the later
    one has it, and runners of the same name are the same. Different farms (``apart``; or their
    sources differ, or an id stands for two attempts) and aligned ones keep theirs apart: attempts,
    jobs, matrices and runners get the bundle's name as a prefix. Platforms, kinds and users are
    never renamed, and the zone is that of the first.
    Raises InputError.
    """
    if len(bundles) < 2:
        raise InputError(f"merge: found {len(bundles)} bundle; allowed: two or more")
    attempts = [one.attempts for one in bundles]
    shifts = [0.0] * len(bundles)
    if align:
        begins = [one.arrivals[0] for one in bundles]
        shifts = [begins[0] - at for at in begins]
        attempts = [
            [one.moved(by) for one in some] for some, by in zip(attempts, shifts, strict=True)
        ]
    apart = apart or align or len({one.manifest.source for one in bundles}) > 1 or _clash(attempts)
    if apart:
        prefixes = _distinct(names)
        attempts = [_renamed(some, name) for some, name in zip(attempts, prefixes, strict=True)]
    kept: dict[str, Attempt] = {}
    for one in (one for some in attempts for one in some):
        known = kept.get(one.id)
        if known is None or known.finished_at is None or one.finished_at is not None:
            kept[one.id] = one
    twice = sum(map(len, attempts)) - len(kept)
    manifests = [one.manifest for one in bundles]
    history = [f"merged: {', '.join(names)}{', names apart' if apart else ''}"]
    history += [
        f"{name}: moved by {'-' if by < 0 else ''}{format_roughly(abs(by))}"
        for name, by in zip(names, shifts, strict=True)
        if by
    ]
    base = msgspec.structs.replace(bundles[0], manifest=_joined(manifests))
    window = _window(bundles, shifts)
    return base.derived(
        list(kept.values()), {"that came twice": twice}, {}, *history, window=window
    )


def _clash(attempts: Sequence[Sequence[Attempt]]) -> bool:
    """Return whether an id stands for two attempts."""
    known: dict[str, Attempt] = {}
    return any(
        not _is_same(known.setdefault(one.id, one), one) for some in attempts for one in some
    )


def _is_same(one: Attempt, other: Attempt) -> bool:
    if one is other:
        return True
    starts = {at for at in (one.started_at, other.started_at) if at is not None}
    is_close = abs(one.submitted_at - other.submitted_at) <= SAME
    return is_close and len(starts) < 2 and one.kind == other.kind


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names, those that are taken with a number."""
    found: list[str] = []
    for name in names:
        free, number = name, 2
        while free in found:
            free, number = f"{name}-{number}", number + 1
        found.append(free)
    return found


def _renamed(attempts: Sequence[Attempt], prefix: str) -> list[Attempt]:
    def own(name: str) -> str:
        return name and f"{prefix}/{name}"

    return [
        msgspec.structs.replace(
            one, id=own(one.id), job=own(one.job), matrix=own(one.matrix), runner=own(one.runner)
        )
        for one in attempts
    ]


def _joined(manifests: Sequence[Manifest]) -> Manifest:
    """Return what the manifests say together."""
    sources = list(dict.fromkeys(one.source for one in manifests))
    return msgspec.structs.replace(
        manifests[0],
        source=" + ".join(sources),
        files=[file for one in manifests for file in one.files],
        resolution_time=max(one.resolution_time for one in manifests),
        left_out=dict(sum((Counter(one.left_out) for one in manifests), Counter())),
        noted=dict(sum((Counter(one.noted) for one in manifests), Counter())),
        anonymized=all(one.anonymized for one in manifests),
        capacity=None,
        history=[done for one in manifests for done in one.history],
    )


def _window(bundles: Sequence[Bundle], shifts: Sequence[float]) -> tuple[float, float] | None:
    """Return from when to when jobs arrived, if a part is among the bundles."""
    if all(one.manifest.window is None for one in bundles):
        return None
    spans = [(one.arrivals, by) for one, by in zip(bundles, shifts, strict=True)]
    return min(a + by for (a, _), by in spans), max(b + by for (_, b), by in spans)


def anonymized(bundle: Bundle) -> Bundle:
    """Return the bundle with every name replaced by a keyed hash; labels of runners stay.

    The key is drawn, and forgotten: names are the same within the bundle and nowhere else.
    """
    key = secrets.token_bytes(32)
    known: dict[str, str] = {"": ""}

    def hashed(name: str) -> str:
        if name not in known:
            known[name] = hmac.new(key, name.encode(), "sha256").hexdigest()[:12]
        return known[name]

    def each(one: Attempt) -> Attempt:
        names = {field: hashed(getattr(one, field)) for field in NAMES}
        attributes = {name: hashed(text) for name, text in one.attributes.items()}
        if one.level:  # a number, and no name: jobs go by it
            attributes["level"] = str(one.level)
        return msgspec.structs.replace(one, attributes=attributes, **names)

    files = [
        SourceFile(f"file-{number}", "", one.bytes)
        for number, one in enumerate(bundle.manifest.files, 1)
    ]
    manifest = msgspec.structs.replace(bundle.manifest, anonymized=True, files=files)
    return Bundle(manifest, [each(one) for one in bundle.attempts])
