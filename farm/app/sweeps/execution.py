"""Runs of a sweep, done locally or by Celery workers; finished ones can be kept, by their keys."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from farm import __version__
from farm.app.runs.simulated_run import simulated_run
from farm.core.errors import RunError, file_access
from farm.live.remote_calls import call_all
from farm.live.settings import from_environment
from farm.plugins.lookup import source_of
from farm.processes.shared_work import SharedWork
from farm.results.run_directory import EVENTS
from farm.results.summary.summary import Summary
from farm.scenario import Scenario, parse_scenario
from farm.scenario.file.document import parse_document
from farm.whole_files import write_whole


class SeededRun(NamedTuple):
    """One run of a sweep: a scenario with one of the seeds."""

    scenario: Scenario
    seed: int

    def play(self, runs: int = 1) -> Summary:
        """Simulate it; the summary is as it would be read back, so that both write the same.

        ``runs``: the number of similar runs, in this process or another.
        """
        seeded = self.scenario.model_copy(update={"seed": self.seed})
        written = msgspec.json.encode(simulated_run(seeded, runs=runs).kept.summary)
        return msgspec.json.decode(written, type=Summary)

    @property
    def key(self) -> str:
        """Return a hash that is equal for runs with the same result."""
        return run_key(self.scenario, self.seed)


class SentRun(msgspec.Struct, frozen=True):
    """A run as it is sent to a worker."""

    scenario: str
    seed: int
    key: str
    runs: int

    def play(self) -> Summary:
        """Simulate it; raises RunError if the sender's result would differ."""
        run = SeededRun(parse_scenario(parse_document(self.scenario, "sweep")), self.seed)
        if run.key != self.key:
            raise RunError(
                "a worker has another version of the farm, or other files or code of your own: "
                "they must be the same there (after a change of code, restart it)"
            )
        return run.play(self.runs)


class FinishedRuns:
    """The summaries of finished runs in a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with file_access(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, run: SeededRun) -> Summary | None:
        """Return the summary of a run that was finished before."""
        try:
            return msgspec.json.decode(self._path(run).read_bytes(), type=Summary)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def keep(self, run: SeededRun, summary: Summary) -> None:
        """Write a summary; it appears whole or not at all."""
        path = self._path(run)
        with file_access(path, error=RunError):
            write_whole(path, msgspec.json.encode(summary))

    def _path(self, run: SeededRun) -> Path:
        return self._folder / f"{run.key}.json"


def play_all(
    runs: Sequence[SeededRun],
    progress: Callable[[int], None],
    *,
    kept: FinishedRuns | None = None,
    redis: str | None = None,
) -> list[Summary]:
    """Return each run's summary, in order; ``progress`` is called with the number of finished runs.

    ``kept``: finished runs, which are not repeated. ``redis``: the server whose Celery workers play
    (``farm.app.sweeps.worker``); None: this machine. Raises what a run raises, and RunError if a
    process was killed: the finished runs are kept.
    """
    summaries = [None if kept is None else kept.find(run) for run in runs]
    missing = [place for place, summary in enumerate(summaries) if summary is None]
    done = len(runs) - len(missing)
    progress(done)
    played = _played(runs, missing) if redis is None else _played_by_workers(runs, missing, redis)
    for place, summary in played:
        summaries[place] = summary
        if kept is not None:
            kept.keep(runs[place], summary)
        done += 1
        progress(done)
    return [summary for summary in summaries if summary is not None]


def _played(runs: Sequence[SeededRun], places: Sequence[int]) -> Iterator[tuple[int, Summary]]:
    """Yield the summaries as they are made: locally, or by processes if it takes long."""
    with SharedWork() as work:
        for number, summary in work.done([partial(runs[p].play, len(places)) for p in places]):
            yield places[number], summary


def _played_by_workers(
    runs: Sequence[SeededRun], places: Sequence[int], redis: str
) -> Iterator[tuple[int, Summary]]:
    place_of: dict[str, list[int]] = {}
    for place in places:
        place_of.setdefault(runs[place].key, []).append(place)
    calls = {
        key: msgspec.json.encode(
            SentRun(runs[same[0]].scenario.to_yaml(), runs[same[0]].seed, key, len(places))
        ).decode()
        for key, same in place_of.items()
    }
    for key, answer in call_all(redis, from_environment().prefix, calls):
        summary = msgspec.json.decode(answer, type=Summary)
        yield from ((place, summary) for place in place_of[key])


# --- the key of a run: equal keys, equal results ---------------------------------------------


def run_key(scenario: Scenario, seed: int) -> str:
    """Return a hash of version, seed, scenario, the files that it reads and the user's own code.

    Of the code it covers the modules that the scenario names, not what they import. Raises
    InputError for a file that cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    contents = (*map(_content, _files(scenario)), *_own_code(scenario))
    for part in (__version__, str(seed), scenario.to_yaml(), *contents):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _files(scenario: Scenario) -> Iterator[Path]:
    """Yield the traces, and what the runtime estimators learn from."""
    for source in scenario.workload:
        if source.trace is not None:
            yield Path(source.trace.path)
    if scenario.estimates.learn_from is not None:
        learned = Path(scenario.estimates.learn_from)
        yield learned / EVENTS if learned.is_dir() else learned


def _content(path: Path) -> str:
    with file_access(path, "be read"):
        return _hash(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _hash(path: Path, _changed_at: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _own_code(scenario: Scenario) -> Iterator[str]:
    words = scenario.scheduling
    yield source_of(words.policy, "farm.policies")
    yield source_of(words.balancer, "farm.balancers")
    for pool in scenario.pools:
        if pool.provisioner is not None:
            yield source_of(pool.provisioner.algorithm, "farm.algorithms")
        if pool.behaviour is not None:
            yield source_of(pool.behaviour, "farm.behaviours")
    for source in scenario.workload:
        if source.generator is not None:
            yield source_of(source.generator.function, "farm.generators")
