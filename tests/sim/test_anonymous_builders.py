"""Builders that keep their own figure of their speed are sent sizes that make up for it."""

from __future__ import annotations

from pathlib import Path

import pytest

import farm
from farm.app.recorded.auditing import audit_run
from farm.core.commands import StartJob
from farm.core.errors import FarmError
from farm.core.events import JobStarted
from farm.core.model import Job, Platform
from farm.results.run_directory import load_run
from farm.scenario import load_scenario
from farm.testing import small_scenario
from farm.workload import build_jobs

POOL = {"name": "mine", "speed": 2, "labels": {"anonymous": "true"}}
LOAD = {
    "every": "1m",
    "count": 13,
    "service_time": "20s",
    "declared": {"factor": 3},
    "kind": "unit",
}


def told(tmp_path: Path, **labels: str) -> list[tuple[float | None, float | None]]:
    """Return what size the builder was sent with each job, and what it then expected."""
    pool = POOL | {"labels": {"anonymous": "true", **labels}}
    rules = {"runtime_estimates": "boinc"}
    run = farm.simulate(small_scenario(pool, LOAD, scheduling=rules)).save(tmp_path / "run")
    audit = audit_run(run)
    assert (audit.wrong, audit.not_replayed) == ("", "")
    entries = list(load_run(run).entries())
    sent = [c.size for entry in entries for c in entry.commands if isinstance(c, StartJob)]
    expected = [e.event.expected_time for e in entries if isinstance(e.event, JobStarted)]
    return list(zip(sent, expected, strict=True))


def test_a_builder_estimates_by_the_size_that_it_is_sent(tmp_path: Path):
    """By its benchmark, until eleven successes say that jobs are a third as long as declared."""
    first, *_, last = told(tmp_path)
    assert first == (60.0, 30.0)
    assert last == pytest.approx((20.0, 10.0))


def test_a_claimed_speed_comes_before_the_benchmark(tmp_path: Path):
    """It is believed at first; then sizes are scaled by it, and the builder's estimate is right."""
    first, *_, last = told(tmp_path, claimed_speed="8")
    assert first == (60.0, 7.5)
    assert last == pytest.approx((80.0, 10.0))


def test_a_builder_that_is_not_anonymous_is_sent_no_size(tmp_path: Path):
    """The server estimates for it."""
    assert set(told(tmp_path, anonymous="false")) == {(None, None)}


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"anonymous": "yes"}, "anonymous: found 'yes'; allowed: 'true' or 'false'"),
        ({"claimed_speed": "0"}, "claimed_speed: found '0'; allowed: a number above 0"),
        ({"availability": "often"}, "availability: found 'often'; allowed: a number above 0"),
    ],
)
def test_a_label_with_a_meaning_is_checked(tmp_path: Path, labels: dict[str, str], said: str):
    """Otherwise it would silently count as absent."""
    with pytest.raises(FarmError, match="labels") as caught:
        told(tmp_path, **labels)
    assert said in str(caught.value)


# --- Jobs without a virtualization: Launchpad's null, from the scenario to the log ----------------

SCENARIO = small_scenario(
    [
        {"name": "virtual"},
        {"name": "native", "platform": {"processor": "amd64", "virtualized": False}},
    ],
    {
        "count": 6,
        "service_time": "5s",
        "platform": [{"processor": "amd64", "virtualized": one} for one in ("any", True)],
    },
)


def test_a_scenario_can_leave_it_unspecified() -> None:
    """`any` stays apart from `true` in the job, and in the file that the scenario writes."""
    scenario = load_scenario(SCENARIO)
    found = {job.platform for job in build_jobs(scenario)}
    assert found == {Platform("amd64", None), Platform("amd64", True)}
    assert load_scenario(farm.load_scenario(SCENARIO)).workload == scenario.workload


def test_such_jobs_go_to_virtual_builders() -> None:
    """As Launchpad dispatches them, in one queue with explicitly virtual ones."""
    jobs = farm.simulate(SCENARIO).jobs
    assert {str(name) for name in jobs["builder"]} == {"virtual-1"}


def test_it_can_be_submitted() -> None:
    """`amd64/any` is read wherever a platform is written; the event log keeps the null."""
    assert Platform.parse("amd64/any") == Platform("amd64", None)
    assert Platform.parse("any/any") == Platform(None, None)
    mine = [Job(id="j", service_time=1.0, arrived_at=0.0, platform=Platform.parse("amd64/any"))]
    events = farm.simulate(SCENARIO, jobs=mine).events
    [submitted] = [event for event in events if event["event"] == "job-submitted"]
    assert submitted["platform"] == {"processor": "amd64"}
