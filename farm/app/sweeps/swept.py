"""``farm.sweep``: runs and compares many settings and seeds of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import msgspec

from farm.app.api import WORDS, Balancer, Estimator, Policy, Source, set_up
from farm.app.runs.advice import ComputedAdvice, OnShare, advice_on_scenario
from farm.app.runs.own_parts import NONE, AlgorithmChoice, Load, OwnParts
from farm.app.sweeps.axes import Grid, axis_of, name_of
from farm.app.sweeps.execution import FinishedRuns, SeededRun, play_all
from farm.app.sweeps.made_from import MadeFrom
from farm.core.errors import FarmError, InputError, file_access
from farm.results.comparison import RELEVANT
from farm.results.comparison.compared_metrics import Metric, metrics_named
from farm.results.comparison.compared_values import SweepRow
from farm.results.comparison.comparison_answer import MEAN_WAIT, best_setting
from farm.results.comparison.comparison_tables import as_csv, sweep_html, tidy
from farm.results.comparison.differences import setting_name
from farm.results.comparison.sweep_judgement import Played, Settings, Sweep, judge, tidy_runs
from farm.results.formatting import sentence
from farm.scenario import load_scenario
from farm.whole_files import read_whole, write_document

if TYPE_CHECKING:
    from farm.results.figures.chart import Charts

#: runs of a sweep: more would not be begun for want of memory
MOST_RUNS = 1_000_000
SHOWN = ("waiting_time.mean", "response_time.mean", "cost")
"""The metrics that are shown unless others are named."""
SWEEP, TABLE, RUNS, FINISHED = "sweep.json", "table.csv", "runs.csv", "finished"
SCENARIO, BEST = "scenario.yaml", "best.yaml"


class SweepResult:
    """The results of a sweep: ``rows`` by setting and metric, ``table`` and ``runs`` tidy.

    >>> found = farm.sweep("mm1", replications=2, workload__0__count=50)
    >>> [run["seed"] for run in found.runs]
    [1, 2]
    >>> [row["mean"] > 0 for row in found.table if row["metric"] == "response_time mean"]
    [True]
    """

    def __init__(
        self, sweep: Sweep, played: Played, grid: Grid, parts: Mapping[Settings, OwnParts]
    ) -> None:
        self.sweep = sweep
        self.played = played
        self._grid = grid
        self._parts = parts
        functions = {name: f for part in parts.values() for name, f in part.functions_by_name()}
        self._made_from = MadeFrom([*grid.scenarios.values()], functions)

    @property
    def rows(self) -> Sequence[SweepRow]:
        """One row for each setting and metric."""
        return self.sweep.rows

    @cached_property
    def table(self) -> list[dict[str, object]]:
        """The same as plain dicts, as in table.csv."""
        return tidy(self.sweep)

    @cached_property
    def runs(self) -> list[dict[str, object]]:
        """A dict for each run, with its settings, seed and metrics, as in runs.csv."""
        return tidy_runs(self.played)

    @cached_property
    def advice(self) -> ComputedAdvice:
        """What would shorten the waits further with the setting that waits least for its cost.

        It is simulated when it is first asked for, with the first seed.
        """
        return self.advised()

    def advised(
        self, metric: Metric = MEAN_WAIT, on_share: OnShare = float, typed: str = ""
    ) -> ComputedAdvice:
        """Return ``advice``, on the setting that is best by a metric.

        Args:
            metric: which.
            on_share: given how much is done, 0 to 1.
            typed: the swept scenario as a command takes it: a file, and options.
        """
        settings = best_setting(self.sweep, metric)
        if settings is None:
            return ComputedAdvice()
        words = [typed, *self._grid.as_options(settings)] if typed else []
        return advice_on_scenario(
            self._grid.scenarios[settings],
            on_share,
            own=self._parts[settings],
            typed=" ".join(words),
        )

    def plot(self, *metrics: str) -> Charts:
        """Return a chart for each metric, with every setting's mean and interval.

        Without a metric: mean waiting time, mean response time, cost.
        """
        # only here: a sweep that is printed is done sooner without them
        from farm.results.figures.chart import Charts  # noqa: PLC0415
        from farm.results.report.comparison_figures import sweep_charts  # noqa: PLC0415

        return Charts(sweep_charts(self.sweep, metrics_named(metrics or SHOWN, "metric")))

    def save(self, folder: str | Path) -> Path:
        """Write sweep.json, table.csv and runs.csv, and Parquet files if pyarrow is installed.

        Beside them, what the figures are of: meta.json has the versions of this farm and of its
        packages and the digests of what the scenarios read, ``code`` the user's own modules, and
        best.yaml is the scenario with the setting that waits least for its cost.
        """
        folder = Path(folder)
        with file_access(folder):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / TABLE).write_text(as_csv(self.table), encoding="utf-8")
            (folder / RUNS).write_text(as_csv(self.runs), encoding="utf-8")
            if find_spec("pyarrow") is not None:
                self._write_parquet(folder)
            self._made_from.write(folder)
            if (best := best_setting(self.sweep, MEAN_WAIT)) is not None:
                write_document(folder / BEST, self._grid.scenarios[best].to_yaml())
            (folder / SWEEP).write_bytes(self.sweep.to_json())
        return folder

    def _write_parquet(self, folder: Path) -> None:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
        for name, rows in ((TABLE, self.table), (RUNS, self.runs)):
            parquet.write_table(
                arrow.Table.from_pylist(rows), (folder / name).with_suffix(".parquet")
            )

    def _repr_html_(self) -> str:
        """Show the answer and the matrix in a notebook."""
        return sweep_html(self.sweep, metrics_named(SHOWN, "metric"))

    def __repr__(self) -> str:
        axes = " by ".join(f"{len(v)} {key}" for key, v in self.sweep.axes.items()) or "one setting"
        return f"<farm.SweepResult: {self.sweep.scenario}, {axes}, {len(self.sweep.seeds)} seeds>"


def sweep(
    scenario: Source,
    vary: Mapping[str, Sequence[object]] | None = None,
    *,
    replications: int = 10,
    out: str | Path | None = None,
    baseline: Mapping[str, object] | None = None,
    relevant: float = RELEVANT,
    redis: str | None = None,
    policy: Policy | None = None,
    balancer: Balancer | None = None,
    estimator: Estimator | None = None,
    algorithms: Mapping[str, AlgorithmChoice] | None = None,
    jobs: Load | None = None,
    **overrides: object,
) -> SweepResult:
    """Run a scenario with many settings, each with the same seeds, and compare them.

    A script that calls it for long runs needs ``if __name__ == "__main__"``: they are shared among
    processes.

    Args:
        scenario: as for ``load_scenario``.
        vary: the values by scenario key; ``pools.*.idle_timeout`` stands for several keys,
            ``"@a.yaml"`` for a section from a file. Those of policy, balancer and estimator may be
            functions, as for ``simulate``.
        replications: the number of seeds, starting at the scenario's own.
        out: a directory for the tables; finished runs are kept there, and not repeated.
        baseline: for each key the value that others are compared with, all else being equal;
            default: the first value of every key.
        relevant: the smallest share of the baseline's mean that counts as a difference.
        redis: the server whose Celery workers do the runs; default: this machine.
        policy, balancer, estimator, algorithms, jobs, overrides: as for ``simulate``. Functions
            that other processes can import by their names are played by several; with any other
            one, all runs are played by this process, and repeated by the next sweep.

    Raises InputError for invalid axes.

    >>> found = farm.sweep("mm1", {"scheduling.policy": ["fifo", "sjf"]}, replications=3,
    ...                    workload__0__count=200)
    >>> found
    <farm.SweepResult: mm1, 2 scheduling.policy, 3 seeds>
    >>> [row["replications"] for row in found.table if row["metric"] == "waiting_time mean"]
    [3, 3]
    """
    named = {"policy": policy, "balancer": balancer, "estimator": estimator}
    if isinstance(jobs, Iterable):
        jobs = list(jobs)
    base, own = set_up(scenario, named, overrides, algorithms, jobs)
    axes = [axis_of(WORDS.get(key, key), values) for key, values in (vary or {}).items()]
    for axis in axes:
        if axis.functions and axis.key not in WORDS.values():
            raise InputError(f"vary: {axis.key}: found a function; allowed: for {', '.join(WORDS)}")
    given = {WORDS.get(key, key): value for key, value in (baseline or {}).items()}
    chosen = {key: name_of(value) for key, value in given.items()}
    grid = Grid(base, axes)
    return play_sweep(grid, replications, out, chosen, relevant, redis=redis, own=own)


def play_sweep(
    grid: Grid,
    replications: int,
    out: str | Path | None,
    baseline: Mapping[str, str],
    relevant: float = RELEVANT,
    progress: Callable[[int, int], None] = lambda *_: None,
    redis: str | None = None,
    own: OwnParts = NONE,
) -> SweepResult:
    """Run a grid; ``progress`` is called with the numbers of finished and of all runs.

    ``own``: the caller's parts in all of them.
    """
    most = MOST_RUNS // len(grid.scenarios)
    if not 1 <= replications <= most:
        raise InputError(f"replications: found {replications:,}; allowed: 1 to {most:,}")
    if not 0 <= relevant < 1:
        raise InputError(f"relevant: found {relevant:g}; allowed: a share from 0, below 1")
    chosen = grid.baseline(baseline)
    folder = None if out is None else _folder(Path(out))
    first = grid.base.seed
    seeds = list(range(first, first + replications))
    parts = {settings: grid.own_parts(settings, own) for settings in grid.scenarios}
    runs = [
        SeededRun(one, seed, own=parts[settings])
        for settings, one in grid.scenarios.items()
        for seed in seeds
    ]
    is_shared = all(part is NONE for part in parts.values())
    if redis is not None and not is_shared:
        raise InputError(
            "redis: found functions that workers cannot import; allowed: functions of a module, by "
            "their names"
        )
    kept = None if folder is None else FinishedRuns(folder / FINISHED)
    if folder is not None:
        _claim(folder, grid.base.to_yaml())
    found = play_all(
        runs,
        lambda done: progress(done, len(runs)),
        kept=kept if is_shared else None,
        redis=redis,
    )
    summaries = {
        settings: found[place * replications : (place + 1) * replications]
        for place, settings in enumerate(grid.scenarios)
    }
    base = grid.base
    currency = msgspec.UNSET if base.unit_of_cost is None else base.unit_of_cost
    played = Played(base.name, grid.axes, seeds, summaries, base.twin, currency)
    result = SweepResult(judge(played, chosen, relevant), played, grid, parts)
    if folder is not None:
        result.save(folder)
    return result


def _folder(path: Path) -> Path:
    """Return the directory of a sweep, new, empty, or that of an earlier one."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file; allowed: a directory")
    if path.is_dir() and any(path.iterdir()) and not (path / FINISHED).is_dir():
        raise InputError(f"{path}: has other files; allowed: a new directory, or a sweep's")
    return path


