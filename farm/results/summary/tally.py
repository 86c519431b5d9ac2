"""A run whose jobs are taken piece by piece and then let go, and its figures.

Of each job three times and its place are kept; whatever else a summary says of jobs is counted.
Sums go on from piece to piece, so that all figures are those of the whole table, to the last digit.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import numpy as np
from msgspec.structs import replace

from farm.core.model import Outcome
from farm.results.descriptive_statistics import Spread, spread_of
from farm.results.summary.builder_time import BuilderTimes, Window
from farm.results.summary.costs import Costs, PartOfJobs, Parts, Place, places_of
from farm.results.summary.figures import Counted, JobCounts, RunInfo, jain_index, party_names
from farm.results.table.builders import Attempts
from farm.results.table.columns import Coded, Floats, Numbers, in_order_of_appearance, which
from farm.results.table.jobs import OUTCOMES, Jobs
from farm.results.table.records import RunRecords
from farm.results.table.runs import Runs

Sums = dict[int, float]
"""Sums by number, in order of appearance."""


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
        self._ended: dict[Place, Numbers] = {}
        #: the time that jobs held slots: in all, by pool, by place (s)
        self._busy, self._by_pool, self._by_place = Sums(), Sums(), Sums()
        #: the parties' numbers; stretches by party, and how many
        self._parties: dict[str, int] = {}
        self._stretch, self._stretched = Sums(), Counter[int]()
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
            self._ended.setdefault(place, np.zeros(len(OUTCOMES), np.int64))
        order = {place: n for n, place in enumerate(self._ended)}
        of = np.array([order[place] for place in found], np.int32)[number]
        self._places.frombytes(of.tobytes())
        self._waits.frombytes(jobs.waits().tobytes())
        self._responses.frombytes(jobs.responses().tobytes())
        self._stretches.frombytes(jobs.stretches().tobytes())

        codes, kinds = of.astype(np.int64) * len(OUTCOMES) + jobs.outcome.numbers, len(OUTCOMES)
        by_outcome = np.bincount(codes, minlength=len(order) * kinds).reshape(-1, kinds)
        for place, row in zip(order, by_outcome, strict=True):
            self._ended[place] += row
        self.attempts += int(jobs.attempts.sum())
        self.first_arrival = min(self.first_arrival, float(jobs.arrived_at.min()))
        self.last_finish = max(self.last_finish, float(jobs.finished_at.max()))
        self.ran.update(np.flatnonzero(np.bincount(jobs.builder.numbers)).tolist())

        times = Window().overlap(jobs.dispatched_at, jobs.finished_at)
        some = which(times > 0)
        _add_up(self._busy, np.zeros(len(times), np.int8), times)
        _add_up(self._by_pool, pool[some], times[some])
        _add_up(self._by_place, of[some], times[some])

        some, known = which(jobs.has_stretch), self._parties
        names = party_names(jobs, self._fair_share[:1])
        numbers = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
        party = numbers[jobs.attributes.numbers[some]]
        _add_up(self._stretch, party, jobs.stretch[some])
        self._stretched.update(dict(enumerate(np.bincount(party).tolist())))

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

    def by_outcome(self) -> dict[Place, dict[str, int]]:
        """Return how many jobs ended at each place, by outcome."""
        return {
            place: dict(zip(get_args(Outcome), counts.tolist(), strict=False))
            for place, counts in self._ended.items()
        }

    def times_at(self, place: Place) -> tuple[Floats, Floats]:
        """Return waiting and response times of the jobs of a place."""
        some = which(_held(self._places) == list(self._ended).index(place))
        return _held(self._waits)[some], _held(self._responses)[some]

    def busy(self) -> tuple[float, dict[str, float], dict[Place, float]]:
        """Return the time that jobs held slots: in all, by pool, by place (s)."""
        places = list(self._ended)
        return (
            sum(self._busy.values()),
            {self._pools[number]: time for number, time in self._by_pool.items()},
            {places[number]: time for number, time in self._by_place.items()},
        )

    def mean_stretches(self) -> list[float]:
        """Return the mean stretch of each party, in order of their first ends."""
        return [stretch / self._stretched[party] for party, stretch in self._stretch.items()]


def _held(column: array[Any]) -> Any:
    """Return the numbers so far, which are not copied."""
    return np.frombuffer(column, column.typecode)


def _add_up(sums: Sums, numbers: Any, values: Floats) -> None:
    """Add a value for each number to its sum: from first to last, over all pieces."""
    number, found = in_order_of_appearance(numbers)
    names = found.tolist()
    rows = np.concatenate((np.arange(len(names)), number))
    before = [sums.get(name, 0.0) for name in names]
    sums.update(
        zip(names, np.bincount(rows, np.concatenate((before, values))).tolist(), strict=True)
    )


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
        self._busy, by_pool, by_place = tally.busy()
        self.costs.held(by_pool, by_place)

    def parts(self) -> Parts:
        """Return the parts of the run."""
        return _PartsOfTally(self._tally, self.costs, self.lengths[0])

    def _builder_times(self) -> BuilderTimes:
        return replace(super()._builder_times(), busy=[self._busy])

    def _attempts(self) -> list[int]:
        return [self._tally.attempts]

    def _fairness(self) -> list[float]:
        return [jain_index(self._tally.mean_stretches())]

    def _counts(self) -> list[JobCounts]:
        counts = Counter[str]()
        for of_place in self._tally.by_outcome().values():
            counts.update(of_place)
        return [JobCounts(submitted=self._tally.count, lost=0, **counts)]

    def _spreads(self) -> dict[str, list[Spread]]:
        return super()._spreads() | {name: [one] for name, one in self._tally.spreads.items()}


class _PartsOfTally(Parts):
    """The parts of such a run."""

    def __init__(self, tally: Tally, costs: Costs, length: float | None) -> None:
        self._tally = tally
        self._by_outcome = tally.by_outcome()
        ended = {place: sum(counts.values()) for place, counts in self._by_outcome.items()}
        super().__init__(costs, length, ended, Counter())

    def _jobs_of(self, places: Sequence[Place]) -> PartOfJobs:
        counts = Counter[str](dict.fromkeys(get_args(Outcome), 0))
        for place in places:
            counts.update(self._by_outcome[place])
        if places and len(self._by_outcome) == 1:
            of = self._tally.spreads
            return PartOfJobs(of["waiting_time"], of["response_time"], counts)
        waits, responses = [np.zeros(0)], [np.zeros(0)]
        for place in places:
            for found, times in zip((waits, responses), self._tally.times_at(place), strict=True):
                found.append(times)
        return PartOfJobs(
            spread_of(np.concatenate(waits)), spread_of(np.concatenate(responses)), counts
        )
