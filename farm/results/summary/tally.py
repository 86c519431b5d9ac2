"""A run whose jobs are taken piece by piece and then let go, and its figures.

Of each job three times and its place are kept; whatever else a summary says of jobs is counted.
Sums go on from piece to piece, so that all figures are those of the whole table, to the last digit.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from farm.results.descriptive_statistics import Spread, spread_of
from farm.results.summary.builder_time import BuilderTimes, Window
from farm.results.summary.costs import JobCounts, Parts, Place, places_of
from farm.results.summary.figures import Counted, RunInfo, jain_index, parties_of
from farm.results.table.builder_columns import Attempts
from farm.results.table.columns import Coded, Floats, Numbers, in_order_of_appearance, total, which
from farm.results.table.job_columns import OUTCOMES, Jobs, by_outcome
from farm.results.table.records import RunRecords
from farm.results.table.runs import Runs

K = TypeVar("K")


class Tally:
    """What a summary needs of jobs that all started, ended, and count; each takes 28 bytes.

    Args:
        fair_share: as in ``RunInfo``.
        pools: the names of pools, by number.
    """

    def __init__(self, fair_share: tuple[str, ...], pools: Sequence[str]) -> None:
        self._fair_share, self._pools = fair_share, pools
        self._waits, self._responses, self._stretches = (array("d") for _ in range(3))
        self._places = array("i")
        self.attempts = 0
        self.first_arrival, self.last_finish = math.inf, -math.inf
        #: of each place that a job ended at, how many did by outcome
        self.ended: dict[Place, Numbers] = {}
        #: the time that jobs held slots: in all, by pool, by place (s)
        self.busy = 0.0
        self.by_pool: dict[str, float] = {}
        self.by_place: dict[Place, float] = {}
        #: stretches by party, and how many
        self._stretch: dict[str, float] = {}
        self._stretched = Counter[str]()
        #: the builders that ran a job, by number
        self.ran: set[int] = set()
        #: of waiting and response times, and of stretches, once they were measured
        self.spreads: dict[str, Spread] = {}

    @property
    def count(self) -> int:
        """The number of jobs."""
        return len(self._waits)

    def take(self, jobs: Jobs, pool: Numbers) -> None:
        """Take the next jobs, in order of ending; ``pool``: the number of each one's pool."""
        number, found = places_of(jobs, slice(None), pool, self._pools)
        for place in found:
            self.ended.setdefault(place, np.zeros(len(OUTCOMES), np.int64))
        order = {place: n for n, place in enumerate(self.ended)}
        of = np.array([order[place] for place in found], np.int64)[number]
        self._places.frombytes(of.astype(np.int32).tobytes())
        self._waits.frombytes(jobs.waits().tobytes())
        self._responses.frombytes(jobs.responses().tobytes())
        self._stretches.frombytes(jobs.stretches().tobytes())

        for place, row in zip(order, jobs.outcomes(of, len(order)), strict=True):
            self.ended[place] += row
        self.attempts += int(jobs.attempts.sum())
        self.first_arrival = min(self.first_arrival, float(jobs.arrived_at.min()))
        self.last_finish = max(self.last_finish, float(jobs.finished_at.max()))
        self.ran.update(np.flatnonzero(np.bincount(jobs.builder.numbers)).tolist())

        times = Window().overlap(jobs.dispatched_at, jobs.finished_at)
        some = which(times > 0)
        self.busy = total(np.append(self.busy, times))
        _add_up(self.by_pool, self._pools, pool[some], times[some])
        _add_up(self.by_place, [*order], of[some], times[some])

        some, (party, names) = which(jobs.has_stretch), parties_of(jobs, self._fair_share)
        _add_up(self._stretch, names, party[some], jobs.stretch[some])
        counts = np.bincount(party[some], minlength=len(names)).tolist()
        self._stretched.update(dict(zip(names, counts, strict=True)))

    def records(self, **rest: Any) -> Tallied:
        """Return the records of the run; ``rest``: of its builders and events."""
        ran = np.array(sorted(self.ran), np.int64)
        none = Coded(np.zeros(0, np.int64), rest["builders"].builder.values)
        # each builder's attempts as one that took no time
        nothing = np.zeros(len(ran))
        void = Attempts(
            len(ran),
            builder=Coded(ran, none.values),
            row=np.full(len(ran), -1),
            dispatched_at=nothing,
            ended_at=nothing,
        )
        jobs, lost = Jobs.of([], builder=none), Jobs.of([], builder=none)
        return Tallied(tally=self, jobs=jobs, lost=lost, void=void, **rest)

    # --- what the figures are made of ---

    def measure(self) -> Iterator[float]:
        """Find the spreads of all jobs, once all were taken; yield how much of that is done."""
        columns = {"waiting_time": self._waits, "response_time": self._responses}
        columns["stretch"] = self._stretches
        for name, column in columns.items():
            self.spreads[name] = spread_of(_held(column))
            yield len(self.spreads) / len(columns)

    def times_of(self, places: Sequence[Place]) -> tuple[Floats, Floats]:
        """Return waiting and response times of the jobs of some places."""
        order, waits, responses = list(self.ended), [np.zeros(0)], [np.zeros(0)]
        for place in places:
            some = which(_held(self._places) == order.index(place))
            waits.append(_held(self._waits)[some])
            responses.append(_held(self._responses)[some])
        return np.concatenate(waits), np.concatenate(responses)

    def mean_stretches(self) -> list[float]:
        """Return the mean stretch of each party, in order of their first ends."""
        return [stretch / self._stretched[party] for party, stretch in self._stretch.items()]


