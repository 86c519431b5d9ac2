"""Jobs without a virtualization: Launchpad's null, from the scenario to the log."""

import farm
from farm.core.model import Job, Platform
from farm.scenario import load_scenario
from farm.testing import small_scenario
from farm.workload import build_jobs

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
