"""Fairness: how much each share (the first fair-share key) gets, and how sticky slots are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from farm.core.commands import StartJob
from farm.core.dispatching.matching import Lane
from farm.core.model import Job
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.state.working_state import BuilderState
from farm.metrics.catalogue import SHARES
from farm.metrics.series import OTHER, Bounded, Labels, Series

PathOf = Callable[[Job], tuple[str, ...]]


class Shares:
    """Charges slots to shares; the first ``SHARES`` keep a label, the rest are ``other``.

    Args:
        series: where the counts go.
        path: the invocation path of a job, outermost key first.
    """

    def __init__(self, series: Series, path: PathOf) -> None:
        self._series = series
        self._path = path
        self._label = Bounded(SHARES)
        #: job on a slot -> its share and when it was dispatched
        self._running: dict[str, tuple[str, float]] = {}
        #: builder -> slot -> path of the last job there
        self._last: dict[str, dict[int, tuple[str, ...]]] = {}

    def share_of(self, path: tuple[str, ...]) -> str:
        """Return the label of an invocation path."""
        return self._label(path[0]) if path else OTHER

    def submitted(self, job: Job) -> None:
        """Count a submitted job."""
        share = self.share_of(self._path(job))
        self._series.add("farm_share_jobs_submitted_total", (share,))

    def started(self, command: StartJob, at: float) -> None:
        """A job got a slot."""
        path = self._path(command.job)
        self._running[command.job.id] = (self.share_of(path), at)
        slots = self._last.setdefault(command.builder, {})
        before = slots.get(command.slot)
        slots[command.slot] = path
        if before is not None:
            for level in range(len(path)):
                kept = before[: level + 1] == path[: level + 1]
                labels = (str(level), "retained" if kept else "switched")
                self._series.add("farm_sticky_dispatches_total", labels)

    def over(self, job_id: str, at: float) -> None:
        """A job gave its slot back."""
        found = self._running.pop(job_id, None)
        if found is not None:
            share, since = found
            self._series.add("farm_share_slot_seconds_total", (share,), at - since)

    def gone(self, builder: str) -> None:
        """A builder is gone with its slots."""
        self._last.pop(builder, None)

    def waiting(self, lanes: Iterable[Lane]) -> dict[Labels, float]:
        """Return how many jobs of each share wait in these queues: O(platforms and shares)."""
        trees = (lane.queue for lane in lanes)
        return self._by_share(
            ((name,), count)
            for tree in trees
            if isinstance(tree, FairShareQueue)
            for name, count in tree.listing.waiting_by_outermost()
        )

    def slots(self, builders: Iterable[BuilderState]) -> dict[Labels, float]:
        """Return how many slots run jobs of each share: O(slots)."""
        running = [slot.running for state in builders if state.busy for slot in state.slots]
        paths = Counter(job.path[:1] for job in running if job is not None)
        return self._by_share(paths.items())

    def _by_share(self, counts: Iterable[tuple[tuple[str, ...], int]]) -> dict[Labels, float]:
        """Return the sums of counts by share; a share that has been seen stays, at zero."""
        found = dict.fromkeys(self._series.labels("farm_share_jobs_submitted_total"), 0.0)
        for path, count in counts:
            share = (self.share_of(path),)
            found[share] = found.get(share, 0.0) + count
        return found
