"""What is submitted, where people answer how jobs end: as far as it is known, by arrival.

A *run* is the jobs of a matrix, or a job that is in none. Its *verdict* is the end of the last of
them. Who answers it, and how, is in ``feedback``; both worlds say how jobs end, and submit what
follows when its time has come.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, groupby
from operator import attrgetter
from typing import Final, Protocol, TypeAlias

from farm.core.commands import EndJob
from farm.core.errors import RunError
from farm.core.model import Job, run_of
from farm.units import format_roughly

Batch: TypeAlias = tuple[float, tuple[Job, ...]]
"""An instant (farm time), and the jobs that are submitted at it."""

TRY: Final = ".try-"
"""Stands between the id of a job, or of a matrix, and the number of its repeat, from 2 on."""

MAX_AT_ONCE: Final = 100_000
"""Runs that may follow verdicts at one instant, where jobs end as soon as they come."""

_arrival = attrgetter("arrived_at")


class Run:
    """A run, and its repeats so far."""

    def __init__(self, name: str, source: int) -> None:
        self.name = name
        self.source = source
        #: its jobs as they were first submitted, by their ids then
        self.jobs: dict[str, Job] = {}
        #: number of the present try, 1 is the first
        self.tries = 1
        #: by the first id, how the jobs of the present try have ended, and which have not
        self.ended: dict[str, EndJob] = {}
        self.is_open: set[str] = set()


class SourcePeople(Protocol):
    """Those who answer the verdicts on the jobs of a source."""

    def verdict(self, run: Run, at: float) -> Batch | None:
        """Return what follows a verdict; None: nothing. A repeat has made one more try of it."""


class Submissions(Iterator[Batch]):
    """What is submitted, by arrival, as far as it is known: more follows from how jobs end.

    Args:
        jobs: those that come by themselves, by arrival.
        people: those of each source; None: there are none.
        source_of: the source of each of these jobs by its id, known once it is drawn.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        people: Sequence[SourcePeople | None],
        source_of: dict[str, int],
    ) -> None:
        self._by_themselves = groupby(jobs, key=_arrival)
        self._people = people
        self._source_of = source_of
        #: what follows, and what was put back: at, whether it follows, serial
        self._later: list[tuple[float, bool, int, tuple[Job, ...]]] = []
        self._serials = count()
        #: the last instant at which something follows, and how many runs do
        self._followed_at = -1.0
        self._followed = 0
        #: of runs without a verdict, by (source, name)
        self._runs: dict[tuple[int, str], Run] = {}
        #: by the id of a job that has not ended, its run and its id in the run's first try
        self._place_of: dict[str, tuple[Run, str]] = {}
        self._draw()

    def __next__(self) -> Batch:
        """Return the next batch that is known."""
        if not self._later:
            raise StopIteration
        at, follows, _, jobs = heapq.heappop(self._later)
        if not follows:
            self._draw()
        return at, jobs

    @property
    def next_at(self) -> float | None:
        """When the next batch that is known comes; None: none is."""
        return self._later[0][0] if self._later else None

    def put_back(self, batch: Batch) -> None:
        """Take back a batch that was not submitted: something may come before it now."""
        at, jobs = batch
        heapq.heappush(self._later, (at, True, -next(self._serials), jobs))

    def ended(self, end: EndJob) -> tuple[Job, ...]:
        """Learn how a job has ended; return the jobs that follow, which are among the next now."""
        run, name = self._place_of.pop(end.job.id, (None, ""))
        if run is None:
            return ()
        run.is_open.discard(name)
        run.ended[name] = end
        people = self._people[run.source]
        if run.is_open or people is None:
            return ()
        tries = run.tries
        follows = people.verdict(run, end.finished_at)
        if follows is None or run.tries == tries:
            del self._runs[run.source, run.name]
        if follows is None:
            return ()
        at, jobs = follows
        self._check_progress(at)
        heapq.heappush(self._later, (at, True, next(self._serials), jobs))
        if run.tries == tries:
            for job in jobs:
                self._note(job, run.source)
            return jobs
        run.ended = {}
        suffix = f"{TRY}{run.tries}"
        for job in jobs:
            first_id = job.id.removesuffix(suffix)
            run.is_open.add(first_id)
            self._place_of[job.id] = run, first_id
        return jobs

    def _check_progress(self, at: float) -> None:
        """Raise RunError if too much follows at one instant: time would not advance."""
        if at != self._followed_at:
            self._followed_at = at
            self._followed = 0
        self._followed += 1
        if self._followed > MAX_AT_ONCE:
            raise RunError(
                f"at {format_roughly(at)} {self._followed:,} runs followed verdicts at one "
                "instant, and time does not advance: give users and reruns a think_time above 0"
            )

    def _draw(self) -> None:
        """Draw the next jobs that come by themselves."""
        at, together = next(self._by_themselves, (0.0, iter(())))
        jobs = tuple(together)
        if not jobs:
            return
        for job in jobs:
            source = self._source_of.pop(job.id, None)
            if source is not None:
                self._note(job, source)
        heapq.heappush(self._later, (at or 0.0, False, next(self._serials), jobs))

    def _note(self, job: Job, source: int) -> None:
        """Remember a job of a run's first try until the verdict."""
        name = run_of(job)
        run = self._runs.setdefault((source, name), Run(name, source))
        run.jobs[job.id] = job
        run.is_open.add(job.id)
        self._place_of[job.id] = run, job.id


class FeedbackLoad:
    """Jobs by arrival, and what people submit once runs have ended; it can be begun many times.

    ``begin``: given the instant before which all is submitted, returns the submissions. Iterated
    over, it has the jobs that come by themselves.
    """

    def __init__(self, begin: Callable[[float], Submissions], until: float = math.inf) -> None:
        self._begin = begin
        self._until = until

    def begun(self) -> Submissions:
        """Return what is submitted, from the beginning."""
        return self._begin(self._until)

    def before(self, until: float) -> FeedbackLoad:
        """Return the same load, of which nothing is submitted at this instant or later."""
        return FeedbackLoad(self._begin, min(self._until, until))

    def __iter__(self) -> Iterator[Job]:
        return chain.from_iterable(jobs for _, jobs in self.begun())