def _claim(folder: Path, scenario: str) -> None:
    """Refuse the directory of another scenario's sweep: its tables would be replaced."""
    path = folder / SCENARIO
    if not path.exists():
        write_document(path, scenario)
    with file_access(path, "be read"):
        same = read_whole(path) == scenario.encode()
    if not same:
        raise InputError(
            f"{folder}: has a sweep of another scenario, or of an older version of this one; "
            "allowed: a new directory, or that of the same scenario with any axes"
        )


def advice_on_kept(folder: Path, sweep: Sweep) -> ComputedAdvice:
    """Return what would shorten the waits of a sweep that was kept; nothing of an older one."""
    path = folder / BEST
    if best_setting(sweep, MEAN_WAIT) is None or not path.is_file():
        return ComputedAdvice()
    try:
        scenario = load_scenario(path)
    except FarmError:  # of another version, or a file that it reads is gone
        return ComputedAdvice()
    return advice_on_scenario(scenario, typed=quote(str(path)))


def in_words(advice: ComputedAdvice, sweep: Sweep, metric: Metric = MEAN_WAIT) -> str:
    """Return the advice on the setting of a sweep that is best by a metric; empty: none."""
    settings = best_setting(sweep, metric)
    if settings is None or not (advice.sentence or advice.why_not):
        return ""
    name = setting_name(dict(zip(sweep.axes, settings, strict=True)), sweep.scenario)
    farm = f"with {name} and seed {sweep.seeds[0]}"
    if advice.sentence:
        return f"Further, {farm}: {sentence(advice.sentence)}"
    why_not = f"{advice.why_not}; {advice.command} finds how many builders it takes"
    return f"What would shorten the waits further, {farm}, is not told: {why_not}."


def read_sweep(folder: Path) -> Sweep:
    """Return the sweep that ``--out`` kept in a directory. Raises InputError."""
    try:
        with file_access(folder / SWEEP, "be read"):
            return msgspec.json.decode(read_whole(folder / SWEEP), type=Sweep)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{folder / SWEEP}: garbled: {error}") from None
