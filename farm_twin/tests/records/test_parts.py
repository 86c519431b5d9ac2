"""Parts of a bundle, loads of another size, and several bundles as one."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.errors import FarmError, InputError, TraceError
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle, read_bundle, write_bundle
from farm.records.traces.bundle import read
from farm_twin.bundles.merging import merged
from farm_twin.bundles.scaling import scaled
from farm_twin.bundles.slicing import instant_of, sliced
from tests.fixtures import attempts
from tests.fixtures.attempts import HOUR, MONDAY

USERS = ("ann", "bob", "eve")


def attempt(number: int, arrives: float, waits: float = 60.0, runs: float = 600.0) -> Attempt:
    """Return an attempt; times in seconds, from Monday's midnight."""
    at = MONDAY + arrives
    return attempts.attempt(
        number, at, at + waits, at + waits + runs, id=f"j{number:04}", submitted_at=at - 5,
        runner=f"r{number % 3}", kind=("build", "test")[number % 2], user=USERS[number % 3],
        platform="linux,x64", attributes={"team": "web"},
    )  # fmt: skip


bundle_of = partial(attempts.bundle_of, left_out={"skipped": 2})


def ids(bundle: Bundle) -> list[str]:
    """Return the ids of the attempts."""
    return [one.id for one in bundle.attempts]


HOURLY = bundle_of([attempt(number, number * HOUR) for number in range(48)])

arrivals = st.lists(st.integers(0, 3 * 86400), min_size=2, max_size=60, unique=True)


def test_a_window_has_what_arrived_in_it_and_what_ran_into_it():
    """A job that holds a runner when the window begins is there, and all is counted."""
    long = attempt(900, 0.5 * HOUR, waits=HOUR, runs=5 * HOUR)
    waiting = attempt(901, 2.5 * HOUR, waits=HOUR)
    found = sliced(bundle_of([*HOURLY.attempts, long, waiting]),
                   MONDAY + 3 * HOUR, MONDAY + 5 * HOUR)  # fmt: skip
    assert ids(found) == ["j0900", "j0901", "j0003", "j0004"]
    assert long in found.attempts
    known = found.manifest
    assert known.left_out == {"skipped": 2, "before the window": 3, "after the window": 43}
    assert known.read == 52
    assert known.noted == {
        "that waited or ran when the window began": 2,
        "that ended after the window": 1,
    }
    assert known.window == (MONDAY + 3 * HOUR, MONDAY + 5 * HOUR)
    assert "2026-11-02T03:00:00+00:00 to 2026-11-02T05:00:00+00:00" in known.history[0]


def test_a_part_says_whose_runners_are_shared():
    """Runners of the chosen jobs look idle while they run others."""
    found = sliced(HOURLY, where={"user": {"ann"}, "kind": {"build"}})
    assert {(one.user, one.kind) for one in found.attempts} == {("ann", "build")}
    assert found.manifest.left_out["of another user"] == 32
    assert found.manifest.left_out["of another kind"] == 8
    assert list(found.manifest.noted.values())[-1] == 8
    assert len(sliced(HOURLY, where={"team": {"web"}}).attempts) == 48


def test_instants_are_of_the_clock_or_since_the_begin():
    """A clock time is of the bundle's zone unless it has its own."""
    there = bundle_of(HOURLY.attempts, zone="Europe/Berlin")
    for text in ("2026-11-02T09:00", "2026-11-02T08:00Z", "8h"):
        assert instant_of(there, text, "--from") == MONDAY + 8 * HOUR
    assert there.manifest.clock == ZoneInfo("Europe/Berlin")
    with pytest.raises(InputError, match=r"--to: found 'noon'; allowed: a time as 2026"):
        instant_of(there, "noon", "--to")


@given(arrivals, st.floats(0, 3 * 86400))
def test_parts_make_the_whole(times: list[int], cut: float):
    """Cut at any instant and merged again, all attempts are there once, as they were."""
    whole = bundle_of([attempt(number, float(at)) for number, at in enumerate(times)])
    parts = []
    for begin, end in ((None, MONDAY + cut), (MONDAY + cut, None)):
        try:
            parts.append(sliced(whole, begin, end))
        except FarmError:
            assert not any((begin or 0) <= one.arrived_at < (end or 1e12) for one in whole.attempts)
    if len(parts) == 2:
        assert merged(parts, ["a", "b"]).attempts == whole.attempts


def test_a_part_is_kept(tmp_path: Path):
    """Its window and history are in the manifest, and it is a trace."""
    write_bundle(tmp_path / "part", sliced(HOURLY, MONDAY + HOUR, MONDAY + 9 * HOUR))
    again = read_bundle(tmp_path / "part")
    assert again.arrivals == (MONDAY + HOUR, MONDAY + 9 * HOUR)
    assert len(again.manifest.history) == 1
    assert len(read(tmp_path / "part").arrived) == 8


