"""On a farm of another size, jobs that others release come at other times."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import farm
from farm.core.jobs.groups import group_of
from farm.records.bundle import read_bundle, write_bundle
from farm_twin.bundles.anonymizing import anonymized
from farm_twin.bundles.merging import merged
from farm_twin.bundles.scaling import scaled
from farm_twin.bundles.slicing import sliced
from farm_twin.importing import load_records
from farm_twin.tests.twins.closed_loop.ci_with_needs import (
    BEGINS,
    DAY,
    GROUPED,
    CIFarm,
    began,
    write,
)
from farm_twin.twins.closed_loop.closing import (
    CUT_SHORT,
    closed_loop_of,
    coarse_evidence,
    cut_short,
    cut_short_evidence,
)
from farm_twin.twins.twin import certainty_of, write_twin

RUNNERS = 9


def played(runners: int, days: float, **how: Any) -> CIFarm:
    """Return a farm of the other program, played."""
    ci = CIFarm(1, runners, days=days, **how)
    ci.played()
    return ci


def true_wait(ci: CIFarm) -> float:
    """Return the mean wait of the jobs that started, seconds."""
    return fmean(row.waited or 0.0 for row in ci.rows if began(row) is not None)


def mean_wait(run: farm.Result) -> float:
    """Return the same of a simulation."""
    return float(np.nanmean(np.asarray(run.jobs["waiting_time_s"], float)))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of half a day, with what released their jobs."""
    folder = tmp_path_factory.mktemp("closed")
    found = closed_loop_of(load_records([write(played(RUNNERS, 0.5), "gitlab", folder / "jobs")]))
    assert found is not None
    write_bundle(folder / "records", found.bundle)
    return folder / "records"


def replayed(records: Path, builders: int, platform: str = "linux") -> farm.Result:
    """Return the recorded jobs on a farm of some builders like the recorded ones."""
    pool = {
        "name": "linux", "platform": {"processor": platform}, "builders": builders,
        "pickup_time": "2s", "inter_job_time": "1s",
    }  # fmt: skip
    trace = {"path": str(records), "format": "bundle"}
    return farm.simulate(
        {"name": "replay", "pools": [pool], "workload": [{"trace": trace}]}, keep_events=False
    )


@pytest.mark.parametrize("runners", [7, RUNNERS, 11])
def test_a_farm_of_another_size_waits_as_it_would(closed: Path, runners: int) -> None:
    """As jobs came on nine runners, seven would seem to wait twice as long."""
    truth = true_wait(played(runners, 0.5))
    assert mean_wait(replayed(closed, runners)) == pytest.approx(truth, rel=0.05, abs=1.0)


def pipeline_wait(run: farm.Result, kind: str) -> float:
    """Return the mean time from a run's push to the start of its job of a name, seconds."""
    jobs = run.jobs
    blocked, waited = (
        np.asarray(jobs[name], float) for name in ("blocked_time_s", "waiting_time_s")
    )
    return float(np.nanmean((blocked + waited)[np.asarray(jobs["kind"].tolist()) == kind]))


def true_pipeline_wait(ci: CIFarm, kind: str) -> float:
    """Return the same of the other program."""
    pushed: dict[int, float] = {}
    for row in ci.rows:
        pushed.setdefault(row.run, row.created)
    rows = [row for row in ci.rows if row.name == kind]
    return fmean((row.started or 0.0) - pushed[row.run] for row in rows)


