"""From a run's notes to its event log: the lines are made one kind at a time, and put in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise, repeat
from typing import Any

import msgspec
import numpy as np

from farm.core import commands, events
from farm.core.commands import EndJob, log_name
from farm.core.model import Cause
from farm.results.log.lines import LINES, builder_values, values_of
from farm.sim.fast.kernel import layout
from farm.sim.fast.kernel.heaps import Array
from farm.sim.fast.play import Played
from farm.sim.fast.run_records import builders_of, ends_of, outcome_of, reasons_of

AT_ONCE = 1 << 13
"""Notes that are turned into lines together: more would not stay in a processor's cache."""

Columns = list[Iterable[Any]]
_end_values = values_of(EndJob, "job", "pool")


def log_of(played: Played, at_once: int = AT_ONCE) -> Iterator[bytes]:
    """Yield the event log of a run with notes, in pieces of whole lines."""
    encode, teller = msgspec.json.Encoder().encode_lines, _Teller(played)
    notes = played.farm.notes[: played.farm.counts["noted"][0]]
    yield encode([LINES[events.FarmOpened](0.0, log_name(events.FarmOpened), True)])
    last = 0
    for begin in range(0, len(notes), at_once):
        some = notes[begin : begin + at_once]
        # the end of an attempt is also the end of its job
        before = np.append(last, some["kind"][:-1])
        told = (some["kind"] == layout.END) & (before == layout.FINISHED)
        last = some["kind"][-1]
        yield encode(list(teller.lines(some[~told])))


class _Teller:
    """Makes the lines of notes, which come in order, each once."""

    def __init__(self, played: Played) -> None:
        self._farm, self._load = played.farm, played.load
        self._pools = [pool.name for pool in played.pools]
        self._jobs = played.load.ids()
        self._builders, self._reasons = builders_of(played), reasons_of(played)
        self._names = [builder.id for builder in self._builders]
        lost = np.flatnonzero(played.farm.jobs["ended"] > layout.ENDS_WELL)
        self._lost = dict(zip(lost.tolist(), ends_of(played, lost), strict=True))
        self._now = 0.0
        self._batches = 0
        self._of: dict[int, tuple[Any, Callable[[Array], Columns]]] = {
            layout.ARRIVALS_ENDED: (events.ArrivalsEnded, lambda _: []),
            layout.SUBMITTED: (events.JobsSubmitted, self._submitted),
            layout.JOINED: (events.BuilderJoined, self._built),
            layout.STARTED: (events.JobStarted, self._attempt),
            layout.FINISHED: (events.JobFinished, self._finished),
            layout.CLEANED: (events.SlotCleaned, lambda n: [*self._builder(n), n["slot"].tolist()]),
            layout.RETIRED: (events.BuilderRetired, self._builder),
            layout.LOST: (events.BuilderLost, lambda n: [*self._builder(n), self._why(n["what"])]),
            layout.RANG: (events.AlarmRang, lambda _: []),
            layout.PLANNED: (events.PoolPlanned, self._planned),
            layout.START: (commands.StartJob, lambda n: [*self._attempt(n), n["slot"].tolist()]),
            layout.END: (EndJob, self._ended),
            layout.REQUEUED: (commands.RequeueJob, self._requeued),
            layout.REQUESTED: (commands.RequestBuilder, self._built),
            layout.DRAINED: (commands.DrainBuilder, self._builder),
            layout.RETIRE: (commands.RetireBuilder, self._builder),
            layout.LOSE: (commands.LoseBuilder, self._builder),
            layout.ALARM: (commands.SetAlarm, lambda n: [n["at"].tolist()]),
        }

    def lines(self, notes: Array) -> Iterator[Any]:
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

    def _made(self, kind: int, at: list[float], notes: Array) -> Iterator[Any]:
        """Return the lines of one kind."""
        of, columns = self._of[kind]
        name = log_name(events.JobFinished if of is EndJob else of)
        return map(LINES[of], at, repeat(name), *columns(notes))

    # --- columns, after the instant and the kind ----------------------------------------------

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
        _, *values = self._load.job_values(begin, end)
        return [self._jobs[begin:end], *values, batch]

    def _attempt(self, notes: Array) -> Columns:
        jobs = map(self._jobs.__getitem__, notes["what"].tolist())
        names = map(self._names.__getitem__, notes["builder"].tolist())
        return [jobs, notes["attempt"].tolist(), names]

    def _finished(self, notes: Array) -> Columns:
        jobs = self._farm.jobs[notes["what"]]
        at = jobs["dispatched_at"].tolist()
        fails = self._load.fails[notes["what"]].tolist()
        estimates = self._load.estimates[notes["what"]].tolist()
        outcomes = map((outcome_of(False), outcome_of(True)).__getitem__, fails)
        causes = map((Cause.FINISHED, Cause.FAILED).__getitem__, fails)
        told = [outcomes, repeat(""), repeat(False), repeat(True)]
        story = [jobs["submitted_at"].tolist(), at, at, jobs["slot"].tolist(), estimates]
        return [*self._attempt(notes), *told, *story, repeat(None), causes]

    def _ended(self, notes: Array) -> Columns:
        lost = [self._lost[number] for number in notes["what"].tolist()]
        values = zip(*map(_end_values, lost), strict=True)
        return [[end.job.id for end in lost], *values, repeat(True), repeat(True)]

    def _requeued(self, notes: Array) -> Columns:
        return [*self._attempt(notes), self._why(notes["builder"])]

    def _builder(self, notes: Array) -> Columns:
        return [map(self._names.__getitem__, notes["what"].tolist())]

    def _built(self, notes: Array) -> Columns:
        builders = map(self._builders.__getitem__, notes["what"].tolist())
        return list(zip(*map(builder_values, builders), strict=True))

    def _why(self, builders: Array) -> Iterable[str]:
        return map(self._reasons.__getitem__, builders.tolist())

    def _planned(self, notes: Array) -> Columns:
        pools, *numbers = zip(*self._farm.plans[notes["what"]].tolist(), strict=True)
        return [map(self._pools.__getitem__, pools), *numbers]
