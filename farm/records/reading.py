"""Files are read: a trace whole; those of a source as a stream, counted, with checks of records."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path
from textwrap import shorten
from typing import Any, BinaryIO, NoReturn, TextIO, TypeVar, cast

import msgspec

from farm.core.errors import TraceError, file_access
from farm.records.attempt import Attempt
from farm.records.foreign_columns import NEVER, NO_VALUE, date_of_digits, in_seconds, time_of
from farm.records.json_stream import objects
from farm.records.key_styles import Respelled, as_it_is
from farm.whole_files import STDIN, ending, read_whole, standard_input

T = TypeVar("T")
U = TypeVar("U")

#: bytes that any gzip may unpack to, and how many times its size beyond that: recorded traces
#: shrink five- to tenfold, a gzip bomb a thousandfold
MAX_SMALL = 10_000_000
MAX_RATIO = 100
#: bytes that none may unpack to
MAX_UNPACKED = 1_000_000_000
REPEATED_BEFORE = 4
"""The hour of the night before which clocks are set back, in every zone."""
GZIP, PACKED_TWICE = b"\x1f\x8b", "it is packed twice; allowed: once"
_NO_TEXT = {
    b"PK\x03\x04": "a zip archive; allowed: the files in it",
    b"\xd0\xcf\x11\xe0": "a spreadsheet; allowed: its table, saved as CSV",
    b"(\xb5/\xfd": "a file packed by zstd; allowed: unpacked, or packed by gzip",
    b"BZh": "a file packed by bzip2; allowed: unpacked, or packed by gzip",
    b"\xfd7zX": "a file packed by xz; allowed: unpacked, or packed by gzip",
    b"PAR1": "a Parquet file; allowed: its table, saved as CSV",
    b"SQLi": "a database; allowed: a table of it, saved as CSV",
    b"%PDF": "a PDF; allowed: a table as CSV, or JSON",
}
"""What a file is that begins so, and what is read instead."""
_IN_SPREADSHEETS = (b"[Content_Types].xml", b"xl/", b"_rels/", b"opendocument.spreadsheet")
"""What the first bytes of a zip archive have that is a spreadsheet."""
_START = 512
"""Bytes of a file by which it is known what it is."""
WESTERN = "farm.windows-1252"
"""How bytes that are no UTF-8 are read: as Windows-1252, a superset of Latin-1."""
MAX_BESIDE = 2
"""Letters beyond ASCII that stand together in Western European text: beside more, it is none."""
_KEYS_OF_ERRORS = {
    "message",
    "error",
    "errors",
    "error_description",
    "documentation_url",
    "status",
    "code",
    "details",
}
"""The members of an answer that is an error, of all servers whose records are read."""
UNREADABLE = "that could not be read"
"""How the reason begins for which records are left out that could not; the first one follows."""
FIRST = 1 << 16
"""Characters of a first line by which a source is known: JSON may be all on one line."""


class SourceFile(msgspec.Struct, frozen=True):
    """A file as it was read."""

    name: str
    sha256: str
    bytes: int


class Missing(msgspec.Struct, frozen=True):
    """Records that the files speak of, and do not have."""

    #: what is missing: jobs, runs
    unit: str
    missing: int
    #: how many there are by the files' own word
    announced: int
    #: by which word, or what is to be done
    reason: str

    @property
    def share(self) -> float:
        """The share that is missing."""
        return self.missing / max(1, self.announced)

    @property
    def text(self) -> str:
        """What is missing, of how many, as a clause."""
        return f"{self.missing:,} of {self.announced:,} {self.unit} ({self.reason})"


OnShare = Callable[[float], None]
"""Told how much of the work is done, 0 to 1; of standard input, nothing."""


def unseen(_: float) -> None:
    """Show nothing."""


def part(on_share: OnShare, begin: float, length: float) -> OnShare:
    """Return what is told of a part of the work, from ``begin`` on."""
    return lambda share: on_share(begin + length * share)


class _LeftOutError(Exception):
    """Why a record makes no attempt."""


class UnreadableError(TraceError):
    """What is wrong with a record that cannot be read; its file may be sound otherwise."""


MAX_UNREADABLE = 0.1
"""The share of records from which on a file with unreadable ones is refused: it is not of the kind
that it is read as, or an option is missing."""
MANY_UNREADABLE = 1000
"""Unreadable records after which a file is refused without being read to its end, if most were."""


class Reading:
    """The files of a source while they are read, and what is left out of them, by reason."""

    def __init__(
        self,
        files: Iterable[Path],
        zone: tzinfo | None = None,
        on_read: OnShare = unseen,
        foreign: Callable[[dict[str, object]], str] = lambda _: "",
        style_of: Callable[[dict[str, object]], Respelled | None] = lambda _: as_it_is,
    ) -> None:
        self._paths = list(files)
        self._on_read = on_read
        #: what is wrong with the first object of a file, if it is of another source
        self._foreign = foreign
        #: how the keys of an object are to be spelled; None: it is of another kind
        self._style_of = style_of
        self._read = 0
        self._zone = zone
        self._path = STDIN
        #: of the present record, by which messages name it
        self.number = 0
        #: why records were left out, and how many of each
        self.left_out: Counter[str] = Counter()
        self._total = 0
        self._unreadable = 0
        #: what is wrong with the first record that could not be read
        self._first_unreadable = ""
        #: what was corrected or is unknown in records that were kept, and how many of each
        self.noted: Counter[str] = Counter()
        #: what the files speak of, and do not have
        self.missing: list[Missing] = []
        #: slots of the whole farm, where a file says so
        self.declared_slots: float | None = None
        #: of a table: its columns of times, by our names
        self.columns: dict[str, str] = {}
        #: local times that came twice, when the clock was set back: the earlier and the later one
        self.repeated: dict[float, float] = {}
        self.files: list[SourceFile] = []
        self._values = 0
        self._errors = 0
        self._names: dict[str, str] = {}
        self._nothing: dict[str, str] = {}
        self._attributes: dict[tuple[tuple[str, str], ...], dict[str, str]] = {(): self._nothing}

    def objects(self) -> Iterator[dict[str, object]]:
        """Yield the JSON objects of all files. Raises TraceError."""
        for text in self.texts():
            is_first = True
            for value in self.objects_of(text):
                self._values += 1
                if is_error_of_server(value):
                    self._errors += 1
                    continue
                if is_first and (why := self._foreign(value)):
                    self.refuse(why)
                is_first = False
                yield value

    def objects_of(self, text: TextIO, before: str = "") -> Iterator[dict[str, object]]:
        """Yield the JSON objects of one text; ``before``: what was read of it already."""
        style: Respelled | None = None
        try:
            for value in objects(text, before):
                # one client wrote all of a file
                style = style or self._style_of(value)
                yield value if style in (None, as_it_is) else style(value)
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            raise TraceError(f"{self._path}: {error}") from None

    def texts(self) -> Iterator[TextIO]:
        """Yield each file as text, unpacked if it is gzip. Raises TraceError."""
        whole = sum(path.stat().st_size for path in self._paths if path.is_file())

        def count(size: int) -> None:
            self._read += size
            if whole:
                self._on_read(min(1.0, self._read / whole))

        for path in self._paths:
            self._path, self.number = path, 0
            with file_access(self._path, "be read", TraceError), _opened(self._path) as binary:
                hashed = _Hashed(binary, count)
                text = _text_of(hashed, path)
                yield text
                if hashed.size == 0:
                    raise TraceError(f"{self._path}: is empty; allowed: records")
                name = "standard input" if self._path == STDIN else self._path.name
                self.files.append(SourceFile(name, hashed.digest(), hashed.size))

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Raise TraceError for a file that is damaged: at its beginning, or later."""
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TraceError(f"{self._path}: damaged or truncated gzip: {error}") from None
        except UnicodeDecodeError as error:
            raise TraceError(f"{self._path}: not UTF-8 text: {error.reason}") from None

    def count(self, records: int = 1) -> None:
        """Count records: messages name the last of them by its number."""
        self.number += records
        self._total += records

    def record(self, found: object, kind: type[T]) -> T:
        """Return the next record, as a struct. Raises TraceError with its number."""
        self.count()
        try:
            return msgspec.convert(found, kind)
        except msgspec.ValidationError:
            # null is how some servers write an empty list, and some write numbers as strings
            found = _without_nulls(found)
        try:
            return msgspec.convert(found, kind, strict=False)
        except msgspec.ValidationError as error:
            self.unreadable(str(error))

    def records(self, found: Iterable[object], kind: type[T]) -> Iterator[T]:
        """Yield the next records, as structs; one that cannot be read is left out: see ``end``."""
        for value in found:
            try:
                record = self.record(value, kind)
            except UnreadableError as error:
                self._count_unreadable(str(error))
            else:
                yield record

    def refuse(self, why: str) -> NoReturn:
        """Raise TraceError for the present record: the file is not what it is read as."""
        raise TraceError(self._at_record(why))

    def refuse_file(self, why: str) -> NoReturn:
        """Raise TraceError for the present file as a whole."""
        raise TraceError(f"{self._path}: {why}")

    def unreadable(self, why: str) -> NoReturn:
        """Raise UnreadableError for the present record, which ``attempts`` leaves out."""
        raise UnreadableError(self._at_record(why))

    def _at_record(self, why: str) -> str:
        where = f"record {self.number}" if self.number else "first record"
        return f"{self._path}: {where}: {why}"

    def leave_out_unreadable(self, why: str) -> None:
        """Count the present record as one that cannot be read. Raises TraceError if most cannot."""
        self._count_unreadable(self._at_record(why))

    def _count_unreadable(self, message: str) -> None:
        self._unreadable += 1
        self._first_unreadable = self._first_unreadable or message
        if self._unreadable >= MANY_UNREADABLE and 2 * self._unreadable > self._total:
            raise TraceError(self._first_unreadable)

    def end(self) -> None:
        """Count in ``left_out`` what could not be read. Raises TraceError if that was too much."""
        if self._errors:
            self.missing.append(
                Missing(
                    "answers",
                    self._errors,
                    self._values,
                    "they are errors of the server: fetch again from the first of them",
                )
            )
        if not self._unreadable:
            return
        if self._unreadable > MAX_UNREADABLE * self._total:
            raise TraceError(self._first_unreadable)
        first = shorten(self._first_unreadable, 160, placeholder=" …")
        self.left_out[f"{UNREADABLE} (the first: {first})"] += self._unreadable

    def refuse_other(self, found: dict[str, object], allowed: str) -> NoReturn:
        """Raise TraceError for an object that is none of this source."""
        self.count()
        names = shorten(", ".join(found), 100, placeholder=" …")
        self.refuse(f"found {names or 'nothing'}; allowed: {allowed}")

    def instant(self, found: str | None, name: str) -> float | None:
        """Return an ISO 8601 time as seconds since 1970; None: there is none.

        The beginning of 1970, and the years 1 and 9999, are how some programs write that there is
        none.
        A time without a zone is of the zone given by the user. Raises TraceError.
        """
        if not found:
            return None
        try:
            time = time_of(found)
        except ValueError as error:
            self.unreadable(f"{name}: found {found!r:.60}; allowed: {error}")
        if time.tzinfo is None:
            if self._zone is None:
                self.refuse(
                    f"{name}: found {found!r:.60}, a time without a zone; allowed: --zone UTC, "
                    "--zone Europe/Berlin, …: where the clock of these records was read"
                )
            time = time.replace(tzinfo=self._zone)
        at = time.timestamp()
        if not 0 < at < NEVER:
            return None
        if time.tzinfo is self._zone and time.hour < REPEATED_BEFORE:
            later_at = time.replace(fold=1).timestamp()
            if later_at > at:
                self.repeated[at] = later_at
        return at

    def moment(self, found: str, name: str, unit: str = "") -> float | None:
        """Return a time of a table: since 1970, in its unit or one that fits, or ISO 8601."""
        if ":" in found:  # no number: to find that out takes longer than to read it
            return self.instant(found, name)
        if found.lower() in NO_VALUE:
            return None
        if len(found) == len("20261102080640") and (date := date_of_digits(found)) is not None:
            return self.instant(date, name)
        try:
            number = float(found)
        except ValueError:
            return self.instant(found, name)
        if math.isnan(number):
            return None
        try:
            return in_seconds(number, unit)
        except ValueError as error:
            self.unreadable(f"{name}: found {found}; allowed: {error}")

    def needed(self, found: str | None, name: str) -> float:
        """Return a time that must be there. Raises TraceError."""
        at = self.instant(found, name)
        if at is None:
            self.unreadable(f"{name}: found none; allowed: a time as 2026-11-02T09:00:00Z")
        return at

    def share(self, one: Attempt) -> Attempt:
        """Let it have the names and attributes of others: they repeat, by the million.

        An attribute that is empty says nothing.
        """
        same = self._names.setdefault
        one.runner, one.platform = same(one.runner, one.runner), same(one.platform, one.platform)
        one.kind, one.user = same(one.kind, one.kind), same(one.user, one.user)
        one.matrix = same(one.matrix, one.matrix)
        found = one.attributes
        if not found:
            one.attributes = self._nothing
            return one
        if "" in found.values():
            found = {name: text for name, text in found.items() if text}
        one.attributes = self._attributes.setdefault(tuple(found.items()), found)
        return one

    def leave_out(self, why: str) -> NoReturn:
        """Say of a record that it makes no attempt, and why, to ``attempts``."""
        raise _LeftOutError(why)

    def attempts(
        self, records: Iterable[T], made: Callable[[T, Reading], Attempt]
    ) -> Iterator[Attempt]:
        """Yield the attempts that are made of records; see ``made``."""
        return self.made(records, made)

    def made(self, records: Iterable[T], make: Callable[[T, Reading], U]) -> Iterator[U]:
        """Yield what is made of records; those that are left out are counted by the reason.

        A record that cannot be read is left out, too: see ``end``.
        """
        for one in records:
            try:
                result = make(one, self)
            except _LeftOutError as why:
                self.left_out[str(why)] += 1
            except UnreadableError as error:
                self._count_unreadable(str(error))
            else:
                yield result


