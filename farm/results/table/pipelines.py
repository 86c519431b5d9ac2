"""The pipelines of a run: what the response times of jobs that are connected by needs consist of.

A *pipeline* is all jobs that are connected by needs, together with all of their matrices. Its
response time is from the arrival of its first job to the end of its last.

The *critical path* is the chain of jobs that determined the response time. It is followed back from
the job that ended last, by what really happened: a job that was blocked was released by that one of
its needs which ended last. It begins with a job that nothing else released. Of each job on it there
are three parts, which add up to the response time:

* *blocked*: from the end of the job before it to its release: by its delay, by its group, or as it
  arrived only then. Of the first job, from the pipeline's arrival.
* *waiting*: from the release to the start of its last attempt; of this *booting*: while the builder
  that ran it was booting.
* *running*: from that start to its end.

Everything is taken from the table of jobs, so that the runs of both worlds and engines, and those
that are read back, are treated alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from farm.columns import Array, Coded, Flags, Floats, Numbers
from farm.core.jobs.needs import need_of
from farm.results.table.job_columns import Edges
from farm.results.table.job_table import ColumnTable, JobTable

PipelineOutcome = Literal["succeeded", "failed", "cancelled", "superseded", "unfinished"]
OUTCOMES: Final[Sequence[PipelineOutcome]] = get_args(PipelineOutcome)
"""The last of these that applies. ``unfinished``: a job never ended, or no builder could run it.
``superseded``: a newer run cancelled a job. ``cancelled``: a job was cancelled otherwise.
``failed``: a job failed."""
ENDED = ("succeeded", "failed")
"""Outcomes of pipelines that came to their end, whose times count."""

CONSEQUENCES = ("skipped", "fail-fast", "superseded")
"""Causes of cancelled jobs that do not make their pipeline a cancelled one."""
ROUNDING = 1e-6
"""Instants no farther apart than this are the same, seconds: arrivals are computed from spans."""


class PipelineTable(ColumnTable):
    """The pipelines of a run, one row each, by their arrival.

    ``pipeline`` is the name of its matrix, or else the id of its first job; ``critical_path`` the
    ids of the jobs on it (``path_jobs``: how many). ``response_time_s`` is the sum of
    ``blocked_time_s``, ``waiting_time_s`` and ``running_time_s``, and ``booting_time_s`` is a part
    of the waiting time.

    >>> pipelines = farm.simulate("github-workflow").pipelines()
    >>> len(pipelines), sorted(set(pipelines["outcome"].tolist()))
    (200, ['failed', 'succeeded'])
    """

    rows_are = "pipelines"

    def __repr__(self) -> str:
        return f"<farm.PipelineTable: {len(self):,} pipelines, columns {', '.join(self.columns)}>"

    @property
    def has_ended(self) -> Flags:
        """Which pipelines came to their end, so that their times count."""
        return np.isin(self["outcome"], ENDED)

    def counted(self, column: str) -> Floats:
        """Return a column of numbers, NaN for the pipelines whose times do not count."""
        return np.where(self.has_ended, self[column], np.nan)

    def taken(self, rows: Array) -> PipelineTable:
        """Return the table of some rows, by flags or by numbers."""
        return PipelineTable({name: column[rows] for name, column in self._columns.items()})


class MeasuredPipelines(NamedTuple):
    """Pipelines in numbers, by their arrival: how many jobs, when, and what took their times."""

    #: the first row of each among the jobs
    firsts: Numbers
    outcome: Array
    jobs: Numbers
    skipped: Numbers
    arrived_at: Floats
    finished_at: Floats
    #: by the names of the columns
    parts: dict[str, Floats]
    #: the rows on the critical paths, one path after the other, and how many each has
    path: Numbers
    path_jobs: Numbers

    @property
    def response_time(self) -> Floats:
        """From the arrival to the end, seconds; NaN: it has not ended."""
        return self.finished_at - self.arrived_at

    @property
    def has_ended(self) -> Flags:
        """Which pipelines came to their end, so that their times count."""
        return np.isin(self.outcome, ENDED)

    def table(self, jobs: JobTable) -> PipelineTable:
        """Return the table for users, with names."""
        ids = jobs.parts("job_id")
        matrix = _matrices(jobs)
        firsts = matrix.codes[self.firsts].tolist()
        names = [matrix.values[code] if code >= 0 else "" for code in firsts]
        first_ids = _values_at(ids, self.firsts)
        path_ids = _values_at(ids, self.path)
        ends = np.cumsum(self.path_jobs)
        paths = [
            ";".join(path_ids[begin:end])
            for begin, end in zip((ends - self.path_jobs).tolist(), ends.tolist(), strict=True)
        ]
        return PipelineTable(
            {
                "pipeline": _texts(map(_or, names, first_ids)),
                "outcome": self.outcome,
                "jobs": self.jobs,
                "skipped": self.skipped,
                "arrived_at_s": self.arrived_at,
                "finished_at_s": self.finished_at,
                "response_time_s": self.response_time,
                **self.parts,
                "path_jobs": self.path_jobs,
                "critical_path": _texts(paths),
            }
        )


def pipelines_of(jobs: JobTable) -> PipelineTable:
    """Return the pipelines of a run; none if no job needs another."""
    return measured_pipelines(jobs).table(jobs)


def measured_pipelines(jobs: JobTable, edges: Edges | None = None) -> MeasuredPipelines:
    """Return the pipelines of a run without their names, which take as long as all the rest.

    ``edges``: the jobs' needs, where these are known by rows; None: they are read from the table.
    """
    if edges is None:
        edges = _edges_of(jobs)
    if not len(edges.need):
        return NONE
    matrix = _matrices(jobs)
    roots = _components(len(jobs), edges, matrix.codes)
    is_pipeline = np.zeros(len(jobs), np.bool_)
    is_pipeline[roots[edges.need]] = True
    rows = np.flatnonzero(is_pipeline[roots])
    # a pipeline's first row is its root
    firsts = np.flatnonzero(is_pipeline)
    number = np.zeros(len(jobs), np.int64)
    arrived_at = np.full(len(jobs), np.inf)
    np.minimum.at(arrived_at, roots[rows], jobs.arrived_at[rows])
    firsts = firsts[np.argsort(arrived_at[firsts], kind="stable")]
    number[firsts] = np.arange(len(firsts))
    return _measured(jobs, edges, rows, number[roots[rows]], firsts, arrived_at[firsts])


def _measured(
    jobs: JobTable,
    edges: Edges,
    rows: Numbers,
    pipeline: Numbers,
    firsts: Numbers,
    arrived_at: Floats,
) -> MeasuredPipelines:
    """Return pipelines in numbers.

    Args:
        jobs: all of the run.
        edges: their needs.
        rows: the jobs that belong to pipelines.
        pipeline: the number of the pipeline of each of these.
        firsts: the first row of each pipeline.
        arrived_at: when each pipeline arrived, farm time.
    """
    count = len(firsts)
    ended_at = jobs["finished_at_s"]
    finished_at = np.full(count, -np.inf)
    np.maximum.at(finished_at, pipeline, ended_at[rows])  # NaN: of one that has not ended
    has_started = ~np.isnan(jobs["started_at_s"][rows])
    is_last = ended_at[rows] == finished_at[pipeline]
    last = np.full(count, -1)
    # one that ran comes before those that were skipped at the same instant, then the first row
    for candidates in (is_last & ~has_started, is_last & has_started):
        last[pipeline[candidates][::-1]] = rows[candidates][::-1]
    sizes = np.bincount(pipeline, minlength=count)
    path, lengths = _paths(last, _released_by(jobs, edges), sizes)
    owner = np.repeat(np.arange(count), lengths)
    is_first = np.ones(len(path), np.bool_)
    is_first[1:] = owner[1:] != owner[:-1]
    before = np.where(is_first, arrived_at[owner], np.roll(ended_at[path], 1))
    parts = {
        name: np.where(np.isnan(finished_at), np.nan, np.bincount(owner, values, count))
        for name, values in _parts(jobs, path, before).items()
    }
    causes = _joined(jobs.parts("cause"))
    is_skipped = _is_one_of(causes, ("skipped",))[rows]
    return MeasuredPipelines(
        firsts=firsts,
        outcome=_outcomes(jobs, causes, rows, pipeline, count),
        jobs=sizes,
        skipped=np.bincount(pipeline, is_skipped, count).astype(np.int64),
        arrived_at=arrived_at,
        finished_at=finished_at,
        parts=parts,
        path=path,
        path_jobs=lengths,
    )


def _outcomes(jobs: JobTable, causes: Coded, rows: Numbers, pipeline: Numbers, count: int) -> Array:
    """Return the outcome of each pipeline."""
    outcome = _joined(jobs.parts("outcome"))
    cancelled = _is_one_of(outcome, ("cancelled",)) & ~_is_one_of(causes, CONSEQUENCES)
    # in the order of OUTCOMES: a later one overwrites
    applies: dict[PipelineOutcome, Flags] = {
        "failed": _is_one_of(outcome, ("failed",)),
        "cancelled": cancelled,
        "superseded": _is_one_of(causes, ("superseded",)),
        "unfinished": _is_one_of(outcome, ("lost",)) | _is_one_of(causes, ("unrunnable",)),
    }
    found = np.full(count, "succeeded", f"U{max(map(len, OUTCOMES))}")
    for name, is_such in applies.items():
        found[pipeline[is_such[rows]]] = name
    return found


def _edges_of(jobs: JobTable) -> Edges:
    """Return the needs of all jobs; those that are no jobs of the run are left out."""
    if not jobs.has("needs"):
        return NO_EDGES
    needs = _joined(jobs.parts("needs"))
    ids = _values(jobs.parts("job_id"))
    row_of = dict(zip(ids, range(len(ids)), strict=True))
    needed: list[int] = []
    lengths = []
    for text in needs.values:
        before = len(needed)
        for need in text.split(";"):
            name = need_of(need).job if ":" in need else need
            row = row_of.get(name)
            if row is not None:
                needed.append(row)
        lengths.append(len(needed) - before)
    # the last one is of jobs without a value
    length = np.array([*lengths, 0], np.int64)
    begin = np.cumsum(length) - length
    some = np.flatnonzero(length[needs.codes])
    counts = length[needs.codes[some]]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.repeat(begin[needs.codes[some]], counts) + within
    return Edges(np.repeat(some, counts), np.array(needed, np.int64)[places])


def _components(count: int, edges: Edges, matrix: Numbers) -> Numbers:
    """Return the first row among those that each row is connected with, by needs or its matrix.

    Each round joins every part that is not the first among its neighbours to one before it, so that
    there are few rounds.
    """
    first = np.arange(count)
    in_matrix = np.flatnonzero(matrix >= 0)
    if len(in_matrix):
        first_of = np.zeros(int(matrix.max()) + 1, np.int64)
        first_of[matrix[in_matrix][::-1]] = in_matrix[::-1]  # the last one written stays
        first[in_matrix] = first_of[matrix[in_matrix]]
    one, other = edges
    while True:
        apart = first[one] != first[other]
        if not apart.any():
            return first
        one, other = one[apart], other[apart]
        low = np.minimum(first[one], first[other])
        high = np.maximum(first[one], first[other])
        np.minimum.at(first, high, low)
        while ((further := first[first]) != first).any():
            first = further


def _released_by(jobs: JobTable, edges: Edges) -> Numbers:
    """Return for each job the row of the one whose end released it; -1: there is none."""
    ended_at, released_at = jobs["finished_at_s"], jobs["released_at_s"]
    # one that was never released was skipped, or cancelled: at its end
    by = np.where(np.isnan(released_at), ended_at, released_at)
    end = ended_at[edges.need]
    end = np.where(end <= by[edges.dependent] + ROUNDING, end, -np.inf)
    begins = np.flatnonzero(np.diff(edges.dependent, prepend=-1))
    latest = np.full(len(jobs), -np.inf)
    latest[edges.dependent[begins]] = np.maximum.reduceat(end, begins)
    # one that arrived later was released by its arrival
    latest[jobs.arrived_at > latest + ROUNDING] = np.inf
    is_latest = np.flatnonzero(end == latest[edges.dependent])[::-1]
    released_by = np.full(len(jobs), -1)
    released_by[edges.dependent[is_latest]] = edges.need[is_latest]  # the first of equal ones
    return released_by


def _paths(last: Numbers, released_by: Numbers, sizes: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows on the critical paths, one path after the other, and the paths' lengths."""
    before = released_by.tolist()
    rows: list[int] = []
    lengths: list[int] = []
    for row, size in zip(last.tolist(), sizes.tolist(), strict=True):
        path: list[int] = []
        place = row
        # no further than there are jobs: in a file that was changed needs may form a circle
        while place >= 0 and len(path) < size:
            path.append(place)
            place = before[place]
        rows += reversed(path)
        lengths.append(len(path))
    return np.array(rows, np.int64), np.array(lengths, np.int64)


