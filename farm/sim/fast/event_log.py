"""From a run's notes to its event log: the lines are made one kind at a time, and put in order.

A line is text that is put together of its fields' cells: the bytes that the reference's writer
gives by a struct for each line. A cell is made once for each value that repeats, and numbers are
encoded a column at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from operator import attrgetter
from typing import NamedTuple

import msgspec
import numpy as np

from farm.core import commands, events
from farm.core.commands import EndJob
from farm.core.fields import json_name
from farm.core.model import Builder, Cause
from farm.records.coded import Coded
from farm.results.log.lines import LINES, Part, parts_of
from farm.sim.fast.kernel import layout
from farm.sim.fast.kernel.heaps import Array
from farm.sim.fast.play import PlayedFarm
from farm.sim.fast.run_records import builders_of, ends_of, outcome_of, reasons_of

AT_ONCE = 1 << 13
"""Notes that are turned into lines together: more would not stay in a processor's cache."""


class Cells(NamedTuple):
    """A field's text in each line, key and all: ``,"slot":0``; empty where it has its default."""

    texts: Iterable[str]


class Texts(NamedTuple):
    """A field's value in each line, as JSON."""

    texts: Iterable[str]


Values = Cells | Texts | Coded | Array | Iterable[object]
"""What a field holds in each line; ``repeat``: the same in all of them."""
Columns = Mapping[str, Values]
"""The values of lines, by the name of the field; those without have their default."""

_encode = msgspec.json.Encoder().encode


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
        yield "".join(lines.of(_taken(some, ~folded))).encode()


class _Lines:
    """Makes the lines of notes, which come in order, each once."""

    def __init__(self, played: PlayedFarm) -> None:
        self._farm, self._load = played.farm, played.load
        self._pools = [pool.name for pool in played.pools]
        builders = builders_of(played)
        self._reasons = Coded.of(reasons_of(played))
        self._job_cells = _name_cells("job", played.load.ids())
        self._builder_cells = _name_cells("builder", [builder.id for builder in builders])
        #: all that is written of each builder
        self._built_cells = self._of_each(builders)
        lost = np.flatnonzero(played.farm.jobs["ended"] > layout.ENDS_WELL)
        self._lost = dict(zip(lost.tolist(), ends_of(played, lost), strict=True))
        self._now = 0.0
        self._batches = 0
        self._of: dict[int, tuple[type[msgspec.Struct], Callable[[Array], Columns]]] = {
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
            layout.REQUEUED: (commands.RequeueJob, self._attempt),
            layout.REQUESTED: (commands.RequestBuilder, self._built),
            layout.DRAINED: (commands.DrainBuilder, self._builder),
            layout.RETIRE: (commands.RetireBuilder, self._builder),
            layout.LOSE: (commands.LoseBuilder, self._builder),
            layout.ALARM: (commands.SetAlarm, lambda n: {"rings_at": n["at"]}),
        }

    def _of_each(self, builders: Sequence[Builder]) -> list[str]:
        if not builders:
            return []
        fields = _fields(builders)
        ready = {"id": Cells(self._builder_cells), "index": np.array([*fields["index"]])}
        columns = [
            _cells(part, {**fields, **ready}[part.path.rpartition(".")[2]])
            for part in parts_of(Builder, "builder")
        ]
        return list(map("".join, zip(*columns, strict=False)))  # some are endless

    def of(self, notes: Array) -> list[str]:
        """Return the lines of these notes."""
        kinds = notes["kind"].copy()
        # an alarm's note has its own instant; all others are noted at theirs
        at = np.where(kinds == layout.ALARM, self._now, notes["at"])
        at = np.maximum.accumulate(np.maximum(at, self._now))
        self._now = at.max(initial=self._now)
        sizes = np.ones(len(notes), np.int64)
        submissions = kinds == layout.SUBMITTED
        sizes[submissions] = self._sizes(notes[submissions])
        order = np.argsort(kinds, kind="stable")
        ends = np.cumsum(np.bincount(kinds, minlength=max(self._of) + 1)).tolist()
        by_kind: list[str] = []
        for kind, (begin, end) in enumerate(pairwise(ends), start=1):
            if begin < end:
                some = order[begin:end]
                by_kind += self._made(kind, np.repeat(at[some], sizes[some]), _taken(notes, some))
        place = np.empty(len(by_kind), np.int64)
        place[np.argsort(np.repeat(kinds, sizes), kind="stable")] = np.arange(len(by_kind))
        return list(map(by_kind.__getitem__, place.tolist()))

    def _made(self, kind: int, at: Array, notes: Array) -> Iterator[str]:
        """Return the lines of one kind."""
        of, columns = self._of[kind]
        line, given = LINES[of], columns(notes)
        begins = _number_texts(at, '{"at_s":', f',"event":"{line.name}"')
        cells: list[Iterable[str]] = []
        for part in line.parts:
            column = given.get(part.name)
            if isinstance(column, Texts):
                cells += repeat(_lead(part)), column.texts
            elif column is not None:
                cells.append(_cells(part, column))
        return map("".join, zip(begins, *cells, repeat("}\n")))

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
        ids = Cells(self._job_cells[begin:end])
        return {**self._load.job_columns(begin, end), "id": ids, "batch": batch}

    def _attempt(self, notes: Array) -> Columns:
        return {
            **self._of_builders(notes["builder"]),
            "job": Cells(map(self._job_cells.__getitem__, notes["what"].tolist())),
            "attempt": notes["attempt"],
            "slot": notes["slot"],
        }

    def _finished(self, notes: Array) -> Columns:
        jobs, rows = self._farm.jobs, notes["what"]
        fails = self._load.fails[rows]
        dispatched_at = Texts(_number_texts(jobs["dispatched_at"][rows]))
        return {
            **self._attempt(notes),
            "outcome": Coded(fails, (outcome_of(False), outcome_of(True))),
            "reason": repeat(""),
            "ended": repeat(True),
            "submitted_at": jobs["submitted_at"][rows],
            "dispatched_at": dispatched_at,
            "started_at": dispatched_at,
            "slot": jobs["slot"][rows],
            "estimated_time": self._load.estimates[rows],
            "cause": Coded(fails, (Cause.FINISHED, Cause.FAILED)),
        }

    def _ended(self, notes: Array) -> Columns:
        ends = [self._lost[number] for number in notes["what"].tolist()]
        jobs = [end.job.id for end in ends]
        return {**_fields(ends), "job": jobs, "ended": repeat(True), "decided": repeat(True)}

    def _builder(self, notes: Array) -> Columns:
        return {**self._of_builders(notes["what"]), "slot": notes["slot"]}

    def _of_builders(self, numbers: Array) -> Columns:
        return {
            "builder": Cells(map(self._builder_cells.__getitem__, numbers.tolist())),
            "reason": self._reasons.taken(numbers),
        }

    def _built(self, notes: Array) -> Columns:
        return {"id": Cells(map(self._built_cells.__getitem__, notes["what"].tolist()))}

    def _planned(self, notes: Array) -> Columns:
        plans = self._farm.plans[notes["what"]]
        columns = {name: plans[name] for name in plans.dtype.names}
        return {**columns, "pool": Coded(plans["pool"], self._pools)}


