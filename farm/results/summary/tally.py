"""A run whose jobs are taken piece by piece and then let go, and its figures.

Of each job three times and its place are kept; whatever else a summary says of jobs is counted.
Sums go on from piece to piece, so that all figures are those of the whole table, to the last digit.
Of more jobs than ``MAX_EXACT`` the times are counted in histograms, and percentiles are near.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from farm.columns import Coded, Floats, Numbers, in_order_of_appearance, total, which
from farm.core.model import Platform
from farm.results.descriptive_statistics import Spread, spread_of
from farm.results.summary.builder_time import BuilderTimes
from farm.results.summary.costs import CostParts, JobCounts, Place, places_of
from farm.results.summary.fairness import SlotShares
from farm.results.summary.figures import Counted, RunInfo, parties_of
from farm.results.summary.histogram import RELATIVE_ERROR, Histogram
from farm.results.summary.run_phase import Window
from farm.results.table.builder_columns import Attempts
from farm.results.table.job_columns import OUTCOMES, Jobs, by_outcome
from farm.results.table.recorder import RunRecords
from farm.results.table.runs import Runs

K = TypeVar("K")

MAX_EXACT = 100_000_000
"""Jobs whose times are kept, in 2.8 GB; those of more are counted in histograms."""
POURED = 1 << 20
"""Kept times that are counted together, once they are too many."""
MEASURED = ("waiting_time", "response_time", "stretch")
"""The names of the three times of a job."""


class Times(Protocol):
    """The waiting times, response times and stretches of jobs, and the places that they ended at.

    Places are given by their numbers, in order of first appearance.
    """

    @property
    def count(self) -> int:
        """The number of jobs."""

    def take(self, places: Numbers, waits: Floats, responses: Floats, stretches: Floats) -> None:
        """Take the next jobs; stretches are of those that have one."""

    def measure(self) -> Iterator[Spread]:
        """Yield the spread of each of the three."""

    def spreads_of(self, places: Sequence[int]) -> tuple[Spread, Spread]:
        """Return the spreads of waiting and response times of the jobs of some places."""

    def values_of(self, name: str, places: Sequence[int] | None) -> Floats | Histogram | None:
        """Return a time (``MEASURED``) of the jobs of some places; None: of them it is not known.

        Without places of all jobs.
        """


class KeptTimes:
    """All times; each job takes 28 bytes."""

    def __init__(self) -> None:
        self.waits, self.responses, self.stretches = (array("d") for _ in range(3))
        self.places = array("i")

    @property
    def count(self) -> int:
        """The number of jobs."""
        return len(self.waits)

    def take(self, places: Numbers, waits: Floats, responses: Floats, stretches: Floats) -> None:
        """Take the next jobs."""
        self.places.frombytes(places.astype(np.int32).tobytes())
        self.waits.frombytes(waits.tobytes())
        self.responses.frombytes(responses.tobytes())
        self.stretches.frombytes(stretches.tobytes())

    def measure(self) -> Iterator[Spread]:
        """Yield the spread of each of the three."""
        for column in (self.waits, self.responses, self.stretches):
            yield spread_of(_held(column))

    def spreads_of(self, places: Sequence[int]) -> tuple[Spread, Spread]:
        """Return the spreads of waiting and response times of the jobs of some places."""
        waits, responses = [np.zeros(0)], [np.zeros(0)]
        for place in places:
            rows = which(_held(self.places) == place)
            waits.append(_held(self.waits)[rows])
            responses.append(_held(self.responses)[rows])
        return spread_of(np.concatenate(waits)), spread_of(np.concatenate(responses))

    def values_of(self, name: str, places: Sequence[int] | None) -> Floats | Histogram | None:
        """Return a time of the jobs of some places, or of all jobs."""
        if name == "stretch":
            return _held(self.stretches) if places is None else None
        column: Floats = _held(self.waits if name == "waiting_time" else self.responses)
        return column if places is None else column[np.isin(_held(self.places), places)]

    def counted(self) -> CountedTimes:
        """Return the histograms of these times."""
        made = CountedTimes()
        no_stretches = np.zeros(0)
        for begin in range(0, self.count, POURED):
            rows = slice(begin, begin + POURED)
            waits, responses = _held(self.waits)[rows], _held(self.responses)[rows]
            made.take(_held(self.places)[rows], waits, responses, no_stretches)
        for begin in range(0, len(self.stretches), POURED):
            made.stretches.take(_held(self.stretches)[begin : begin + POURED])
        return made


class CountedTimes:
    """Histograms of times: of all stretches, and of each place's waiting and response times."""

    def __init__(self) -> None:
        self.count = 0
        # by place
        self.waits: list[Histogram] = []
        self.responses: list[Histogram] = []
        self.stretches = Histogram()

    def take(self, places: Numbers, waits: Floats, responses: Floats, stretches: Floats) -> None:
        """Take the next jobs."""
        self.count += len(places)
        while len(self.waits) <= places.max():
            self.waits.append(Histogram())
            self.responses.append(Histogram())
        for place in np.flatnonzero(np.bincount(places)).tolist():
            rows = which(places == place)
            self.waits[place].take(waits[rows])
            self.responses[place].take(responses[rows])
        self.stretches.take(stretches)

    def measure(self) -> Iterator[Spread]:
        """Yield the spread of each of the three."""
        yield from self.spreads_of(range(len(self.waits)))
        yield self.stretches.spread()

    def spreads_of(self, places: Sequence[int]) -> tuple[Spread, Spread]:
        """Return the spreads of waiting and response times of the jobs of some places."""
        waits, responses = Histogram(), Histogram()
        for place in places:
            waits.merge(self.waits[place])
            responses.merge(self.responses[place])
        return waits.spread(), responses.spread()

    def values_of(self, name: str, places: Sequence[int] | None) -> Floats | Histogram | None:
        """Return a time of the jobs of some places, or of all jobs."""
        if name == "stretch":
            return self.stretches if places is None else None
        by_place = self.waits if name == "waiting_time" else self.responses
        merged = Histogram()
        for place in range(len(by_place)) if places is None else places:
            merged.merge(by_place[place])
        return merged


