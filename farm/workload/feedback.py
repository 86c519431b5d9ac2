"""What people submit because runs have ended: repeats of what failed, and users' next pushes.

A *run* is the jobs of a matrix, or a job that is in none. Its *verdict* is the end of the last of
them. A source with ``reruns`` has people who repeat failed runs after a think time; one with
``users`` has a number of users, each of whom pushes again after a think time once the verdict of
the last push, and of its repeats, is there. Without either, arrivals do not depend on the farm.

All draws are keyed by the user and by the run, not by when they are made: on two farms with one
seed the n-th push of a user has the same jobs and the same think time, in whatever order jobs end.
How many pushes each of them makes may differ: a faster farm gives more verdicts before the horizon,
and a ``count`` is of all users together, whose pushes take from it in the order in which they come.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import count, groupby
from operator import attrgetter
from random import Random
from typing import Final

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.jobs.needs import Ended, need_of, needs_of, why_skipped
from farm.core.model import Cause, Job, Platform, run_of
from farm.scenario.distributions import Quantile
from farm.scenario.people import People
from farm.scenario.times_of_week import Period
from farm.scenario.traits import Traits
from farm.scenario.workload import Arrivals, Matrices
from farm.workload import generators
from farm.workload.blocks import JobColumns
from farm.workload.drawn_traits import Streams, source_streams
from farm.workload.streams import stream
from farm.workload.submissions import TRY, Batch, Run

PUSHES_AT_ONCE: Final = 8
"""Pushes of a user that are drawn together; most users of a short run make no more."""
_arrival = attrgetter("arrived_at")
_NOT_REPEATED = frozenset({Cause.SUPERSEDED, Cause.STOPPED, Cause.REQUESTED})
"""Runs with such an end are not repeated: a newer one came, or it is not wanted any more."""


class Thinking:
    """When what people submit comes after a verdict: think times pass only while they are there."""

    def __init__(self, people: People, starts: float) -> None:
        self._quantile: Quantile = people.think_time.quantile_function()
        self._presence: Period = people.presence
        self._starts = starts

    def ends_at(self, verdict_at: float, number: float) -> float:
        """Return when they have thought, by a random number from 0 to 1."""
        left = self._quantile(number)
        if self._presence.minutes is None:
            return verdict_at + left
        at = verdict_at
        while math.isfinite(at):
            until = self._presence.changes_after(at, self._starts)
            if self._presence.holds_at(at, self._starts):
                if at + left < until:
                    return at + left
                left -= until - at
            at = until
        return math.inf


class _User:
    """A user: the pushes that come, and the think times between them."""

    def __init__(
        self,
        options: Arrivals | Matrices,
        name: str,
        thinking: Thinking,
        prefix: str,
        platform: Platform | None,
        streams: Streams,
    ) -> None:
        self._name = name
        self._thinking = thinking
        self._numbers = streams("think_time")
        own = f"{prefix}-{name}"
        serials = _serials()
        if isinstance(options, Matrices):
            blocks = generators.matrices(options, own, platform, streams, math.inf, serials)
        else:
            blocks = generators.arrivals(options, own, platform, streams, math.inf, serials)
        self._pushes = groupby(JobColumns(blocks), key=_arrival)

    def next_at(self, at: float) -> float:
        """Return when the next push comes, if the user begins to think now."""
        return self._thinking.ends_at(at, self._numbers.random())

    def push(self, at: float) -> tuple[Job, ...]:
        """Return the jobs of the next push, which comes at this instant."""
        _, jobs = next(self._pushes)
        return tuple(
            msgspec.structs.replace(
                job, arrived_at=at, attributes={"user": self._name, **job.attributes}
            )
            for job in jobs
        )


def _serials() -> Iterator[Floats]:
    """Yield numbers in the place of the instants of a user's pushes, which are not known yet."""
    for first in count(0, PUSHES_AT_ONCE):
        yield np.arange(first, first + PUSHES_AT_ONCE, dtype=np.float64)


