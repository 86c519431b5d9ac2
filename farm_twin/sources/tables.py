"""``csv`` and ``jsonl``: attempts of any other system, in columns or members that the user names.

Known names: id job submitted eligible started finished wait duration result runner slots platform
kind matrix user attempt. A column is known by its own name, also with an ending or a unit
(``submitted_at``, ``Run Time (ms)``), and so are those of jobs.csv. A mapping adds to these;
without one, all other columns become attributes. Numbers of a time are in the unit that the mapping
says, or the column's name.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice, tee
from typing import TextIO

from farm.columns import Floats
from farm.core.errors import TraceError
from farm.records.attempt import Attempt
from farm.records.foreign_columns import (
    CALENDAR,
    DERIVED,
    MILLISECONDS,
    NEVER,
    NO_VALUE,
    missing_column,
    numbers_in,
    plain_names,
    result_of,
    span_of,
    stamps,
    table_of,
    time_of,
    times_named,
    with_recognised,
    with_units,
)
from farm.records.notation import INSTANTS, Notation, notation_of, without_endings
from farm.records.reading import Reading, UnreadableError

#: rows of a table that are read together, some megabytes
ROWS_AT_ONCE = 4096
#: characters of a date that is written as one number, as 20261102080640
LENGTH_OF_DATE = 14
#: how MongoDB's JSON says of what type a value is
_TYPES = ("$date", "$numberLong", "$numberInt", "$numberDouble", "$oid")
#: how .NET, and so PowerShell, writes a number of milliseconds
_DATE_OF_NET = re.compile(r"/Date\((-?\d+)(?:[+-]\d{4})?\)/")
_HAS_ZONE = re.compile(r":.*(Z|[+-][0-9]{2}:[0-9]{2})\Z")
#: numbers below are believed
MOST = 1e12
#: objects of which one has each member: JSON leaves out what a job has not yet
MANY = 1000
NO_ELIGIBILITY = "without a time of eligibility, their waits not known"
"""What is noted of rows that started, and do not say from when they waited."""
MAX_LINES = 1000
"""Lines that a row of a table may have, in its quotes."""
NO_UNIT = "without a unit, taken as seconds"
"""What is noted of rows whose spans are numbers, and whose column does not say of what."""
SPANS = ("duration", "wait")
TIMES = (*INSTANTS, *SPANS)
NAMES = ("id", "job", "runner", "platform", "kind", "matrix", "user")
Row = tuple[dict[str, str], dict[str, str]]
"""The values of a row by our names, and the units of its times."""
KNOWN = {*INSTANTS, *NAMES, "duration", "wait", "result", "slots", "attempt"}


def read_csv(reading: Reading, fields: Mapping[str, str]) -> Iterator[Attempt]:
    """Yield the rows of tables as attempts; ``fields``: their columns, by our names."""
    fields, mapped = without_endings(fields)
    for text in reading.texts():
        yield from _Table(text, fields, mapped, reading).attempts()


def read_jsonl(reading: Reading, fields: Mapping[str, str]) -> Iterator[Attempt]:
    """Yield objects as attempts; ``fields``: their members, by our names (``a.b``: b of a)."""
    fields, mapped = without_endings(fields)
    given = _given(_members(reading), fields, reading)
    yield from reading.attempts(_plain(given, "", mapped, reading), _attempt)


def _members(reading: Reading) -> Iterator[dict[str, str]]:
    """Yield the members of objects; those that only others have are empty."""
    for text in reading.texts():
        objects = chain.from_iterable(map(_rows_in, reading.objects_of(text)))
        some = list(islice(objects, MANY))
        names: dict[str, object] = dict.fromkeys(name for one in some for name, _ in _flat(one))
        for one in chain(some, objects):
            reading.count()
            members = {**names, **dict(_flat(one))}
            names.update(dict.fromkeys(members))
            yield {name: _text(value) for name, value in members.items()}


def _rows_in(value: dict[str, object]) -> Iterator[dict[str, object]]:
    """Yield the objects in an answer around them, as ``{"data": [{…}, …]}``; else this one.

    Or those that it has by their ids.
    """
    inner = list(value.values())
    if len(inner) > 1 and all(isinstance(one, dict) and _has_times(one) for one in inner):
        for name, one in value.items():
            yield {"id": name, **one} if isinstance(one, dict) else {}
        return
    flat = list(_flat(value))
    lists = [found for _, found in flat if isinstance(found, list) and found]
    if _has_times(value) or len(lists) != 1 or not all(isinstance(one, dict) for one in lists[0]):
        yield value
        return
    yield from lists[0]


def _has_times(value: Mapping[str, object]) -> bool:
    names = (name for name, _ in _flat(value))
    return any(time is not None for time, _ in times_named(names).values())


class _NoRow(list[str]):
    """What is wrong with a row that is none, instead of its cells."""


def _cells(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    """Yield the cells of each row, or what is wrong with it.

    A row with a quote that nothing closes has all that follows, by the rules; so it is taken for
    one line, and the lines behind it are read again.
    """
    left = iter(lines)
    again: deque[str] = deque()
    of_row: list[str] = []

    def read() -> Iterator[str]:
        while True:
            line = again.popleft() if again else next(left, "")
            if not line:
                return
            of_row.append(line)
            if len(of_row) > MAX_LINES:
                raise csv.Error(f"a quote that is not closed within {MAX_LINES} lines")
            yield line

    rows = csv.reader(read(), delimiter=separator, strict=True)
    while True:
        of_row.clear()
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield _NoRow([str(error)])
            again.extendleft(reversed(of_row[1:]))
            rows = csv.reader(read(), delimiter=separator, strict=True)


class _Table:
    """A table whose rows are read together where all of them are as usual, and else one by one.

    Both ways give the same attempts; only one by one are records left out, and errors told.
    """

    def __init__(
        self, text: TextIO, fields: Mapping[str, str], mapped: Notation, reading: Reading
    ) -> None:
        self._fields = fields
        self._mapped = mapped
        self._reading = reading
        try:
            self._header, rows = table_of(text)
        except csv.Error as error:
            reading.refuse(f"not a table: {error}")
        self._separator = rows.dialect.delimiter
        #: the lines, and once more those of the present block
        self._lines, self._lines_of_block = tee(text)
        if amiss := missing_column(fields, self._header):
            reading.refuse(amiss)
        #: the place of each column among a row's cells
        self._places = {name: place for place, name in enumerate(self._header)}
        #: the columns that are used, by our names, and the units of the times; None: not known yet
        self._used: tuple[dict[str, str], dict[str, str]] | None = None

    def attempts(self) -> Iterator[Attempt]:
        """Yield the rows as attempts.

        The first block shows how dates and numbers are written, or else all of them do.
        """
        reading = self._reading
        blocks = self._blocks()
        first = next(blocks, [])
        # the first row alone: it shows which columns there are
        known = [first[:1], first[1:]]
        try:
            notation = self._notation_in(first)
        except ValueError:
            known.extend(blocks)
            try:
                notation = self._notation_in(chain.from_iterable(known))
            except ValueError as error:
                reading.refuse_file(str(error))
        for rows in filter(None, chain(known, blocks)):
            attempts = None
            if notation == Notation():
                attempts = self._attempts_together(rows)
            if attempts is None:
                given = _given(self._sound(rows), self._fields, reading)
                plain = (_read_by(notation, row, reading) for row in given)
                yield from reading.attempts(plain, _attempt)
            else:
                reading.count(len(rows))
                yield from attempts

    def _notation_in(self, rows: Iterable[list[str]]) -> Notation:
        """Return how these rows have dates and numbers. Raises ValueError."""
        sound = [cells for cells in rows if len(cells) == len(self._header)]
        used: dict[str, str] = {}
        with suppress(TraceError):  # it is raised again at the first row
            used, _ = _places(dict.fromkeys(self._header, ""), self._fields, self._reading)
        columns = {}
        for name in TIMES:
            if name in used:
                place = self._places[used[name]]
                columns[name] = [text for cells in sound if (text := cells[place].strip())]
        return notation_of(columns, self._separator, self._mapped)

    def _blocks(self) -> Iterator[list[list[str]]]:
        """Yield the rows, some at a time; an error comes after the rows that precede it."""
        error: Exception | None = None
        reader = csv.reader(self._lines, delimiter=self._separator, strict=True)
        rows: Iterator[list[str]] = reader
        lines = 0
        while error is None:
            block: list[list[str]] = []
            try:
                for row in islice(rows, ROWS_AT_ONCE):
                    block.append(row)  # noqa: PERF402 - so that an error leaves those before it
            except csv.Error:  # from here on, each row is looked at by itself
                rows = _cells(self._lines_of_block, self._separator)
                continue
            except Exception as raised:  # noqa: BLE001 - raised again below
                error = raised
            if rows is reader:
                deque(islice(self._lines_of_block, reader.line_num - lines), maxlen=0)
                lines = reader.line_num
            if not block:
                break
            yield block
        if error is not None:
            raise error

    def _sound(self, rows: Iterable[list[str]]) -> Iterator[dict[str, str]]:
        """Yield the rows that have as many cells as there are columns, by column."""
        reading = self._reading
        header = self._header
        for cells in rows:
            if not cells:
                continue
            reading.count()
            if isinstance(cells, _NoRow):
                reading.leave_out_unreadable(f"not a row of a table: {cells[0]}")
                continue
            if cells == header:  # of the next file, one after the other
                continue
            if len(cells) == len(header) + 1 and not cells[-1]:
                cells.pop()  # each row ends with a separator
            if len(cells) != len(header):
                reading.leave_out_unreadable(
                    f"found {len(cells)} values; allowed: {len(header)}, as columns"
                )
                continue
            if self._used is None:
                self._used = _places(dict.fromkeys(header, ""), self._fields, reading)
            yield dict(zip(header, cells, strict=True))

    def _attempts_together(self, rows: Sequence[list[str]]) -> list[Attempt] | None:
        """Return what is made of these rows; None: they have to be read one by one."""
        if self._used is None or {*map(len, rows)} != {len(self._header)} or self._header in rows:
            return None
        used, units = self._used
        cells = list(zip(*rows, strict=True))
        given = {ours: list(map(str.strip, cells[self._places[of]])) for ours, of in used.items()}
        try:
            return _attempts_of(given, units, self._reading)
        except (UnreadableError, _UnusualError):
            return None


def _flat(found: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in found.items():
        if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _TYPES:
            # {"$date": …}, also in each other, as databases of documents write what a value is
            yield from _flat({name: next(iter(value.values()))}, before)
        elif isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, str) and (match := _DATE_OF_NET.fullmatch(value)):
        return match[1]
    return "" if value is None else str(value)


class _UnusualError(Exception):
    """Rows have to be read one by one."""


def _attempts_of(
    given: Mapping[str, list[str]], units: Mapping[str, str], reading: Reading
) -> list[Attempt]:
    """Return the attempts of rows by our names, as ``_attempt`` makes each of them.

    Raises _UnusualError or UnreadableError if one of them has to be looked at by itself.
    """
    count = len(next(iter(given.values())))
    nothing: list[float | None] = [None] * count
    at = {
        name: _instants_together(given[name], units.get(name, "")) if name in given else nothing
        for name in INSTANTS
    }
    started, finished = at["started"], at["finished"]
    eligible = at["eligible"] if "eligible" in given else at["submitted"]
    submitted = [
        later if instant is None else instant
        for instant, later in zip(at["submitted"], eligible, strict=True)
    ]
    if None in submitted or _has_span(given, "wait", started, eligible):
        raise _UnusualError
    if _has_span(given, "duration", finished, started):
        raise _UnusualError

    empty = [""] * count
    slots_of = {text: _slots(text, reading, has_started=True) for text in {*given.get("slots", ())}}
    number_of = {
        text: int(_number(text, "attempt", reading)) for text in {*given.get("attempt", ())}
    }
    runner_of = {
        text: "" if text.lower() in NO_VALUE else text for text in {*given.get("runner", ())}
    }
    others = [name for name in given if name not in KNOWN]
    attributes: list[dict[str, str]] = [{}] * count
    if others:
        texts = zip(*(given[name] for name in others), strict=True)
        attributes = [dict(zip(others, row, strict=True)) for row in texts]
    missing = sum(
        instant is None and start is not None
        for instant, start in zip(eligible, started, strict=True)
    )
    if missing:
        reading.noted[NO_ELIGIBILITY] += missing
    columns = zip(
        given.get("id", empty),
        submitted,
        eligible,
        started,
        finished,
        map(result_of, given.get("result", empty), started, finished),
        map(slots_of.__getitem__, given["slots"]) if slots_of else [1] * count,
        map(number_of.__getitem__, given["attempt"]) if number_of else [1] * count,
        attributes,
        given.get("job", empty),
        map(runner_of.__getitem__, given["runner"]) if runner_of else empty,
        given.get("platform", empty),
        given.get("kind", empty),
        given.get("matrix", empty),
        given.get("user", empty),
        strict=True,
    )
    return [
        Attempt(
            id=name,
            submitted_at=submitted_at,
            eligible_at=eligible_at,
            started_at=started_at,
            finished_at=finished_at,
            result=result,
            slots=slots,
            attempt=number,
            attributes=texts_of_others,
            job=job,
            runner=runner,
            platform=platform,
            kind=kind,
            matrix=matrix,
            user=user,
        )
        for (
            name,
            submitted_at,
            eligible_at,
            started_at,
            finished_at,
            result,
            slots,
            number,
            texts_of_others,
            job,
            runner,
            platform,
            kind,
            matrix,
            user,
        ) in columns
    ]


def _has_span(
    given: Mapping[str, list[str]],
    name: str,
    ends: Sequence[float | None],
    begins: Sequence[float | None],
) -> bool:
    """Return whether some instants follow from spans of time."""
    if name not in given:
        return False
    rows = zip(given[name], ends, begins, strict=True)
    return any(text and end is None and begin is not None for text, end, begin in rows)


def _begin_of_day(text: str) -> float:
    return time_of(text).timestamp()


def _may_be_date(text: str) -> bool:
    """Return whether a number may be a date, as 20261102080640, in whichever unit it seems to be.

    Seconds and thousandths (1793606800.125) have as many characters.
    """
    return len(text) == LENGTH_OF_DATE and text.isdigit()


def _instants_together(texts: list[str], unit: str) -> list[float | None]:
    """Return the times of a column, as ``Reading.moment`` and ``_instants`` return each of them.

    Raises _UnusualError if they are not all of one form, or if one may stand for no time.
    """
    known = [text for text in texts if text] if "" in texts else texts
    if not known:
        return [None] * len(texts)
    first = known[0]
    instants: Floats | None = None
    if _HAS_ZONE.search(first):
        instants = stamps(known, _begin_of_day)
    elif ":" not in first and not any(map(_may_be_date, known)):
        instants = numbers_in(known, unit)
        if instants is not None and not unit and instants.max() >= MILLISECONDS:
            instants = None
    if instants is None or not 0 < instants.min() <= instants.max() < NEVER:
        raise _UnusualError
    if known is texts:
        return list(instants.tolist())
    found = iter(instants.tolist())
    return [next(found) if text else None for text in texts]


def _given(
    rows: Iterable[dict[str, str]], fields: Mapping[str, str], reading: Reading
) -> Iterator[Row]:
    """Yield the values of each row by our names, and the units of the times."""
    places: dict[str, str] = {}
    units: dict[str, str] = {}
    names: Collection[str] = ()
    for row in rows:
        if row.keys() != names:
            places, units = _places(row, fields, reading)
            names = row.keys()
        yield {ours: row.get(theirs, "").strip() for ours, theirs in places.items()}, units


def _plain(
    rows: Iterable[Row], separator: str, mapped: Notation, reading: Reading
) -> Iterator[Row]:
    """Yield rows with dates and numbers of times as they are read, however the table has them.

    Some rows show how that is; if they do not, all of them are looked at.
    """
    rows = iter(rows)
    numbered = ((reading.number, row) for row in rows)
    some = list(islice(numbered, MANY))
    try:
        notation = _notation(some, separator, mapped)
    except ValueError:
        some.extend(numbered)
        try:
            notation = _notation(some, separator, mapped)
        except ValueError as error:
            reading.refuse_file(str(error))
    last = reading.number
    for number, row in some:
        reading.number = number
        yield _read_by(notation, row, reading)
    reading.number = last
    if notation == Notation():
        yield from rows
    for row in rows:
        yield _read_by(notation, row, reading)


def _read_by(notation: Notation, row: Row, reading: Reading) -> Row:
    if notation == Notation():
        return row
    for remark in notation.remarks:
        reading.noted[remark] += 1
    given, units = row
    instants = {name: notation.instant(given[name]) for name in INSTANTS if name in given}
    spans = {name: notation.plain(given[name]) for name in SPANS if name in given}
    return {**given, **instants, **spans}, units


def _notation(rows: Sequence[tuple[int, Row]], separator: str, mapped: Notation) -> Notation:
    columns = {name: [given[name] for _, (given, _) in rows if given.get(name)] for name in TIMES}
    return notation_of(columns, separator, mapped)


def _places(
    row: Mapping[str, str], fields: Mapping[str, str], reading: Reading
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns that are used, by our names, and the units of the times.

    A column may stand for two of them: jobs that could start when they were submitted.
    """
    if missing := missing_column(fields, row):
        reading.refuse(missing)
    if fields:
        columns, units = with_units(with_recognised(fields, row, KNOWN))
    else:
        by_name, units = with_units({name: name for name in row if name not in DERIVED})
        plain = plain_names(by_name)
        columns = {plain[ours]: theirs for ours, theirs in by_name.items()}
    instead = {"submitted": "eligible", "started": "wait"}
    needed = [name for name in instead if {name, instead[name]}.isdisjoint(columns)]
    if needed:
        reading.refuse(
            f"found no column for {' and '.join(needed)}; allowed: --column {needed[0]}=NAME"
            f"{', or wait=NAME' if needed[0] == 'started' else ''}, one of {', '.join(row):.300}"
        )
    reading.columns = {name: columns[name] for name in INSTANTS if name in columns}
    return columns, units


