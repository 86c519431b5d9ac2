"""One try at running a job, as the system that ran it recorded it; and of many, as columns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from farm.columns import Coded, Floats, Rows
from farm.core.fields import json_name

T = TypeVar("T")
K = TypeVar("K")
_LEVEL = re.compile(r"-?[0-9]{1,9}")
Result = Literal["succeeded", "failed", "cancelled", "lost", "open"]
"""How an attempt ended: by itself, well or not; cancelled; with its runner, or for another reason
of the farm's own; or not by the time the records were made."""


class Attempt(msgspec.Struct, kw_only=True, gc=False, omit_defaults=True, rename=json_name):
    """An attempt; instants are seconds since 1970, UTC, and None where the source has none.

    Its wait is what lies between the instants at which it could start and did: what a farm's
    queue is responsible for. A wait without a start is censored: it was at least as long.
    """

    #: unique in its source
    id: str
    submitted_at: float
    #: from when it only waited for a runner; None: the source does not have it
    eligible_at: float | None
    started_at: float | None = None
    finished_at: float | None = None
    result: Result
    #: the job whose attempts belong together; empty: it had this one
    job: str = ""
    attempt: int = 1
    #: the machine, or registration, that ran it
    runner: str = ""
    #: how long before this start the runner was requested, seconds; None: it is not known
    runner_age: float | None = None
    #: that it took at once; also a part of one
    slots: int | float = 1
    #: the labels that a runner must have
    platform: str = ""
    #: the job's name, which repeats from run to run
    kind: str = ""
    #: what was released together: a run, pipeline or build
    matrix: str = ""
    user: str = ""
    attributes: dict[str, str] = {}
    #: on runners that the system's vendor has without limit
    hosted: bool = False
    #: ids of attempts that released it, each with its condition as in ``Job.needs``
    needs: tuple[str, ...] = ()
    #: how long after the end of the last of these it came, seconds; None: as the instants say
    needs_delay: float | None = None
    #: whether its system says what it needs: nothing, where ``needs`` is empty
    needs_known: bool = False
    #: its concurrency group, and how that goes about it, as in ``Job.group``
    group: str = ""
    #: how long it waited for its place in that before it could start, seconds
    group_wait: float = 0.0

    @property
    def arrived_at(self) -> float:
        """When it could start, or was submitted if that is not known."""
        return self.submitted_at if self.eligible_at is None else self.eligible_at

    @property
    def traits(self) -> dict[str, str]:
        """What a farm may order jobs by: the attributes, and the user if there is one."""
        return {**({"user": self.user} if self.user else {}), **self.attributes}

    @property
    def level(self) -> int:
        """The static priority level, by a column of that name: a higher one goes first."""
        text = self.attributes.get("level", "0")
        return int(text) if _LEVEL.fullmatch(text) else 0

    @property
    def waited(self) -> float | None:
        """The wait, seconds; None: it did not start, or since when it waited is not known."""
        if self.eligible_at is None or self.started_at is None:
            return None
        return self.started_at - self.eligible_at

    @property
    def ran(self) -> float | None:
        """How long it held its slot, seconds; None: it did not start, or did not end."""
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at

    def moved(self, by: float) -> Attempt:
        """Return it with all its instants later by this, seconds."""
        names = ("submitted_at", "eligible_at", "started_at", "finished_at")
        known = ((name, getattr(self, name)) for name in names)
        return replace(self, **{name: at + by for name, at in known if at is not None})


class Happened(NamedTuple):
    """What really happened to each job, by the file's own clock; nan: it is not known.

    The scheduler never sees it; it is for results, beside what was simulated.
    """

    #: start - arrival, seconds; below 0 if the source's clocks differ
    waited: Floats
    #: end - start, seconds
    ran: Floats
    #: empty, or None for all: not known
    runners: Coded | None = None
    #: ``Result``; None for all: not known
    results: Coded | None = None
    #: from the arrival until it could start, seconds, where others released some; None: at once
    blocked: Floats | None = None

    @classmethod
    def between(
        cls,
        arrived: Floats,
        started: Floats,
        finished: Floats,
        runners: Coded | None = None,
        results: Coded | None = None,
    ) -> Happened | None:
        """Return what follows from these instants; None: no start is known."""
        if np.isnan(started).all():
            return None
        return cls(started - arrived, finished - started, runners, results)

    @classmethod
    def of(cls, attempts: Sequence[Attempt]) -> Happened:
        """Return what these attempts tell."""
        eligible, started, finished = (
            times_of(attempts, name) for name in ("eligible_at", "started_at", "finished_at")
        )
        runners, results = (
            Coded.of(list(map(attrgetter(name), attempts))) for name in ("runner", "result")
        )
        return cls(started - eligible, finished - started, runners, results)

    def taken(self, order: Rows) -> Happened:
        """Return what happened to the jobs at these positions, in this order."""
        runners, results = (one and one[order] for one in (self.runners, self.results))
        blocked = None if self.blocked is None else self.blocked[order]
        return Happened(self.waited[order], self.ran[order], runners, results, blocked)

    @classmethod
    def joined(cls, parts: Sequence[Happened]) -> Happened:
        """Return what happened to the jobs of all these, one after the other."""
        if len(parts) == 1:
            return parts[0]

        def texts(name: str) -> Coded:
            columns = [getattr(one, name) or Coded.same("", len(one.ran)) for one in parts]
            return Coded.of([text for column in columns for text in column.tolist()])

        waited = np.concatenate([one.waited for one in parts])
        ran = np.concatenate([one.ran for one in parts])
        blocked = None
        if any(one.blocked is not None for one in parts):
            blocked = np.concatenate(
                [np.zeros(len(one.ran)) if one.blocked is None else one.blocked for one in parts]
            )
        return cls(waited, ran, texts("runners"), texts("results"), blocked)


def grouped(values: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the values that have a key in common, by key, in their order."""
    found: dict[K, list[T]] = defaultdict(list)
    for one in values:
        found[key(one)].append(one)
    return found


def by_word(words: Mapping[T, str]) -> dict[str, T]:
    """Return what each word means, of texts of words for one meaning."""
    return {word: meaning for meaning, text in words.items() for word in text.split()}


def times_of(attempts: Sequence[Attempt], name: str) -> Floats:
    """Return a field of attempts as numbers; nan: there is none."""
    return np.array(list(map(attrgetter(name), attempts)), np.float64)