def _held(column: array[Any]) -> Any:
    """Return the numbers so far, which are not copied."""
    return np.frombuffer(column, column.typecode)


def _add_up(sums: dict[K, float], keys: Sequence[K], numbers: Numbers, values: Floats) -> None:
    """Add values, each of a number of the keys, to sums: from first to last, over all pieces."""
    number, found = in_order_of_appearance(numbers)
    rows = np.concatenate((np.arange(len(found)), number))
    names = [keys[one] for one in found.tolist()]
    before = [sums.get(name, 0.0) for name in names]
    added = np.bincount(rows, np.concatenate((before, values)))
    sums.update(zip(names, added.tolist(), strict=True))


class Tallied(RunRecords, kw_only=True, eq=False, dict=True):
    """The records of a run whose jobs were let go: its tables have none."""

    tally: Tally


class CountedInPieces(Counted):
    """The jobs and builders of such a run; it has no phases."""

    def __init__(self, runs: Runs, info: RunInfo, tally: Tally) -> None:
        super().__init__(runs, info)
        self._tally = tally
        self.makespans = [tally.last_finish - tally.first_arrival]
        self.lengths = self.makespans
        self.costs.held(tally.by_pool, tally.by_place)

    def parts(self) -> Parts:
        """Return the parts of the run."""
        tally = self._tally
        ended = {place: by_outcome(counts) for place, counts in tally.ended.items()}
        whole = tally.spreads["waiting_time"], tally.spreads["response_time"]
        return Parts(self.costs, self.lengths[0], ended, Counter(), tally.times_of, whole)

    def _builder_times(self) -> BuilderTimes:
        return replace(super()._builder_times(), busy=[self._tally.busy])

    def _attempts(self) -> list[int]:
        return [self._tally.attempts]

    def _fairness(self) -> list[float]:
        return [jain_index(self._tally.mean_stretches())]

    def _counts(self) -> list[JobCounts]:
        ended = by_outcome(np.sum([*self._tally.ended.values()], axis=0))
        return [JobCounts(submitted=self._tally.count, lost=0, **ended)]

    def _spreads(self) -> dict[str, list[Spread]]:
        return super()._spreads() | {name: [one] for name, one in self._tally.spreads.items()}
