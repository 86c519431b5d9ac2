"""A job that ends its hosts, on a live farm."""

from __future__ import annotations

import pytest

from farm.core import events
from farm.core.model import Cause
from farm.core.rules import SchedulingRules
from farm.live.hosts.host_processes import HostProcesses
from farm.live.hosts.roster import Patience

pytestmark = pytest.mark.live


@pytest.mark.slow
def test_a_job_that_ends_its_hosts_fails_and_the_others_run(farm, jobs_like):
    """Whatever its retries: it costs two hosts, fails, and names the builders that it cost."""
    jobs = jobs_like(10, service_time=30.0)
    farm.rules = SchedulingRules(retries=99, max_builders_lost=2)
    hosts: list[HostProcesses] = []

    def poison(event: events.Event) -> None:
        if isinstance(event, events.JobStarted) and event.job == "job-0":
            hosts[0].alive[0].kill()

    farm.run(
        jobs,
        builders=1,
        speed=300.0,
        hosts=1,
        patience=Patience(silence=1.5),
        on_event=poison,
        on_up=lambda _, h: hosts.append(h),
    )
    ends = {end.job.id: end for end in farm.ends}
    assert len(farm.ends) == len(ends) == 10
    poisonous = ends.pop("job-0")
    lost = [event.builder for event in farm.events(events.BuilderLost)]
    assert (poisonous.outcome, poisonous.cause) == ("failed", Cause.POISONOUS)
    assert poisonous.reason.endswith(f"(builders lost under it: {', '.join(lost)})")
    assert len(lost) == 2
    assert {end.outcome for end in ends.values()} == {"succeeded"}
    farm.assert_replayable()