class Tally:
    """What a summary needs of jobs that all started, ended, and count.

    Args:
        fair_share: as in ``RunInfo``.
        pools: the names of pools, by number.
        max_exact: jobs whose times are kept, so that percentiles are exact.
    """

    def __init__(
        self, fair_share: tuple[str, ...], pools: Sequence[str], max_exact: int = MAX_EXACT
    ) -> None:
        self._fair_share, self._pools = fair_share, pools
        self._max_exact = max_exact
        self.times: Times = KeptTimes()
        self.attempts = 0
        self.first_arrival, self.last_finish = math.inf, -math.inf
        #: of each place that a job ended at, how many did by outcome
        self.ended: dict[Place, Numbers] = {}
        #: the time that jobs held slots: in all, by pool, by place (s)
        self.busy = 0.0
        self.by_pool: dict[str, float] = {}
        self.by_place: dict[Place, float] = {}
        #: what the parties had of the slots
        self.shares = SlotShares({})
        #: the builders that ran a job, by number
        self.ran: set[int] = set()
        #: of waiting and response times, and of stretches, once they were measured
        self.spreads: dict[str, Spread] = {}

    @property
    def count(self) -> int:
        """The number of jobs."""
        return self.times.count

    @property
    def percentile_error(self) -> float | UnsetType:
        """How far percentiles are from the exact ones, at most, as a share of these; UNSET: 0."""
        return RELATIVE_ERROR if isinstance(self.times, CountedTimes) else UNSET

    def take(self, jobs: Jobs, pool: Numbers) -> None:
        """Take the next jobs, in order of ending; ``pool``: the number of each one's pool."""
        number, found = places_of(jobs, slice(None), pool, self._pools)
        for place in found:
            self.ended.setdefault(place, np.zeros(len(OUTCOMES), np.int64))
        order = {place: n for n, place in enumerate(self.ended)}
        of = np.array([order[place] for place in found], np.int64)[number]
        if isinstance(self.times, KeptTimes) and self.count + len(jobs) > self._max_exact:
            self.times = self.times.counted()
        self.times.take(of, jobs.waiting_time, jobs.response_time, jobs.stretches())

        for place, row in zip(order, jobs.outcomes(of, len(order)), strict=True):
            self.ended[place] += row
        self.attempts += int(jobs.attempts.sum())
        self.first_arrival = min(self.first_arrival, float(jobs.arrived_at.min()))
        self.last_finish = max(self.last_finish, float(jobs.finished_at.max()))
        first_builder = jobs.builder.codes.min()
        ran = np.flatnonzero(np.bincount(jobs.builder.codes - first_builder)) + first_builder
        self.ran.update(ran.tolist())

        times = Window().overlap(jobs.dispatched_at, jobs.finished_at)
        some = which(times > 0)
        self.busy = total(np.append(self.busy, times))
        _add_up(self.by_pool, self._pools, pool[some], times[some])
        _add_up(self.by_place, [*order], of[some], times[some])

        if jobs.attributes.values:
            self.shares.take(jobs, *parties_of(jobs, self._fair_share))

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
        for name, spread in zip(MEASURED, self.times.measure(), strict=True):
            self.spreads[name] = spread
            yield len(self.spreads) / len(MEASURED)

    def spreads_of(self, places: Sequence[Place]) -> tuple[Spread, Spread]:
        """Return the spreads of waiting and response times of the jobs of some places."""
        order = {place: number for number, place in enumerate(self.ended)}
        return self.times.spreads_of([order[place] for place in places])

    def values_of(
        self, name: str, can_run: Callable[[Platform], bool] | None
    ) -> Floats | Histogram | None:
        """Return a time (``MEASURED``) of the jobs for some platforms; without ``can_run`` of all.

        None: it is not known of a part of the jobs.
        """
        places = None
        if can_run is not None:
            order = enumerate(self.ended)
            places = [number for number, (_, platform, _) in order if can_run(platform)]
        return self.times.values_of(name, places)


