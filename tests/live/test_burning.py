"""Jobs that burn, through a whole live farm: real server, real Celery worker, real processors."""

from __future__ import annotations

import sys

import msgspec
import psutil
import pytest

from farm.core.commands import EndJob
from farm.core.events import JobFinished
from farm.core.pools.spec import PoolSpec
from tests.worlds.both import LiveStory
from tests.worlds.up import jobs_of

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc"),
]

#: given, so that no job waits for a measurement, and small, so that a second is soon over
RATES = "cpu=300.0,memory=1000.0"


@pytest.fixture(autouse=True)
def own_burner(monkeypatch) -> None:
    """Burn alike wherever the tests run."""
    monkeypatch.setenv("FARM_BURNER", "own")


def linux(**fields: int) -> PoolSpec:
    """Return a pool of one builder."""
    return PoolSpec(name="linux", processors=("amd64",), builders=1, **fields)


def test_burning_jobs_go_through_the_farm(options):
    """Each mode, with threads: every job ends once, and fails where it is meant to."""
    outcomes = {
        f"{mode}-{n}": "failed" if n == 2 else "succeeded"
        for mode in ("stress", "memory", "mixed")
        for n in range(3)
    }
    jobs = [
        msgspec.structs.replace(job, id=name, mode=name[:-2], fails=outcome == "failed")
        for job, (name, outcome) in zip(
            jobs_of(9, service_time=0.2, threads=2), outcomes.items(), strict=True
        )
    ]
    story = LiveStory()
    story.play_live(linux(slots=2), jobs, options(work_rates=RATES))
    assert {end.job.id: end.outcome for end in story.of(EndJob)} == outcomes
    assert len(story.of(EndJob)) == 9


def processor_time(host: int) -> float:
    """Return the seconds of processor time of all burning processes of a host that have ended."""
    programs = [program.cpu_times() for program in psutil.Process(host).children()]
    return sum(times.children_user + times.children_system for times in programs)


def test_heavy_jobs_together_on_one_core_are_slower_than_alone(options):
    """Slowdown emerges from the machine: it is not configured. Alone a job takes its own time."""
    hosts: list[int] = []
    spent = 0.0

    def look_at_the_last(event, _):
        nonlocal spent
        if isinstance(event, JobFinished):
            spent = processor_time(hosts[0])

    story = LiveStory()
    story.then = look_at_the_last
    story.play_live(
        linux(slots=4, cores=1),
        jobs_of(4, service_time=0.5, mode="stress"),
        options(hosts=1, work_rates=RATES),
        lambda processes: hosts.extend(process.pid for process in processes.alive),
    )
    ends = story.of(EndJob)
    assert len(ends) == 4
    from_first_to_last = max(end.finished_at for end in ends) - min(end.started_at for end in ends)
    assert from_first_to_last > 0.95 * spent > 0, "one core did all of it"
    assert max(end.finished_at - end.started_at for end in ends) > 1.5 * spent / 4
