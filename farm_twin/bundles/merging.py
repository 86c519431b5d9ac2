"""Several bundles as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from farm.core.errors import InputError
from farm.core.jobs.needs import renamed
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle, Manifest
from farm.units import format_roughly

SAME = 2.0
"""Seconds within which an attempt was submitted in two records of it."""


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
            one,
            id=own(one.id),
            job=own(one.job),
            matrix=own(one.matrix),
            runner=own(one.runner),
            needs=renamed(one.needs, own),
            group=own(one.group),
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
        missing=[part for one in manifests for part in one.missing],
        history=[done for one in manifests for done in one.history],
    )


def _window(bundles: Sequence[Bundle], shifts: Sequence[float]) -> tuple[float, float] | None:
    """Return from when to when jobs arrived, if a part is among the bundles."""
    if all(one.manifest.window is None for one in bundles):
        return None
    spans = [(one.arrivals, by) for one, by in zip(bundles, shifts, strict=True)]
    return min(a + by for (a, _), by in spans), max(b + by for (_, b), by in spans)
