"""The result of a run, of either world, new or read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.core.errors import InputError, not_among
from farm.results.comparison.metrics import RELEVANT
from farm.results.jobs_table import COLUMNS, MORE_COLUMNS, JobRow
from farm.results.recorded_run import RecordedRun
from farm.results.run_directory import Run, load_run
from farm.scenario import Scenario

if TYPE_CHECKING:  # most runs are not asked for these
    from farm.results.comparison.comparison import Comparison
    from farm.results.exports.taskcluster import Analysis, EventStore, Metric, Update
    from farm.results.figures.chart import Chart
    from farm.results.report.run_figures import RunFigures

Column = NDArray[Any]


#: of a column, by the type of its field
_NUMBERS: dict[Any, Any] = {int: np.int64, float: np.float64, float | None: np.float64}


class JobTable:
    """The jobs of a run, one row each, with the columns of jobs.csv.

    ``len(table)`` is the number of jobs, ``table["waiting_time_s"]`` a NumPy array of floats (NaN
    where there is no value) or strings. Iterating yields a dict for each job.

    >>> jobs = farm.simulate("quickstart").jobs
    >>> len(jobs), jobs.columns[:2], float(jobs["waiting_time_s"].min())
    (655, ('job_id', 'matrix'), 0.0)
    >>> sorted({job["platform"] for job in jobs})
    ['amd64/virtual', 'win10-64/virtual']
    """

    def __init__(self, columns: dict[str, Column]) -> None:
        self._columns = columns

    @classmethod
    def of(cls, rows: Sequence[JobRow], **constants: Any) -> JobTable:
        """Return a table of these rows; ``constants`` are leading columns of one value."""
        columns = {name: np.full(len(rows), value) for name, value in constants.items()}
        for field, name in zip(msgspec.structs.fields(JobRow), COLUMNS, strict=False):
            values = [getattr(row, field.name) for row in rows]
            kind = _NUMBERS.get(field.type, np.str_)
            columns[name] = np.array(values, dtype=kind)  # None becomes NaN
        for place, name in enumerate(MORE_COLUMNS):
            columns[name] = np.array([row.more[place] for row in rows])
        return cls(columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order of jobs.csv."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return len(self._columns["job_id"])

    def __getitem__(self, column: str) -> Column:
        try:
            return self._columns[column]
        except KeyError:
            raise InputError(f"jobs: column: {not_among(column, self._columns)}") from None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        lists = [column.tolist() for column in self._columns.values()]
        return (dict(zip(self._columns, row, strict=True)) for row in zip(*lists, strict=True))

    def __repr__(self) -> str:
        return f"<farm.JobTable: {len(self):,} jobs, columns {', '.join(self.columns)}>"

    def to_dict(self) -> dict[str, Column]:
        """Return the columns as a dict."""
        return dict(self._columns)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``. Raises InputError if pandas is not installed."""
        return _library("pandas").DataFrame(self._columns)

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``. Raises InputError if polars is not installed."""
        return _library("polars").DataFrame(self._columns)

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``. Raises InputError if pyarrow is not installed."""
        return _library("pyarrow").table(self._columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Pass the table to any library that reads Arrow streams (needs pyarrow)."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{name} is not installed; allowed: pip install {name}") from None


