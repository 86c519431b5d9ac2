"""Fetches the records of days into a folder, a file for each project and day.

A fetch of two weeks may take hours of rate limits, and be interrupted. So each file is written
whole, ``fetched.json`` says what has been read and how much of it was announced, and the same
command continues where the last one ended. A day that was not over is read again, and so is one
with runs that had not ended.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from farm.core.errors import InputError, file_access
from farm.units import many
from farm.whole_files import draft_of, read_whole, write_whole
from farm_twin.fetching.api import Api, ForbiddenError, NotThereError
from farm_twin.fetching.systems import System, Tally
from farm_twin.fetching.window import Window

MANIFEST = "fetched.json"
#: of files that are written once and read often: fast, and a tenth of the JSON
COMPRESSION = 6

#: refused projects that a sentence names
MAX_NAMED = 5

OnDay = Callable[[str, int, int], None]
"""Told the project and day that is read, how many were read, and of how many."""


class Day(msgspec.Struct):
    """What was read of one day of a project."""

    project: str
    begin: datetime
    end: datetime
    #: when the API was asked
    asked: datetime
    tally: Tally
    #: name of the file; empty: nothing was recorded
    file: str = ""

    @property
    def is_final(self) -> bool:
        """Whether a later request would find the same."""
        return self.asked >= self.end and not self.tally.unfinished and self.tally.is_complete


class Manifest(msgspec.Struct):
    """What a folder has of which system, as ``fetched.json`` says it."""

    source: str
    target: str
    days: list[Day] = []
    #: projects that the token may not read, or that are switched off: what the API said
    refused: dict[str, str] = {}

    @property
    def tally(self) -> Tally:
        """All days together."""
        total = Tally()
        for day in self.days:
            total.add(day.tally)
        return total

    @property
    def files(self) -> list[str]:
        """The names of the files, by day."""
        return sorted(day.file for day in self.days if day.file)

    @property
    def words(self) -> str:
        """What the folder has, and how much of it is missing, in one sentence."""
        tally, projects = self.tally, len({day.project for day in self.days})
        days = len({day.begin.date() for day in self.days})
        text = (
            f"{many(days, 'day')} of {many(projects, 'project')}: "
            f"{tally.runs:,} of {tally.runs_announced:,} runs, "
            f"{tally.jobs:,} of {tally.jobs_announced:,} jobs"
        )
        if tally.unfinished:
            text += f"; {many(tally.unfinished, 'run')} had not ended"
        if self.refused:
            names = ", ".join(list(self.refused)[:MAX_NAMED])
            text += f"; {many(len(self.refused), 'project')} refused ({names})"
        return text

    @property
    def is_complete(self) -> bool:
        """Whether all that the API announced was read, of all projects."""
        return self.tally.is_complete and not self.refused

    def put(self, day: Day) -> None:
        """Add a day; an earlier reading of it goes."""
        same = day.project, day.begin
        self.days = [one for one in self.days if (one.project, one.begin) != same]
        self.days.append(day)
        self.days.sort(key=lambda one: (one.begin, one.project))


def manifest_in(folder: Path, source: str, target: str) -> Manifest:
    """Return what a folder has already; raises InputError for one that holds something else."""
    path = folder / MANIFEST
    with file_access(path, "be read"):
        if not path.exists():
            if folder.exists() and any(folder.iterdir()):
                raise InputError(
                    f"{folder}: found other files; allowed: a new folder, or one of farm fetch"
                )
            return Manifest(source, target)
        content = read_whole(path)
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: garbled: {error}; allowed: as farm fetch wrote it") from None
    if (manifest.source, manifest.target) != (source, target):
        raise InputError(
            f"{folder}: found records of {manifest.source} {manifest.target}; "
            f"allowed: those of {source} {target}, or a new folder"
        )
    return manifest


def fetch(
    system: System,
    api: Api,
    manifest: Manifest,
    days: list[Window],
    folder: Path,
    now: Callable[[], datetime],
    on_day: OnDay = lambda *_: None,
) -> None:
    """Read what is missing of these days into the folder, and note it in the manifest.

    ``now`` tells the time; ``on_day`` is given how far it is. Raises ApiError; what was read until
    then is kept.
    """
    projects = system.projects(api, manifest.target)
    if not projects:
        raise InputError(f"{manifest.target}: has no projects that this token may read")
    known = {(day.project, day.begin): day for day in manifest.days}
    wanted = [
        (project, window)
        for window in days
        for project in projects
        if not _is_read(known.get((project, window.begin)), window)
    ]
    with file_access(folder):
        folder.mkdir(parents=True, exist_ok=True)
    manifest.refused = {}
    for number, (project, window) in enumerate(wanted):
        if project in manifest.refused:
            continue
        on_day(f"{project} {window.begin:%Y-%m-%d}", number, len(wanted))
        asked, tally = now(), Tally()
        name = f"{project.replace('/', '__')}__{window.begin:%Y-%m-%d}.jsonl.gz"
        with file_access(folder / name):
            try:
                any_record = _write(folder / name, system.pages(api, project, window, tally), tally)
            except (ForbiddenError, NotThereError) as error:
                if len(projects) == 1:
                    raise
                manifest.refused[project] = str(error)  # the others can be read
                continue
            manifest.put(
                Day(project, window.begin, window.end, asked, tally, name if any_record else "")
            )
            write_whole(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    on_day("", len(wanted), len(wanted))


def _is_read(day: Day | None, window: Window) -> bool:
    return day is not None and day.end >= window.end and day.is_final


def _write(path: Path, pages: Iterable[object], tally: Tally) -> bool:
    """Write pages, a line each; a day without runs leaves no file. Returns whether there is one."""
    with draft_of(path) as draft, gzip.open(draft, "wb", COMPRESSION) as file:
        for page in pages:
            file.write(msgspec.json.encode(page) + b"\n")
    if not tally.runs:
        path.unlink()
    return tally.runs > 0


def next_command(program: str, folder: Path) -> str:
    """Return the command that says why the jobs waited."""
    return f"{program} doctor {folder}"
