"""A scenario that is submitted to a standing farm, whose people see how jobs end from outside."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

from farm.app.jobs.scenario_submission import play
from farm.core.commands import EndJob
from farm.core.model import Job
from farm.live.operating.client import FarmClient
from farm.processes.signals import StopRequest
from farm.scenario import parse_scenario

SCENARIO = {
    "pools": [{"name": "linux", "builders": 1}],
    "allow_unrunnable": True,
    "workload": [
        {
            "arrivals": {
                "name": "push",
                "users": {"count": 2, "think_time": "1m"},
                "count": 4,
                "service_time": "1m",
                "fails": 1.0,
                "reruns": {"at_most": 1},
            }
        }
    ],
}


class FastFarm:
    """A farm on which jobs end a minute after they came, and which refuses one of them."""

    def __init__(self, refused: str = "") -> None:
        self.jobs: dict[str, Job] = {}
        self._refused = refused

    def status(self) -> object:
        """Return a moment of a farm on which nothing takes real time."""
        return SimpleNamespace(at=1000.0, speed=1e9, waiting=0)

    def age(self, _: object) -> float:
        """The status is of now."""
        return 0.0

    def known(self, _: object) -> dict[str, bool]:
        """No id was submitted before."""
        return {}

    def submit(self, jobs: Iterable[Job]) -> int:
        """Accept jobs, but for one."""
        new = {job.id: job for job in jobs if job.id != self._refused}
        self.jobs |= new
        return len(new)

    def jobs_of(self, names: Sequence[str]) -> Iterator[EndJob]:
        """Yield the ends of those that it accepted."""
        for job in (self.jobs[name] for name in names if name in self.jobs):
            at = job.arrived_at or 0.0
            yield EndJob(job, "failed" if job.fails else "succeeded", 1, at, at + 60.0)


def submitted(farm: FastFarm) -> dict[str, float]:
    """Submit the scenario; return when each job came, in minutes since the submitter began."""
    client, stop = cast("FarmClient", farm), cast("StopRequest", threading.Event())
    play(parse_scenario(cast("dict[str, Any]", SCENARIO)), client, "x", 10, stop, lambda *_: None)
    return {name: ((job.arrived_at or 0.0) - 1000.0) / 60 for name, job in farm.jobs.items()}


def test_users_of_a_standing_farm_wait_for_its_verdicts():
    """They push in its time, under the ids of this load, and repeat what failed there."""
    assert submitted(FastFarm()) == {
        f"x.push-u{user}-00000{push}{again}": 1.0 + 3.0 * (push - 1) + at
        for user in (1, 2)
        for push in (1, 2)
        for again, at in (("", 0.0), (".try-2", 1.0))
    }


def test_a_job_that_the_farm_refused_is_not_waited_for(monkeypatch):
    """Its user submits nothing more, and the others do."""
    monkeypatch.setattr("farm.app.jobs.scenario_submission.MAX_DELAY", -1.0)
    came = submitted(FastFarm("x.push-u1-000001"))
    assert not any("u1" in name for name in came)
    assert len(came) == 6
