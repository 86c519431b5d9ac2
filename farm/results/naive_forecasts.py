"""Two forecasts that any dashboard can make, beside which better ones are measured.

The last waits: a job waits as long as the last jobs of its platform did. Throughput: the jobs ahead
of it, divided by the rate at which the last ones ended. Both know only what was known when the job
came.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.commands import EndJob, StartJob
from farm.core.events import Event, JobsSubmitted

if TYPE_CHECKING:
    from farm.core.commands import Command

#: waits, or ends, that are looked back on
LAST = 20


class Asked(NamedTuple):
    """Jobs of one platform whose waits are forecast."""

    names: Sequence[str]
    #: when each forecast was requested, farm time
    at: Floats


class NaiveForecasts(NamedTuple):
    """Waits in seconds, by job; NaN: nothing was known yet."""

    #: quantiles of the last waits: a row per job, a column per level
    last_waits: Floats
    by_throughput: Floats


class PlatformHistory(msgspec.Struct):
    """What came, went and ended of one platform's jobs, farm time."""

    #: by job, in order of submission: since when it waited
    queued_at: dict[str, float] = {}
    #: by job: when it was dispatched, or ended without that
    gone_at: dict[str, float] = {}
    #: jobs that were dispatched
    dispatched: list[str] = []
    ended_at: list[float] = []

    def forecasts(self, asked: Asked, levels: Sequence[float]) -> NaiveForecasts:
        """Return both forecasts of some of its jobs."""
        return NaiveForecasts(self._last_waits(asked, levels), self._by_throughput(asked))

    def _last_waits(self, asked: Asked, levels: Sequence[float]) -> Floats:
        began, gone = (
            np.array([times[name] for name in self.dispatched], float)
            for times in (self.queued_at, self.gone_at)
        )
        order = gone.argsort(kind="stable")
        waits = np.maximum(gone - began, 0.0)[order]
        known = np.searchsorted(gone[order], asked.at, side="right")
        # a row for each number of known waits, the last of which count
        padded = np.concatenate([np.full(LAST, np.nan), waits])
        windows = np.lib.stride_tricks.sliding_window_view(padded, LAST)
        rows, row_of_job = np.unique(known, return_inverse=True)
        found = np.full((len(rows), len(levels)), np.nan)
        full = rows >= LAST
        found[full] = np.quantile(windows[rows[full]], levels, axis=1).T
        for row in np.flatnonzero(~full & (rows > 0)).tolist():
            found[row] = np.quantile(waits[: rows[row]], levels)
        return np.asarray(found[row_of_job])

    def _by_throughput(self, asked: Asked) -> Floats:
        names = list(self.queued_at)
        began = np.array(list(self.queued_at.values()), float)
        places = np.empty(len(names), np.int64)
        places[began.argsort(kind="stable")] = np.arange(len(names))
        place_of = dict(zip(names, places.tolist(), strict=True))
        gone = np.sort(np.array(list(self.gone_at.values()), float))
        before = np.array([place_of[name] for name in asked.names], np.int64)
        ahead = np.maximum(before - np.searchsorted(gone, asked.at, side="right"), 0)
        ended = np.sort(np.array(self.ended_at, float))
        known = np.searchsorted(ended, asked.at, side="right")
        count = np.minimum(known, LAST)
        found = np.full(len(asked.names), np.nan)
        some = count > 0
        since = asked.at[some] - ended[known[some] - count[some]]
        found[some] = ahead[some] * since / count[some]
        return found


class QueueHistory:
    """Collects the history of each platform from a run's events."""

    def __init__(self) -> None:
        self.platforms: defaultdict[str, PlatformHistory] = defaultdict(PlatformHistory)

    def take(self, event: Event, commands: Iterable[Command]) -> None:
        """Take in what an event brought."""
        if type(event) is JobsSubmitted:
            for job in event.jobs:
                self.platforms[str(job.platform)].queued_at[job.id] = event.at
        for command in commands:
            if type(command) is StartJob:
                its = self.platforms[str(command.job.platform)]
                if command.job.id not in its.gone_at:
                    its.gone_at[command.job.id] = event.at
                    its.dispatched.append(command.job.id)
                    its.queued_at.setdefault(command.job.id, event.at)
            elif type(command) is EndJob:
                its = self.platforms[str(command.job.platform)]
                its.gone_at.setdefault(command.job.id, event.at)
                if command.released_at is not None:
                    its.queued_at[command.job.id] = command.released_at
                if command.builder is not None:
                    its.ended_at.append(event.at)