def _parts(jobs: JobTable, path: Numbers, before: Floats) -> dict[str, Floats]:
    """Return the parts of the time of each job on a path, which begins at ``before``."""
    end = jobs["finished_at_s"][path]
    start, release = jobs["started_at_s"][path], jobs["released_at_s"][path]
    start = np.where(np.isnan(start), end, start)
    release = np.where(np.isnan(release), start, release)
    # a job may join an execution that began before its release
    release = np.clip(release, before, end)
    start = np.clip(start, release, end)
    blocked = release - before
    waiting = start - release
    booting = np.nan_to_num(jobs["booting_time_s"][path])
    return {
        "blocked_time_s": np.where(blocked <= ROUNDING, 0.0, blocked),
        "waiting_time_s": waiting,
        "booting_time_s": np.minimum(booting, waiting),
        "running_time_s": end - start,
    }


def _joined(parts: Sequence[Coded | Array]) -> Coded:
    """Return the pieces of a column as one, whose values are texts."""
    places: dict[str, int] = {}
    codes = []
    for part in parts:
        column = part if isinstance(part, Coded) else Coded.of(part.tolist())
        numbers = [places.setdefault(value, len(places)) for value in column.values]
        codes.append(np.array([*numbers, -1], np.int64)[column.codes])
    return Coded(np.concatenate(codes), list(places))


