"""From a run's notes to its event log: the lines are made one kind at a time, and put in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from operator import attrgetter

import msgspec
import numpy as np

from farm.core import commands, events
from farm.core.commands import EndJob
from farm.core.model import Cause, Job
from farm.results.log.lines import LINES
from farm.sim.fast.kernel import layout
from farm.sim.fast.kernel.heaps import Array
from farm.sim.fast.play import PlayedFarm
from farm.sim.fast.run_records import builders_of, ends_of, outcome_of, reasons_of

AT_ONCE = 1 << 13
"""Notes that are turned into lines together: more would not stay in a processor's cache."""

Columns = Mapping[str, Iterable[object]]
"""The values of lines, by the name of the field."""


def log_of(played: PlayedFarm, at_once: int = AT_ONCE) -> Iterator[bytes]:
    """Yield the event log of a run with notes, in pieces of whole lines."""
    encode, lines = msgspec.json.Encoder().encode_lines, _Lines(played)
    notes = played.farm.notes[: played.farm.counts["noted"][0]]
    opened = LINES[events.FarmOpened]
    yield encode([opened.written(0.0, opened.name, provisioned=True)])
    last = 0
    for begin in range(0, len(notes), at_once):
        some = notes[begin : begin + at_once]
        # the end of an attempt is also the end of its job
        before = np.append(last, some["kind"][:-1])
        folded = (some["kind"] == layout.END) & (before == layout.FINISHED)
        last = some["kind"][-1]
        yield encode(list(lines.of(some[~folded])))


class _Lines:
    """Makes the lines of notes, which come in order, each once."""

    def __init__(self, played: PlayedFarm) -> None:
        self._farm, self._load = played.farm, played.load
        self._pools = [pool.name for pool in played.pools]
        self._jobs = played.load.ids()
        self._builders, self._reasons = builders_of(played), reasons_of(played)
        self._names = [builder.id for builder in self._builders]
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
            layout.ALARM: (commands.SetAlarm, lambda n: {"rings_at": n["at"].tolist()}),
        }

    def of(self, notes: Array) -> Iterator[msgspec.Struct]:
        """Yield the lines of these notes."""
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
        lines = {}
        for kind, (begin, end) in enumerate(pairwise(ends), start=1):
            if begin < end:
                some = order[begin:end]
                instants = np.repeat(at[some], sizes[some]).tolist()
                lines[kind] = self._made(kind, instants, notes[some])
        return map(next, map(lines.__getitem__, np.repeat(kinds, sizes).tolist()))

    def _made(self, kind: int, at: list[float], notes: Array) -> Iterator[msgspec.Struct]:
        """Return the lines of one kind."""
        of, columns = self._of[kind]
        line, given = LINES[of], columns(notes)
        values = [given.get(part.name, repeat(part.default)) for part in line.parts]
        return map(line.written, at, repeat(line.name), *values)

    # --- columns, of which a line takes those that it has ---------------------------------------

    def _sizes(self, notes: Array) -> Array:
        """Return how many jobs each of these submissions has."""
        begins = self._load.batches
        return begins[notes["what"] + 1] - begins[notes["what"]]

    def _submitted(self, notes: Array) -> Columns:
        sizes = self._sizes(notes)
        numbers = np.where(sizes > 1, self._batches + np.cumsum(sizes > 1), 0)
        self._batches = int(numbers.max(initial=self._batches))
        batch = [number or None for number in np.repeat(numbers, sizes).tolist()]
        begin = int(self._load.batches[notes["what"][0]])
        end = begin + len(batch)
        values = dict(zip(Job.__struct_fields__, self._load.job_values(begin, end), strict=True))
        return {**values, "id": self._jobs[begin:end], "batch": batch}

    def _attempt(self, notes: Array) -> Columns:
        return {
            **self._of_builders(notes["builder"].tolist()),
            "job": map(self._jobs.__getitem__, notes["what"].tolist()),
            "attempt": notes["attempt"].tolist(),
            "slot": notes["slot"].tolist(),
        }

    def _finished(self, notes: Array) -> Columns:
        jobs = self._farm.jobs[notes["what"]]
        at = jobs["dispatched_at"].tolist()
        fails = self._load.fails[notes["what"]].tolist()
        return {
            **self._attempt(notes),
            "outcome": map((outcome_of(False), outcome_of(True)).__getitem__, fails),
            "reason": repeat(""),
            "ended": repeat(True),
            "submitted_at": jobs["submitted_at"].tolist(),
            "dispatched_at": at,
            "started_at": at,
            "slot": jobs["slot"].tolist(),
            "estimated_time": self._load.estimates[notes["what"]].tolist(),
            "cause": map((Cause.FINISHED, Cause.FAILED).__getitem__, fails),
        }

    def _ended(self, notes: Array) -> Columns:
        ends = [self._lost[number] for number in notes["what"].tolist()]
        jobs = [end.job.id for end in ends]
        return {**_fields(ends), "job": jobs, "ended": repeat(True), "decided": repeat(True)}

    def _builder(self, notes: Array) -> Columns:
        return {**self._of_builders(notes["what"].tolist()), "slot": notes["slot"].tolist()}

    def _of_builders(self, numbers: list[int]) -> Columns:
        return {
            "builder": map(self._names.__getitem__, numbers),
            "reason": map(self._reasons.__getitem__, numbers),
        }

    def _built(self, notes: Array) -> Columns:
        return _fields([self._builders[number] for number in notes["what"].tolist()])

    def _planned(self, notes: Array) -> Columns:
        plans = self._farm.plans[notes["what"]]
        columns = {name: plans[name].tolist() for name in plans.dtype.names}
        return {**columns, "pool": map(self._pools.__getitem__, columns["pool"])}


def _fields(structs: Sequence[msgspec.Struct]) -> Columns:
    """Return the fields of structs of one kind, at least one, as columns."""
    return {name: map(attrgetter(name), structs) for name in structs[0].__struct_fields__}