def _held(column: array[Any]) -> Any:
    """Return the numbers so far, which are not copied."""
    return np.frombuffer(column, column.typecode)


def _add_up(sums: dict[K, float], keys: Sequence[K], numbers: Numbers, values: Floats) -> None:
    """Add values, each of a number of the keys, to sums: from first to last, over all pieces."""
    number, found = in_order_of_appearance(numbers)
    if len(found) == 1:
        key = keys[int(found[0])]
        sums[key] = total(np.append(sums.get(key, 0.0), values))
        return
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

    def parts(self) -> CostParts:
        """Return the parts of the run."""
        tally = self._tally
        ended = {place: by_outcome(counts) for place, counts in tally.ended.items()}
        whole = tally.spreads["waiting_time"], tally.spreads["response_time"]
        return CostParts(self.costs, self.lengths[0], ended, Counter(), tally.spreads_of, whole)

    def _builder_times(self) -> BuilderTimes:
        return replace(super()._builder_times(), busy=[self._tally.busy])

    def _attempts(self) -> list[int]:
        return [self._tally.attempts]

    def _fairness(self) -> list[float]:
        return [self._tally.shares.index()]

    def _counts(self) -> list[JobCounts]:
        ended = by_outcome(np.sum([*self._tally.ended.values()], axis=0))
        return [JobCounts(submitted=self._tally.count, lost=0, **ended)]

    def _spreads(self) -> dict[str, list[Spread]]:
        return super()._spreads() | {name: [one] for name, one in self._tally.spreads.items()}