class SourceFeedback:
    """The people of one source.

    Args:
        options: the source's; only generated jobs have users.
        seed: of the scenario.
        name: of the source, or its place: what its random streams hang on.
        starts: seconds since Monday 00:00 at farm time 0.
        horizon: nothing is submitted at or after it.
        prefix: of the ids of users' jobs.
        platform: of those without one.
    """

    def __init__(
        self,
        options: Traits,
        *,
        seed: int,
        name: str | int,
        starts: float,
        horizon: float,
        prefix: str,
        platform: Platform | None,
    ) -> None:
        self._seed = seed
        self._name = name
        self._end = horizon
        self._reruns = options.reruns
        self._thinking = None if options.reruns is None else Thinking(options.reruns, starts)
        self._users: Sequence[_User] = ()
        #: which of them pushed a run that has no verdict yet, by its name
        self._user_of: dict[str, int] = {}
        #: pushes that may still be made
        self._left: float = math.inf
        self._start = 0.0
        if not isinstance(options, Arrivals | Matrices) or options.users is None:
            return
        if options.duration is not None:
            self._end = min(horizon, options.start + options.duration)
        self._left = options.count or math.inf
        self._start = options.start
        thinking = Thinking(options.users, starts)
        width = len(str(options.users.count))
        self._users = [
            _User(
                options,
                f"u{number:0{width}d}",
                thinking,
                prefix,
                platform,
                source_streams(seed, f"{name}: user {number}"),
            )
            for number in range(1, options.users.count + 1)
        ]

    def first_pushes(self) -> Iterator[Job]:
        """Yield the jobs of each user's first push, by arrival."""
        instants = [user.next_at(self._start) for user in self._users]
        for place in sorted(range(len(instants)), key=instants.__getitem__):
            push = self._push(place, instants[place])
            yield from () if push is None else push[1]

    def verdict(self, run: Run, at: float) -> Batch | None:
        """Return what follows a verdict: a repeat, or the user's next push; None: nothing.

        A repeat belongs to the run, which has one more try then.
        """
        repeat = self._repeat(run, at)
        if repeat is not None:
            run.tries += 1
            return repeat if repeat[0] < self._end else None
        place = self._user_of.pop(run.name, None)
        if place is None:
            return None
        return self._push(place, self._users[place].next_at(at))

    def _push(self, place: int, at: float) -> Batch | None:
        """Return what a user pushes; None: that would be too late, or one push too many."""
        if self._left <= 0 or not at < self._end:
            return None
        self._left -= 1
        jobs = self._users[place].push(at)
        self._user_of[run_of(jobs[0])] = place
        return at, jobs

    def _repeat(self, run: Run, at: float) -> Batch | None:
        """Return the repeat of a run that failed; None: it did not, or people let it be."""
        rule, ends = self._reruns, run.ended.values()
        if rule is None or self._thinking is None or run.tries > rule.at_most:
            return None
        if all(end.outcome != "failed" for end in ends):
            return None
        if any(end.cause in _NOT_REPEATED for end in ends):
            return None
        numbers = self._stream(run, run.tries)
        if numbers.random() >= rule.probability:
            return None
        repeat_at = self._thinking.ends_at(at, numbers.random())
        # drawn for all jobs, so that it does not depend on which of them are repeated
        passes = {name: numbers.random() < rule.passes for name in run.jobs}
        for_flaky = self._stream(run, 0)
        flaky = {name: for_flaky.random() < rule.flaky for name in run.jobs}
        repeated = dict.fromkeys(run.jobs) if rule.what == "run" else _come_back(run)
        suffix = f"{TRY}{run.tries + 1}"
        return repeat_at, tuple(
            msgspec.structs.replace(
                job,
                id=f"{name}{suffix}",
                matrix=job.matrix and f"{job.matrix}{suffix}",
                arrived_at=repeat_at,
                needs=_needs_within(job, repeated, suffix),
                fails=job.fails and not (flaky[name] and passes[name]),
            )
            for name, job in run.jobs.items()
            if name in repeated
        )

    def _stream(self, run: Run, number: int) -> Random:
        return stream(self._seed, "workload", self._name, "reruns", run.name, number)


def _come_back(run: Run) -> Collection[str]:
    """Return the jobs that are repeated with those that failed: what these kept from running.

    A skipped job comes back only if a repeated one can still release it.
    """
    back: dict[str, None] = {}
    for name, end in run.ended.items():
        if end.outcome == "failed" or end.cause is Cause.FAIL_FAST:
            back[name] = None
    skipped = [name for name, end in run.ended.items() if end.cause is Cause.SKIPPED]
    is_more = True
    while is_more:
        is_more = False
        for name in skipped:
            if name not in back and _can_be_released(run, name, back):
                back[name] = None
                is_more = True
    return back


def _can_be_released(run: Run, name: str, repeated: Collection[str]) -> bool:
    """Return whether a skipped job may run once these are repeated, by the rule of ``needs.py``.

    The ends of those that are not repeated stay: what one of them keeps from running stays skipped.
    """
    needs = needs_of(run.jobs[name])
    unmet = [need.job for need in needs if need.job in repeated]
    ended = {
        need.job: Ended.of(run.ended[need.job].outcome)
        for need in needs
        if need.job in run.ended and need.job not in repeated
    }
    # no need for a failure is met by what stays: whatever failed is repeated
    return bool(unmet) and not why_skipped(needs, ended, unmet, failure_met=False)


def _needs_within(job: Job, repeated: Collection[str], suffix: str) -> tuple[str, ...]:
    """Return a job's needs among those that are repeated with it; the others are met."""
    return tuple(
        f"{need.job}{suffix}{text[len(need.job) :]}"
        for text in job.needs
        for need in [need_of(text)]
        if need.job in repeated
    )
