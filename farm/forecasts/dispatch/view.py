"""What the estimator sees of a farm: plain values that a state file or a snapshot turns into.

They are not the scheduler's own values on purpose: an estimate needs a handful of facts, and
anything that can say them (a file, a live farm, a simulated one, a test) can have one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from farm.core.errors import StateError
from farm.core.model import Platform

JobStatus = Literal["waiting", "running", "cancelling", "suspended"]


class BuilderView(msgspec.Struct, frozen=True):
    """A builder, as far as an estimate needs it."""

    name: str
    processors: tuple[str, ...]
    virtualized: bool = True
    #: False: disabled, takes no jobs
    ok: bool = True
    #: True: jobs are given to it by hand only
    manual: bool = False
    slots: int = 1

    @property
    def usable(self) -> bool:
        """Whether jobs are dispatched to it at all (busy or idle)."""
        return self.ok and not self.manual

    def can_run(self, platform: Platform) -> bool:
        """Whether a job of this platform may run here (unspecified virtualization: virtual)."""
        return self.virtualized == platform.needs_virtual and (
            platform.processor is None or platform.processor in self.processors
        )


class JobView(msgspec.Struct, frozen=True, gc=False):
    """A job, as far as an estimate needs it."""

    #: order of submission, unique: of two waiting jobs with one score the lower id goes first
    id: int
    name: str
    processor: str | None = None
    virtualized: bool | None = None
    score: float = 0.0
    #: estimated duration, seconds; None: unknown (counts as a job, adds no time)
    duration_s: float | None = None
    status: JobStatus = "waiting"
    #: the builder that it holds, if it holds one
    builder: str | None = None
    #: for how long it has run, seconds; None: not known to have started
    elapsed_s: float | None = None

    @property
    def platform(self) -> Platform:
        """Return what it needs."""
        return Platform(self.processor, self.virtualized)


class FarmView(msgspec.Struct, frozen=True):
    """A farm at one moment.

    ``order`` lists the ids of all waiting jobs in the order in which they will be dispatched;
    None means by score: higher first, then lower id.
    """

    builders: tuple[BuilderView, ...]
    jobs: tuple[JobView, ...]
    order: tuple[int, ...] | None = None

    def waiting(self) -> list[JobView]:
        """Return the waiting jobs in dispatch order.

        Raises StateError when ``order`` is given and is not a permutation of them.
        """
        waiting = [job for job in self.jobs if job.status == "waiting"]
        if self.order is None:
            waiting.sort(key=lambda job: (-job.score, job.id))
            return waiting
        by_id = {job.id: job for job in waiting}
        if len(self.order) != len(by_id) or any(job not in by_id for job in self.order):
            raise StateError("order: must name every waiting job exactly once")
        if len(set(self.order)) != len(self.order):
            raise StateError("order: names a job twice")
        return [by_id[job] for job in self.order]