def _attempt(row: Row, reading: Reading) -> Attempt:
    given, units = row
    at = _instants(given, units, reading)
    eligible_at = at["eligible"] if "eligible" in given else at["submitted"]
    submitted_at = at["submitted"] if at["submitted"] is not None else eligible_at
    if submitted_at is None:
        reading.leave_out("without a time of submission")
    for after, span, before in (("started", "wait", eligible_at), ("finished", "duration", None)):
        begins = at["started"] if before is None else before
        text = given.get(span, "")
        if at[after] is None and begins is not None and text.lower() not in NO_VALUE:
            at[after] = begins + _span(text, span, units.get(span, ""), reading)
    if eligible_at is None and at["started"] is not None:
        reading.noted[NO_ELIGIBILITY] += 1
    runner = given.get("runner", "")
    return Attempt(
        id=given.get("id", ""),
        submitted_at=submitted_at,
        eligible_at=eligible_at,
        started_at=at["started"],
        finished_at=at["finished"],
        result=result_of(given.get("result", ""), at["started"], at["finished"]),
        slots=_slots(given.get("slots", ""), reading, has_started=at["started"] is not None),
        attempt=int(_number(given.get("attempt", ""), "attempt", reading)),
        attributes={name: text for name, text in given.items() if name not in KNOWN},
        job=given.get("job", ""),
        runner="" if runner.lower() in NO_VALUE else runner,
        platform=given.get("platform", ""),
        kind=given.get("kind", ""),
        matrix=given.get("matrix", ""),
        user=given.get("user", ""),
    )


