"""A whole campaign: a farm comes up, gets jobs and faults, and is audited when all is over.

What it has done is in its folder, so that one that was interrupted can be continued: the plan, the
faults that are over, and all that the farm left. The fault in which it was interrupted comes again.
"""

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

from farm.core.commands import EndJob
from farm.core.errors import InputError, RunError
from farm.core.jobs.needs import renamed
from farm.core.model import Job
from farm.live.operating.client import FarmClient
from farm.scenario import Scenario
from farm.whole_files import write_whole
from farm.workload import batches, build_jobs
from farm_chaos.farm import STEP, UP_TIMEOUT, ChaosFarm, until
from farm_chaos.faults import Lift, Scene, inject
from farm_chaos.plan import ENDURED, Fault, FaultKind
from farm_chaos.rivals import Rivals, RivalsNews
from farm_chaos.server_faults import AWAY, ServerFaults
from farm_chaos.verdict import Recovery, Verdict, judge

log = logging.getLogger("farm.chaos")

#: real seconds in which a farm must end jobs again after a fault
RECOVERY_TIMEOUT = 90.0
#: real seconds in which all jobs must end once the faults are over, if none ends before
STUCK_AFTER = 60.0
#: after this many faults in a row without recovery the campaign ends
HOPELESS = 2
#: farm seconds that the job takes which shows that the farm works again
PROBE_TIME = 0.01
#: real seconds for the processes of a campaign that was killed to end
LEFT_TIMEOUT = 60.0
PLAN, DONE = "campaign.json", "faults.jsonl"


class CampaignPlan(msgspec.Struct, frozen=True):
    """What a campaign is to do; the same plan is the same faults and jobs."""

    scenario: str
    seed: int
    faults: int
    jobs: int
    kinds: tuple[FaultKind, ...]


