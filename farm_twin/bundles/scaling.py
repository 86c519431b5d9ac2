"""A load of another size: arrivals denser or thinner, service times longer or shorter."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from farm.core.errors import InputError
from farm.core.jobs.needs import need_of, renamed
from farm.records.attempt import Attempt, grouped
from farm.records.bundle import Bundle
from farm.units import many

HOUR = 3600.0
MOST = 1000.0
"""Allowed factors: up to this, and down to one over it."""
DRAWS = 5
"""Draws of a scaled load, of which it is told how far their sizes are apart."""


def scaled(
    bundle: Bundle, *, arrivals: float = 1.0, service_times: float = 1.0, seed: int = 1
) -> Bundle:
    """Return the bundle with ``arrivals`` times as many jobs, ``service_times`` times as long.

    What was released together (a matrix, the attempts of a job) stays so. Within each hour of the
    clock, the releases that are left out or repeated are drawn, as many as the factor demands up to
    that hour's end; a repetition begins at an instant drawn from the same hour. So the pattern of
    days and weeks stays.

    Nothing waited like this: the jobs have no recorded wait, runner or capacity any more. Those
    that never started, or did not end, have no service time, and are left out. The history says how
    many jobs there really are for each, and between which numbers of them other seeds' draws lie.

    Raises InputError for factors that are not allowed, or that change nothing, as where all jobs
    are of one matrix; and where no job ran and ended.
    """
    for option, factor in (("--arrivals", arrivals), ("--service-times", service_times)):
        if not 1 / MOST <= factor <= MOST:
            raise InputError(f"{option}: found {factor:g}; allowed: {1 / MOST:g} to {MOST:g}")
    if arrivals == service_times == 1:
        raise InputError("found no factor but 1; allowed: --arrivals, --service-times, or both")
    window = bundle.arrivals
    ran = [one for one in bundle.attempts if one.ran is not None]
    there = [one for one in ran if one.arrived_at >= window[0]]
    if not there:
        raise InputError("found no job that ran and ended; allowed: a bundle that has such jobs")
    found: list[Attempt] = []
    thinned = repeated = 0
    mark = _mark(there)
    releases = _releases(there)
    _refuse_no_change(releases, arrivals)
    for release, begins in _drawn(releases, arrivals, window, _dice(seed)):
        thinned += 0 if begins else len(release)
        repeated += len(release) * max(0, len(begins) - 1)
        first_at = _first_at(release)
        for number, at in enumerate(begins):
            name = f"{mark}{number + 1}" if number else ""
            ends = {one.id: one.finished_at or 0.0 for one in release}
            found.extend(
                _again(one, at + (one.arrived_at - first_at), name, service_times, ends)
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
    if arrivals != 1:
        sizes = [
            sum(len(release) * len(begins) for release, begins in draw)
            for number in range(DRAWS)
            for draw in [_drawn(releases, arrivals, window, _dice(seed + number))]
        ]
        done += (
            f": {len(found):,} jobs for {len(there):,}, which is {len(found) / len(there):.2f} "
            f"times as many; {DRAWS} seeds' draws have {min(sizes):,} to {max(sizes):,}"
        )
    cut = sum(
        any(need_of(text).job not in ids for text in one.needs)
        for release in releases
        for ids in [{one.id for one in release}]
        for one in release
    )
    if cut:
        done += f"; {cut:,} of the recorded jobs come without needs that are of another release"
    return bundle.derived(found, left_out, noted, done, window=bundle.manifest.window)


def _dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - it must be repeatable


def _refuse_no_change(releases: Sequence[list[Attempt]], factor: float) -> None:
    """Raise InputError if no whole release is left out or repeated by a factor of arrivals."""
    count = len(releases)
    if factor == 1 or round(factor * count) != count:
        return
    above = (count + 0.5) / count
    below = (count - 0.5) / count
    jobs = many(sum(map(len, releases)), "job")
    raise InputError(
        f"--arrivals: found {factor:g}, which changes nothing: the {jobs} were released in "
        f"{many(count, 'group')}, which stay whole; allowed: {above:g} or more, {below:g} or less"
    )


def _mark(attempts: Sequence[Attempt]) -> str:
    """Return what no name has, to tell repetitions apart."""
    mark = "+"
    while any(mark in one.id or mark in one.job or mark in one.matrix for one in attempts):
        mark += "+"
    return mark


def _releases(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Return what was released together, by the first arrival."""
    found = grouped(
        attempts, lambda one: ("matrix" if one.matrix else "job", one.matrix or one.job or one.id)
    )
    return sorted(found.values(), key=_first_at)


def _first_at(release: Sequence[Attempt]) -> float:
    return min(one.arrived_at for one in release)


def _drawn(
    releases: Sequence[list[Attempt]], factor: float, window: tuple[float, float],
    rng: random.Random,
) -> Iterator[tuple[list[Attempt], list[float]]]:  # fmt: skip
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


def _again(
    one: Attempt, arrived_at: float, name: str, factor: float, ends: Mapping[str, float]
) -> Attempt:
    """Return an attempt of a release that begins at another instant, for a repetition under a name.

    It needs what it needed of its release, whose recorded ``ends`` say how long after them it came.
    """
    needed = [text for text in one.needs if need_of(text).job in ends]
    delay = None
    if needed:
        last_end = max(ends[need_of(text).job] for text in needed)
        delay = max(0.0, one.arrived_at - one.group_wait - last_end)
        if one.needs_delay is not None:
            delay = one.needs_delay
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
        needs=renamed(needed, lambda job: job + name),
        needs_delay=delay,
    )