def _instants(
    given: Mapping[str, str], units: Mapping[str, str], reading: Reading
) -> dict[str, float | None]:
    """Return the instants of a row. Beside a date, 0 and -1 are how some programs write none."""
    at = {name: reading.moment(given.get(name, ""), name, units.get(name, "")) for name in INSTANTS}
    if any(instant is not None and instant >= CALENDAR for instant in at.values()):
        at = {
            name: None if instant is None or instant <= 0 else instant
            for name, instant in at.items()
        }
    return at


def _span(text: str, name: str, unit: str, reading: Reading) -> float:
    if not unit and text.replace(".", "", 1).isdigit():
        reading.noted[f"{name} {NO_UNIT}"] += 1
    try:
        seconds = span_of(text, unit)
    except ValueError as error:
        reading.unreadable(f"{name}: found {text!r:.60}; allowed: {error}")
    if not 0 <= seconds < MOST:
        reading.unreadable(f"{name}: found {text!r:.60}; allowed: 0 or more")
    return seconds


def _slots(text: str, reading: Reading, *, has_started: bool) -> int | float:
    """Return how many slots a job took; of one that never started, none are like no number."""
    number = _number(text, "slots", reading)
    if number == 0:
        if has_started:
            reading.unreadable(f"slots: found {text!r:.60}; allowed: a number above 0")
        number = 1.0
    return int(number) if number.is_integer() else number


def _number(text: str, name: str, reading: Reading) -> float:
    """Return a number of a row; 1 if it has none."""
    if text.lower() in NO_VALUE:
        return 1.0
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < MOST:
        reading.unreadable(f"{name}: found {text!r:.60}; allowed: a number")
    return number
