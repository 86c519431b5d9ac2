"""The bundle: a directory with the attempts of a farm, as every reader of records takes them.

=====================  ========================================================================
``manifest.json``      where it comes from: source, files with their SHA-256, window, zone, and how
                       many records were kept, left out and corrected, by reason
``jobs.jsonl.gz``      the attempts, one JSON object a line, by when they could start
``capacity.jsonl.gz``  the runners that were seen: from when to when, and their slots
=====================  ========================================================================
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import numpy as np
from msgspec.json import Decoder

from farm.core.errors import TraceError, file_access
from farm.core.fields import json_name
from farm.records.attempt import Attempt, times_of
from farm.records.attempt_columns import AttemptColumns
from farm.records.reading import Missing, OnShare, Reading, SourceFile, unseen
from farm.records.runners import ROUNDING, Runner, runners_of
from farm.whole_files import ending, read_whole

VERSION = 1
MANIFEST, JOBS, CAPACITY = "manifest.json", "jobs.jsonl.gz", "capacity.jsonl.gz"
_AT_ONCE = 4096
_PIECE = 1 << 20


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The content of manifest.json."""

    version: int = VERSION
    source: str
    files: list[SourceFile]
    #: of the first and the last instant, ISO 8601 in the zone
    begins: str
    ends: str
    zone: str
    #: of the source's instants, seconds
    resolution_time: float
    kept: int
    left_out: dict[str, int]
    noted: dict[str, int]
    anonymized: bool = False
    #: that the farm is said to have, by the user
    capacity: float | None = msgspec.field(name="slots_told", default=None)
    #: what the files speak of, and do not have
    missing: list[Missing] = []
    #: of a table: its columns of times, by our names
    columns: dict[str, str] = {}
    #: of a part: from when to when its jobs arrived, seconds since 1970; None: all did
    window: tuple[float, float] | None = None
    #: what made it from other bundles
    history: list[str] = []
    #: of the other files
    sha256: dict[str, str] = {}

    @property
    def read(self) -> int:
        """The number of records that were read."""
        return self.kept + sum(self.left_out.values())

    @property
    def is_part(self) -> bool:
        """Whether it is a part of other records, to which what was counted at import belongs."""
        return self.window is not None

    def summary(self) -> str:
        """Return how many records were kept, and why others were not."""
        if not self.left_out:
            return f"kept {self.kept:,} of {self.read:,}"
        reasons = sorted(self.left_out.items(), key=lambda one: (-one[1], one[0]))
        return f"kept {self.kept:,} of {self.read:,}: " + ", ".join(
            f"{count:,} {why}" for why, count in reasons
        )

    @property
    def remarks(self) -> list[str]:
        """What a reader of the records must know: what was left out, corrected, or is unknown."""
        noted = (f"{count:,} {why}" for why, count in self.noted.items())
        missing = (f"not in these files: {part.text}" for part in self.missing)
        return [*missing, self.summary(), *noted, *self.history]

    @property
    def clock(self) -> tzinfo:
        """The zone in which the source's clocks are. Raises TraceError."""
        try:
            return UTC if self.zone in ("UTC", "") else ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise TraceError(
                f"{MANIFEST}: zone: found {self.zone!r:.60}; allowed: a name as Europe/Berlin"
            ) from None


class Clock(msgspec.Struct, frozen=True):
    """The clock of a farm, as it went when its records began."""

    zone: str = "UTC"
    #: of UTC, seconds
    ahead: float = 0.0
    #: seconds by which instants may be out of order without meaning it
    resolution: float = 0.0


class Bundle(msgspec.Struct, frozen=True):
    """The records of a farm in memory."""

    manifest: Manifest
    attempts: list[Attempt]

    def runners(self) -> list[Runner]:
        """Return the runners that were seen."""
        return runners_of(AttemptColumns.of(self.attempts), self.manifest.resolution_time)

    @property
    def clock(self) -> Clock:
        """The source's clock. Raises TraceError."""
        first = datetime.fromtimestamp(self.arrivals[0], self.manifest.clock)
        ahead = first.utcoffset() or timedelta()
        resolution = self.manifest.resolution_time + ROUNDING
        return Clock(self.manifest.zone or "UTC", ahead.total_seconds(), resolution)

    @property
    def arrivals(self) -> tuple[float, float]:
        """From when to when jobs arrived, seconds since 1970."""
        if self.manifest.window is not None:
            return self.manifest.window
        times = [one.arrived_at for one in self.attempts]
        return min(times), max(times)

    def derived(
        self,
        attempts: list[Attempt],
        left_out: Mapping[str, int],
        noted: Mapping[str, int],
        *history: str,
        window: tuple[float, float] | None,
    ) -> Bundle:
        """Return a bundle of other attempts, made from this one.

        ``left_out`` and ``noted`` are counted beside what this one has. Raises TraceError if there
        are no attempts.
        """
        if not attempts:
            raise TraceError(f"found no attempt that is left: {_reasons(left_out)}")
        attempts = sorted(attempts, key=lambda one: one.arrived_at)
        known = self.manifest
        begins, ends = _window(attempts, known.clock)
        manifest = msgspec.structs.replace(
            known,
            begins=begins,
            ends=ends,
            kept=len(attempts),
            left_out=_sum(known.left_out, left_out),
            noted=_sum(known.noted, noted),
            window=window,
            history=[*known.history, *history],
            sha256={},
        )
        return Bundle(manifest, attempts)


