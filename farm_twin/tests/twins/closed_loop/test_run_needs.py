"""What released jobs, and which runs a newer push cancelled, is read from their times alone."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import msgspec
import pytest

from farm.records.attempt import Attempt
from farm_twin.importing import load_records
from farm_twin.tests.twins.closed_loop.ci_with_needs import TESTS, WORKFLOWS, CIFarm, write
from farm_twin.twins.closed_loop.run_needs import ReleasedLoad, with_needs
from farm_twin.twins.closed_loop.superseded import superseded


@cache
def ci_farm() -> CIFarm:
    """Return a farm on which needs, cancelled runs and further tries all occur."""
    farm = CIFarm(1, 9, days=2)
    farm.played()
    return farm


@pytest.fixture(params=["github", "gitlab", "buildkite"], scope="module")
def released(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ReleasedLoad:
    """The jobs of the farm as a source tells of them, with the needs that were found."""
    path = write(ci_farm(), request.param, tmp_path_factory.mktemp("records") / "jobs.jsonl")
    return with_needs(load_records([path]).attempts)


def test_needs_of_each_job_are_those_of_its_workflow(released: ReleasedLoad) -> None:
    """No source names them; a wrong one would hold a job back on another farm."""
    found = {rule.kind: set(rule.needs) for rule in released.needs}
    wanted = {
        name: set(step.needs)
        for steps in WORKFLOWS.values()
        for name, step in steps.items()
        if step.needs
    }
    assert found == wanted


@pytest.mark.parametrize("source", ["gitlab", "buildkite"])
def test_needs_that_the_records_say_hold(tmp_path: Path, source: str) -> None:
    """Each job's, also where few runs would show nothing; times only have to agree."""
    farm = CIFarm(1, 9, days=0.3)
    farm.played()
    path = write(farm, source, tmp_path / "jobs.jsonl", says_needs=True)
    load = with_needs(load_records([path]).attempts)
    assert load.explicit == load.released > 100
    assert {rule.explicit for rule in load.needs} == {True}
    assert not [rule for rule in load.needs if rule.instead]
    found = {rule.kind: set(rule.needs) for rule in load.needs}
    steps = WORKFLOWS["ci"] | WORKFLOWS["docs"]
    assert found == {name: set(step.needs) for name, step in steps.items() if step.needs}


def test_times_that_say_otherwise_are_told(released: ReleasedLoad) -> None:
    """What the records say holds, and the other set is evidence."""
    ids: dict[tuple[str, str, str], str] = {}
    attempts = []
    for attempt in released.attempts:
        key = attempt.attributes.get("pipeline", ""), attempt.matrix, attempt.kind
        ids[key] = attempt.id
        needs: tuple[str, ...] = ()
        if attempt.kind == "package":
            needs = (f"{ids.get((*key[:2], 'lint'), 'none')}:ended",)
        known = attempt.kind == "package"
        attempts.append(msgspec.structs.replace(attempt, needs=needs, needs_known=known))
    load = with_needs(attempts)
    [rule] = [rule for rule in load.needs if rule.kind == "package"]
    assert (rule.needs, set(rule.instead)) == (("lint",), set(TESTS))
    assert not [other for other in load.needs if other.instead and other is not rule]


def test_a_further_try_needs_what_had_failed(released: ReleasedLoad) -> None:
    """Otherwise it would be repeated before it has failed."""
    known = {attempt.id: attempt for attempt in released.attempts}
    again = [
        attempt
        for attempt in released.attempts
        if attempt.attempt > 1 and attempt.kind not in ("build", "package", "render", *TESTS)
    ]
    assert released.tried_again
    for attempt in again:
        needs = [known[need.removesuffix(":ended")] for need in attempt.needs]
        assert any(need.result == "failed" for need in needs)
        assert all(need.matrix == attempt.matrix for need in needs)


def test_no_job_needs_what_ended_after_it_came(released: ReleasedLoad) -> None:
    """A replay would stand still."""
    known = {attempt.id: attempt for attempt in released.attempts}
    for attempt in released.attempts:
        for need in attempt.needs:
            ended_at = known[need.removesuffix(":ended")].finished_at
            assert ended_at is not None
            assert ended_at <= attempt.arrived_at + 1.0


def test_jobs_that_come_together_need_nothing() -> None:
    """Jobs of one run that are created at its start, however long they then wait."""
    attempts = [
        Attempt(
            id=f"{run}-{kind}",
            submitted_at=600.0 * run,
            eligible_at=600.0 * run,
            started_at=600.0 * run + 5.0,
            finished_at=600.0 * run + ends,
            result="succeeded",
            kind=kind,
            matrix=str(run),
        )
        for run in range(30)
        for kind, ends in (("a", 20.0), ("b", 90.0 + run))
    ]
    assert with_needs(attempts) == (attempts, [], 0, 0, 0)


