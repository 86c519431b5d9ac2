"""Runs of a sweep, done locally or by Celery workers; finished ones can be kept, by their keys."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from farm.app.inputs import code_of, digest_of_file, files_of
from farm.app.runs.own_parts import NONE, OwnParts
from farm.app.runs.simulated_run import figures_of_seeds, simulated_run
from farm.core.errors import FarmError, RunError, file_access
from farm.processes.shared_work import SharedWork
from farm.results.run_directory import this_version
from farm.results.summary.figures import Figures
from farm.results.summary.summary import Summary
from farm.scenario import Scenario, parse_scenario
from farm.scenario.file.document import parse_document
from farm.sim.too_large import expected_jobs, refuse_too_large
from farm.whole_files import read_whole, write_whole
from farm.workload import Several, Workload, build_several, build_workload
from farm.workload.blocks import JobColumns

MOST_HELD = 1_000_000
"""Jobs that are held for the next run."""
DRAWN_AT_ONCE = 20_000
"""Jobs that are drawn together, for several seeds: with more of them each costs no less."""
JOBS_AT_ONCE = 200_000
"""Jobs of the runs that a worker is given together: some tenths of a second."""
WORKERS = 16
"""As many have something to do, if there are as many runs."""


class SeededRun(NamedTuple):
    """One run of a sweep: a scenario with one of the seeds."""

    scenario: Scenario
    seed: int
    #: equal for scenarios whose jobs are the same; empty: no other run has these
    same_load: str = ""
    #: the scenario as text, where it is known: writing it takes longer than many runs
    written: str = ""
    #: parts that no other process finds by a name
    own: OwnParts = NONE

    @property
    def key(self) -> str:
        """Return a hash that is equal for runs with the same result.

        It is one of version, seed, scenario, the files that this reads and the user's own code: the
        modules that it names, not what they import. Raises InputError for a file that cannot be
        read.
        """
        digest, scenario = hashlib.blake2b(digest_size=16), self.scenario
        sources = (source for _, source in code_of(scenario))
        contents = (*map(digest_of_file, files_of(scenario)), *sources)
        written = self.written or scenario.to_yaml()
        for part in (this_version(), str(self.seed), written, *contents):
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()


class PlayedRuns(NamedTuple):
    """The figures of runs; fewer than there were runs if the next one failed."""

    figures: list[Figures]
    error: FarmError | None = None


def _play(runs: Sequence[SeededRun]) -> PlayedRuns:
    """Simulate runs of one scenario, their jobs drawn together.

    The figures are as they would be read back, so that both write the same.
    """
    scenario, name, own = runs[0].scenario, runs[0].same_load, runs[0].own
    seeds, error = [run.seed for run in runs], None
    found: list[Figures | Summary] = []
    loads: Sequence[Workload | None] = [None] * len(seeds)
    try:
        refuse_too_large(scenario)
        held = _held(_Load(name, tuple(seeds), scenario)) if name else None
        if isinstance(held, Several):
            found += figures_of_seeds(scenario, seeds, held) or []
            loads = [] if found else held.each()
        elif held is not None:
            loads = held
        for seed, load in zip(seeds[len(found) :], loads, strict=True):
            seeded = scenario.model_copy(update={"seed": seed})
            found.append(simulated_run(seeded, own=own, load=load).kept.figures)
    except FarmError as raised:
        error = raised
    return PlayedRuns(msgspec.json.decode(msgspec.json.encode(found), type=list[Figures]), error)


@dataclass(frozen=True)
class _Load:
    """The jobs of a scenario with some seeds, by what they are equal for."""

    name: str
    seeds: tuple[int, ...]
    scenario: Scenario = field(compare=False)


@lru_cache(maxsize=1)
def _held(load: _Load) -> Several | list[Workload] | None:
    """Return the jobs with each seed, to be played by one setting after the other.

    None: there are too many, or they cannot be drawn together.
    """
    if len(load.seeds) > 1:
        return build_several(load.scenario, load.seeds)
    made = build_workload(load.scenario.model_copy(update={"seed": load.seeds[0]}))
    return [made] if isinstance(made.jobs, JobColumns) and made.jobs.hold(MOST_HELD) else None


def _together(runs: Sequence[SeededRun]) -> list[list[int]]:
    """Return the places of runs of one scenario whose jobs are drawn together.

    Those that share jobs with the runs of other scenarios are neighbours.
    """
    seeds_of: dict[str, dict[int, None]] = {}
    for run in runs:
        seeds_of.setdefault(run.same_load, {})[run.seed] = None
    found: dict[tuple[object, ...], list[int]] = {}
    sizes: dict[int, int] = {}
    ranks = {name: {seed: n for n, seed in enumerate(seeds)} for name, seeds in seeds_of.items()}
    for place, run in enumerate(runs):
        if (one := id(run.scenario)) not in sizes:
            jobs = max(1.0, expected_jobs(run.scenario))
            sizes[one] = max(1, int(DRAWN_AT_ONCE / jobs)) if run.same_load else 1
        piece = ranks[run.same_load][run.seed] // sizes[one]
        found.setdefault((run.same_load, piece, one), []).append(place)
    order = {key: n for n, key in enumerate(found)}
    return [found[key] for key in sorted(found, key=lambda key: (key[:2], order[key]))]


def _load_name(scenario: Scenario) -> str:
    """Return what is equal for scenarios with the same jobs; empty: the user's code makes them."""
    if any(source.generator is not None for source in scenario.workload):
        return ""
    parts = scenario.model_dump_json(
        include={"name", "workload", "phases", "starts", "allow_unrunnable"}
    )
    platforms = ",".join(pool.platform.model_dump_json() for pool in scenario.pools)
    return hashlib.blake2b(f"{parts}{platforms}".encode(), digest_size=16).hexdigest()


