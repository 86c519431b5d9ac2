"""A builder to be emulated, and what it does with its jobs and its time."""

from __future__ import annotations

from typing import Any, Protocol

from farm.core.commands import StartJob
from farm.core.model import Builder, Job
from farm.core.pools.spec import Behaviour, PoolSpec


class BuilderSpec(Behaviour, frozen=True, kw_only=True, omit_defaults=True):
    """A builder, and how it behaves."""

    builder: Builder


def spec_of(pool: PoolSpec, builder: Builder) -> BuilderSpec:
    """Return one builder of a pool, which behaves as its pool says."""
    behaviour = {name: getattr(pool, name) for name in Behaviour.__struct_fields__}
    return BuilderSpec(builder=builder, **behaviour)


class Loop(Protocol):
    """Decides itself when jobs are claimed and end; a user derives one from ``OwnLoop``."""

    #: does for the loop what it asks of its builder; set while the loop runs
    driver: Any

    def started(self) -> None:
        """Handle that the builder has joined."""

    def received(self, attempt: StartJob) -> None:
        """Begin an attempt."""

    def ended(self, attempt: StartJob) -> None:
        """Handle that an attempt is over."""


class BuilderBehaviour:
    """As the pool says. There is one for each builder, made when the builder is requested.

    A user may derive one of his own and override what should differ; spans are farm seconds.
    ``spec.builder`` is the builder (its ``id``, ``slots``, ``speed``, ``labels``); the other fields
    of ``spec`` are the pool's spans.
    """

    def __init__(self, spec: BuilderSpec) -> None:
        self.spec = spec

    def boot_time(self) -> float:
        """Return the time from requested to joined."""
        return self.spec.boot_time

    def run(self, job: Job) -> Job:
        """Return a job that starts here as this builder runs it: longer, heavier, failing."""
        return job

    def rest_time(self, job: Job) -> float | None:
        """Return how long the slot rests after a job; None: the builder goes once it is empty."""
        return self.spec.inter_job_time

    def shutdown_time(self) -> float:
        """Return the time from the request to leave until it is gone."""
        return self.spec.shutdown_time

    @property
    def own_loop(self) -> Loop | None:
        """The loop that decides when jobs are claimed and end; None: the builder itself does."""
        return None

    def failed(self, of: str, error: Exception) -> str:
        """Handle an error in the loop: raise it, or return the reason for which jobs fail."""
        raise error
