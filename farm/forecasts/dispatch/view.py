"""The estimator's input: a view of a farm, in plain values that a state file or a snapshot gives.

They are deliberately not the scheduler's values: an estimate needs little, and anything that can
provide that (a file, a live farm, a simulated one, a test) can have one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from farm.core.errors import StateError
from farm.core.fields import limit
from farm.core.model import Platform
from farm.core.state.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.core.state.working_state import BuilderState, JobLife
from farm.core.state.working_state import JobStatus as Status

JobStatus = Literal["waiting", "running", "cancelling", "suspended"]

# what a state file may hold is checked as it is read
Name = Annotated[str, Meta(pattern=r"^(?=[\s\S]*\S)[^\ud800-\udfff]*\Z"), limit("a name (text)")]
"""Not blank, and no half of a character (``"\\ud800"``), which cannot be printed."""
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
"""Above this a sum of a million run times is no longer exact to the second."""
Number = Annotated[float, Meta(ge=-1e300, le=1e300)]
Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Slots = Annotated[int, Meta(ge=1, le=1_000_000), limit("a whole number from 1 up")]
PROCESSORS = limit("a list of processor names (text)")
PROCESSOR = limit("a processor name (text), or null for any")
SPAN = limit("a number of seconds from 0 to 1e+09, or null")


class BuilderView(msgspec.Struct, frozen=True):
    """A builder, reduced to what an estimate needs."""

    name: Name
    processors: Annotated[tuple[Name, ...], PROCESSORS]
    virtualized: bool = True
    #: False: disabled, takes no jobs
    ok: bool = True
    #: True: jobs are only assigned by hand
    manual: bool = False
    slots: Slots = 1

    @property
    def usable(self) -> bool:
        """Whether jobs are dispatched to it, busy or idle."""
        return self.ok and not self.manual

    def can_run(self, platform: Platform) -> bool:
        """Return whether it can run jobs of this platform (unspecified virtualization: virtual)."""
        return platform.runs_on(self.processors, virtualized=self.virtualized)


class JobView(msgspec.Struct, frozen=True, gc=False):
    """A job, reduced to what an estimate needs."""

    #: order of submission, unique: of two waiting jobs with one score the lower id goes first
    id: Id
    name: Name
    processor: Annotated[Name | None, PROCESSOR] = None
    virtualized: Annotated[bool | None, limit("true, false or null")] = None
    score: Number = 0.0
    #: estimated run time, seconds; None: unknown (counts as a job, adds no time)
    duration_s: Annotated[Seconds | None, SPAN] = None
    status: JobStatus = "waiting"
    #: the builder that it holds, if any
    builder: Annotated[Name | None, limit("the name of a builder")] = None
    #: how long it has run, seconds; None: not known to have started
    elapsed_s: Annotated[Seconds | None, SPAN] = None

    @property
    def platform(self) -> Platform:
        """The platform that it needs."""
        return Platform(self.processor, self.virtualized)


class FarmView(msgspec.Struct, frozen=True):
    """A farm at one instant.

    ``order`` lists the ids of all waiting jobs in the order in which they will be dispatched;
    None means by score: higher first, then lower id.
    """

    builders: tuple[BuilderView, ...]
    jobs: tuple[JobView, ...]
    order: tuple[int, ...] | None = None

    def waiting(self) -> list[JobView]:
        """Return the waiting jobs in dispatch order.

        Raises StateError if ``order`` is given and is not a permutation of them.
        """
        waiting = [job for job in self.jobs if job.status == "waiting"]
        if self.order is None:
            scores = np.array([job.score for job in waiting], dtype=np.float64)
            ids = np.array([job.id for job in waiting], dtype=np.int64)
            return [waiting[place] for place in np.lexsort((ids, -scores)).tolist()]
        by_id = {job.id: job for job in waiting}
        if len(self.order) != len(by_id) or any(job not in by_id for job in self.order):
            raise StateError("order: must name every waiting job exactly once")
        if len(set(self.order)) != len(self.order):
            raise StateError("order: names a job twice")
        return [by_id[job] for job in self.order]


# --- of a scheduler's state, or of a snapshot of it ---------------------------------------------

#: a job that is being sent to a builder holds its slot like a running one
_STATUS: dict[Status, JobStatus] = {
    Status.ARRIVING: "waiting",
    Status.WAITING: "waiting",
    Status.DISPATCHED: "running",
    Status.RUNNING: "running",
    Status.CANCELLING: "cancelling",
}


def view_of(snapshot: FarmSnapshot) -> FarmView:
    """Convert a snapshot.

    Waiting jobs have the estimate that the policy sorted by, running ones the expected run time on
    their builder. A draining or failed builder counts as disabled, one that runs the last jobs of
    its ``uses`` does not: another takes its place. A follower adds no work; while its leader is
    running, it is not in the view.
    """
    leads = [record for record in snapshot.running if record.leader is None]
    queue = list(_dispatch_order(snapshot))
    builders = tuple(map(builder_view, snapshot.builders))
    jobs = tuple(_job(record, snapshot.at) for record in (*leads, *queue))
    return FarmView(builders, jobs, tuple(record.serial for record in queue))


def _dispatch_order(snapshot: FarmSnapshot) -> Iterator[JobRecord]:
    """Yield waiting jobs in the order of dispatch: always the best head of all lanes.

    A snapshot has them in dispatch order lane by lane, those that share an execution together.
    """
    # heavy-light has two lanes for a platform; splitting one plain queue would change nothing
    by_weight = not snapshot.trees or any(heavy for _, heavy, _ in snapshot.trees)
    lanes: dict[tuple[Platform, bool], list[list[JobRecord]]] = {}
    lane: list[list[JobRecord]] = []
    for record in snapshot.waiting:
        if lane and record.leader is not None:
            lane[-1].append(record)
            continue
        job = record.job
        lane = lanes.setdefault((job.platform.normalised(), by_weight and job.heavy), [])
        lane.append([record])
    executions = heapq.merge(*lanes.values(), key=lambda records: records[0].key)
    return chain.from_iterable(executions)


def builder_view(life: BuilderState | BuilderRecord) -> BuilderView:
    """Convert one builder."""
    builder, last = life.builder, life.used_up and life.busy > 0
    return BuilderView(
        builder.id,
        builder.processors,
        builder.virtualized,
        ok=life.takes_jobs or last,
        slots=life.busy if last else builder.slots,
    )


def job_view(life: JobLife, builder: str | None, duration_s: float | None, at: float) -> JobView:
    """Convert one live job.

    Elapsed time counts from the start, or from the dispatch while the start is unconfirmed.
    """
    job, since = life.job, life.began_at
    return JobView(
        id=life.serial,
        name=job.id,
        processor=job.platform.processor,
        virtualized=job.platform.virtualized,
        score=job.score,
        duration_s=duration_s,
        status=_STATUS[life.status],
        builder=builder,
        elapsed_s=max(0.0, at - since) if builder is not None and since is not None else None,
    )


def _job(record: JobRecord, at: float) -> JobView:
    expected = record.execution[0] if record.expected_time is None else record.expected_time
    # a follower adds no work
    duration = expected if record.leader is None else None
    return job_view(record, record.builder, duration, at)