def is_error_of_server(value: Mapping[str, object]) -> bool:
    """Return whether this is what a server answers instead of records."""
    if not isinstance(value.get("message", value.get("error")), str):
        return False
    return value.keys() <= _KEYS_OF_ERRORS


def members(found: dict[str, object], name: str) -> list[object]:
    """Return the list that a member is, or an empty one."""
    value = found.get(name)
    return value if isinstance(value, list) else []


def progress(one: Any) -> tuple[bool, bool]:
    """Return how far an attempt, or a job of a source, had come when it was recorded."""
    return one.finished_at is not None, one.started_at is not None


def _without_nulls(found: object) -> object:
    if isinstance(found, list):
        return [_without_nulls(one) for one in found]
    if not isinstance(found, dict):
        return found
    return {name: _without_nulls(one) for name, one in found.items() if one is not None}


class _Hashed(io.RawIOBase):
    """A file whose bytes are counted and hashed while they are read."""

    def __init__(self, file: BinaryIO, count: Callable[[int], None]) -> None:
        self._file = file
        self._count = count
        self._hash = hashlib.sha256()
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._file.read(len(buffer))
        buffer[: len(found)] = found
        self._hash.update(found)
        self.size += len(found)
        self._count(len(found))
        return len(found)

    def digest(self) -> str:
        return self._hash.hexdigest()


