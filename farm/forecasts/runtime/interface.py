"""What every runtime estimator answers, and what keeps its answers harmless.

An estimator says how long a job will take; nothing may break when it is wrong. So every answer
is a finite number of seconds, zero or more, whatever the history was.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, TypeVar

import msgspec

from farm.core.errors import StateError
from farm.core.estimator import Estimator
from farm.core.model import Builder, Job, Outcome

T = TypeVar("T")

JsonValues = dict[str, Any]
"""Plain JSON values: strings, numbers, booleans, None, and lists and mappings of them."""


class EstimatorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a scenario may say about its runtime estimator (all times in seconds; checked there)."""

    #: the answer when nothing at all is known
    default_time: float = 300.0
    #: what a job that has outrun its estimate is still given (Launchpad's two minutes)
    overdue_time: float = 120.0
    #: ``boinc``: size units that a builder of speed 1 does in a second, before anything is
    #: learned; None: as many as the first success that has a size needed
    size_rate: float | None = None
    #: ``boinc``: whose history is "the host's": each ``builder`` its own, or a ``pool`` together
    host: str = "builder"
    #: ``boinc``: a host's history of a kind counts from more than this many successes
    host_samples: int = 10
    #: ``boinc``: a kind's history counts from more than this many successes
    kind_samples: int = 100
    #: ``boinc``: a scale is given only to builders with a streak of ten successes
    host_scale_check: bool = False


class Basis(msgspec.Struct, frozen=True):
    """What an estimate rests on: the rung of the estimator's ladder, and how many samples."""

    rung: str
    samples: int = 0


class RuntimeEstimator(Estimator, Protocol):
    """Says how long a job will take, and learns from what it took."""

    name: str

    def remaining(
        self, job: Job, builder: Builder, elapsed: float, fraction_done: float | None = None
    ) -> float:
        """Return the expected rest of a running job in seconds, also when it is overdue.

        ``fraction_done`` (0 to 1) is what the job says of itself, None if it says nothing.
        """

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Say what ``estimate`` of the same rests on."""

    def dump(self) -> JsonValues:
        """Return all statistics as plain JSON values; ``load`` takes them back."""

    def load(self, state: JsonValues) -> None:
        """Replace the statistics by dumped ones; StateError if they are not of this estimator."""


def converted(state: JsonValues, key: str, kind: type[T]) -> T:
    """Return one part of a dump, empty if it is not there; StateError if it is of another type."""
    try:
        return msgspec.convert(state.get(key, kind()), kind)
    except msgspec.ValidationError as error:
        raise StateError(f"{key}: {error}") from None


def is_time(value: float | None) -> bool:
    """Whether this is a usable span: finite and not negative (None and NaN are not)."""
    return value is not None and 0.0 <= value < math.inf


def speed_of(builder: Builder | None) -> float:
    """Return the builder's speed, 1 without a builder or with an unusable figure."""
    if builder is None:
        return 1.0
    speed = builder.speed
    return speed if 0.0 < speed < math.inf else 1.0


def on_builder(work: float, builder: Builder | None, fallback: float) -> float:
    """Turn seconds on a builder of speed 1 into seconds on this one; ``fallback`` if unusable."""
    time = work if builder is None else work / speed_of(builder)
    return time if 0.0 <= time < math.inf else fallback


def said_time(job: Job, default: float) -> float:
    """Return what the submitter said the job takes, or the default."""
    declared = job.declared_time
    return declared if declared is not None and 0.0 <= declared < math.inf else default


def said_basis(job: Job) -> Basis:
    """Return the basis of ``said_time``."""
    return Basis("declared time" if is_time(job.declared_time) else "default: nothing is known")


def remaining_after(
    total: float, elapsed: float, fraction_done: float | None, overdue: float
) -> float:
    """Return the rest of a running job: by the progress it reports, if any, else by the estimate.

    Once it has outrun the estimate it is given ``overdue`` seconds more, whatever it has taken.
    """
    elapsed = elapsed if is_time(elapsed) else 0.0
    if fraction_done is not None and 0.0 < fraction_done <= 1.0:
        rest = elapsed * (1.0 - fraction_done) / fraction_done
        if rest < math.inf:
            return rest
    return total - elapsed if total > elapsed else overdue


class Stateless:
    """Base of the estimators that learn nothing: subclasses give ``name`` and ``estimate``."""

    name = ""
    learns = False

    def __init__(self, options: EstimatorOptions | None = None) -> None:
        self.options = options or EstimatorOptions()

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected run time in seconds."""
        raise NotImplementedError

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:  # noqa: ARG002
        """Say what the estimate rests on: what the submitter said, if nothing else."""
        return said_basis(job)

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Nothing to learn."""

    def remaining(
        self, job: Job, builder: Builder, elapsed: float, fraction_done: float | None = None
    ) -> float:
        """Return the expected rest of a running job in seconds."""
        total = self.estimate(job, builder)
        return remaining_after(total, elapsed, fraction_done, self.options.overdue_time)

    def dump(self) -> JsonValues:
        """Return the estimator's name alone."""
        return {"estimator": self.name}

    def load(self, state: JsonValues) -> None:
        """Check that the state is this estimator's."""
        check_owner(state, self.name)


def check_owner(state: JsonValues, name: str) -> None:
    """Raise StateError unless the dumped statistics are of the estimator of this name."""
    found = state.get("estimator") if isinstance(state, dict) else None
    if found != name:
        raise StateError(
            f"estimator: these statistics are of {found!r}, and cannot be loaded into {name!r}"
        )