def _values(parts: Sequence[Coded | Array]) -> list[str]:
    return [value for part in parts for value in part.tolist()]


def _is_one_of(column: Coded, values: Sequence[str]) -> Flags:
    is_such = np.array([*(value in values for value in column.values), False], np.bool_)
    return is_such[column.codes]


def _texts(values: Iterable[str]) -> Array:
    return np.array(list(values), np.object_)


def _values_at(parts: Sequence[Coded | Array], rows: Numbers) -> list[str]:
    """Return the values of a column in these rows."""
    if len(parts) == 1:
        return list(parts[0][rows].tolist())
    values = _values(parts)
    return [values[row] for row in rows.tolist()]


def _or(name: str, other: str) -> str:
    return name or other


def _matrices(jobs: JobTable) -> Coded:
    """Return the matrix of each job; no value: it is in none."""
    matrix = _joined(jobs.parts("matrix"))
    has_name = np.array([*map(bool, matrix.values), False], np.bool_)
    return Coded(np.where(has_name[matrix.codes], matrix.codes, -1), matrix.values)


NO_EDGES = Edges(np.zeros(0, np.int64), np.zeros(0, np.int64))
NONE = MeasuredPipelines(
    firsts=np.zeros(0, np.int64),
    outcome=np.array([], np.str_),
    jobs=np.zeros(0, np.int64),
    skipped=np.zeros(0, np.int64),
    arrived_at=np.zeros(0),
    finished_at=np.zeros(0),
    parts={
        name: np.zeros(0)
        for name in ("blocked_time_s", "waiting_time_s", "booting_time_s", "running_time_s")
    },
    path=np.zeros(0, np.int64),
    path_jobs=np.zeros(0, np.int64),
)
"""No pipelines."""
