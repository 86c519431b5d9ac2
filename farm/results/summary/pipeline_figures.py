"""The figures of a run's pipelines: how many came to their end, when, and what held them up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from farm.columns import Flags
from farm.core.fields import json_name
from farm.results.descriptive_statistics import Spread, spread_of
from farm.results.formatting import readable_percent
from farm.results.summary.run_phase import Window

if TYPE_CHECKING:
    from farm.results.table.pipelines import MeasuredPipelines, PipelineOutcome


class CriticalPaths(msgspec.Struct, frozen=True, kw_only=True):
    """What the critical paths of pipelines were made of, as shares of all their response times.

    Blocked, waiting and running together are all of it; booting is a part of waiting. None: no
    pipeline took any time.
    """

    #: jobs on a path, the mean
    jobs: float | None = None
    blocked: float | None = None
    waiting: float | None = None
    booting: float | None = None
    running: float | None = None


class PipelineFigures(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The pipelines that arrived in the run phase.

    Response times and critical paths are of those that came to their end: not of superseded,
    cancelled and unfinished ones.
    """

    count: int
    #: how many there are of each ``PipelineOutcome``
    succeeded: int
    failed: int
    cancelled: int
    superseded: int
    unfinished: int
    #: those that came to their end, and in which jobs were skipped
    with_skipped: int
    response_time: Spread
    #: on the critical path
    waiting_time: Spread
    critical_path: CriticalPaths

    @property
    def left_out(self) -> dict[PipelineOutcome, int]:
        """The number of pipelines whose times do not count, by outcome, if there are any."""
        counts: Mapping[PipelineOutcome, int] = {
            "superseded": self.superseded,
            "cancelled": self.cancelled,
            "unfinished": self.unfinished,
        }
        return {outcome: count for outcome, count in counts.items() if count}


def figures_of(pipelines: MeasuredPipelines, window: Window) -> PipelineFigures | msgspec.UnsetType:
    """Return the figures of the pipelines that arrived in a window; UNSET: there are none."""
    from farm.results.table.pipelines import OUTCOMES  # noqa: PLC0415 - slow, most runs have none

    counts_here = window.holds(pipelines.arrived_at)
    if not counts_here.any():
        return msgspec.UNSET
    outcome = pipelines.outcome[counts_here]
    counts = {name: int((outcome == name).sum()) for name in OUTCOMES}
    ended = counts_here & pipelines.has_ended
    return PipelineFigures(
        count=len(outcome),
        **counts,
        with_skipped=int((pipelines.skipped[ended] > 0).sum()),
        response_time=spread_of(pipelines.response_time[ended]),
        waiting_time=spread_of(pipelines.parts["waiting_time_s"][ended]),
        critical_path=_critical_paths(pipelines, ended),
    )


def pipelines_in_words(pipelines: PipelineFigures) -> str:
    """Return how many pipelines came to their end, and which ones are left out.

    Such as ``600 in all, 145 succeeded, 48 failed; 407 superseded, whose times are left out``.
    """
    parts = [f"{pipelines.count:,} in all", f"{pipelines.succeeded:,} succeeded"]
    if pipelines.failed:
        parts.append(f"{pipelines.failed:,} failed")
    text = ", ".join(parts)
    if pipelines.left_out:
        counts = [f"{count:,} {outcome}" for outcome, count in pipelines.left_out.items()]
        text += f"; {', '.join(counts)}, whose times are left out"
    return text


def critical_path_in_words(path: CriticalPaths) -> str:
    """Return what response times were made of: ``44 % running, 56 % waiting (3 % for boots)``."""
    boots = f" ({readable_percent(path.booting)} for boots)" if path.booting else ""
    parts = [
        f"{readable_percent(path.running)} running",
        f"{readable_percent(path.waiting)} waiting{boots}",
    ]
    if path.blocked:
        parts.append(f"{readable_percent(path.blocked)} blocked")
    return ", ".join(parts)


def _critical_paths(pipelines: MeasuredPipelines, ended: Flags) -> CriticalPaths:
    whole = float(pipelines.response_time[ended].sum())
    if not whole:
        return CriticalPaths()
    shares = {
        name: float(pipelines.parts[f"{name}_time_s"][ended].sum()) / whole
        for name in ("blocked", "waiting", "booting", "running")
    }
    return CriticalPaths(jobs=float(np.mean(pipelines.path_jobs[ended])), **shares)
