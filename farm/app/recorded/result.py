"""The result of a run, of either world, new or read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec
import numpy as np

from farm.app.recorded.played_again import load_run
from farm.core.errors import InputError
from farm.results.comparison import RELEVANT
from farm.results.recorded_run import FinishedRun
from farm.results.summary.answer import answer_of_run
from farm.results.table.job_table import JobTable, joined
from farm.results.table.recorder import RunRecords
from farm.scenario import Scenario

if TYPE_CHECKING:  # most runs are not asked for these
    from farm.results.comparison.comparison import Comparison
    from farm.results.exports.taskcluster_export import Analysis, EventStore, Metric, Update
    from farm.results.figures.chart import Charts
    from farm.results.report.run_figures import RunFigures
    from farm.results.table.pipelines import PipelineTable


class Result:
    """The result of a run: ``summary``, ``jobs``, ``events``, and ``save``.

    >>> result = farm.simulate("quickstart")
    >>> result.summary["jobs"]["succeeded"], len(result.jobs)
    (655, 655)
    >>> next(result.events)["event"]
    'farm-opened'
    """

    def __init__(self, kept: FinishedRun, records: RunRecords | None = None) -> None:
        self.kept = kept
        #: of jobs and builders; None: it was read back
        self.records = records

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary, with the keys of summary.json (docs/reference/results.md)."""
        plain: dict[str, object] = msgspec.to_builtins(self.kept.summary)
        return plain

    @cached_property
    def answer(self) -> str:
        """One sentence: how long jobs wait, for which builders, when, and what would help most.

        Whatever it advises was simulated; of a long run it names the command that finds it.

        >>> farm.simulate("quickstart").answer
        'p95 wait 26 min: …'
        """
        return self.answered()

    def answered(
        self, on_share: Callable[[float], object] = float, *, with_advice: bool = True
    ) -> str:
        """Return ``answer``; ``on_share`` is given how much is done, 0 to 1.

        Without advice nothing is simulated.
        """
        from farm.app.runs.advice import advice_for  # noqa: PLC0415 - it simulates

        run = self.kept
        scenario = self._readable_scenario if run.has_jobs else None
        advice = advice_for(run, on_share) if scenario is not None and with_advice else None
        return answer_of_run(run.summary, lambda: run.jobs, scenario, advice)

    @property
    def _readable_scenario(self) -> Scenario | None:
        try:
            return self.kept.scenario
        except InputError:
            return None

    @property
    def jobs(self) -> JobTable:
        """The jobs, one row each, with the columns of jobs.csv."""
        return self.kept.jobs

    def pipelines(self) -> PipelineTable:
        """Return the pipelines, one row each: jobs that are connected by needs.

        Each has its response time, what that was made of, and its critical path
        (docs/how-to/pipelines.md). The table is empty if no job needs another.
        """
        return self._pipelines

    @cached_property
    def _pipelines(self) -> PipelineTable:
        from farm.results.table.pipelines import pipelines_of  # noqa: PLC0415 - slow, most runs have none

        return pipelines_of(self.jobs)

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
        from farm.results.exports.taskcluster_export import store_of  # noqa: PLC0415 - as above

        return store_of(self.kept)

    def analyze(
        self,
        interval: float,
        metrics: Mapping[str, Metric] | None = None,
        initial_state: dict[str, object] | None = None,
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
        """Whether there are ``events``: they were kept, or are played again."""
        return self.kept.has_events

    def plot(self, figure: str = "queue") -> Charts:
        """Return the charts of a figure, which can be shown in notebooks and saved as SVG.

        The figures are those of ``farm report``: queue, builders, utilization, distribution, slots,
        invocations, estimates. The list is empty if the run has no data for the figure.

        >>> [chart.title for chart in farm.simulate("quickstart").plot("queue")]
        ['Waiting jobs', 'Running jobs']
        """
        from farm.results.figures.chart import Charts  # noqa: PLC0415 - as above

        return Charts(self.figures().draw(figure))

    def figures(self) -> RunFigures:
        """Return the figures of this run."""
        from farm.results.figures.time_axis import WallClock  # noqa: PLC0415 - as above
        from farm.results.report.run_figures import RunFigures  # noqa: PLC0415 - as above

        lines = self.kept.log_lines() if self.has_events else None
        scenario = self._readable_scenario
        clock = WallClock.of(scenario.starts) if scenario and scenario.goes_by_the_week else None
        return RunFigures(self.kept.summary, self.kept.jobs, lines, clock)

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the run before the end of its load."""
        return self.kept.state == "interrupted"

    def save(self, path: str | Path) -> Path:
        """Write the run to a new directory, as ``--out`` does, and return its path.

        Raises InputError if the directory exists, or the run's events were not kept, or one that
        is kept as its inputs cannot be played again.
        """
        self.kept.save(Path(path))
        return Path(path)

    def _repr_html_(self) -> str:
        """Show the answer and the summary in a notebook."""
        from farm.results.summary.summary_table import summary_html  # noqa: PLC0415 - rich, for notebooks

        return summary_html(self.answer, self.kept.summary)

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
        numbers = np.array([len(one.jobs) for one in self], np.int64)
        seeds = np.repeat([one.kept.summary.seed for one in self], numbers)
        return JobTable({"seed": seeds} | joined(one.jobs for one in self).to_dict())

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


def compare(
    *runs: Result | str | Path,
    relevant: float = RELEVANT,
    on_share: Callable[[float], object] = float,
) -> Comparison:
    """Compare the first run with each of the others, given as results or run directories.

    Runs that differ only by their seed are pooled. A difference is better or worse if it is
    significant and at least ``relevant``, a share of the base. Each pair has ``metrics`` (base,
    other, difference, confidence interval, verdict) and ``jobs``, job by job. ``on_share`` is
    given how much is done, 0 to 1. Raises InputError for fewer than two runs.

    >>> fifo, sjf = (farm.simulate("quickstart", policy=name) for name in ("fifo", "sjf"))
    >>> [pair] = farm.compare(fifo, sjf).pairs
    >>> next(m.verdict for m in pair.metrics if m.metric == "response_time mean")
    'better'
    """
    if len(runs) < 2:
        raise InputError(f"compare: found {len(runs)} run; allowed: two or more")
    kept = [(one if isinstance(one, Result) else open_run(one)).kept for one in runs]
    for done, run in enumerate(kept, start=1):
        len(run.jobs)  # are read: most of the work
        on_share(0.8 * done / len(kept))
    from farm.results.comparison.comparison import compare as compare_runs  # noqa: PLC0415 - as above

    return compare_runs(kept, relevant=relevant, on_share=lambda share: on_share(0.8 + 0.2 * share))