def _sum(known: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of two counts, without zeros."""
    return {why: n for why in (*known, *more) if (n := known.get(why, 0) + more.get(why, 0))}


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {why}" for why, count in counts.items() if count)


def bundle_of(
    source: str, attempts: list[Attempt], reading: Reading, resolution: float, zone: tzinfo
) -> Bundle:
    """Return the bundle of these attempts. Raises TraceError if there are none."""
    if not attempts:
        missing = (f"not in these files: {part.text}" for part in reading.missing)
        why = ", ".join(filter(None, [*missing, _reasons(reading.left_out)]))
        names = ", ".join(one.name for one in reading.files)
        raise TraceError(f"{names}: found no attempt that can be used{': ' + why if why else ''}")
    begins, ends = _window(attempts, zone)
    manifest = Manifest(
        source=source,
        files=reading.files,
        begins=begins,
        ends=ends,
        zone=str(zone),
        resolution_time=resolution,
        kept=len(attempts),
        left_out=dict(+reading.left_out),
        noted=dict(reading.noted),
        capacity=reading.declared_slots,
        missing=reading.missing,
        columns=reading.columns,
    )
    return Bundle(manifest, attempts)


def with_capacity(bundle: Bundle, slots: float | None) -> Bundle:
    """Return the bundle of a farm that is said to have these slots (None: as before)."""
    if slots is None:
        return bundle
    return Bundle(msgspec.structs.replace(bundle.manifest, capacity=slots), bundle.attempts)


def _window(attempts: Sequence[Attempt], zone: tzinfo) -> tuple[str, str]:
    """Return the first and the last instant, by a zone's clock. Raises TraceError."""
    names = ("submitted_at", "started_at", "finished_at")
    times = np.concatenate([times_of(attempts, name) for name in names])
    return _readable(float(np.nanmin(times)), zone), _readable(float(np.nanmax(times)), zone)


def _readable(at: float, zone: tzinfo) -> str:
    try:
        return datetime.fromtimestamp(at, zone).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        raise TraceError(f"found the time {at:g}; allowed: seconds since 1970") from None


def is_bundle(path: Path) -> bool:
    """Return whether this is the directory of a bundle."""
    return (path / MANIFEST).is_file() and (path / JOBS).is_file()


def refuse_other_folder(path: Path) -> None:
    """Raise TraceError for a folder that is not a bundle's, such as a run's."""
    if path.is_dir() and not is_bundle(path):
        table, of_run = path / "jobs.csv", ""
        if table.is_file():
            of_run = f", or of this run {table}"
        elif (path / "meta.json").is_file():  # it is kept as its inputs
            of_run = f", or of this run what farm admin export {path} --format csv writes"
        raise TraceError(
            f"{path}: is a folder, and not a bundle; allowed: one that farm import wrote, or files"
            f"{of_run}"
        )


def write_bundle(path: Path, bundle: Bundle) -> None:
    """Write a bundle, whole or not at all. Raises InputError."""
    draft = path.with_name(f"{path.name}.part")
    with file_access(path):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            sums = {
                JOBS: _write_lines(draft / JOBS, bundle.attempts),
                CAPACITY: _write_lines(draft / CAPACITY, bundle.runners()),
            }
            manifest = msgspec.structs.replace(bundle.manifest, sha256=sums)
            text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
            (draft / MANIFEST).write_bytes(text + b"\n")
            draft.rename(path)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _write_lines(path: Path, values: Iterable[object]) -> str:
    encoder, left = msgspec.json.Encoder(), iter(values)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 4, file, mtime=0) as packed:
        while some := list(islice(left, _AT_ONCE)):
            packed.write(encoder.encode_lines(some))
    with path.open("rb") as written:
        return hashlib.file_digest(written, "sha256").hexdigest()


def read_bundle(path: Path, on_read: OnShare = unseen) -> Bundle:
    """Read a bundle. Raises TraceError with the file and line that is wrong.

    ``on_read`` is given how much is read, 0 to 1.
    """
    refuse_other_folder(path)
    with file_access(path, "be read", TraceError):
        try:
            manifest = msgspec.json.decode(read_whole(path / MANIFEST), type=Manifest)
        except msgspec.MsgspecError as error:
            raise TraceError(f"{path / MANIFEST}: not a bundle's manifest: {error}") from None
        if manifest.version != VERSION:
            raise TraceError(f"{path}: found version {manifest.version}; allowed: {VERSION}")
        return Bundle(manifest, _attempts(path / JOBS, manifest.kept, on_read))


def _attempts(path: Path, kept: int, on_read: OnShare) -> list[Attempt]:
    """Return the attempts of a file, which has as many as the manifest says."""
    decoder, found = Decoder(Attempt), list[Attempt]()
    before, rest = 0, b""
    try:
        with gzip.open(ending(path), "rb") as file:
            while (more := file.read(_PIECE)) or rest:
                lines, newline, rest = (rest + more).rpartition(b"\n") if more else (rest, b"", b"")
                try:
                    found += decoder.decode_lines(lines)
                except msgspec.MsgspecError:
                    _refuse(path, decoder, lines.split(b"\n"), before)
                before += lines.count(b"\n") + len(newline)
                on_read(min(1.0, len(found) / max(1, kept)))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{path}: damaged or truncated gzip: {error}") from None
    return found


def _refuse(path: Path, decoder: Decoder[Attempt], lines: list[bytes], before: int) -> None:
    """Raise TraceError for the line that is wrong."""
    for number, line in enumerate(lines, before + 1):
        try:
            decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise TraceError(f"{path}, line {number}: {error}") from None
