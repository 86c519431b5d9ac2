"""The interface of runtime estimators, and helpers that keep their results valid.

An estimator predicts how long a job will take; nothing may break if it is wrong. So every estimate
is a finite number of seconds, zero or more, whatever the history was.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple, TypeVar

import msgspec

from farm.core.errors import StateError
from farm.core.model import Builder, Job, Outcome

T = TypeVar("T")

#: kinds, or other groups of jobs, whose run times an estimator remembers
MOST_REMEMBERED = 10_000

JsonValues = dict[str, object]
"""Plain JSON values: strings, numbers, booleans, None, and lists and mappings of them."""


class EstimatorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a runtime estimator in a scenario (times in seconds; validated there)."""

    #: the estimate if nothing is known
    default_time: float = 300.0
    #: the remaining time of a job that has outrun its estimate (Launchpad's two minutes)
    overdue_time: float = 120.0
    #: ``boinc``: size units per second on a builder of speed 1, before anything is learned;
    #: None: derived from the first success with a size
    size_rate: float | None = None
    #: ``boinc``: what counts as a host: each ``builder``, or a whole ``pool``
    host: str = "builder"
    #: ``boinc``: a host's history of a kind counts from more than this many successes
    host_samples: int = 10
    #: ``boinc``: a kind's history counts from more than this many successes
    kind_samples: int = 100
    #: ``boinc``: a scale is given only to builders with a streak of ten successes
    host_scale_check: bool = False


def latest(among: dict[str, T], name: str, new: T) -> T:
    """Return the value of a name, now the last one used; forget the one used longest ago.

    So a history of kinds whose names are made up, with a number in each, keeps a bounded size.
    """
    found = among.pop(name, None)
    if found is None:
        found = new
        if len(among) >= MOST_REMEMBERED:
            del among[next(iter(among))]
    among[name] = found
    return found


class RunTimeRange(NamedTuple):
    """Between these times eight jobs of ten run: seconds, on the builder that was asked about."""

    low: float
    high: float


class Basis(msgspec.Struct, frozen=True):
    """The basis of an estimate: the rung of the estimator's ladder, and the number of samples."""

    rung: str
    samples: int = 0
    #: declared times tell as well which jobs are long
    declared: bool = False


def converted(state: JsonValues, key: str, kind: type[T]) -> T:
    """Return one part of a dump, empty if missing; StateError if it has another type."""
    try:
        return msgspec.convert(state.get(key, kind()), kind)
    except msgspec.ValidationError as error:
        raise StateError(f"{key}: {error}") from None


def is_time(value: float | None) -> bool:
    """Return whether this is a valid span: finite and not negative (None and NaN are not)."""
    return value is not None and 0.0 <= value < math.inf


def speed_of(builder: Builder | None) -> float:
    """Return the builder's speed; 1 without a builder or with an invalid figure."""
    if builder is None:
        return 1.0
    speed = builder.speed
    return speed if 0.0 < speed < math.inf else 1.0


def on_builder(work: float, builder: Builder | None, fallback: float) -> float:
    """Convert seconds at speed 1 into seconds on this builder; ``fallback`` if invalid."""
    time = work if builder is None else work / speed_of(builder)
    return time if 0.0 <= time < math.inf else fallback


def declared_time_of(job: Job, default: float) -> float:
    """Return the declared time of the job, or the default."""
    declared = job.declared_time
    return declared if declared is not None and 0.0 <= declared < math.inf else default


def declared_basis(job: Job) -> Basis:
    """Return the basis of ``declared_time_of``."""
    return Basis("declared time" if is_time(job.declared_time) else "default: nothing is known")


class JobProgress(msgspec.Struct, frozen=True):
    """What a running job reported: the part done (0 to 1), and how long it had run then (s)."""

    done: float
    elapsed: float


def remaining_after(
    total: float, elapsed: float, progress: JobProgress | None, overdue: float
) -> float:
    """Return the remaining time of a running job, by its reported progress or by the estimate.

    Once it has outrun the estimate it gets ``overdue`` seconds more, however long it has run.
    """
    elapsed = elapsed if is_time(elapsed) else 0.0
    if progress is not None and 0.0 < progress.done <= 1.0:
        rest = progress.elapsed / progress.done - elapsed
        if rest < math.inf:
            return max(rest, 0.0)
    return total - elapsed if total > elapsed else overdue


class RuntimeEstimator:
    """Predicts how long a job will take, and learns from the outcome; see ``Estimator``, too.

    Subclasses define ``name`` and ``estimate``; as it is here an estimator learns nothing.
    """

    name = ""
    learns = False
    #: declared times may tell as well how long a kind's jobs are (``Basis.declared``)
    uses_declared = False
    #: what it reads of a job without a builder, beside its kind; holds for its own class
    reads: ClassVar[tuple[str, ...]] = ("id",)

    def __init__(self, options: EstimatorOptions | None = None) -> None:
        self.options = options or EstimatorOptions()

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected run time in seconds."""
        raise NotImplementedError

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return the basis of ``estimate`` for the same arguments: by default the declared time."""
        return declared_basis(job)

    def size_sent(self, job: Job, builder: Builder) -> float | None:
        """Return the size that a builder is sent to estimate by (s at speed 1); None: none is."""
        return None

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Do nothing."""

    def remaining(
        self, job: Job, builder: Builder, elapsed: float, progress: JobProgress | None = None
    ) -> float:
        """Return the expected remaining time of a running job in seconds, even if it is overdue.

        ``progress`` is what it reported last; None: nothing.
        """
        total = self.estimate(job, builder)
        return remaining_after(total, elapsed, progress, self.options.overdue_time)

    def dump(self) -> JsonValues:
        """Return all statistics as plain JSON values, for ``load``: here none but the name."""
        return {"estimator": self.name}

    def load(self, state: JsonValues) -> None:
        """Replace the statistics by dumped ones; StateError if they are of another estimator."""
        check_owner(state, self.name)


def check_owner(state: JsonValues, name: str) -> None:
    """Raise StateError unless the dumped statistics are of this estimator."""
    found = state.get("estimator") if isinstance(state, dict) else None
    if found != name:
        raise StateError(
            f"estimator: these statistics are of {found!r}, and cannot be loaded into {name!r}"
        )