class FaultDone(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that is over, and what is to be known of it when the campaign is continued."""

    at: float
    fault: Fault
    #: real seconds; None: the farm did not recover
    recovery: float | None
    #: so far: processes that outlived their keeper, and ends of the keeper by itself
    orphans: int
    gave_up: int
    rivals: RivalsNews = RivalsNews()


def faults_done(folder: Path, plan: CampaignPlan) -> list[FaultDone]:
    """Return the faults of an interrupted campaign that are over; InputError for another plan."""
    try:
        kept = msgspec.json.decode((folder / PLAN).read_bytes(), type=CampaignPlan)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"--resume: no campaign can be continued in {folder}: {error}") from None
    for name in CampaignPlan.__struct_fields__:
        found, wanted = getattr(kept, name), getattr(plan, name)
        if found != wanted:
            shown = "another one" if name == "scenario" else f"{wanted}; the campaign has {found}"
            raise InputError(
                f"--resume: {name}: found {shown}; allowed: the options of the campaign in {folder}"
            )
    try:
        lines = (folder / DONE).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    whole = (line for line in lines if line.endswith(b"\n"))
    return [msgspec.json.decode(line, type=FaultDone) for line in whole]


class Campaign:
    """Runs once.

    Args:
        scenario: the farm's, and the workload that the jobs are taken from.
        folder: for everything that the farm leaves: an empty one, or that of the same campaign,
            which was interrupted.
        plan: the same in numbers; it is kept in the folder.
        show: called with the current step.
    """

    def __init__(
        self, scenario: Scenario, folder: Path, plan: CampaignPlan, show: Callable[[str], None]
    ) -> None:
        self._scenario = scenario
        self._is_resumed = (folder / PLAN).exists()
        self._done = faults_done(folder, plan) if self._is_resumed else []
        self._farm = ChaosFarm(folder, scenario.to_yaml())
        self._show = show
        self._notes = folder / DONE
        self._link = Link(self._farm)
        self._recoveries: list[Recovery] = []
        self._submitted: set[str] = set()
        self._rivals = Rivals()
        write_whole(folder / PLAN, msgspec.json.encode(plan))

    def run(self, faults: Sequence[Fault], jobs: int) -> Verdict:
        """Carry out the plan, wait for the end of all jobs, and judge. Raises RunError."""
        number = len(faults)
        supply = jobs_like(self._scenario)
        shares = {}
        for fault in faults:
            share = jobs * fault.number // number - jobs * (fault.number - 1) // number
            # the last one is what the probe is like: no other job may need it
            like = next(job for job in jobs_like(self._scenario) if not job.needs)
            # nor may a run that is cancelled, or a group that is full, hold it back
            like = msgspec.structs.replace(
                like, id=f"like-{fault.number}", matrix=None, group=None, fails=False
            )
            shares[fault.number] = [*islice(supply, max(0, share - 1)), like]
        try:
            if self._is_resumed:
                self._farm.await_gone(LEFT_TIMEOUT)
            self._farm.start()
            self._farm.await_up()
            with Feeder(self._link) as feeder:
                for fault in faults[: len(self._done)]:
                    self._take_up(fault, shares[fault.number], feeder)
                for fault in faults[len(self._done) :]:
                    self._show(f"fault {fault.number} of {number}: {fault.kind.value}")
                    self._run_fault(fault, shares[fault.number], feeder)
                    if self._is_hopeless:
                        log.error("the farm does not recover any more: no further faults")
                        break
                self._submitted |= self._rivals.acknowledged
                self._show("waiting for the end of all jobs")
                ends, live = self._await_the_end(feeder)
        finally:
            self._link.close()
            self._farm.close()
        mistakes = self._rivals.mistakes(ends)
        return judge(self._farm, self._recoveries, self._submitted, ends, live, mistakes)

    @property
    def _is_hopeless(self) -> bool:
        last = [one.seconds for one in self._recoveries[-HOPELESS:]]
        return len(last) == HOPELESS and min(last) == float("inf")

    def _take_up(self, fault: Fault, jobs: list[Job], feeder: Feeder) -> None:
        """Go on from a fault that an interrupted campaign has had; its jobs may not be there."""
        done = self._done[fault.number - 1]
        seconds = float("inf") if done.recovery is None else done.recovery
        self._recoveries.append(Recovery(fault.kind, seconds))
        self._farm.orphans, self._farm.gave_up = done.orphans, done.gave_up
        self._rivals.take_up(done.rivals)
        again = [*jobs[:-1], _probe(jobs[-1], fault.number)]
        self._submitted.update(job.id for job in again)
        feeder.put(again)

    def _run_fault(self, fault: Fault, jobs: list[Job], feeder: Feeder) -> None:
        farm = self._farm
        until(lambda: False, farm.supervise, fault.pause)
        began = time.monotonic()
        lift = self._inject(fault, jobs[-1])
        # that of a fault which comes again may have ended in the interrupted campaign
        again = "-resumed" if self._is_resumed and fault.number == len(self._done) + 1 else ""
        probe = _probe(jobs[-1], fault.number, again)
        self._submitted.update(job.id for job in (*jobs[:-1], probe))
        feeder.put([*jobs[:-1], probe])
        if fault.kind in ENDURED:
            there = self._await_end_of(probe)
            seconds = time.monotonic() - began
            until(lambda: False, farm.supervise, fault.holds - seconds)
            self._lift(lift)
        else:
            until(lambda: False, farm.supervise, fault.holds)
            self._lift(lift)
            began = time.monotonic()
            there = self._await_end_of(probe)
            seconds = time.monotonic() - began
        self._recoveries.append(Recovery(fault.kind, seconds if there else float("inf")))
        self._note(fault, seconds if there else None)

    def _await_end_of(self, probe: Job) -> bool:
        return until(lambda: self._link.has_ended(probe.id), self._farm.supervise, RECOVERY_TIMEOUT)

    def _lift(self, lift: Lift | None) -> None:
        if lift is not None:
            until(
                lambda: tried(lambda: lift(self._link.server)),
                self._farm.supervise,
                RECOVERY_TIMEOUT,
            )

    def _note(self, fault: Fault, recovery: float | None) -> None:
        """Write down that a fault is over."""
        done = FaultDone(
            at=time.time(),
            fault=fault,
            recovery=recovery,
            orphans=self._farm.orphans,
            gave_up=self._farm.gave_up,
            rivals=self._rivals.news(),
        )
        with self._notes.open("ab") as file:
            file.write(msgspec.json.encode(done) + b"\n")

    def _inject(self, fault: Fault, job: Job) -> Lift | None:
        """Carry the fault out as soon as the server can be reached."""
        lifts: list[Lift | None] = []

        def inject_now() -> None:
            scene = Scene(self._farm, self._link.server(), self._rivals, job)
            lifts.append(inject(fault, scene))

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
    """Yield jobs without end like those of the scenario's workload, with ids of their own.

    Jobs that need others need the same ones by these ids; those of a matrix have one together.
    """
    number = 0
    for seed in count(scenario.seed):  # a workload that ends starts again, with another seed
        for _, together in batches(build_jobs(scenario.model_copy(update={"seed": seed}))):
            names = {job.id: f"chaos-{number + place}" for place, job in enumerate(together, 1)}
            number += len(together)
            for job in together:
                yield msgspec.structs.replace(
                    job,
                    id=names[job.id],
                    arrived_at=None,
                    matrix=None if job.matrix is None else f"chaos-{seed}-{job.matrix}",
                    needs=renamed(job.needs, names.__getitem__),
                )


def _probe(job: Job, number: int, again: str = "") -> Job:
    """Return a job that shows that the farm works: it takes no time, and goes before all others."""
    name = f"probe-{number}{again}"
    return msgspec.structs.replace(job, id=name, level=1, service_time=PROBE_TIME)
