"""From a run's notes to its event log: the lines are made one kind at a time, and put in order.

A line is put together of pieces of one text, by compiled code: the bytes are those that the
reference's writer gives by a struct for each line. A value that repeats is in the text once, and
numbers are encoded a column at a time; no line exists as an object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from farm.columns import Coded
from farm.core import commands, events
from farm.core.commands import EndJob
from farm.core.fields import json_name
from farm.core.jobs.giving_up import why_blamed
from farm.core.model import Builder, Cause, Outcome
from farm.results.log.lines import CANCELLED, LINES, Part
from farm.sim.fast.kernel import layout, native, text
from farm.sim.fast.kernel.heaps import Array
from farm.sim.fast.play import PlayedFarm
from farm.sim.fast.run_records import (
    builders_of,
    ends_of,
    outcome_of,
    outcomes_before,
    reasons_of,
    started_at_of,
)

AT_ONCE = 1 << 15
"""Notes that are turned into lines together, some megabytes."""
MAX_TABLED = 1000
"""Whole numbers between the least and the greatest of a column that are in the text singly."""

_COMMA, _QUOTE, _BACKSLASH = b',"\\'
_encode = msgspec.json.Encoder().encode


class Pieces(NamedTuple):
    """Where the piece of each line begins and ends in the text; numbers: all have the same."""

    begins: Array | int
    ends: Array | int

    def taken(self, rows: Array) -> Pieces:
        """Return the pieces of some rows."""
        return Pieces(np.asarray(self.begins)[rows], np.asarray(self.ends)[rows])


Values = Pieces | Coded | Array | Iterable[object]
"""What a field holds in each line; ``repeat``: the same in all of them; ``Pieces``: its JSON."""
Columns = Mapping[str, Values]
"""The values of lines, by the name of the field; those without have their default."""


def log_of(played: PlayedFarm, at_once: int = AT_ONCE) -> Iterator[bytes]:
    """Yield the event log of a run with notes, in pieces of whole lines."""
    lines = _Lines(played)
    notes = played.farm.notes[: played.farm.counts["noted"][0]]
    opened = LINES[events.FarmOpened]
    yield _encode(opened.written(0.0, opened.name, provisioned=True)) + b"\n"
    last = 0
    for begin in range(0, len(notes), at_once):
        some = notes[begin : begin + at_once]
        # the end of an attempt is also the end of its job
        before = np.append(last, some["kind"][:-1])
        folded = (some["kind"] == layout.END) & (before == layout.FINISHED)
        last = some["kind"][-1]
        yield lines.of(_taken(some, ~folded))


class _Text:
    """The text of which lines are pieces; what was added after a mark can be let go."""

    def __init__(self) -> None:
        self.content = np.empty(1 << 20, np.int8)
        self._length = 0
        self._kept = 0
        self._known: dict[str, Pieces] = {}

    def keep(self) -> None:
        """Keep what is there, whenever more is let go."""
        self._kept = self._length

    def let_go(self) -> None:
        """Let go what was added since ``keep``."""
        self._length = self._kept
        self._known = {
            text: piece for text, piece in self._known.items() if piece.ends <= self._kept
        }

    def add(self, more: bytes) -> int:
        """Add to the text; return where that begins."""
        begin, end = self._length, self._length + len(more)
        if end > len(self.content):
            longer = np.empty(2 * end, np.int8)
            longer[:begin] = self.content[:begin]
            self.content = longer
        self.content[begin:end] = np.frombuffer(more, np.int8)
        self._length = end
        return begin

    def constant(self, piece: str) -> Pieces:
        """Return a piece that is the same in all lines."""
        if piece not in self._known:
            more = piece.encode()
            begin = self.add(more)
            self._known[piece] = Pieces(begin, begin + len(more))
        return self._known[piece]

    def each(self, pieces: Iterable[str]) -> Pieces:
        """Return pieces that are made one by one."""
        encoded = [piece.encode() for piece in pieces]
        ends = self.add(b"".join(encoded)) + np.cumsum(np.array([*map(len, encoded)], np.int64))
        begins = ends.copy()
        begins[1:] = ends[:-1]
        begins[:1] = self._length - sum(map(len, encoded))
        return Pieces(begins, ends)

    def numbers(self, values: Array) -> Pieces:
        """Return numbers as JSON."""
        encoded = _encode(values.tolist())
        commas = self.add(encoded) + np.flatnonzero(np.frombuffer(encoded, np.int8) == _COMMA)
        begins, ends = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
        begins[:1], begins[1:] = self._length - len(encoded) + 1, commas + 1
        ends[-1:], ends[:-1] = self._length - 1, commas
        return Pieces(begins, ends)

    def names(self, names: Sequence[str]) -> Pieces:
        """Return names as JSON."""
        encoded = _encode(names)
        content = np.frombuffer(encoded, np.int8)
        quotes = np.flatnonzero(content == _QUOTE)
        if (content == _BACKSLASH).any():  # some of the quotes are in names
            return self.each([_encode(name).decode() for name in names])
        quotes += self.add(encoded)
        return Pieces(quotes[::2], quotes[1::2] + 1)


class _Lines:
    """Makes the lines of notes, which come in order, each once."""

    def __init__(self, played: PlayedFarm) -> None:
        self._played, self._farm, self._load = played, played.farm, played.load
        self._pools = [pool.name for pool in played.pools]
        builders = builders_of(played)
        self._reasons = Coded.of(reasons_of(played))
        self._text = _Text()
        self._ids = played.load.ids()
        self._jobs = self._text.names(self._ids)
        self._builders = self._text.names([builder.id for builder in builders])
        self._builder_fields = self._builder_columns(builders)
        self._text.keep()
        lost = np.flatnonzero(played.farm.jobs["ended"] > layout.ENDS_WELL)
        self._lost = dict(zip(lost.tolist(), ends_of(played, lost), strict=True))
        self._now = 0.0
        self._batches = 0
        kinds: dict[int, tuple[type[msgspec.Struct], Callable[[Array], Columns]]] = {
            layout.ARRIVALS_ENDED: (events.ArrivalsEnded, lambda _: {}),
            layout.SUBMITTED: (events.JobsSubmitted, self._submitted),
            layout.JOINED: (events.BuilderJoined, self._built),
            layout.STARTED: (events.JobStarted, self._attempt),
            layout.FINISHED: (events.JobFinished, self._finished),
            layout.CLEANED: (events.SlotCleaned, self._builder),
            layout.RETIRED: (events.BuilderRetired, self._builder),
            layout.LOST: (events.BuilderLost, self._builder),
            layout.RANG: (events.AlarmRang, lambda _: {}),
            layout.PLANNED: (events.PoolPlanned, self._planned),
            layout.START: (commands.StartJob, self._attempt),
            layout.END: (EndJob, self._ended),
            layout.REQUEUED: (commands.RequeueJob, self._requeued),
            layout.REQUESTED: (commands.RequestBuilder, self._built),
            layout.DRAINED: (commands.DrainBuilder, self._builder),
            layout.RETIRE: (commands.RetireBuilder, self._builder),
            layout.LOSE: (commands.LoseBuilder, self._builder),
            layout.ALARM: (commands.SetAlarm, lambda n: {"rings_at": n["at"]}),
            layout.JUDGED: (events.JobFinished, self._judged),
        }
        self._of = {kind: (LINES[of], columns) for kind, (of, columns) in kinds.items()}
        self._of[layout.CANCEL_END] = CANCELLED, self._cancelled

    def _builder_columns(self, builders: Sequence[Builder]) -> dict[str, Any]:
        """Return the fields of all builders: one value, or pieces or codes by their numbers."""
        fields: dict[str, Any] = {}
        for name, column in _fields(builders).items() if builders else ():
            values = list(column)
            if len({*map(id, values)}) == 1:
                fields[name] = repeat(values[0])
            elif name == "index":
                fields[name] = self._text.numbers(np.array(values))
            else:
                fields[name] = _coded_by_identity(values)
        return {**fields, "id": self._builders}

    def of(self, notes: Array) -> bytes:
        """Return the lines of these notes."""
        if not len(notes):
            return b""
        self._text.let_go()
        kinds = notes["kind"].astype(np.int64)
        # an alarm's note has its own instant; all others are noted at theirs
        at = np.where(kinds == layout.ALARM, self._now, notes["at"])
        at = np.maximum.accumulate(np.maximum(at, self._now))
        self._now = at.max(initial=self._now)
        sizes = np.ones(len(notes), np.int64)
        submissions = kinds == layout.SUBMITTED
        sizes[submissions] = self._sizes(notes[submissions])
        instants = self._text.numbers(at)

        widths = np.zeros(max(self._of) + 1, np.int64)
        nexts = np.zeros_like(widths)
        begins: list[Array] = []
        ends: list[Array] = []
        order = np.argsort(kinds, kind="stable")
        bounds = np.cumsum(np.bincount(kinds, minlength=len(widths))).tolist()
        for kind, (begin, end) in enumerate(pairwise(bounds), start=1):
            if begin < end:
                rows = order[begin:end]
                of_line = np.repeat(rows, sizes[rows])
                pieces = self._made(kind, instants.taken(of_line), _taken(notes, rows))
                widths[kind] = len(pieces)
                nexts[kind] = sum(map(len, begins))
                begins.append(_table(len(of_line), [piece.begins for piece in pieces]))
                ends.append(_table(len(of_line), [piece.ends for piece in pieces]))
        lines = text.Lines(
            np.repeat(kinds, sizes),
            widths,
            nexts,
            np.concatenate(begins),
            np.concatenate(ends),
            self._text.content,
        )
        target = np.empty(int((lines.ends - lines.begins).sum()), np.int8)
        native.Call("put_together", lines, target)()
        return target.tobytes()

    def _made(self, kind: int, at: Pieces, notes: Array) -> list[Pieces]:
        """Return the pieces of the lines of one kind, in order."""
        line, columns = self._of[kind]
        given = columns(notes)
        parts: list[Pieces | str] = ['{"at_s":', at, f',"event":"{line.name}"']
        for part in line.parts:
            if (column := given.get(part.name)) is not None:
                parts += self._cells(part, column)
        parts.append("}\n")
        # texts that are the same in all lines are one piece, if they follow each other
        joined: list[Pieces | str] = []
        for piece in parts:
            if isinstance(piece, str) and joined and isinstance(joined[-1], str):
                joined[-1] += piece
            else:
                joined.append(piece)
        return [self._text.constant(p) if isinstance(p, str) else p for p in joined]

    def _cells(self, part: Part, column: Values) -> list[Pieces | str]:
        """Return a field with its key in each line; it has none where it has its default.

        A value is its default if it is that very object; where numbers are in arrays, if it equals
        it.
        """
        match column:
            case Pieces():
                return [_lead(part), column]
            case repeat():
                return [_cell(part, next(column))]
            case Coded(codes, [value]):
                return [_cell(part, value)]
            case Coded(codes, values):
                return [self._text.each(_cell(part, value) for value in values).taken(codes)]
            case np.ndarray() if column.dtype.kind == "b":
                cells = self._text.each(_cell(part, value) for value in (False, True))
                return [cells.taken(column.astype(np.int64))]
            case np.ndarray() if column.dtype.kind == "f" or np.ptp(column) > MAX_TABLED:
                lead, pieces = self._text.constant(_lead(part)), self._text.numbers(column)
                may_be_default = isinstance(part.default, float | int)
                if may_be_default or (part.default is None and np.isnan(column).any()):
                    is_default = column == part.default if may_be_default else np.isnan(column)
                    lead = Pieces(lead.begins, np.where(is_default, lead.begins, lead.ends))
                    pieces = Pieces(pieces.begins, np.where(is_default, pieces.begins, pieces.ends))
                return [lead, pieces]
            case np.ndarray():
                least, most = int(column.min()), int(column.max())
                key = _lead(part)
                cells = self._text.each(
                    "" if value is part.default else f"{key}{value}"
                    for value in range(least, most + 1)
                )
                return [cells.taken(column.astype(np.int64) - least)]
        return self._cells(part, _coded_by_identity(list(column)))

    # --- columns, of which a line takes those that it has ---------------------------------------

    def _sizes(self, notes: Array) -> Array:
        """Return how many jobs each of these submissions has."""
        begins = self._load.batches
        return begins[notes["what"] + 1] - begins[notes["what"]]

    def _submitted(self, notes: Array) -> Columns:
        sizes = self._sizes(notes)
        numbers = np.where(sizes > 1, self._batches + np.cumsum(sizes > 1), 0)
        self._batches = int(numbers.max(initial=self._batches))
        batch: Values = repeat(None)
        if numbers.any():
            batch = [number or None for number in np.repeat(numbers, sizes).tolist()]
        begin = int(self._load.batches[notes["what"][0]])
        end = begin + int(sizes.sum())
        ids = self._jobs.taken(np.arange(begin, end))
        columns: Columns = {**self._load.job_columns(begin, end), "id": ids, "batch": batch}
        if self._load.needs is None:
            return columns
        return {**columns, "ended_needs": self._ended_needs(notes["what"])}

    def _ended_needs(self, batches: Array) -> Values:
        """Return for the first job of each submission how those ended that its jobs need."""
        begins, ended_needs = self._load.batches, list[dict[str, Outcome] | None]()
        for batch in batches.tolist():
            begin, end = begins[batch : batch + 2].tolist()
            ended_needs.append(outcomes_before(self._played, self._ids, begin, end) or None)
            ended_needs += [None] * (end - begin - 1)
        return ended_needs

    def _attempt(self, notes: Array) -> Columns:
        return {
            **self._of_builders(notes["builder"]),
            "job": self._jobs.taken(notes["what"]),
            "attempt": notes["attempt"],
            "slot": notes["slot"],
        }

    def _finished(self, notes: Array) -> Columns:
        jobs, rows = self._farm.jobs, notes["what"]
        fails = self._load.fails[rows].astype(np.int64)
        dispatched_at = started_at = self._text.numbers(jobs["dispatched_at"][rows])
        if self._farm.pools["pickup_time"].any():
            started_at = self._text.numbers(started_at_of(self._farm, rows))
        more: dict[str, Values] = {}
        if self._load.needs is not None:
            more["released_at"] = self._farm.blocking["released_at"][rows]
        return {
            **self._attempt(notes),
            **more,
            "outcome": Coded(fails, (outcome_of(False), outcome_of(True))),
            "reason": repeat(""),
            "ended": repeat(True),
            "submitted_at": jobs["submitted_at"][rows],
            "dispatched_at": dispatched_at,
            "started_at": started_at,
            "slot": jobs["slot"][rows],
            "estimated_time": self._load.estimates[rows],
            "cause": Coded(fails, (Cause.FINISHED, Cause.FAILED)),
        }

    def _ended(self, notes: Array) -> Columns:
        columns = {**self._cancelled(notes), "decided": repeat(True)}
        if notes["failures"].any():
            reasons = [self._lost[number].reason for number in notes["what"].tolist()]
            columns["reason"] = _blames(notes, reasons)
        return columns

    def _cancelled(self, notes: Array) -> dict[str, Values]:
        ends = [self._lost[number] for number in notes["what"].tolist()]
        jobs = [end.job.id for end in ends]
        return {**_fields(ends), "job": jobs, "ended": repeat(True)}

    def _judged(self, notes: Array) -> Columns:
        return {
            "job": self._jobs.taken(notes["what"]),
            "attempt": notes["attempt"],
            "builder": self._builders.taken(notes["builder"]),
            "outcome": repeat(outcome_of(True)),
            "reason": repeat(""),
        }

    def _requeued(self, notes: Array) -> Columns:
        columns = {**self._attempt(notes)}
        if notes["failures"].any():
            builders = self._reasons[notes["builder"]]
            reasons = [builders.values[code] for code in builders.codes.tolist()]
            columns["reason"] = _blames(notes, reasons)
        return columns

    def _builder(self, notes: Array) -> Columns:
        return {**self._of_builders(notes["what"]), "slot": notes["slot"]}

    def _of_builders(self, numbers: Array) -> Columns:
        return {
            "builder": self._builders.taken(numbers),
            "reason": self._reasons[numbers],
        }

    def _built(self, notes: Array) -> Columns:
        rows = notes["what"]
        columns: dict[str, Values] = {}
        for name, field in self._builder_fields.items():
            match field:
                case Pieces():
                    columns[name] = field.taken(rows)
                case Coded():
                    columns[name] = field[rows]
                case _:
                    columns[name] = field
        return columns

    def _planned(self, notes: Array) -> Columns:
        plans = self._farm.plans[notes["what"]]
        columns = {name: plans[name] for name in plans.dtype.names}
        return {**columns, "pool": Coded(plans["pool"], self._pools)}


def _blames(notes: Array, reasons: Sequence[str]) -> list[str]:
    """Return the reasons, and of attempts that were judged what the judgement went by."""
    counts = zip(notes["failures"].tolist(), notes["slot"].tolist(), reasons, strict=True)
    return [
        why_blamed("", of_job, of_builder) if of_job else reason
        for of_job, of_builder, reason in counts
    ]


def _taken(notes: Array, rows: Array) -> Array:
    """Return some notes; as bytes, for NumPy copies records field by field."""
    return notes.view(np.dtype((np.void, notes.itemsize)))[rows].view(notes.dtype)


def _table(count: int, columns: Sequence[Array | int]) -> Array:
    """Return these columns as rows, one row after the other."""
    table = np.empty((count, len(columns)), np.int64)
    for number, column in enumerate(columns):
        table[:, number] = column
    return table.reshape(-1)


def _coded_by_identity(values: Sequence[object]) -> Coded:
    """Return a column of objects, of which equal ones may be different."""
    keys = list(map(id, values))
    distinct = dict(zip(keys, values, strict=True))
    numbers = dict(zip(distinct, range(len(distinct)), strict=True))
    codes = np.array(list(map(numbers.__getitem__, keys)), np.int64)
    return Coded(codes, list(distinct.values()))


def _fields(structs: Sequence[msgspec.Struct]) -> dict[str, Iterable[object]]:
    """Return the fields of structs of one kind, at least one, as columns."""
    return {name: map(attrgetter(name), structs) for name in structs[0].__struct_fields__}


def _lead(part: Part) -> str:
    return f',"{part.key or json_name(part.name)}":'


def _cell(part: Part, value: object) -> str:
    """Return a field with its key, as msgspec encodes a struct without defaults."""
    is_empty = type(value) is part.default and not value  # of a factory: an empty list or dict
    if value is part.default or is_empty:
        return ""
    return f"{_lead(part)}{_encode(value).decode()}"
