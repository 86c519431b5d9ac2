"""The columns of a run's jobs: the one list of them, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar, get_args

import msgspec
import numpy as np

from farm.columns import (
    Coded,
    Flags,
    Floats,
    Numbers,
    as_they_are,
    coded,
    filled,
    floats,
    in_order_of_appearance,
    integers,
    numbered,
    one_of,
    presence,
    texts,
)
from farm.core.fields import json_name
from farm.core.model import Cause, Job, Outcome
from farm.records.attempt import Happened
from farm.results.table.columnar_table import Column, Table, public

A = TypeVar("A", Floats, Coded)

OUTCOMES = (*get_args(Outcome), "lost")
CAUSES = tuple(Cause)


def attributed(values: Iterable[Mapping[str, str]]) -> Coded:
    """Return a column of jobs' attributes; an empty value is none."""
    numbers, found = numbered(tuple(value.items()) or None for value in values)
    return Coded(numbers, list(map(dict, found)))


def by_outcome(counts: Numbers) -> dict[str, int]:
    """Return the numbers of jobs that ended, by outcome."""
    return dict(zip(get_args(Outcome), counts.tolist(), strict=False))


def invocation_of(attributes: Mapping[str, str], fair_share: Sequence[str]) -> str:
    """Return the invocation to which jobs with these attributes are charged.

    It is their fair-share path, or their team and user if there is none.
    """
    if not attributes:
        return ""
    keys = fair_share or ("team", "user")
    return "/".join([attributes[key] for key in keys if key in attributes])


class RecordedColumns(NamedTuple):
    """What is known of what really happened to jobs; the last row is of those that no trace has."""

    waited: Floats | None = None
    ran: Floats | None = None
    builder: Coded | None = None
    outcome: Coded | None = None
    #: from the arrival until it could start
    blocked: Floats | None = None

    @classmethod
    def of(cls, found: Happened) -> RecordedColumns:
        """Return what traces say."""
        waited, ran = (
            None if np.isnan(times).all() else np.append(times, np.nan)
            for times in (found.waited, found.ran)
        )
        blocked = None if found.blocked is None else np.append(found.blocked, np.nan)
        runners, results = _known(found.runners, ""), _known(found.results, "open")
        return cls(waited, ran, runners, results, blocked)


def _known(column: Coded | None, unknown: str) -> Coded | None:
    if column is None:
        return None
    numbers, names = numbered(one if one not in ("", unknown) else None for one in column.values)
    found = np.append(numbers[column.codes], -1)
    return Coded(found, names) if (found >= 0).any() else None


class Edges(NamedTuple):
    """Which jobs need which others, by their rows; those of a job stand together, in order."""

    dependent: Numbers
    need: Numbers


def _nowhere(values: Iterable[object]) -> Numbers:
    return integers(None for _ in values)