def _text_of(binary: io.RawIOBase, path: Path) -> TextIO:
    buffered: Any = io.BufferedReader(binary, 1 << 16)
    if buffered.peek(2)[:2] == GZIP:
        buffered = io.BufferedReader(cast("Any", gzip.GzipFile(fileobj=buffered)), 1 << 16)
        if buffered.peek(2)[:2] == GZIP:
            raise gzip.BadGzipFile(PACKED_TWICE)
    first = buffered.peek(_START)[:_START]
    _refuse_no_text(path, first)
    encoding = encoding_of(first)
    return io.TextIOWrapper(buffered, encoding, _errors_of(encoding), newline="")


def _refuse_no_text(path: Path, first: bytes) -> None:
    """Raise TraceError for a file of another kind, which is known by its first bytes."""
    what = _NO_TEXT.get(first[:4]) or _NO_TEXT.get(first[:3])
    if what is None:
        return
    if first.startswith(b"PK") and any(part in first for part in _IN_SPREADSHEETS):
        what = "a spreadsheet; allowed: its table, saved as CSV"
    raise TraceError(f"{path}: found {what}")


def _errors_of(encoding: str) -> str:
    return WESTERN if encoding == "utf-8-sig" else "strict"


def _western(error: UnicodeError) -> tuple[str, int]:
    """Return a byte that is no UTF-8 as Windows-1252 has it, as spreadsheets save tables.

    Raises the error for what is no text of a Western European language: damage, or a binary file.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    beside = error.object[error.start : error.start + MAX_BESIDE + 1]
    if len(beside) > MAX_BESIDE and min(beside) >= 0x80:
        raise error
    try:
        return error.object[error.start : error.start + 1].decode("cp1252"), error.start + 1
    except UnicodeDecodeError:
        raise error from None


codecs.register_error(WESTERN, _western)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if path == STDIN:
        yield standard_input()
        return
    with ending(path).open("rb") as file:
        yield file


def encoding_of(first: bytes) -> str:
    """Return how text is encoded that begins so.

    UTF-16, as PowerShell writes it, is known by its mark, or by the zeros between its letters.
    """
    if first[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if first[1:2] == first[3:4] == b"\0":
        return "utf-16-le"
    return "utf-16-be" if first[:1] == first[2:3] == b"\0" else "utf-8-sig"


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzip (known by its first two bytes)."""
    try:
        content = read_whole(path)
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"{path}: cannot be read: {reason}") from None
    if not content.startswith(GZIP):
        return content
    most = min(MAX_UNPACKED, max(MAX_SMALL, MAX_RATIO * len(content)))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            unpacked = packed.read(most + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{path}: damaged or truncated gzip: {error}") from None
    if len(unpacked) > most:
        raise TraceError(
            f"{path}: gzip of {len(content):,} bytes unpacks to more than {most:,}; allowed: "
            f"{MAX_RATIO} times its size (or {MAX_SMALL:,} bytes), up to {MAX_UNPACKED:,}"
        )
    if unpacked.startswith(GZIP):
        raise TraceError(f"{path}: cannot be read: {PACKED_TWICE}")
    return unpacked


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, UTF-16 or Windows-1252 (gzip allowed)."""
    try:
        content = read_bytes(path)
        _refuse_no_text(path, content[:_START])
        encoding = encoding_of(content)
        return content.decode(encoding, _errors_of(encoding))
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: byte {error.start} is not UTF-8 text") from None
