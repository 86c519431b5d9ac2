"""From the files of a source, or a bundle, to a bundle in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path

from farm.core.errors import InputError, TraceError, not_among
from farm.records.attempt import Attempt
from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Bundle, bundle_of, is_bundle, read_bundle, refuse_other_folder
from farm.records.foreign_columns import is_above_header
from farm.records.needs_of_attempts import set_needs
from farm.records.reading import FIRST, OnShare, Reading, unseen
from farm.records.resolution import resolution_of
from farm.records.sifting import sifted
from farm.sim.garbage import no_garbage_collection
from farm.units import format_roughly
from farm.whole_files import STDIN
from farm_twin.sources import LOGS, SOURCES, TABLES, github, slurm, swf
from farm_twin.sources.workflow_files import read_workflow_files

NAMES = (*SOURCES, *TABLES, *LOGS)
ROUNDED = "began by a sliver before the job ahead on their runner had ended"
"""What is noted of jobs whose times were rounded begins so."""
WANTED = f"a table with a line of column names, or the JSON of {', '.join(SOURCES)}"
ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".swf")
"""How the names of files of records end, where a folder is given; they may be packed."""
MAX_FILES = 10_000
"""Files of a folder from which on it is taken for one of anything."""
RUN = "meta.json"
"""A file of each run, whose folder has no records of another farm."""
OTHERS = frozenset(("fetched.json", "readme.txt"))
"""Files beside records, as farm fetch leaves them."""
_YAML, _BETWEEN = re.compile(r"---|[A-Za-z_]\w*:(\s|$)"), re.compile("[,;|\t]")


def load_records(
    paths: Sequence[Path],
    source: str | None = None,
    fields: Mapping[str, str] | None = None,
    zone: tzinfo | None = None,
    on_read: OnShare = unseen,
    workflows: Path | None = None,
) -> Bundle:
    """Return the records in a bundle, or in the files of a source. Raises TraceError.

    ``on_read`` is given how much of the files is read, 0 to 1.
    """
    bundles = [path for path in paths if is_bundle(path)]
    if not bundles:
        return import_files(paths, source, fields, zone, on_read, workflows)
    if workflows is not None:
        raise InputError(
            f"--workflows: found with the bundle {bundles[0]}; allowed: with the files of github, "
            "from which a bundle is made"
        )
    if len(paths) > 1 or source is not None or fields:
        raise InputError(
            f"{bundles[0]}: found a bundle beside other files or options; allowed: one bundle, "
            "or the files of one source"
        )
    return read_bundle(bundles[0], on_read)


def import_files(
    files: Sequence[Path],
    source: str | None = None,
    fields: Mapping[str, str] | None = None,
    zone: tzinfo | None = None,
    on_read: OnShare = unseen,
    workflows: Path | None = None,
) -> Bundle:
    """Return the records in the files of a source. Raises TraceError with the record that is wrong.

    Of a folder all files of records are read, together. ``source`` is recognised by the first
    object, or line, if absent; ``fields`` are the columns of a table by our names (see
    ``farm_twin.sources.tables``); ``zone`` is that of instants without one. ``on_read`` is given
    how much is read. ``workflows`` is a folder of GitHub's workflow files: what jobs need.
    """
    files = files_in(files)
    source = source or source_of(files)
    if source not in NAMES:
        raise InputError(f"source: {not_among(source, NAMES)}")
    if fields and source not in TABLES:
        raise InputError(f"--column: found with {source}; allowed: with {', '.join(TABLES)}")
    if workflows is not None and source != "github":
        raise InputError(f"--workflows: found with {source}; allowed: with github")
    reading = Reading(files, zone, on_read, partial(_foreign, source))
    if source in SOURCES:
        style_of = SOURCES[source].style_of
        reading = Reading(files, zone, on_read, partial(_foreign, source), style_of)
    found: Iterable[Attempt]
    resolution = 0.0
    longest_open = float("inf")
    unique_ids = False
    if source in TABLES:
        found = TABLES[source](reading, fields or {})
    elif source in LOGS:
        found = LOGS[source](reading)
    else:
        system = SOURCES[source]
        if workflows is not None:
            system = github.source_with(read_workflow_files(workflows))
        found = system.read(reading)
        resolution = system.resolution
        longest_open = system.longest_open
        unique_ids = system.unique_ids
    # records have no cycles, and the collector would search all of them at each of its rounds
    with reading.checked(), no_garbage_collection():
        attempts = sifted(found, reading, longest_open, unique_ids=unique_ids)
    reading.end()
    if attempts:
        exact = resolution_of(AttemptColumns.of(attempts), resolution)
        resolution = exact.time
        if exact.slivers:
            reading.noted[_rounded(exact.time)] += exact.slivers
        set_needs(attempts, reading, resolution)
    return bundle_of(source, attempts, reading, resolution, zone or UTC)


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Return the files, those of folders by their names. Raises TraceError for one without any."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = [] if (path / RUN).is_file() else sorted(_inside(path))
        if not inside:
            refuse_other_folder(path)
        files += inside
    return files


def _inside(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, and of those in it, that may have records, by their names."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        count += len(names)
        if count > MAX_FILES:
            raise TraceError(
                f"{folder}: found more than {MAX_FILES:,} files; allowed: a folder of records"
            )
        for name in names:
            plain = name.lower().removesuffix(".gz")
            is_other = plain.startswith(".") or plain in OTHERS
            if plain.endswith(ENDINGS) and not is_other:
                yield Path(place, name)


def _rounded(resolution: float) -> str:
    """Return what is noted of jobs that seem to overlap the one ahead, by rounding alone."""
    exact_to = format_roughly(resolution)
    return f"{ROUNDED}: times are exact to {exact_to}, and an overlap of less is none"


def _foreign(source: str, value: dict[str, object]) -> str:
    """Return what is wrong with an object that is plainly of another source than this one."""
    if source not in SOURCES or SOURCES[source].knows(value):
        return ""
    other = next((name for name, one in SOURCES.items() if one.knows(value)), None)
    return f"found records of {other}; allowed: those of {source}, in each file" if other else ""


def _no_table(path: Path, first: str) -> str:
    """Return what a file is, by its first line, if it is plainly no table."""
    if first.lstrip().startswith("<"):
        return "a page of HTML or XML"
    if path.suffix in (".yaml", ".yml") or _YAML.match(first):
        return "YAML"
    return "" if not first or _BETWEEN.search(first) else "text without columns"


def _without_times(value: dict[str, object]) -> str:
    """Return what records are that lack the times of jobs, and what has them; empty: none such."""
    inner = value.get("jobs")
    jobs = inner if isinstance(inner, list) else [value]
    job = jobs[0] if jobs and isinstance(jobs[0], dict) else {}
    if "databaseId" in job:
        return (
            "what gh run writes, which does not say when jobs were created; allowed: the jobs of "
            "each run, as by gh api repos/OWNER/NAME/actions/runs/RUN/jobs"
        )
    return ""


def source_of(files: Sequence[Path]) -> str:
    """Return the source whose records these are, by the first one. Raises TraceError."""
    if files[:1] == [STDIN]:
        raise InputError(f"--source: found none; allowed with standard input: {', '.join(NAMES)}")
    paths = files_in(files)
    for path in paths:
        source = _source_in(path)
        if source:
            return source
    raise TraceError(f"{paths[0]}: found no record; allowed: those of {', '.join(NAMES)}")


def _source_in(path: Path) -> str:
    """Return the source whose records a file has; empty: it has none."""
    reading = Reading([path])
    with reading.checked():
        for text in reading.texts():
            first = text.readline(FIRST)
            while is_above_header(first):
                first = text.readline(FIRST)
            if not first.lstrip().startswith(("{", "[")):
                if swf.knows_line(first):
                    return "swf"
                if what := _no_table(path, first):
                    raise TraceError(f"{path}: found {what}; allowed: {WANTED}")
                return "slurm" if slurm.knows_line(first) else "csv"
            for value in reading.objects_of(text, first):
                if next(iter(value), "") in ("message", "error"):
                    error_text = ", ".join(map(str, value.values()))
                    raise TraceError(
                        f"{path}: a server's error: {error_text:.100}; allowed: {WANTED}"
                    )
                if what := _without_times(value):
                    raise TraceError(f"{path}: found {what}")
                for name, source in SOURCES.items():
                    if source.style_of(value) is not None:
                        return name
                return "jsonl"
    return ""
