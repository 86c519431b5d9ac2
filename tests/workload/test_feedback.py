"""What people submit because runs have ended: repeats of what failed, and users' next pushes."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

import farm
from farm.app.recorded.auditing import audit_run
from farm.core.commands import EndJob
from farm.core.errors import RunError
from farm.core.model import Cause, Job
from farm.workload import Submissions, batches, build_jobs
from tests.workload.conftest import ScenarioOf

MINUTE = 60.0
HOUR = 3600.0


def source(**keys: Any) -> dict[str, Any]:
    """Return a source of one push at 0 s whose only job fails."""
    return {"arrivals": {"every": 0, "count": 1, "service_time": MINUTE, "fails": 1.0, **keys}}


class Farm:
    """Ends jobs as a test says, and remembers what was submitted."""

    def __init__(self, submissions: object) -> None:
        assert isinstance(submissions, Submissions)
        self._submissions = submissions
        self.live: dict[str, Job] = {}

    def submit_next(self) -> tuple[float, list[str]] | None:
        """Submit the next batch; return its instant and its ids."""
        at, jobs = next(self._submissions, (math.inf, ()))
        self.live |= {job.id: job for job in jobs}
        return (at, [job.id for job in jobs]) if jobs else None

    def end(self, name: str, at: float, cause: Cause | None = None) -> None:
        """End a job as it is meant to end, or by another cause."""
        job = self.live.pop(name)
        cause = cause or (Cause.FAILED if job.fails else Cause.FINISHED)
        outcomes = {Cause.FAILED: "failed", Cause.LOST: "failed", Cause.FINISHED: "succeeded"}
        self._submissions.ended(
            EndJob(job, outcomes.get(cause, "cancelled"), 1, 0.0, at, cause=cause)  # type: ignore[arg-type]
        )


@pytest.fixture
def farm_of(scenario_of: ScenarioOf) -> Any:
    """Return a farm without builders, to which the jobs of these sources are submitted."""

    def make(*sources: dict[str, Any], **keys: Any) -> Farm:
        return Farm(batches(build_jobs(scenario_of(*sources, **keys))))

    return make


def tries(farm: Farm, at: float = MINUTE) -> Iterator[float]:
    """End each job a minute after it was submitted; yield when it was."""
    while (batch := farm.submit_next()) is not None:
        yield batch[0]
        for name in batch[1]:
            farm.end(name, batch[0] + at)


def test_a_failed_job_is_repeated_until_it_passes_or_people_give_up(farm_of):
    """Else a load has fewer jobs than the farm has to run."""
    for at_most, passes, submitted in ((2, 0.0, 3), (5, 1.0, 2), (5, 0.0, 6)):
        reruns = {"at_most": at_most, "passes": passes, "think_time": "5m"}
        instants = list(tries(farm_of(source(reruns=reruns))))
        assert instants == [6 * MINUTE * number for number in range(submitted)]
    assert len(list(tries(farm_of(source(reruns={"probability": 0.0}))))) == 1


def test_a_real_failure_fails_again_and_a_flake_does_not(farm_of):
    """A repeat finds out which of the two it was."""
    for flaky, submitted in ((0.0, 4), (1.0, 2)):
        assert len(list(tries(farm_of(source(reruns={"flaky": flaky}))))) == submitted


def test_people_repeat_at_day_only(farm_of):
    """A failure at night is looked at in the morning; thinking continues where it stopped."""
    reruns = {"think_time": "30m", "hours": "mon-fri 08:00-18:00", "at_most": 1}
    starts = {
        "mon 20:00": 12.5 * HOUR,
        "mon 17:49": 14 * HOUR + 31 * MINUTE,
        "mon 09:00": 31 * MINUTE,
    }
    starts["fri 17:49"] = starts["mon 17:49"] + 48 * HOUR
    for at, expected in starts.items():
        _, repeated_at = tries(farm_of(source(reruns=reruns), starts=at))
        assert repeated_at == pytest.approx(expected)


PIPELINE = {
    "matrices": {
        "every": 0,
        "count": 1,
        "service_time": MINUTE,
        "fails": {"by_kind": {"test": 1.0}},
        "jobs": [
            {"name": "build"},
            {"name": "lint"},
            {"name": "test", "needs": ["build"]},
            {"name": "deploy", "needs": ["test", "lint"]},
            {"name": "report", "needs": ["build:failed"]},
            {"name": "archive", "needs": ["test", "report"]},
        ],
    }
}


@pytest.mark.parametrize(
    ("what", "again"),
    [
        ("failed", {"test": (), "deploy": ("test",)}),
        (
            "run",
            {
                "build": (),
                "lint": (),
                "test": ("build",),
                "deploy": ("test", "lint"),
                "report": ("build:failed",),
                "archive": ("test", "report"),
            },
        ),
    ],
)
def test_what_was_skipped_for_a_failed_job_comes_back_with_it(farm_of, what, again):
    """And what can never be released does not: a job that it needs stays skipped."""
    pipeline = {"matrices": {**PIPELINE["matrices"], "reruns": {"what": what}}}
    farm_ = farm_of(pipeline)
    farm_.submit_next()
    for name, cause in (
        ("build", None),
        ("report", Cause.SKIPPED),
        ("test", None),
        ("deploy", Cause.SKIPPED),
        ("archive", Cause.SKIPPED),
    ):
        farm_.end(f"amd64-0001-{name}", 2 * MINUTE, cause)
    assert farm_.submit_next() is None, "one job runs still"
    farm_.end("amd64-0001-lint", 3 * MINUTE)

    def named(need: str) -> str:
        name, _, condition = need.partition(":")
        return f"amd64-0001-{name}.try-2" + (f":{condition}" if condition else "")

    assert farm_.submit_next() == (3 * MINUTE, [named(name) for name in again])
    needs = {job.id: job.needs for job in farm_.live.values()}
    assert needs == {named(name): tuple(map(named, of)) for name, of in again.items()}
    assert {job.matrix for job in farm_.live.values()} == {"amd64-0001.try-2"}


@pytest.mark.parametrize("cause", [Cause.SUPERSEDED, Cause.STOPPED, Cause.REQUESTED])
def test_a_run_that_was_cancelled_is_not_repeated(farm_of, cause):
    """A newer push has cancelled it, or a person."""
    farm_ = farm_of({"matrices": {**PIPELINE["matrices"], "reruns": {}}})
    farm_.submit_next()
    for name in ("build", "report", "archive", "lint", "test"):
        farm_.end(f"amd64-0001-{name}", MINUTE)
    farm_.end("amd64-0001-deploy", MINUTE, cause)
    assert farm_.submit_next() is None


def users(people: int = 3, **keys: Any) -> dict[str, Any]:
    """Return a source of jobs pushed by users."""
    think_time = {"exponential": {"mean": "10m"}}
    return {
        "arrivals": {
            "users": {"count": people, "think_time": think_time},
            "service_time": MINUTE,
            **keys,
        }
    }


def test_a_user_pushes_again_after_the_verdict_only(farm_of):
    """The load of a closed workload waits for the farm, as people do."""
    farm_ = farm_of(users(), phases={"run": "10h"})
    for _ in range(3):
        farm_.submit_next()
    assert farm_.submit_next() is None, "all wait for their verdicts"
    assert {job.attributes["user"] for job in farm_.live.values()} == {"u1", "u2", "u3"}
    farm_.end("amd64-u2-000001", 5 * HOUR)
    at, jobs = farm_.submit_next()
    assert at > 5 * HOUR
    assert jobs == ["amd64-u2-000002"]
    farm_.end(*jobs, 10 * HOUR)
    assert farm_.submit_next() is None, "the run is over"


def test_no_more_is_pushed_than_the_source_may(farm_of):
    """``count`` is of all users together, and ``duration`` counts from ``start``."""
    assert len(list(tries(farm_of(users(3, count=7))))) == 7
    timed = list(tries(farm_of(users(start="1h", duration="2h"))))
    assert min(timed) > HOUR
    assert max(timed) < 3 * HOUR


def test_users_who_only_cancel_each_other_are_refused(farm_of, monkeypatch):
    """They would push forever at one instant."""
    monkeypatch.setattr("farm.workload.submissions.MAX_AT_ONCE", 50)
    people = {"users": {"count": 2, "think_time": 0}}
    farm_ = farm_of({"arrivals": {**people, "service_time": MINUTE}}, phases={"run": "1h"})
    with pytest.raises(RunError, match="time does not advance: give users and reruns a think_time"):
        for _ in tries(farm_, at=0.0):
            pass


def test_a_user_waits_for_the_repeats_too(farm_of):
    """The verdict on a push is that of its last try."""
    reruns = {"at_most": 1, "passes": 0.0, "think_time": "5m"}
    farm_ = farm_of(users(1, fails=1.0, reruns=reruns), phases={"run": "10h"})
    at, [first] = farm_.submit_next()
    farm_.end(first, at + MINUTE)
    again_at, [again] = farm_.submit_next()
    assert (again_at, again) == (at + 6 * MINUTE, f"{first}.try-2")
    farm_.end(again, again_at + MINUTE)
    _, later = farm_.submit_next()
    assert later == ["amd64-u1-000002"]


def test_two_farms_are_met_by_the_same_users(farm_of):
    """Their jobs and think times do not depend on the order of the verdicts.

    Else two policies could not be compared with the same seed.
    """
    thought: list[dict[str, list[tuple[float, float]]]] = []
    for waits in (1.0, 5 * MINUTE):
        load = users(service_time={"exponential": {"mean": "1m"}})
        farm_ = farm_of(load, phases={"run": "10h"})
        by_user: dict[str, list[tuple[float, float]]] = {}
        last: dict[str, float] = {}
        while (batch := farm_.submit_next()) is not None:
            at, [name] = batch
            job = farm_.live[name]
            user = job.attributes["user"]
            by_user.setdefault(user, []).append(
                (round(at - last.get(user, 0.0), 6), job.service_time)
            )
            last[user] = at + waits
            farm_.end(name, last[user])
        thought.append(by_user)
    fast, slow = thought
    assert sum(map(len, fast.values())) > sum(map(len, slow.values()))
    for user, pushes in slow.items():
        assert fast[user][: len(pushes)] == pushes


@pytest.mark.parametrize(
    ("load", "why"),
    [
        ({"arrivals": {"service_time": 1, "users": {"count": 1}}}, "think_time"),
        (
            {"arrivals": {**users()["arrivals"], "every": "1m"}},
            "found every and users together; allowed: exactly one of poisson, every, users",
        ),
        (
            {"arrivals": {**users()["arrivals"], "daily_cycle": [1] * 24}},
            "found a cycle beside users; allowed: users.hours",
        ),
        (
            {"matrices": {**users()["arrivals"], "size": 2, "jobs_apart": 1}},
            "found jobs_apart beside users or reruns; allowed: jobs that arrive together",
        ),
        (users(), "found a generator without an end"),
        (users(10**9, count=10), "users.count: found 1000000000; allowed: 100000 or less"),
        (source(reruns={"hours": "late"}), "found 'late'"),
        (source(reruns={"think_time": {"by_kind": {"a": 1}}}), "found by_kind"),
    ],
)
def test_what_cannot_be_meant_is_refused(scenario_of, load, why):
    """In a sentence, before anything is drawn."""
    with pytest.raises(farm.InputError, match=why.replace("(", r"\(")):
        scenario_of(load)


def test_the_same_seed_gives_the_same_run_whose_log_replays(scenario_of, tmp_path):
    """Also where runs are repeated, and users wait for them."""
    load = users(5, fails=0.3, reruns={"think_time": "1m", "passes": 0.5})
    scenario = scenario_of(load, phases={"run": "1h"})
    first, second = (farm.simulate(scenario, out=tmp_path / name) for name in "ab")
    assert not audit_run(tmp_path / "a").wrong
    assert first.jobs["job_id"].tolist() == second.jobs["job_id"].tolist()
    assert first.jobs["finished_at_s"].tolist() == second.jobs["finished_at_s"].tolist()
    assert any(".try-3" in name for name in first.jobs["job_id"].tolist())
