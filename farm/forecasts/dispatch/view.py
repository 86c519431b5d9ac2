"""The estimator's input: plain values, made from a state file or a snapshot.

They are deliberately not the scheduler's values: an estimate needs little, and anything that can
provide that (a file, a live farm, a simulated one, a test) can have one.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from farm.core.errors import StateError
from farm.core.fields import limit
from farm.core.model import Platform

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