def test_cancelled_jobs_of_an_older_push_get_their_whole_run_time(released: ReleasedLoad) -> None:
    """On another farm the push may find them further on."""
    replay = superseded(released.attempts, released.needs)
    assert any(workflow in ("ci", "1") for workflow in replay.workflows)
    before = {attempt.id: attempt for attempt in released.attempts}
    for attempt in replay.attempts:
        recorded = before.get(attempt.id)
        if recorded is not None and recorded.result == "cancelled" and attempt.group:
            assert attempt.ran is not None
            assert attempt.ran >= (recorded.ran or 0.0)


def test_a_cancelled_run_gets_the_jobs_that_it_would_have_had(released: ReleasedLoad) -> None:
    """Each of them, once; what a failure would have skipped is not added."""
    replay = superseded(released.attempts, released.needs)
    recorded = {attempt.id for attempt in released.attempts}
    added = [attempt for attempt in replay.attempts if attempt.id not in recorded]
    assert len(added) == replay.added > 0
    kinds_of_run: dict[str, list[str]] = {}
    for attempt in replay.attempts:
        if attempt.attempt == 1:
            kinds_of_run.setdefault(attempt.matrix, []).append(attempt.kind)
    for attempt in added:
        kinds = kinds_of_run[attempt.matrix]
        assert len(kinds) == len(set(kinds))
    failed = {
        attempt.matrix
        for attempt in released.attempts
        if attempt.result == "failed" and attempt.kind in ("lint", "build")
    }
    assert not [attempt for attempt in added if attempt.kind in TESTS and attempt.matrix in failed]


def test_runs_cancelled_by_hand_are_no_group(tmp_path: Path) -> None:
    """A farm on which pushes cancel nothing has jobs that end as they were recorded."""
    farm = CIFarm(2, 9, days=1, cancels=False)
    farm.played()
    path = write(farm, "github", tmp_path / "jobs.jsonl")
    released = with_needs(load_records([path]).attempts)
    replay = superseded(released.attempts, released.needs)
    assert replay == (released.attempts, (), 0, 0, 0)


def test_a_branch_on_which_pushes_cancel_nothing_is_spared(tmp_path: Path) -> None:
    """Many workflows test each commit of their main branch to its end."""
    farm = CIFarm(3, 9, days=2, spared=0)
    farm.played()
    path = write(farm, "github", tmp_path / "jobs.jsonl")
    released = with_needs(load_records([path]).attempts)
    replay = superseded(released.attempts, released.needs)
    in_groups = {one.attributes["branch"] for one in replay.attempts if one.group}
    assert in_groups == {f"b{number}" for number in range(1, 25)}


def test_runs_without_a_branch_cancel_nothing(released: ReleasedLoad) -> None:
    """Scheduled runs, and those of tags: nothing says what a newer one would cancel."""
    scheduled = {attempt.matrix for attempt in released.attempts if int(attempt.matrix) % 5 == 0}
    attempts = [
        msgspec.structs.replace(attempt, attributes={**attempt.attributes, "branch": ""})
        if attempt.matrix in scheduled
        else attempt
        for attempt in released.attempts
    ]
    replay = superseded(attempts, released.needs)
    assert replay.workflows
    assert {bool(one.group) for one in replay.attempts if one.matrix in scheduled} == {False}


def test_the_same_records_are_completed_alike(released: ReleasedLoad) -> None:
    """Draws hang on the run and the job, so two twins of one farm are the same."""
    twice = [superseded(released.attempts, released.needs).attempts for _ in range(2)]
    assert twice[0] == twice[1]
    assert all(math.isfinite(attempt.ran or 0.0) for attempt in twice[0])


def attempt_of(
    run: int, kind: str, came: float, ended: float, result: str = "succeeded"
) -> Attempt:
    """Return an attempt of a run on a branch, which starts at once."""
    began = 10_000.0 * (run % 100 // 2)
    return msgspec.convert(
        {
            "id": f"{run}-{kind}", "submitted_at_s": began + came, "eligible_at_s": began + came,
            "started_at_s": began + came, "finished_at_s": began + ended, "result": result,
            "kind": kind, "matrix": str(run), "attributes": {"branch": str(run // 2)},
        },
        Attempt,
    )  # fmt: skip


def test_a_job_that_was_due_before_its_run_was_cancelled_is_not_added() -> None:
    """Runs differ, as in their numbers of shards: that run had no second test."""
    attempts = []
    for run in range(12):
        is_cut = run in (0, 2, 4)
        late = 0.0 if run % 2 == 0 else 200.0
        attempts.append(attempt_of(run, "build", late, late + 90))
        ends, result = (200, "cancelled") if is_cut else (late + 150, "succeeded")
        attempts.append(attempt_of(run, "test 1", late + 92, ends, result))
        if not is_cut:
            attempts.append(attempt_of(run, "test 2", late + 92, late + 160))
            attempts.append(attempt_of(run, "package", late + 162, late + 190))
    attempts += [attempt_of(100 + run, "other", 180, 190) for run in (0, 2, 4)]
    load = with_needs(attempts)
    replay = superseded(load.attempts, load.needs)
    recorded = {attempt.id for attempt in attempts}
    added = {one.id: one.needs for one in replay.attempts if one.id not in recorded}
    assert added == {f"{run}/package": (f"{run}-test 1:ended",) for run in (0, 2, 4)}