@pytest.fixture(scope="module")
def grouped_jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of a day with jobs in groups of one and of three."""
    folder = tmp_path_factory.mktemp("grouped")
    ci = played(10, 1.0, **GROUPED_LOAD)
    found = closed_loop_of(load_records([write(ci, "buildkite", folder / "jobs")]))
    assert found is not None
    [told] = [sentence for sentence in found.evidence if "a place in their group" in sentence]
    assert told.endswith("beside their wait for a runner: here they wait for it, too")
    write_bundle(folder / "records", found.bundle)
    return folder / "records"


GROUPED_LOAD: dict[str, Any] = {"groups": True, "cancels": False, "tries_again": False}


@pytest.mark.parametrize("runners", [10, 15])
def test_a_job_waits_for_its_group_as_it_would_on_another_farm(
    grouped_jobs: Path, runners: int
) -> None:
    """As recorded, jobs of fifteen runners would wait for places that were free long before."""
    run = replayed(grouped_jobs, runners, "queue=linux")
    ci = played(runners, 1.0, **GROUPED_LOAD)
    assert mean_wait(run) == pytest.approx(true_wait(ci), rel=0.05)
    for kind in GROUPED:
        truth = true_pipeline_wait(ci, kind)
        assert pipeline_wait(run, kind) == pytest.approx(truth, rel=0.1)


def test_a_limit_that_the_records_do_not_keep_is_none(tmp_path: Path) -> None:
    """Where more jobs had a place at once than a group has, it would hold up what never waited."""
    ci = played(10, 0.5, **GROUPED_LOAD)
    found = closed_loop_of(load_records([write(ci, "gitlab", tmp_path / "jobs")]))
    assert found is not None
    assert found.wrong_limits == ["1/load test"]
    assert {attempt.group for attempt in found.bundle.attempts} == {"", "1/deploy:1"}
    assert "more jobs of 1/load test had a place at once" in " ".join(found.evidence)


def test_recorded_starts_are_told_as_they_were(closed: Path) -> None:
    """Though a job that others released is submitted long before it came."""
    jobs = replayed(closed, RUNNERS).jobs
    recorded, simulated = (
        np.asarray(jobs[name], float) for name in ("recorded_started_at_s", "started_at_s")
    )
    known = ~np.isnan(recorded) & ~np.isnan(simulated)
    assert known.sum() > 500
    assert float(np.median(np.abs(recorded[known] - simulated[known]))) < 1.0


def test_plain_records_have_no_loop_to_close(tmp_path: Path) -> None:
    """Nothing is drawn or added where no job releases another and no push cancels."""
    ci = played(RUNNERS, 0.5, needs=False, cancels=False, tries_again=False)
    assert closed_loop_of(load_records([write(ci, "github", tmp_path / "jobs")])) is None


def test_times_that_cannot_tell_release_nothing(tmp_path: Path) -> None:
    """Within five minutes whatever ended would be a need: only what the records say is played."""
    ci = played(RUNNERS, 0.5)
    bundle = load_records([write(ci, "github", tmp_path / "jobs")])
    exact = list(coarse_evidence(bundle))
    for attempt in bundle.attempts:
        for name in ("submitted_at", "eligible_at", "started_at", "finished_at"):
            if (instant := getattr(attempt, name)) is not None:
                setattr(attempt, name, instant // 300 * 300)
    assert closed_loop_of(bundle) is None
    assert exact == []
    [sentence] = coarse_evidence(bundle)
    assert sentence.startswith("instants are exact to 5m only")
    first, last = bundle.attempts[0], bundle.attempts[-1]
    last.needs = (f"{first.id}:ended",)
    found = closed_loop_of(bundle)
    assert found is not None
    assert {one.needs for one in found.bundle.attempts} == {(), last.needs}


def test_pushes_that_cancel_are_played_where_no_job_needs_another(tmp_path: Path) -> None:
    """Otherwise a larger farm would cancel as many jobs, as early, as the recorded one did."""
    how = {"needs": False, "tries_again": False, "pushes_per_hour": 12}
    ci = played(8, 0.5, **how)
    found = closed_loop_of(load_records([write(ci, "github", tmp_path / "jobs")]))
    assert found is not None
    assert (found.released, found.cancelling) == (0.0, ("ci",))
    [sentence] = found.evidence
    assert sentence.startswith("a newer push cancels the older run of ci (")
    write_bundle(tmp_path / "records", found.bundle)
    run = replayed(tmp_path / "records", 12, "linux,self-hosted")
    assert mean_wait(run) == pytest.approx(true_wait(played(12, 0.5, **how)), rel=0.05)


@pytest.mark.slow
def test_records_of_whole_minutes_show_what_released_what(tmp_path: Path) -> None:
    """As tables that were rounded on their way: a push may seem to come after what it cancelled."""
    bundle = load_records([write(played(RUNNERS, 3.0), "github", tmp_path / "jobs")])
    for attempt in bundle.attempts:
        for name in ("submitted_at", "eligible_at", "started_at", "finished_at"):
            if (instant := getattr(attempt, name)) is not None:
                setattr(attempt, name, instant // 60 * 60)
    found = closed_loop_of(bundle)
    assert found is not None
    assert found.resolution == 60
    assert {rule.kind: len(rule.needs) for rule in found.needs if rule.workflow == "ci"} == {
        "build": 1, "package": 12, **{f"test ({number})": 1 for number in range(12)},
    }  # fmt: skip
    assert found.cancelling == ("ci", "docs")


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["github", "gitlab", "buildkite"])
def test_what_a_twin_says_of_another_farm_is_so(tmp_path: Path, shape: str) -> None:
    """Six days in three sources' forms: fewer and more runners, and shortest jobs first."""
    records = load_records([write(played(RUNNERS, 6.0), shape, tmp_path / "jobs.json")])
    twin = write_twin(records, None, tmp_path / "twin.yaml")
    assert twin.believable, twin.sentence
    assert twin.closed_loop is not None
    assert twin.open_loop is None
    [pool] = twin.pools
    for runners in (7, 8, 10, 11):
        more = {f"pools__{pool.name}__builders": runners}
        run = farm.simulate(tmp_path / "twin.yaml", keep_events=False, **more)
        assert mean_wait(run) == pytest.approx(true_wait(played(runners, 6.0)), rel=0.05)
    run = farm.simulate(tmp_path / "twin.yaml", keep_events=False, scheduling__policy="sjf")
    truth = true_wait(played(RUNNERS, 6.0, shortest_first=True))
    assert mean_wait(run) == pytest.approx(truth, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(12, 6), (6, 9)])
