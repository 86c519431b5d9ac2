"""``csv`` and ``jsonl``: attempts of any other system, in columns or members that the user names.

Known names: id job submitted eligible started finished wait duration result runner slots platform
kind matrix user attempt. A column is known by its own name, also with an ending or a unit
(``submitted_at``, ``Run Time (ms)``), and so are those of jobs.csv. A mapping adds to these;
without one, all other columns become attributes. Numbers of a time are in the unit that the mapping
says, or the column's name.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TextIO

from farm.records.attempt import Attempt
from farm.records.foreign_columns import (
    CALENDAR,
    DERIVED,
    NO_VALUE,
    missing_column,
    plain_names,
    result_of,
    span_of,
    table_of,
    with_recognised,
    with_units,
)
from farm.records.reading import Reading

#: numbers below are believed
MOST = 1e12
#: objects of which one has each member: JSON leaves out what a job has not yet
MANY = 1000
NO_UNIT = "without a unit, taken as seconds"
"""What is noted of rows whose spans are numbers, and whose column does not say of what."""
INSTANTS = ("submitted", "eligible", "started", "finished")
NAMES = ("id", "job", "runner", "platform", "kind", "matrix", "user")
KNOWN = {*INSTANTS, *NAMES, "duration", "wait", "result", "slots", "attempt"}


def read_csv(reading: Reading, fields: Mapping[str, str]) -> Iterator[Attempt]:
    """Yield the rows of tables as attempts; ``fields``: their columns, by our names."""
    for text in reading.texts():
        rows = _given(_rows(text, fields, reading), fields, reading)
        yield from reading.attempts(rows, _attempt)


def read_jsonl(reading: Reading, fields: Mapping[str, str]) -> Iterator[Attempt]:
    """Yield objects as attempts; ``fields``: their members, by our names (``a.b``: b of a)."""
    yield from reading.attempts(_given(_members(reading), fields, reading), _attempt)


def _members(reading: Reading) -> Iterator[dict[str, str]]:
    """Yield the members of objects; those that only others have are empty."""
    for text in reading.texts():
        objects = reading.objects_of(text)
        some = list(islice(objects, MANY))
        names: dict[str, object] = dict.fromkeys(name for one in some for name, _ in _flat(one))
        for one in chain(some, objects):
            reading.count()
            members = {**names, **dict(_flat(one))}
            names.update(dict.fromkeys(members))
            yield {name: _text(value) for name, value in members.items()}


def _rows(text: TextIO, fields: Mapping[str, str], reading: Reading) -> Iterator[dict[str, str]]:
    try:
        header, rows = table_of(text)
        if amiss := missing_column(fields, header):
            reading.refuse(amiss)
        for cells in rows:
            if not cells:
                continue
            reading.count()
            if cells == header:  # of the next file, one after the other
                continue
            if len(cells) == len(header) + 1 and not cells[-1]:
                cells.pop()  # each row ends with a separator
            if len(cells) != len(header):
                reading.leave_out_unreadable(
                    f"found {len(cells)} values; allowed: {len(header)}, as columns"
                )
                continue
            yield dict(zip(header, cells, strict=True))
    except csv.Error as error:
        reading.refuse(f"not a table: {error}")


def _flat(found: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _given(
    rows: Iterable[dict[str, str]], fields: Mapping[str, str], reading: Reading
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Yield the values of each row by our names, and the units of the times."""
    places: dict[str, str] = {}
    units: dict[str, str] = {}
    names: Collection[str] = ()
    for row in rows:
        if row.keys() != names:
            places, units = _places(row, fields, reading)
            names = row.keys()
        yield {ours: row.get(theirs, "").strip() for ours, theirs in places.items()}, units


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


def _attempt(row: tuple[dict[str, str], dict[str, str]], reading: Reading) -> Attempt:
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
        reading.noted["without a time of eligibility, their waits not known"] += 1
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
