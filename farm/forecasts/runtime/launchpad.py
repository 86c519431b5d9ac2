"""Launchpad's estimates: the newest success, or the median of the last nine, by kind family."""

from __future__ import annotations

import math

from farm.core.model import Builder, Job, Outcome
from farm.forecasts.runtime.interface import (
    Basis,
    EstimatorOptions,
    JsonValues,
    RuntimeEstimator,
    check_owner,
    converted,
    is_time,
    latest,
    on_builder,
    speed_of,
)
from farm.upstream.launchpad import DEFAULTS_S, HISTORY, estimate_duration

_FAMILIES = {*DEFAULTS_S, "translationtemplates"}


class Launchpad(RuntimeEstimator):
    """Per kind and processor: the newest success, or the median of nine.

    A kind's family is the part before its colon (``snap:firefox``); a kind of an unknown family is
    treated as a binary package whose size is ``Job.size`` in KB. Recipes share their history
    across all processors. Times are converted to a builder of speed 1.
    """

    name = "launchpad"
    learns = True

    def __init__(self, options: EstimatorOptions | None = None) -> None:
        super().__init__(options)
        self._runs: dict[str, dict[str, list[float]]] = {}  # kind -> processor -> oldest first

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the estimate on this builder, in seconds."""
        runs = self._runs.get(job.kind, {}).get(_processor(job), [])
        size = job.size if job.size is not None and 0 < job.size < math.inf else None
        work = estimate_duration(_family(job.kind), runs[::-1], size)
        return on_builder(work, builder, self.options.default_time)

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return whether it is from history, by size, or the family's default."""
        family = _family(job.kind)
        runs = self._runs.get(job.kind, {}).get(_processor(job), [])
        if family == "translationtemplates" or not (runs or job.size):
            return Basis(f"default of {family}")
        if not runs:
            return Basis("size" if family == "binary" else f"default of {family}")
        if family == "binary":
            return Basis("the kind's newest success", 1)
        return Basis("median of the kind's last successes", len(runs))

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Remember a success; only the last nine are used."""
        work = elapsed * speed_of(builder)
        if outcome == "succeeded" and is_time(work):
            runs = latest(self._runs, job.kind, {}).setdefault(_processor(job), [])
            runs.append(work)
            del runs[:-HISTORY]

    def dump(self) -> JsonValues:
        """Return the last successes by kind and processor, oldest first."""
        runs = {
            kind: {processor: list(kept) for processor, kept in by_processor.items()}
            for kind, by_processor in self._runs.items()
        }
        return {"estimator": self.name, "runs": runs}

    def load(self, state: JsonValues) -> None:
        """Restore the successes; StateError if the dump is invalid."""
        check_owner(state, self.name)
        found = converted(state, "runs", dict[str, dict[str, list[float]]])
        self._runs = {
            kind: {
                processor: [run for run in kept if is_time(run)][-HISTORY:]
                for processor, kept in by_processor.items()
            }
            for kind, by_processor in found.items()
        }


def _family(kind: str) -> str:
    family = kind.partition(":")[0]
    return family if family in _FAMILIES else "binary"


def _processor(job: Job) -> str:
    return "" if _family(job.kind) == "recipe" else job.platform.processor or ""