def _taken(notes: Array, rows: Array) -> Array:
    """Return some notes; as bytes, for NumPy copies records field by field."""
    return notes.view(np.dtype((np.void, notes.itemsize)))[rows].view(notes.dtype)


def _fields(structs: Sequence[msgspec.Struct]) -> Columns:
    """Return the fields of structs of one kind, at least one, as columns."""
    return {name: map(attrgetter(name), structs) for name in structs[0].__struct_fields__}


def _cells(part: Part, column: Values) -> Iterable[str]:
    """Return the text of a field in each line, as msgspec encodes a struct without defaults.

    A value is its default if it is that very object; where numbers are in arrays, if it equals it.
    """
    match column:
        case Cells(texts):
            return texts
        case repeat():
            return repeat(_cell(part, next(column)))
        case Coded(codes, values):
            cells = [_cell(part, value) for value in values]
            return repeat(cells[0]) if len(cells) == 1 else map(cells.__getitem__, codes.tolist())
        case np.ndarray() if column.dtype.kind == "f" or part.default is msgspec.NODEFAULT:
            texts = _number_texts(column, _lead(part))
            if isinstance(part.default, float) and (column == part.default).any():
                pairs = zip(texts, (column == part.default).tolist(), strict=True)
                return ["" if is_default else text for text, is_default in pairs]
            return texts
        case np.ndarray():
            numbers = column.tolist()
            by_value = {number: _cell(part, number) for number in dict.fromkeys(numbers)}
            return map(by_value.__getitem__, numbers)
    listed = list(column)
    keys = list(map(id, listed))
    distinct = dict(zip(keys, listed, strict=True))
    by_identity = {key: _cell(part, value) for key, value in distinct.items()}
    if len(by_identity) == 1:
        return repeat(by_identity[keys[0]])
    return map(by_identity.__getitem__, keys)


def _lead(part: Part) -> str:
    return f',"{part.key or json_name(part.name)}":'


def _cell(part: Part, value: object) -> str:
    is_empty = type(value) is part.default and not value  # of a factory: an empty list or dict
    if value is part.default or is_empty:
        return ""
    return f"{_lead(part)}{_encode(value).decode()}"


def _number_texts(values: Array, before: str = "", behind: str = "") -> list[str]:
    """Return numbers as JSON, each between two texts."""
    numbers = _encode(values.tolist()).decode()[1:-1]
    between = f"{behind}\n{before}"
    return f"{before}{numbers.replace(',', between)}{behind}".split("\n")


def _name_cells(key: str, names: Sequence[str]) -> list[str]:
    """Return the text of a field that holds these names."""
    text = _encode(names).decode()[2:-2]
    if text.count('"') == 2 * len(names) - 2 and "\\" not in text:
        return [f',"{key}":"{name}"' for name in text.split('","')]
    return [f',"{key}":{_encode(name).decode()}' for name in names]
