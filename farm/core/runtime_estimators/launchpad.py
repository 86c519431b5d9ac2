"""Launchpad's way: the most recent success, or the median of the last nine, by family of kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from farm.core.errors import StateError
from farm.core.model import Builder, Job, Outcome
from farm.core.runtime_estimators.interface import (
    EstimatorOptions,
    JsonValues,
    Stateless,
    check_owner,
    is_time,
    on_builder,
    speed_of,
)

_MEDIAN_OF = 9
_MINUTE = 60
_BINARY_DEFAULT = 5 * _MINUTE

#: what a job of a family without a history is given, seconds
FAMILY_DEFAULTS: dict[str, int] = {
    "recipe": 10 * _MINUTE,
    "charm": 10 * _MINUTE,
    "craft": 10 * _MINUTE,
    "rock": 10 * _MINUTE,
    "ci": 10 * _MINUTE,
    "snap": 30 * _MINUTE,
    "livefs": 30 * _MINUTE,
    "oci": 30 * _MINUTE,
    "translationtemplates": 10,
}


def estimate_duration(
    family: str, newest_first: Sequence[float] = (), package_kb: float | None = None
) -> float:
    """Return Launchpad's estimate in seconds from the successes of the same thing, newest first.

    ``binary`` (and any unknown family): the newest; else a minute and 6 KB a second, in whole
    minutes; else five minutes. ``translationtemplates``: always 10 s. The others: the upper median
    of the last nine, the lower one for recipes; else the family's default.
    """
    if family == "translationtemplates":
        return FAMILY_DEFAULTS[family]
    if family not in FAMILY_DEFAULTS:
        if newest_first:
            return newest_first[0]
        if package_kb is not None and 0 <= package_kb < math.inf:
            return int(package_kb / 6 / 60 + 1) * _MINUTE
        return _BINARY_DEFAULT
    runs = sorted(newest_first[:_MEDIAN_OF], reverse=family == "recipe")
    return runs[len(runs) // 2] if runs else FAMILY_DEFAULTS[family]


class Launchpad(Stateless):
    """Per kind and processor: the newest success, or the median of nine.

    A kind's family is what stands before its colon (``snap:firefox``); a kind of no known family
    is treated as a binary package whose size is ``Job.size`` in KB. Recipes share their history
    over all processors. Times are brought to a builder of speed 1.
    """

    name = "launchpad"

    def __init__(self, options: EstimatorOptions | None = None) -> None:
        super().__init__(options)
        self._runs: dict[str, dict[str, list[float]]] = {}  # kind -> processor -> oldest first

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the estimate on this builder, in seconds."""
        runs = self._runs.get(job.kind, {}).get(_processor(job), [])
        work = estimate_duration(_family(job.kind), runs[::-1], job.size)
        return on_builder(work, builder, self.options.default_time)

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Remember a success; only the last nine are ever asked for."""
        work = elapsed * speed_of(builder)
        if outcome == "succeeded" and is_time(work):
            runs = self._runs.setdefault(job.kind, {}).setdefault(_processor(job), [])
            runs.append(work)
            del runs[:-_MEDIAN_OF]

    def dump(self) -> JsonValues:
        """Return the last successes by kind and processor, oldest first."""
        runs = {
            kind: {processor: list(kept) for processor, kept in by_processor.items()}
            for kind, by_processor in self._runs.items()
        }
        return {"estimator": self.name, "runs": runs}

    def load(self, state: JsonValues) -> None:
        """Take the successes back; StateError if they are not such a dump."""
        check_owner(state, self.name)
        try:
            found = msgspec.convert(state.get("runs", {}), dict[str, dict[str, list[float]]])
        except msgspec.ValidationError as error:
            raise StateError(f"runs: {error}") from None
        self._runs = {
            kind: {
                processor: [run for run in kept if is_time(run)][-_MEDIAN_OF:]
                for processor, kept in by_processor.items()
            }
            for kind, by_processor in found.items()
        }


def _family(kind: str) -> str:
    return kind.partition(":")[0]


def _processor(job: Job) -> str:
    return "" if _family(job.kind) == "recipe" else job.platform.processor or ""
