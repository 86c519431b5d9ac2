"""How late a machine was: a live run that it slowed down must not pass for the farm's own waits."""

from __future__ import annotations

import msgspec
import pytest

import farm
from farm.core.commands import EndJob
from farm.results.summary.answer import answer_of_run
from farm.results.summary.lateness import Lateness, lateness_of
from farm.results.table.job_columns import Jobs
from farm.scenario import Pool
from farm.scenario.load import parse_scenario
from farm.testing import small_scenario


def pools(**changes: object) -> tuple[Pool, ...]:
    """Return the pool of a small scenario, with these keys."""
    return parse_scenario(small_scenario(changes)).pools


def ended(number: int, *, received_late: float, held_longer: float, attempts: int = 1) -> EndJob:
    """Return the record of a job of 100 s that arrived at 0 and was late."""
    job = farm.Job(
        id=str(number), service_time=100.0, platform=farm.Platform("amd64"), arrived_at=0.0
    )
    return EndJob(
        job,
        "succeeded",
        attempts,
        submitted_at=received_late,
        dispatched_at=50.0,
        started_at=50.0,
        finished_at=150.0 + held_longer,
        builder="p-1",
    )


def test_lateness_is_what_jobs_held_slots_for_beyond_their_service_time() -> None:
    """And the time from the intended arrival to the intake; repeated attempts do not count."""
    jobs = Jobs.of(
        [
            ended(1, received_late=1.0, held_longer=3.0),
            ended(2, received_late=0.0, held_longer=8.0),
            ended(3, received_late=0.0, held_longer=500.0, attempts=2),
        ]
    )
    late = lateness_of(jobs, pools())
    assert late == Lateness(mean_time=6.0, max_time=8.0, share=0.06)
    assert late.matters


@pytest.mark.parametrize("changes", [{"speed": 2.0}, {"pickup_time": "1s"}])
def test_pools_that_change_how_long_jobs_take_have_no_lateness(changes) -> None:
    """What a job takes there beyond its service time is the farm's own doing."""
    jobs = Jobs.of([ended(1, received_late=0.0, held_longer=3.0)])
    assert lateness_of(jobs, pools(**changes)) is None


def test_a_late_machine_is_said_first() -> None:
    """Else its waits read as those of the farm; a machine that kept up is not mentioned."""
    result = farm.simulate("quickstart")
    scenario = result.scenario

    def answer(share: float) -> str:
        late = Lateness(mean_time=share * 800.0, max_time=900.0, share=share)
        summary = msgspec.structs.replace(result.kept.summary, world="live", lateness=late)
        return answer_of_run(summary, lambda: result.jobs, scenario)

    assert answer(0.3).startswith("this machine was late by 4 min a job, 30% of what jobs take")
    assert f"lower --speed (about {scenario.live.speed / 10:g}); p95 wait" in answer(0.3)
    assert answer(0.01).startswith("p95 wait")
