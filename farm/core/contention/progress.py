"""Contention: how jobs on one builder slow each other down, exactly and without a time step.

While ``k`` heavy jobs run on a builder, *every* job on it advances at 1/slowdown[k] (the page-16
model of the thesis on CI scheduling policies); the memory bus is a second resource with its own
load and table. All jobs of a builder share one rate, so one clock of work done per builder is
enough: a job ends when that clock reaches its reading at the start plus the job's work.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Hashable
from itertools import islice
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

import msgspec

from farm.core.contention.laws import NO_CONTENTION, ContentionLaw, Load
from farm.core.errors import InvariantError
from farm.core.simultaneity import latest_same

Token = TypeVar("Token", bound=Hashable)

#: of an end: its slot and its serial
_PLACE = itemgetter(1, 2)


class _Running(msgspec.Struct, Generic[Token], frozen=True):
    """A running job: its end, and its load."""

    #: the reading of the work clock at which it ends, its slot, its serial, its token
    end: tuple[float, int, int, Token]
    heavy: bool
    memory_heavy: bool
    threads: int


class Progress(Generic[Token]):
    """The jobs running on one builder, and when the next of them will finish.

    Times are farm seconds; work is seconds alone on a builder of speed 1. Each call carries the
    instant at which it happens; instants must not decrease, and an earlier one is taken as the
    latest seen. A job that is due must be stopped before later calls are made (``pop_due`` does
    that), because it slows the others until then.

    The clock is stored as an anchor (an instant and a reading) that moves only when the rate
    changes and starts from zero on an empty builder, so that rounding errors do not accumulate.
    """

    __slots__ = (
        "_clock",
        "_ends",
        "_last_at",
        "_law",
        "_load",
        "_rates",
        "_running",
        "_serial",
        "_speed",
    )

    def __init__(self, law: ContentionLaw = NO_CONTENTION, speed: float = 1.0) -> None:
        self._law = law
        self._speed = speed
        self._running: dict[Token, _Running[Token]] = {}
        #: of the running jobs, sorted
        self._ends: list[tuple[float, int, int, Token]] = []
        self._serial = 0
        self._last_at = -math.inf
        self._load = Load()
        self._rates: dict[Load, float] = {}
        self._clock = _WorkClock(0.0, self._rate_under(self._load))

    def __contains__(self, token: Token) -> bool:
        return token in self._running

    @property
    def slowdown(self) -> float:
        """The factor by which every job on the builder is slowed now."""
        return self._law.slowdown(self._load)

    def start(
        self,
        at: float,
        token: Token,
        work: float,
        *,
        heavy: bool = False,
        memory_heavy: bool = False,
        threads: int = 1,
        slot: int = 0,
    ) -> None:
        """Start a job of ``work`` seconds; simultaneous ends are ordered by slot, then by start.

        Simultaneous is also what differs only by rounding (``latest_same``).

        Raises InvariantError if the token is running already or the work is negative or not finite.
        """
        if token in self._running:
            raise InvariantError(f"{token!r} is running on this builder already")
        if not 0 <= work < math.inf:
            raise InvariantError(f"{token!r} has {work} seconds of work: must be finite, >= 0")
        at = self._seen(at)
        if not self._running:
            self._clock = _WorkClock(at, self._clock.rate)
        self._serial += 1
        threads = self._law.threads_of(threads, heavy=heavy)
        end = self._clock.read(at) + work, slot, self._serial, token
        job = self._running[token] = _Running(end, heavy, memory_heavy, threads)
        insort(self._ends, end)
        self._weigh(at, job, 1)

    def stop(self, at: float, token: Token) -> float:
        """Remove a job (finished or cancelled) and return its remaining work in seconds.

        Raises InvariantError if the token is not running.
        """
        at = self._seen(at)
        left = self.remaining(at, token)
        job = self._running.pop(token)
        del self._ends[bisect_left(self._ends, job.end)]
        self._weigh(at, job, -1)
        return left

    def remaining(self, at: float, token: Token) -> float:
        """Return the remaining work of a running job in seconds; never negative."""
        job = self._running.get(token)
        if job is None:
            raise InvariantError(f"{token!r} is not running on this builder")
        return max(0.0, job.end[0] - self._clock.read(max(at, self._last_at)))

    def next_finish(self) -> tuple[float, Token] | None:
        """Return which job ends next, and when if nothing changes before; None if nothing runs."""
        if not self._ends:
            return None
        when, first = self._clock.when, self._ends[0]
        at = when(first[0])
        latest = latest_same(at)
        for end in islice(self._ends, 1, None):
            if when(end[0]) > latest:
                break
            first = min(first, end, key=_PLACE)
        seen = self._last_at
        return (seen if at <= latest_same(seen) else at), first[3]

    def pop_due(self, at: float) -> tuple[float, Token] | None:
        """Stop the next job that is due by ``at``, at the instant it is due; None if none is.

        Called until it returns None, it gives all finishes in order, however late it is called.
        """
        finish = self.next_finish()
        if finish is None or finish[0] > latest_same(at):
            return None
        finish = min(at, finish[0]), finish[1]
        self.stop(*finish)
        return finish

    def _seen(self, at: float) -> float:
        self._last_at = max(at, self._last_at)
        return self._last_at

    def _weigh(self, at: float, job: _Running[Token], sign: int) -> None:
        """Add the job to the load, or remove it, and adjust the clock's rate."""
        load, memory_heavy = self._load, sign * job.memory_heavy
        heavy, threads = load.heavy + sign * job.heavy, load.threads + sign * job.threads
        self._load = Load(load.jobs + sign, heavy, load.memory_heavy + memory_heavy, threads)
        rate = self._rate_under(self._load)
        if rate != self._clock.rate:
            self._clock = _WorkClock(at, rate, self._clock.read(at))

    def _rate_under(self, load: Load) -> float:
        rate = self._rates.get(load)
        if rate is None:
            rate = self._rates[load] = self._speed / self._law.slowdown(load)
        return rate


class _WorkClock(NamedTuple):
    """The work that each job on the builder has done since some instant, at the current rate."""

    at: float
    rate: float
    work: float = 0.0

    def read(self, at: float) -> float:
        return self.work + (at - self.at) * self.rate

    def when(self, work: float) -> float:
        return self.at + (work - self.work) / self.rate
