"""Estimates at submission on provisioned pools, compared with the actual dispatches."""

from __future__ import annotations

from typing import Any

import pytest

import farm.testing
from farm.app.jobs import submission_estimate
from farm.app.jobs.submission_estimate import with_provisioner
from farm.core.model import Job
from farm.core.state.snapshot import snapshot_of
from farm.live.operating.farm_image import FarmImage

SIZES = {"algorithm": "taskcluster", "max": 3}
ELASTIC = farm.testing.small_scenario(
    {"boot_time": "90s", "idle_timeout": "10m", "provisioner": SIZES},
    scheduling={"runtime_estimates": "oracle"},
)

ALGORITHMS = ["taskcluster", "keda", "gitlab", "arc"]


class Asked:
    """An client of this farm."""

    def __init__(self, built: farm.testing.VirtualFarm, scenario: dict[str, Any]) -> None:
        self.image = lambda: FarmImage(
            snapshot=snapshot_of(built.scheduler, built.at), scenario=scenario
        )
        self.status = built.operator.status


SIZED = [{"provisioner": {"algorithm": name, "max": 3}} for name in ALGORITHMS]
FIXED: dict[str, Any] = {"provisioner": None, "idle_timeout": None}
USED_UP = [
    {"uses": 1, "builders": 2, **FIXED},
    {"uses": 2, "builders": 1, **FIXED},  # one use is left when the others arrive
    {"uses": 1, **SIZED[0]},
    {"uses": 1, **SIZED[-1]},
]


@pytest.mark.parametrize("kind", [*SIZED, *USED_UP])
def test_the_estimate_equals_the_actual_dispatch(kind: dict[str, Any]):
    """Builders that boot, those that the provisioner will request, and successors are counted."""
    [pool] = ELASTIC["pools"]
    scenario = ELASTIC | {"pools": [pool | kind]}
    built = farm.testing.VirtualFarm(scenario)
    client: Any = Asked(built, scenario)
    built.submit(*(Job(id=f"early-{n}", service_time=200.0) for n in range(2)))
    built.advance("100.5s")
    jobs = [Job(id=f"late-{n}", service_time=60.0 * (1 + n % 4)) for n in range(8)]
    built.submit(*jobs)
    told = {}
    for job in jobs:
        before = built.explain(job.id).job
        assert before is not None
        assert before.may_grow
        found = with_provisioner(client, job.id, before)
        assert not found.may_grow
        told[job.id] = built.at + (found.dispatch_in_time or 0.0)
    built.advance_until_idle()
    ends = [built.operator.job(name) for name in told]
    assert [end.dispatched_at for end in ends] == pytest.approx(list(told.values()))


def test_a_farm_that_cannot_be_simulated_keeps_the_schedulers_estimate(monkeypatch):
    """It is too large, its functions are not installed here, or the job has been dispatched."""
    built = farm.testing.VirtualFarm(ELASTIC)
    built.submit(Job(id="a", service_time=1.0))
    found = built.explain("a").job
    assert found is not None
    known = {"scheduling": {"policy": "nowhere:at_all"}}
    for client, job in ((Asked(built, ELASTIC | known), "a"), (Asked(built, ELASTIC), "unknown")):
        assert with_provisioner(client, job, found) is found  # type: ignore[arg-type]
    monkeypatch.setattr(submission_estimate, "MAX_SIMULATED", 0)
    assert with_provisioner(Asked(built, ELASTIC), "a", found) is found  # type: ignore[arg-type]
