"""What is written as a source's records is read back as the same attempts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.records import load_records
from farm.records.attempt import Attempt
from farm.records.sources import SOURCES, export_attempts

START = 1_793_610_000
NO_RUNNERS = ("bazel", "kueue")
NO_PLATFORMS = ("jenkins",)


@st.composite
def jobs(draw: st.DrawFn) -> list[Attempt]:
    """Draw attempts that every source can tell: all started, at whole seconds, and ended."""
    made = []
    for number in range(draw(st.integers(1, 12))):
        at = START + draw(st.integers(0, 100_000))
        started_at = at + draw(st.integers(0, 50_000))
        made.append(
            Attempt(
                id=f"{number:03}",
                submitted_at=at,
                eligible_at=at,
                started_at=started_at,
                finished_at=started_at + draw(st.integers(1, 10_000)),
                result=draw(st.sampled_from(["succeeded", "failed"])),
                runner=draw(st.sampled_from(["host/r1", "host/r2"])),
                platform=draw(st.sampled_from(["os=linux", "os=mac"])),
                kind=f"job-{number}",
                matrix=draw(st.sampled_from(["", "m1", "m2"])),
                user="ada",
            )
        )
    return made


@pytest.mark.parametrize("source", SOURCES)
@given(found=jobs())
def test_the_same_jobs_through_any_format(tmp_path_factory, source, found):
    """Waits, run times, results, names and, where the format has them, platforms and runners."""
    path: Path = tmp_path_factory.mktemp("records") / "log.json"
    export_attempts(source, found, path)
    read = load_records([path]).attempts
    told = sorted(_told(one, source) for one in read)
    assert told == sorted(_told(one, source) for one in found)


def _told(one: Attempt, source: str) -> tuple[object, ...]:
    times = [one.eligible_at, one.started_at, one.finished_at]
    return (
        one.kind,
        *(None if at is None else round(at, 3) for at in times),
        one.result,
        "" if source in NO_PLATFORMS else one.platform,
        "" if source in NO_RUNNERS else one.runner,
    )