class SentRuns(msgspec.Struct, frozen=True):
    """Runs of a scenario as they are sent to a worker; each has a seed and a key."""

    scenario: str
    runs: tuple[tuple[int, str], ...]

    def play(self) -> list[Figures]:
        """Simulate them; raises RunError if the sender's results would differ."""
        scenario = parse_scenario(parse_document(self.scenario, "sweep"))
        written = scenario.to_yaml()
        runs = [SeededRun(scenario, seed, written=written) for seed, _ in self.runs]
        if [run.key for run in runs] != [key for _, key in self.runs]:
            raise RunError(
                "a worker has another version of the farm, or other files or code of your own: "
                "they must be the same there (after a change of code, restart it)"
            )
        return play_all(runs, lambda _: None)


class FinishedRuns:
    """The summaries of finished runs in a directory, from which an interrupted sweep is resumed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with file_access(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, run: SeededRun) -> Figures | None:
        """Return the summary of a run that was finished before."""
        try:
            return msgspec.json.decode(read_whole(self._path(run)), type=Figures)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def keep(self, run: SeededRun, summary: Figures) -> None:
        """Write a summary; it appears whole or not at all."""
        path = self._path(run)
        with file_access(path):
            write_whole(path, msgspec.json.encode(summary))

    def _path(self, run: SeededRun) -> Path:
        return self._folder / f"{run.key}.json"


def play_all(
    runs: Sequence[SeededRun],
    progress: Callable[[int], None],
    *,
    kept: FinishedRuns | None = None,
    redis: str | None = None,
) -> list[Figures]:
    """Return each run's summary, in order; ``progress`` is called with the number of finished runs.

    ``kept``: finished runs, which are not repeated. ``redis``: the server whose Celery workers play
    (``farm.app.sweeps.worker``); None: this machine. Raises what a run raises, and RunError if a
    process was killed: the finished runs are kept.
    """
    runs = _prepared(runs, written=kept is not None or redis is not None)
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


def _prepared(runs: Sequence[SeededRun], *, written: bool) -> list[SeededRun]:
    """Return the runs with what those of one scenario share; ``written``: its text, too."""
    scenarios = {id(run.scenario): run.scenario for run in runs}
    names = {place: _load_name(scenario) for place, scenario in scenarios.items()}
    texts = {place: one.to_yaml() if written else "" for place, one in scenarios.items()}
    return [
        run._replace(
            same_load=names[id(run.scenario)] if run.own is NONE else "",
            written=texts[id(run.scenario)],
        )
        for run in runs
    ]


def _played(runs: Sequence[SeededRun], places: Sequence[int]) -> Iterator[tuple[int, Figures]]:
    """Yield the summaries as they are made: locally, or by processes if it takes long.

    Runs with parts that other processes do not find are all played here.
    """
    parts = [[places[one] for one in some] for some in _together([runs[p] for p in places])]
    if any(runs[place].own is not NONE for place in places):
        for some in parts:
            found, error = _play([runs[place] for place in some])
            yield from zip(some, found, strict=False)
            if error is not None:
                raise error
        return
    try:
        with SharedWork() as work:
            calls = [partial(_play, [runs[place] for place in some]) for some in parts]
            for number, (found, error) in work.done(calls):
                yield from zip(parts[number], found, strict=False)
                if error is not None:
                    raise error
    finally:
        _held.cache_clear()


def _played_by_workers(
    runs: Sequence[SeededRun], places: Sequence[int], redis: str
) -> Iterator[tuple[int, Figures]]:
    """Yield the figures as workers send them."""
    from farm.live.remote_calls import call_all  # noqa: PLC0415 - Celery takes 0.1 s to import

    place_of: dict[str, list[int]] = {}
    for place in places:
        place_of.setdefault(runs[place].key, []).append(place)
    distinct = {key: runs[same[0]] for key, same in place_of.items()}
    calls: dict[str, str] = {}
    keys_of: dict[str, list[str]] = {}
    for some in _chunks(distinct):
        sent = SentRuns(some[0][1].written, tuple([(run.seed, key) for key, run in some]))
        name = hashlib.blake2b("".join(key for key, _ in some).encode(), digest_size=16).hexdigest()
        calls[name], keys_of[name] = msgspec.json.encode(sent).decode(), [key for key, _ in some]
    for name, answer in call_all(redis, calls):
        found = msgspec.json.decode(answer, type=list[Figures])
        for key, figures in zip(keys_of[name], found, strict=True):
            yield from ((place, figures) for place in place_of[key])


def _chunks(distinct: Mapping[str, SeededRun]) -> Iterator[list[tuple[str, SeededRun]]]:
    """Yield runs of one scenario that are played by one call: those of about ``JOBS_AT_ONCE``."""
    for _, same in groupby(distinct.items(), key=lambda pair: id(pair[1].scenario)):
        left = list(same)
        size = int(JOBS_AT_ONCE / max(1.0, expected_jobs(left[0][1].scenario)))
        size = max(1, min(size, len(distinct) // WORKERS))
        yield from (left[begin : begin + size] for begin in range(0, len(left), size))