class Jobs(Table):
    """Jobs, each a row; an instant that was never reached is NaN.

    The public columns are in the order of jobs.csv, with the unit in their names there. The records
    that they are made of are ``EndJob``.
    """

    #: the attributes whose values, joined by ``/``, are the invocation
    fair_share: Sequence[str] = ()
    #: the first dispatch estimate of each job (the instant, or None)
    estimates: Mapping[str, float | None] = {}
    #: what really happened to jobs of traces
    recorded: RecordedColumns = RecordedColumns()
    #: whether any job of the run needs others, or is in a concurrency group
    has_needs: bool = False
    #: ``Builders.booting_times`` of the run's builders
    booting_times: Callable[[Numbers, Floats, Floats], Floats] | None = None

    job_id = Column(texts, "job.id", public=True)
    matrix = Column(coded, "job.matrix", public=True)

    @public
    def invocation(self) -> Coded:
        """Whom a job is charged to."""
        found = [invocation_of(one, self.fair_share) for one in self.attributes.values]
        return Coded(self.attributes.codes, found)

    platform = Column(coded, "job.platform", public=True)
    kind = Column(texts, "job.kind", public=True)
    submitted_at = Column(floats, "submitted_at", public=True)
    dispatched_at = Column(floats, "dispatched_at", public=True)
    started_at = Column(floats, "started_at", public=True)
    finished_at = Column(floats, "finished_at", public=True)
    outcome = Column(one_of(OUTCOMES), "outcome", public=True)
    attempts = Column(integers, "attempts", public=True)
    builder = Column(coded, "builder", public=True)

    @public
    def waiting_time(self) -> Floats:
        """Start - release, NaN for jobs that never started; a job may join a running execution."""
        waits: Floats = self.started_at - self.waits_since
        return np.maximum(0.0, waits)

    @public
    def service_time(self) -> Floats:
        """Finish - start; a start without a builder is that of a void attempt."""
        times: Floats = self.finished_at - self.started_at
        return np.where(self.builder.codes < 0, np.nan, times)

    @public
    def response_time(self) -> Floats:
        """Finish - arrival."""
        return self.finished_at - self.arrived_at

    @public
    def stretch(self) -> Floats:
        """Response time ÷ service time alone."""
        return self.response_time / np.where(self.work > 0, self.work, np.nan)

    declared_time = Column(floats, "job.declared_time", public=True)

    @public
    def estimated_dispatch_at(self) -> Floats:
        """The first estimate, which was given at submission."""
        if not self.estimates:
            return np.full(len(self), np.nan)
        return floats(map(self.estimates.get, self.job_id))

    # of runs with jobs that need others

    @public
    def released_at(self) -> Floats | None:
        """When it might first be dispatched: its arrival, or when nothing blocked it any more."""
        if not self.has_needs:
            return None
        return np.where(self.may_be_blocked, self.release, self.arrived_at)

    @public
    def blocked_time(self) -> Floats | None:
        """Release - arrival; of a job that was never released, end - arrival."""
        if self.released_at is None:
            return None
        until = np.where(np.isnan(self.released_at), self.finished_at, self.released_at)
        return np.maximum(0.0, until - self.arrived_at)

    @public
    def booting_time(self) -> Floats | None:
        """How much of the waiting time the builder that ran it was booting; NaN: it never ran."""
        if not self.has_needs:
            return None
        if self.booting_times is None:
            return np.full(len(self), np.nan)
        return self.booting_times(self.builder.codes, self.waits_since, self.dispatched_at)

    @public
    def needs(self) -> Coded | None:
        """The jobs that it needs, as tables have them: ``build;test:ended``."""
        if not self.has_needs:
            return None
        needed = self.needed.occurring()  # a piece of a long table has few of the values
        return needed.with_values([";".join(needs) for needs in needed.values])

    @public
    def cause_of_end(self) -> Coded | None:
        """Why it ended; no value: it has not."""
        if not self.has_needs:
            return None
        codes = np.where(self.outcome.where("lost"), -1, self.cause.codes)
        return Coded(codes, [cause.value for cause in CAUSES])

    # of traces that know it: what really happened, from the arrival on

    @public
    def recorded_started_at(self) -> Floats | None:
        """The start that was recorded."""
        return None if self.waited is None else self.could_start_at + self.waited

    @public
    def recorded_finished_at(self) -> Floats | None:
        """The end that was recorded."""
        ran = self._of_each(self.recorded.ran)
        if ran is None or self.waited is None:
            return None
        return self.could_start_at + self.waited + ran

    @cached_property
    def could_start_at(self) -> Floats:
        """When each could start as it was recorded: later than it arrived if others released it."""
        blocked = self._of_each(self.recorded.blocked)
        return self.arrived_at if blocked is None else self.arrived_at + blocked

    @public
    def recorded_waiting_time(self) -> Floats | None:
        """Recorded start - arrival."""
        return None if self.waited is None else np.maximum(0.0, self.waited)

    @public
    def recorded_builder(self) -> Coded | None:
        """The builder that was recorded."""
        return self._of_each(self.recorded.builder)

    @public
    def recorded_outcome(self) -> Coded | None:
        """The outcome that was recorded."""
        return self._of_each(self.recorded.outcome)

    @cached_property
    def waited(self) -> Floats | None:
        """Recorded start - arrival, below 0 if the source's clocks differ."""
        return self._of_each(self.recorded.waited)

    def _of_each(self, known: A | None) -> A | None:
        return None if known is None else known[self.recorded_row]

    #: the row of each job in what was recorded; -1: it is not there
    recorded_row = Column(_nowhere, "job.id")
    #: service time alone on a builder of speed 1
    work = Column(floats, "job.service_time")
    intended_at = Column(floats, "job.arrived_at")
    cause = Column(one_of(CAUSES), "cause")
    slot = Column(integers, "slot")
    #: served by another job's execution
    shared = Column(presence, "served_by")
    attributes = Column(attributed, "job.attributes")
    #: which jobs need others, and when jobs were released that were blocked
    needs_others = Column(filled, "job.needs")
    in_group = Column(presence, "job.group")
    needed = Column(coded, "job.needs")
    release = Column(floats, "released_at")

    @cached_property
    def may_be_blocked(self) -> Flags:
        """Which jobs need others, or were held back by their group, maybe to their end."""
        flags: Flags = self.needs_others | ~np.isnan(self.release)
        flags |= self.in_group & np.isnan(self.dispatched_at)
        return flags

    @cached_property
    def arrived_at(self) -> Floats:
        """The intended arrival, or the submission if there is none."""
        return np.where(np.isnan(self.intended_at), self.submitted_at, self.intended_at)

    @cached_property
    def waits_since(self) -> Floats:
        """From when waiting times count: the release; NaN: there was none."""
        return self.arrived_at if self.released_at is None else self.released_at

    @cached_property
    def served(self) -> Flags:
        """Which jobs succeeded or failed: a cancelled job was not served."""
        return ~self.outcome.where("cancelled")

    @cached_property
    def has_stretch(self) -> Flags:
        """Which jobs have a stretch that counts: those that were served and took time."""
        return self.served & (self.work > 0)

    def outcomes(self, of: Numbers, count: int) -> Numbers:
        """Return how many jobs of each number, below ``count``, ended with each outcome."""
        codes = of * len(OUTCOMES) + self.outcome.codes
        counted = np.bincount(codes, minlength=count * len(OUTCOMES))
        return counted.reshape(-1, len(OUTCOMES))

    def started(self, by: float = np.inf) -> Flags:
        """Return which jobs started, and ended by an instant."""
        return ~np.isnan(self.started_at) & (self.finished_at <= by)

    def waits(self) -> Floats:
        """Return the waiting times of the jobs that started."""
        return self.waiting_time[self.started()]

    def responses(self) -> Floats:
        """Return the response times of the jobs that were served."""
        return self.response_time[self.served]

    def stretches(self) -> Floats:
        """Return the stretches that count."""
        return self.stretch[self.has_stretch]

    def matrix_response_times(self, unfinished: Collection[str | None] = ()) -> Floats:
        """Return last end - first arrival of each finished matrix, in order of first end.

        One of which a newer run cancelled jobs is left out: it would look fast.
        """
        some, matrix, names, released = self._matrices()
        finished = np.full(len(names), -np.inf)
        np.maximum.at(finished, matrix, self.finished_at[some])
        whole = np.array([name not in unfinished for name in names], np.bool_)
        whole[matrix[self.cause.where(Cause.SUPERSEDED)[some]]] = False
        return (finished - released)[whole]

    def superseded_matrices(self) -> int:
        """Return the number of matrices of which a newer run cancelled jobs."""
        matrices = np.unique(self.matrix.codes[self.cause.where(Cause.SUPERSEDED)])
        return int((matrices >= 0).sum())

    def names_of_matrices(self) -> set[str]:
        """Return the names of the matrices that these jobs belong to."""
        return {self.matrix.values[place] for place in set(self.matrix.codes.tolist()) - {-1}}

    def times_to_first_failure(self) -> Floats:
        """Return first failure - first arrival of each matrix that had a failure; seconds."""
        some, matrix, names, released = self._matrices()
        failed = np.full(len(names), np.inf)
        fails = self.outcome.where("failed")[some]
        np.minimum.at(failed, matrix[fails], self.finished_at[some][fails])
        there = failed < np.inf
        return (failed - released)[there]

    def _matrices(self) -> tuple[Flags, Numbers, list[str], Floats]:
        """Return which jobs have a matrix, its number in order of first end; names and releases."""
        some = self.matrix.codes >= 0
        number, order = in_order_of_appearance(self.matrix.codes[some])
        released = np.full(len(order), np.inf)
        np.minimum.at(released, number, self.arrived_at[some])
        return some, number, [self.matrix.values[place] for place in order.tolist()], released


MARKED = {
    json_name(field.name): field.name
    for field in msgspec.structs.fields(Job)
    if any((mark.extra or {}).get("jobs_csv") for mark in getattr(field.type, "__metadata__", ()))
}
"""The fields of a job that are marked as a ``Column`` (``farm.core.model``), by their columns."""

for _name in MARKED.values():
    Jobs.add(_name, Column(as_they_are, f"job.{_name}", public=True))

NAMES_IN_FILES = {"cause_of_end": "cause"}
"""Names of public columns in files, where these are not the columns' own with their units."""

PUBLIC = [name for name, column in Jobs.columns.items() if getattr(column, "public", False)]
"""The columns of files, in their order there; a table may be without some (``public``)."""
