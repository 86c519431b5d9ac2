"""A whole campaign: a farm comes up, gets jobs and faults, and is audited when all is over."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Self

import msgspec

from chaos.farm import STEP, UP_TIMEOUT, ChaosFarm, until
from chaos.faults import Lift, inject
from chaos.plan import Fault
from chaos.server_faults import AWAY, ServerFaults
from chaos.verdict import Recovery, Verdict, judge
from farm.core.commands import EndJob
from farm.core.errors import RunError
from farm.core.model import Job
from farm.live.operating.client import FarmClient
from farm.scenario import Scenario
from farm.workload import build_jobs

log = logging.getLogger("farm.chaos")

#: real seconds in which a farm must end jobs again after a fault
RECOVERY_TIMEOUT = 90.0
#: real seconds in which all jobs must end once the faults are over, if none ends before
STUCK_AFTER = 60.0
#: after this many faults in a row without recovery the campaign ends
HOPELESS = 2
#: farm seconds that the job takes which shows that the farm works again
PROBE_TIME = 0.01


class Campaign:
    """Runs once.

    Args:
        scenario: the farm's, and the workload that the jobs are taken from.
        folder: an empty one, for everything that the farm leaves.
        show: called with the current step.
    """

    def __init__(self, scenario: Scenario, folder: Path, show: Callable[[str], None]) -> None:
        self._scenario = scenario
        self._farm = ChaosFarm(folder, scenario.to_yaml())
        self._show = show
        self._notes = folder / "faults.jsonl"
        self._link = Link(self._farm)
        self._recoveries: list[Recovery] = []
        self._submitted: set[str] = set()

    def run(self, faults: Sequence[Fault], jobs: int) -> Verdict:
        """Carry out the plan, wait for the end of all jobs, and judge. Raises RunError."""
        number = len(faults)
        supply = jobs_like(self._scenario)
        try:
            self._farm.start()
            self._farm.await_up()
            with Feeder(self._link) as feeder:
                for fault in faults:
                    share = jobs * fault.number // number - jobs * (fault.number - 1) // number
                    self._show(f"fault {fault.number} of {number}: {fault.kind.value}")
                    self._run_fault(fault, list(islice(supply, max(1, share))), feeder)
                    if self._is_hopeless:
                        log.error("the farm does not recover any more: no further faults")
                        break
                self._show("waiting for the end of all jobs")
                ends, live = self._await_the_end(feeder)
        finally:
            self._link.close()
            self._farm.close()
        return judge(self._farm, self._recoveries, self._submitted, ends, live)

    @property
    def _is_hopeless(self) -> bool:
        last = [one.seconds for one in self._recoveries[-HOPELESS:]]
        return len(last) == HOPELESS and min(last) == float("inf")

    def _run_fault(self, fault: Fault, jobs: list[Job], feeder: Feeder) -> None:
        farm = self._farm
        until(lambda: False, farm.supervise, fault.pause)
        lift = self._inject(fault)
        probe = _probe(jobs.pop(), fault.number)
        self._submitted.update(job.id for job in (*jobs, probe))
        feeder.put([*jobs, probe])
        until(lambda: False, farm.supervise, fault.holds)
        if lift is not None:
            until(lambda: tried(lambda: lift(self._link.server)), farm.supervise, RECOVERY_TIMEOUT)
        began = time.monotonic()
        there = until(lambda: self._link.has_ended(probe.id), farm.supervise, RECOVERY_TIMEOUT)
        seconds = time.monotonic() - began if there else float("inf")
        self._recoveries.append(Recovery(fault.kind, seconds))
        with self._notes.open("ab") as file:
            note = {"at": time.time(), "fault": fault, "recovery": seconds if there else None}
            file.write(msgspec.json.encode(note) + b"\n")

    def _inject(self, fault: Fault) -> Lift | None:
        """Carry the fault out as soon as the server can be reached."""
        lifts: list[Lift | None] = []

        def inject_now() -> None:
            lifts.append(inject(fault, self._farm, self._link.server()))

        if not until(lambda: tried(inject_now), self._farm.supervise, RECOVERY_TIMEOUT):
            raise RunError(f"the farm's server is away for good (logs: {self._farm.state})")
        return lifts[0]

    def _await_the_end(self, feeder: Feeder) -> tuple[dict[str, EndJob], set[str]]:
        """Return the ends of jobs by id, and those that have none though nothing happens now."""
        known, deadline = -1, time.monotonic() + UP_TIMEOUT
        while True:
            self._farm.supervise()
            with contextlib.suppress(*AWAY):
                ended = self._link.server().count_ended()
                # before it is up, its server may not yet have what the event log has
                if ended != known and self._farm.is_up:
                    known, deadline = ended, time.monotonic() + STUCK_AFTER
                if feeder.done and ended >= len(self._submitted):
                    return self._link.server().stories()
            if time.monotonic() > deadline:
                return self._link.server().stories()
            time.sleep(STEP)


class Link:
    """The connection to the farm's server, whose address may change."""

    def __init__(self, farm: ChaosFarm) -> None:
        self._farm = farm
        self._connections = contextlib.ExitStack()
        self._server: ServerFaults | None = None

    def close(self) -> None:
        """Close the connection."""
        self._server = None
        self._connections.close()

    def server(self) -> ServerFaults:
        """Return the farm's server; raises what ``AWAY`` lists while there is none."""
        place = self._farm.place()
        if place is None:
            raise RunError("the farm is coming up")
        if self._server is None or place.redis_url != self._server.client.url:
            self.close()
            client = self._connections.enter_context(FarmClient(place.redis_url, place.prefix))
            self._server = self._connections.enter_context(contextlib.closing(ServerFaults(client)))
        return self._server

    def has_ended(self, job: str) -> bool:
        """Whether it is known that the job has ended."""
        with contextlib.suppress(*AWAY):
            return self.server().client.known([job]).get(job, False)
        return False


def tried(action: Callable[[], object]) -> bool:
    """Do something; say whether the server could be reached, if it needed that."""
    with contextlib.suppress(*AWAY):
        action()
        return True
    return False


class Feeder:
    """A thread that submits jobs, retrying until they are acknowledged."""

    def __init__(self, link: Link) -> None:
        self._link = Link(link._farm)
        self._queue: queue.Queue[list[Job] | None] = queue.Queue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="farm-feeder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._queue.put(None)
        self._thread.join()
        self._link.close()

    def put(self, jobs: list[Job]) -> None:
        """Submit these after all others."""
        self._queue.put(jobs)

    @property
    def done(self) -> bool:
        """Whether all were acknowledged."""
        return self._queue.unfinished_tasks == 0

    def _run(self) -> None:
        while (jobs := self._queue.get()) is not None:
            while not self._stop.is_set():
                # jobs submitted by an attempt that failed are known, and skipped
                with contextlib.suppress(*AWAY):
                    self._link.server().client.submit(jobs)
                    break
                self._stop.wait(STEP)
            self._queue.task_done()


def jobs_like(scenario: Scenario) -> Iterator[Job]:
    """Yield jobs without end like those of the scenario's workload, with ids of their own."""
    number = 0
    for seed in count(scenario.seed):  # a workload that ends starts again, with another seed
        for job in build_jobs(scenario.model_copy(update={"seed": seed})):
            number += 1
            yield msgspec.structs.replace(job, id=f"chaos-{number}", arrived_at=None, matrix=None)


def _probe(job: Job, number: int) -> Job:
    """Return a job that shows that the farm works: it takes no time, and goes before all others."""
    return msgspec.structs.replace(job, id=f"probe-{number}", level=1, service_time=PROBE_TIME)