@given(arrivals, st.floats(0.1, 4.0), st.integers(0, 9))
def test_a_denser_load_has_the_pattern_of_the_recorded_one(
    times: list[int], factor: float, seed: int
):
    """Up to the end of every hour the number of jobs is in proportion, to half a job."""
    whole = bundle_of([attempt(number, float(at)) for number, at in enumerate(times)])
    try:
        found = scaled(whole, arrivals=factor, service_times=2.0, seed=seed)
    except TraceError:
        assert round(factor * len(times)) == 0
        return
    except InputError:
        assert round(factor * len(times)) == len(times)
        return
    before, after = (
        Counter(int((one.arrived_at - MONDAY) // HOUR) for one in some.attempts)
        for some in (whole, found)
    )
    sums = [accumulate([counts[hour] for hour in range(73)]) for counts in (before, after)]
    assert all(abs(factor * one - other) <= 0.5 + 1e-9 for one, other in zip(*sums, strict=True))
    assert {one.ran for one in found.attempts} == {1200.0}
    assert len(set(ids(found))) == len(found.attempts)
    first, last = whole.arrivals
    assert all(first <= one.arrived_at <= last for one in found.attempts)


def test_a_scaled_load_has_no_recorded_wait(tmp_path: Path):
    """Neither waits nor runners are carried on; the same seed gives the same load."""
    never = attempts.attempt(0, MONDAY, result="cancelled")
    some = bundle_of([*HOURLY.attempts, never])
    found = scaled(some, arrivals=1.5, seed=3)
    assert {one.waited for one in found.attempts} == {None}
    assert found.runners() == []
    assert found.manifest.left_out == {"skipped": 2, "that never ran, or did not end": 1}
    assert found.manifest.noted["repeated at another instant of their hour"] == 24
    assert found.attempts == scaled(some, arrivals=1.5, seed=3).attempts
    assert found.attempts != scaled(some, arrivals=1.5, seed=4).attempts
    write_bundle(tmp_path / "more", found)
    assert len(read(tmp_path / "more").arrived) == 72


def test_what_was_released_together_stays_together():
    """Matrices are repeated and left out whole."""
    some = bundle_of(HOURLY.attempts)
    for number, one in enumerate(some.attempts):
        one.matrix = f"m{number // 4}"
    try:
        for factor in (0.5, 1.75):
            found = scaled(some, arrivals=factor)
            sizes = Counter(one.matrix for one in found.attempts)
            assert set(sizes.values()) == {4}
            assert len(sizes) == 12 * factor
    finally:
        for one in some.attempts:
            one.matrix = ""


def test_a_factor_that_changes_nothing_is_refused():
    """A load of one matrix was called scaled and had not a job more; the true factor is told."""
    some = bundle_of([attempt(number, number * 60.0) for number in range(40)])
    for one in some.attempts:
        one.matrix = "all"
    with pytest.raises(InputError, match=r"found 1\.2, .* 40 jobs were released in 1 group"):
        scaled(some, arrivals=1.2)
    for number, one in enumerate(some.attempts):
        one.matrix = "large" if number < 30 else f"m{number}"
    [done] = scaled(some, arrivals=1.2).manifest.history
    assert "jobs for 40, which is " in done
    assert "5 seeds' draws have 42 to " in done


def test_records_of_one_farm_overlap():
    """What is in both counts once, as the later one has it; runners are the same."""
    early = bundle_of(HOURLY.attempts[:30])
    early.attempts[29] = attempt(29, 29 * HOUR)
    early.attempts[29].finished_at = None
    found = merged([early, bundle_of(HOURLY.attempts[20:])], ["a", "b"])
    assert found.attempts == HOURLY.attempts
    assert found.manifest.left_out == {"skipped": 4, "that came twice": 10}
    assert len(found.runners()) == 3


@pytest.mark.parametrize(
    ("other", "keys"),
    [
        (bundle_of(HOURLY.attempts, source="gitlab"), {}),
        (bundle_of([attempt(1, 99 * HOUR)]), {}),
        (bundle_of([attempt(77, 99 * HOUR)]), {"apart": True}),
        (bundle_of([attempt(77, 99 * HOUR)]), {"align": True}),
    ],
    ids=["sources", "ids", "apart", "aligned"],
)
def test_different_farms_stay_apart(other: Bundle, keys: dict[str, bool]):
    """Jobs and runners of both are there, by the bundles' names; labels are common."""
    found = merged([HOURLY, other], ["a", "a"], **keys)
    assert len(found.attempts) == 48 + len(other.attempts)
    assert {one.id.partition("/")[0] for one in found.attempts} == {"a", "a-2"}
    assert len(found.runners()) == 3 + len(other.runners())
    assert {one.platform for one in found.attempts} == {"linux,x64"}
    if "align" in keys:
        assert [one.arrived_at for one in found.attempts][:2] == [MONDAY, MONDAY]
        assert found.manifest.history == ["merged: a, a, names apart", "a: moved by -4d3h"]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            partial(sliced, where={"user": {"anne"}}),
            "--where: user: found 'anne'; did you mean ann",
        ),
        (
            partial(sliced, where={"owner": {"x"}}),
            "--where: found 'owner'; allowed: platform,",
        ),
        (partial(sliced, begin=MONDAY + 9, end=MONDAY), "--to: found -9s after --from; allowed: a"),
        (
            partial(sliced, begin=MONDAY + 99 * HOUR),
            "no attempt that is left: 48 before the",
        ),
        (scaled, "found no factor but 1"),
        (
            lambda _: scaled(bundle_of([attempts.attempt(0, MONDAY)]), arrivals=2.0),
            "found no job that ran and ended; allowed: a bundle that has",
        ),
        (partial(scaled, arrivals=0.0), "--arrivals: found 0; allowed: 0.001 to 1000"),
        (partial(scaled, service_times=math.nan), "--service-times: found nan"),
        (lambda bundle: merged([bundle], ["a"]), "merge: found 1 bundle; allowed: two or more"),
    ],
)
def test_what_cannot_be_made_of_a_bundle(made: Callable[[Bundle], Bundle], message: str):
    """One sentence."""
    with pytest.raises(FarmError, match=re.escape(message)):
        made(HOURLY)