class Result:
    """The result of a run: ``summary``, ``jobs``, ``events``, and ``save``.

    >>> result = farm.simulate("quickstart")
    >>> result.summary["jobs"]["succeeded"], len(result.jobs)
    (655, 655)
    >>> next(result.events)["event"]
    'farm-opened'
    """

    def __init__(self, kept: Run | RecordedRun) -> None:
        self.kept = kept

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary, with the keys of summary.json (docs/reference/results.md)."""
        plain: dict[str, Any] = msgspec.to_builtins(self.kept.summary)
        return plain

    @cached_property
    def jobs(self) -> JobTable:
        """The jobs, one row each, with the columns of jobs.csv."""
        return JobTable.of(self.kept.jobs)

    @property
    def events(self) -> Iterator[dict[str, Any]]:
        """The event log: an iterator of dicts, one for each line of events.jsonl.

        Raises InputError if they were not kept (``keep_events=False``).
        """
        return map(msgspec.json.decode, self.kept.log_lines())

    @cached_property
    def event_store(self) -> EventStore:
        """The run in the Taskcluster simulator's format: ``analyze``, ``statistics``, ``to_json``.

        Raises InputError if the run's events were not kept.
        """
        from farm.results.exports.taskcluster import event_store, run_phase  # noqa: PLC0415 - as above

        return event_store(self.kept.entries(), *run_phase(self.kept.scenario))

    def analyze(
        self,
        interval: float,
        metrics: Mapping[str, Metric] | None = None,
        initial_state: dict[str, Any] | None = None,
        update: Update | None = None,
    ) -> Analysis:
        """Sample the run every ``interval`` ms in one pass; see ``EventStore.analyze``."""
        return self.event_store.analyze(interval, metrics, initial_state, update)

    @property
    def scenario(self) -> Scenario:
        """The resolved scenario."""
        return self.kept.scenario

    @property
    def path(self) -> Path | None:
        """The run directory; None if the run is only in memory."""
        return self.kept.path

    @property
    def has_events(self) -> bool:
        """Whether ``events`` were kept."""
        return not isinstance(self.kept, RecordedRun) or self.kept.has_events

    def plot(self, figure: str = "queue") -> list[Chart]:
        """Return the charts of a figure, which can be shown in notebooks and saved as SVG.

        The figures are those of ``farm report``: queue, builders, distribution, slots, invocations,
        estimates. The list is empty if the run has no data for the figure.

        >>> [chart.title for chart in farm.simulate("quickstart").plot("queue")]
        ['Waiting jobs', 'Running jobs']
        """
        return self.figures().draw(figure)

    def figures(self) -> RunFigures:
        """Return the figures of this run."""
        from farm.results.report.run_figures import RunFigures  # noqa: PLC0415 - as above

        lines = self.kept.log_lines() if self.has_events else None
        return RunFigures(self.kept.summary, self.kept.jobs, lines)

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the run before the end of its load."""
        return self.kept.state == "interrupted"

    def save(self, path: str | Path) -> Path:
        """Write the run to a new directory, as ``--out`` does, and return its path.

        Raises InputError if the directory exists, or the run's events were not kept.
        """
        self.kept.save(Path(path))
        return Path(path)

    def __repr__(self) -> str:
        found = self.kept.summary
        counts = f"{found.jobs.submitted:,} jobs, {found.jobs.lost:,} lost"
        return f"<farm.Result: {found.world} {self.kept.label}, {counts}>"


class Results(Sequence[Result]):
    """The results of one scenario with several seeds, in order of the seeds.

    >>> runs = farm.simulate("mm1", seeds=[7, 8], workload__0__count=100)
    >>> [summary["seed"] for summary in runs.summaries], len(runs.jobs)
    ([7, 8], 200)
    """

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = tuple(results)

    @overload
    def __getitem__(self, place: int) -> Result: ...
    @overload
    def __getitem__(self, place: slice) -> Results: ...
    def __getitem__(self, place: int | slice) -> Result | Results:
        found = self._results[place]
        return found if isinstance(found, Result) else Results(found)

    def __len__(self) -> int:
        return len(self._results)

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """Each run's summary."""
        return [one.summary for one in self]

    @cached_property
    def jobs(self) -> JobTable:
        """The jobs of all runs; the first column is the seed."""
        tables = [JobTable.of(one.kept.jobs, seed=one.kept.summary.seed) for one in self]
        names = tables[0].columns if tables else ("seed", *COLUMNS, *MORE_COLUMNS)
        return JobTable(
            {name: np.concatenate([t[name] for t in tables] or [np.empty(0)]) for name in names}
        )

    def __repr__(self) -> str:
        return f"<farm.Results: {', '.join(map(repr, self))}>"


def open_run(path: str | Path) -> Result:
    """Read the run in a directory written by ``--out`` or ``Result.save``.

    Raises InputError for a directory that is not a run, or a run that did not finish.

    >>> run = farm.simulate("quickstart", seeds=3).save("kept")
    >>> farm.open_run(run).summary["seed"]
    3
    """
    return Result(load_run(path))


def compare(*runs: Result | Run | str | Path, relevant: float = RELEVANT) -> Comparison:
    """Compare the first run with each of the others, given as results or run directories.

    Runs that differ only by their seed are pooled. A difference is better or worse if it is
    significant and at least ``relevant``, a share of the base. Each pair has ``metrics`` (base,
    other, difference, confidence interval, verdict) and ``jobs``, job by job. Raises InputError
    for fewer than two runs.

    >>> fifo, sjf = (farm.simulate("quickstart", policy=name) for name in ("fifo", "sjf"))
    >>> [pair] = farm.compare(fifo, sjf).pairs
    >>> next(m.verdict for m in pair.metrics if m.metric == "response_time mean")
    'better'
    """
    if len(runs) < 2:
        raise InputError(f"compare: found {len(runs)} run; allowed: two or more")
    kept = [one.kept if isinstance(one, Result) else _run_of(one) for one in runs]
    from farm.results.comparison.comparison import compare as compare_runs  # noqa: PLC0415 - as above

    return compare_runs(kept, relevant=relevant)


def _run_of(given: Run | str | Path) -> Run:
    return given if isinstance(given, Run) else load_run(given)