def test_a_twin_of_the_first_half_knows_the_second_with_half_the_runners(
    tmp_path: Path, before: int, after: int
) -> None:
    """What no twin passes whose jobs come as they came: by those, 6 runners wait 3 times as long.

    The second half has other pushes, so its mean wait is off by what a week of them is off.
    """
    ci = CIFarm(1, before, days=10.0, runners_later=after)
    ci.played()
    middle = 5 * DAY
    waits = [
        row.waited or 0.0 for row in ci.rows if began(row) is not None and row.created >= middle
    ]
    records = load_records([write(ci, "gitlab", tmp_path / "jobs")])
    first_half = sliced(records, end=BEGINS + middle)
    twin = write_twin(first_half, None, tmp_path / "twin.yaml")
    assert twin.believable, twin.sentence
    [pool] = twin.pools
    run = farm.simulate(
        tmp_path / "twin.yaml", keep_events=False, **{f"pools__{pool.name}__builders": after}
    )
    assert mean_wait(run) == pytest.approx(fmean(waits), rel=0.25)
    write_bundle(tmp_path / "open", first_half)
    assert mean_wait(replayed(tmp_path / "open", after)) > 1.6 * fmean(waits)


@pytest.mark.slow
def test_a_change_of_the_runners_is_foreseen(tmp_path: Path) -> None:
    """Where a log has one, the twin's own check plays the jobs of before on the farm of after."""
    ci = CIFarm(1, 12, days=10.0, runners_later=7)
    ci.played()
    records = load_records([write(ci, "gitlab", tmp_path / "jobs")])
    twin = write_twin(records, None, tmp_path / "twin.yaml")
    [told] = [text for text in twin.evidence if "its runners went from" in text]
    assert "its runners went from 12 to 7, as foreseen: the jobs of before wait" in told
    assert told in " ".join((tmp_path / "twin.yaml").read_text().replace("#", "").split())


def test_needs_stay_whole_where_records_get_other_names(closed: Path) -> None:
    """Merged with another farm's, repeated, or without names, each need is one of the records."""
    bundle = read_bundle(closed)
    others = (
        anonymized(bundle),
        merged([bundle, bundle], ["a", "b"], apart=True),
        scaled(bundle, arrivals=1.5),
    )
    for other in others:
        ids = {attempt.id for attempt in other.attempts}
        needs = [need.removesuffix(":ended") for one in other.attempts for need in one.needs]
        assert set(needs) <= ids
        assert len(needs) >= 500
    bundle.attempts[0].group = "deploy:3"
    [group] = {one.group for one in anonymized(bundle).attempts if one.group}
    assert group_of(group).limit == 3
    assert group_of(group).name != "deploy"


def test_a_scaled_load_is_played_closed(closed: Path, tmp_path: Path) -> None:
    """Twice the run times, on a farm with room: each job comes as long after its needs."""
    bundle = scaled(read_bundle(closed), service_times=2.0)
    write_bundle(tmp_path / "scaled", bundle)
    [recorded, longer] = (replayed(records, 200) for records in (closed, tmp_path / "scaled"))
    [before, after] = (np.asarray(run.jobs["blocked_time_s"], float) for run in (recorded, longer))
    assert 1.5 < np.nanmean(after) / np.nanmean(before) < 2.1
    assert mean_wait(longer) == pytest.approx(mean_wait(recorded), abs=1.0)


def test_jobs_that_no_known_push_cancelled_are_told(tmp_path: Path) -> None:
    """Their recorded run times are cut short, so no answer of such a twin is sure."""
    ci = played(RUNNERS, 0.5, pushes_per_hour=9)
    bundle = load_records([write(ci, "github", tmp_path / "jobs")])
    for attempt in bundle.attempts:
        attempt.attributes = {**attempt.attributes, "branch": ""}
    found = closed_loop_of(bundle)
    assert found is not None
    assert found.cancelling == ()
    played_ = found.bundle.attempts
    assert cut_short(played_) >= CUT_SHORT
    assert "by no push that is recognised" in " ".join(cut_short_evidence(played_))
    pools: Any = [SimpleNamespace(grade="each job", flags=[])]
    assert certainty_of(pools, played_, None, None, []) == "likely", "in an open loop, too"
    whole = [attempt for attempt in played_ if attempt.result != "cancelled"]
    assert certainty_of(pools, whole, None, None, []) == "sure"
