"""Which jobs of a run released which: read from when they came and ended.

Most systems record when a job was created, and not which jobs it needed. In a workflow that runs
often this shows: a job that needs others comes, in nearly every run, after all of them have ended.
So for each job of a workflow, by its name, it is counted in how many runs each other job had ended
when it came. Those that had in a share of ``ALWAYS`` are what it needs, without those that are
needed by others of them: what had ended before these could begin says nothing more.

A short job that always happens to end in time is taken for a need, too. It is only wrong where that
job becomes the last to end, and is told as ``unproven``: it was never seen to be the last.

A run that was tried again has jobs of a further attempt, which people or scripts release when they
have seen the end of the first one: the first jobs of an attempt need all of the one before, and
come as long after it as they were recorded to.

The condition of every need that is inferred is that it ended: the records have only jobs that did
run, so what a failed job would have skipped is not among them. Needs that the records name keep the
conditions that they have there.

Where a job's system says what it needs, that holds, and the times are only compared with it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
import numpy as np

from farm.columns import Array, Floats
from farm.core.jobs.needs import need_of
from farm.records.attempt import Attempt

MIN_RUNS: Final = 5
"""Runs of a workflow in which a job must have come after another one's end: fewer are chance."""
MAX_RUNS: Final = 300
"""Runs of a workflow that are compared: of more, evenly chosen ones."""
ALWAYS: Final = 0.98
"""Share of the runs in which a need must have ended when the job came: clocks differ, and people
start jobs by hand."""
RIGHT_AFTER: Final = 120.0
"""Seconds after its last need within which a job comes, as a rule, if that released it."""
EXPLAINED: Final = 0.5
"""Share of the runs in which a job must come right after its last need: one that comes hours later,
at its own time, is started by a clock or by hand."""
MAX_JOBS_OF_RUN: Final = 1_000
"""Jobs of a run up to which it is looked at: the comparison is by pairs of them."""
MAX_NEEDS: Final = 1_000
"""Needs of a job, at most."""
LAST_OF_A_TRY: Final = 20
"""Jobs of a try, those that ended last, that the first ones of the next try need."""
CLOCKS: Final = 1.0
"""Seconds by which a job may come before the end of what released it, in exact records: clocks
differ. Where instants are rounded it is the step of that."""


def workflow_of(attempt: Attempt) -> str:
    """Return what an attempt's run is a run of: repository and workflow, or what is known of it."""
    names = (attempt.attributes.get(key, "") for key in ("repository", "project", "pipeline"))
    return "/".join(filter(None, [*names, attempt.attributes.get("workflow", "")]))


class JobNeeds(NamedTuple):
    """What releases the jobs of one name in a workflow."""

    workflow: str
    kind: str
    #: names of the jobs that it needs
    needs: tuple[str, ...]
    #: runs in which it came right after the last of them, and all runs that were compared
    explained: int
    runs: int
    #: seconds from the end of the last need to its arrival, the middle of those runs
    delay: float
    #: of these needs, such that were never the last to end: they may be none
    unproven: tuple[str, ...]
    #: its system says so
    explicit: bool = False
    #: jobs that it seems to need by when they came and ended, where its system says other ones
    instead: tuple[str, ...] = ()


class ReleasedLoad(NamedTuple):
    """Attempts that name what released them."""

    attempts: list[Attempt]
    needs: list[JobNeeds]
    #: attempts that others released, and of these such that began a further attempt of a run
    released: int
    tried_again: int
    #: of those that others released, such whose system says what it was
    explicit: int = 0

    @property
    def share(self) -> float:
        """Share of the attempts that others released."""
        return self.released / max(1, len(self.attempts))


def with_needs(
    attempts: Sequence[Attempt],
    resolution: float = 0.0,
    full_since: Mapping[str, float] = MappingProxyType({}),
) -> ReleasedLoad:
    """Return the attempts with the needs that their runs show, in their order.

    Attempts that name their needs themselves, whose system says that they have none, or that
    belong to no run, stay as they are; but that a further try of their run is one, is seen in any.

    Args:
        attempts: of all runs.
        resolution: of the instants, seconds.
        full_since: since when its group was full, of each attempt that came when a place was left:
            it may have been released since then.
    """
    tolerance = max(CLOCKS, resolution)
    # builds are numbered by their pipelines
    rows_of_run: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, attempt in enumerate(attempts):
        if attempt.matrix:
            rows_of_run[workflow_of(attempt), attempt.matrix].append(row)
    by_workflow: dict[str, list[_Run]] = defaultdict(list)
    for rows in rows_of_run.values():
        if 1 < len(rows) <= MAX_JOBS_OF_RUN:
            of_run = [attempts[row] for row in rows]
            run = _Run(of_run, np.array(rows), tolerance, full_since)
            by_workflow[run.workflow].append(run)

    ends = {attempt.id: attempt.finished_at for attempt in attempts}
    kind_of = {attempt.id: attempt.kind for attempt in attempts}
    needs: list[JobNeeds] = []
    needs_by_row: dict[int, tuple[str, ...]] = {}
    tried_again = 0
    for workflow, runs in by_workflow.items():
        inferred = {rule.kind: rule for rule in _rules(workflow, runs)}
        said = _explicit_rules(workflow, runs, ends, kind_of, full_since)
        explicit = {rule.kind: rule for rule in said}
        needs += _compared(explicit, inferred)
        needs += [rule for kind, rule in inferred.items() if kind not in explicit]
        for run in runs:
            for place, ids, is_new_try in run.releases(inferred, ends):
                needs_by_row[int(run.rows[place])] = ids
                tried_again += is_new_try
    released = [
        msgspec.structs.replace(attempt, needs=needs_by_row[row])
        if row in needs_by_row
        else attempt
        for row, attempt in enumerate(attempts)
    ]
    return ReleasedLoad(
        attempts=released,
        needs=[rule for rule in needs if rule.needs],
        released=sum(bool(attempt.needs) for attempt in released),
        tried_again=tried_again,
        explicit=sum(bool(attempt.needs) for attempt in attempts),
    )


def _says_needs(attempt: Attempt) -> bool:
    """Return whether what an attempt needs is in the records."""
    return attempt.needs_known or bool(attempt.needs)


def _last_end(needs: Iterable[str], ends: Mapping[str, float | None]) -> float | None:
    """Return when the last of some needs ended; None: none of them is known."""
    known = (ends.get(need_of(text).job) for text in needs)
    return max((at for at in known if at is not None), default=None)


def _explicit_rules(
    workflow: str,
    runs: Sequence[_Run],
    ends: Mapping[str, float | None],
    kind_of: Mapping[str, str],
    full_since: Mapping[str, float],
) -> Iterator[JobNeeds]:
    """Yield what releases each job of a workflow by its system's word, in the first tries."""
    jobs_of_kind: Counter[str] = Counter()
    needed: dict[str, Counter[str]] = defaultdict(Counter)
    gaps: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for place in run.first:
            attempt = run.attempts[place]
            if not _says_needs(attempt):
                continue
            kind = attempt.kind
            jobs_of_kind[kind] += 1
            kinds = {kind_of.get(need_of(text).job, "") for text in attempt.needs}
            needed[kind].update(kinds - {kind, ""})
            last_end = _last_end(attempt.needs, ends)
            if last_end is not None and attempt.id not in full_since:
                gaps[kind].append(attempt.arrived_at - last_end)
    for kind, count in jobs_of_kind.items():
        delays = gaps[kind]
        yield JobNeeds(
            workflow=workflow,
            kind=kind,
            needs=tuple(sorted(needed[kind])),
            explained=len(delays),
            runs=count,
            delay=max(0.0, float(np.median(delays))) if delays else 0.0,
            unproven=(),
            explicit=True,
        )


def _compared(
    explicit: Mapping[str, JobNeeds], inferred: Mapping[str, JobNeeds]
) -> Iterator[JobNeeds]:
    """Yield explicit needs, with those that show in their place.

    A need that others of them have before them is none that times could show, and the same holds
    the other way round.
    """
    before = {kind: _ancestors(kind, explicit) for kind in explicit}
    seems_before = {kind: _ancestors(kind, inferred) for kind in inferred}
    for kind, rule in explicit.items():
        seen = inferred.get(kind)
        if seen is None:
            yield rule
            continue
        is_alike = before[kind] >= set(seen.needs) and seems_before[kind] >= set(rule.needs)
        yield rule if is_alike else rule._replace(instead=seen.needs)


def _ancestors(kind: str, rules: Mapping[str, JobNeeds]) -> set[str]:
    """Return all jobs that one needs, directly or through others."""
    found: set[str] = set()
    left = [kind]
    while left:
        rule = rules.get(left.pop())
        new = set(rule.needs) - found if rule is not None else set()
        found |= new
        left += new
    return found


class _Run:
    """The attempts of one run, as columns; a further attempt of the run has rows of its own."""

    def __init__(
        self,
        attempts: list[Attempt],
        rows: Array,
        tolerance: float,
        full_since: Mapping[str, float],
    ) -> None:
        self.attempts, self.rows = attempts, rows
        #: seconds by which a job may come before the end of what released it
        self.tolerance = tolerance
        self.workflow = workflow_of(attempts[0])
        self.arrived: Floats = np.array([attempt.arrived_at for attempt in attempts])
        ends = [
            np.inf if attempt.finished_at is None else attempt.finished_at for attempt in attempts
        ]
        self.ended: Floats = np.array(ends)
        #: from when it may have been released: before it came, if it waited for its group
        self.released: Floats = np.array(
            [full_since.get(attempt.id, attempt.arrived_at) for attempt in attempts]
        )
        self.number = np.array([attempt.attempt for attempt in attempts])
        self.kinds = [attempt.kind for attempt in attempts]

    @property
    def first(self) -> list[int]:
        """The places of the jobs of its first attempt."""
        return np.flatnonzero(self.number == self.number.min()).tolist()

    def releases(
        self, rules: Mapping[str, JobNeeds], ends: Mapping[str, float | None]
    ) -> Iterator[tuple[int, tuple[str, ...], bool]]:
        """Yield the place of each released attempt, its needs, and whether it is a new try.

        Args:
            rules: what jobs seem to need, by their names.
            ends: of all attempts, by id.
        """
        first = int(self.number.min())
        for place, attempt in enumerate(self.attempts):
            released_at = self.released[place]
            is_new_try = bool(self.number[place] > first)
            if _says_needs(attempt):
                last_end = _last_end(attempt.needs, ends)
                if last_end is not None and released_at - last_end <= RIGHT_AFTER:
                    continue
                if is_new_try and (before := self._before(place)):
                    more = self._ids(before, LAST_OF_A_TRY)
                    yield place, tuple(dict.fromkeys((*attempt.needs, *more))), True
                continue
            needs: list[int] = []
            if (rule := rules.get(attempt.kind)) is not None:
                needs = self._latest(rule.needs, self._has_ended(place))
            if is_new_try and needs:
                is_new_try = bool(released_at - self.ended[needs].max() > RIGHT_AFTER)
            if is_new_try:
                needs = self._before(place)
            if needs:
                most = LAST_OF_A_TRY if is_new_try else MAX_NEEDS
                yield place, self._ids(needs, most), is_new_try

    def _has_ended(self, place: int) -> Array:
        """Return which jobs came before the one at this place, and had ended when it came."""
        arrived_at = self.arrived[place]
        came_before = self.arrived < arrived_at
        came_before[:place] |= self.arrived[:place] == arrived_at
        has_ended: Array = came_before & (self.ended <= arrived_at + self.tolerance)
        return has_ended

    def _before(self, place: int) -> list[int]:
        """Return the places of the earlier tries' jobs that had ended when this one came."""
        earlier = (self.number < self.number[place]) & self._has_ended(place)
        return np.flatnonzero(earlier).tolist()

    def _latest(self, kinds: Sequence[str], has_ended: Array) -> list[int]:
        """Return, of jobs of these names, the last tries that had ended by then."""
        wanted = set(kinds)
        tries: dict[str, list[int]] = defaultdict(list)
        for place in np.flatnonzero(has_ended).tolist():
            if self.kinds[place] in wanted:
                tries[self.attempts[place].job or self.attempts[place].id].append(place)
        return sorted(max(places, key=lambda place: self.ended[place]) for places in tries.values())

    def _ids(self, places: Sequence[int], most: int) -> tuple[str, ...]:
        last = sorted(places, key=lambda place: self.ended[place])[-most:]
        return tuple(f"{self.attempts[place].id}:ended" for place in sorted(last))


class _Pairs:
    """Over the runs of a workflow: how often one job had ended, or released, when another came."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.number = {kind: number for number, kind in enumerate(kinds)}
        size = len(kinds)
        #: runs with both jobs, and those in which the second had ended when the first came
        self.both = np.zeros((size, size), np.int32)
        self.before = np.zeros((size, size), np.int32)

    def add(self, run: _Run) -> None:
        """Count a run."""
        places = [place for place in run.first if run.kinds[place] in self.number]
        kinds = np.array([self.number[run.kinds[place]] for place in places], np.int64)
        arrived, ended = run.arrived[places], run.ended[places]
        has_ended = ended[None, :] <= arrived[:, None] + run.tolerance
        np.add.at(self.both, (kinds[:, None], kinds[None, :]), 1)
        np.add.at(self.before, (kinds[:, None], kinds[None, :]), has_ended)


def _rules(workflow: str, runs: Sequence[_Run]) -> Iterator[JobNeeds]:
    """Yield what releases each job of a workflow that others release."""
    chosen = runs[:: 1 + len(runs) // MAX_RUNS]
    seen = Counter(kind for run in chosen for kind in set(run.kinds))
    kinds = sorted(kind for kind, count in seen.items() if count >= MIN_RUNS)
    pairs = _Pairs(kinds)
    for run in chosen:
        pairs.add(run)
    has_ended = (pairs.both >= MIN_RUNS) & (pairs.before >= ALWAYS * pairs.both)
    # of jobs shorter than clocks differ each may have ended when the other came: neither is a need
    has_ended &= ~has_ended.T
    needs = has_ended & ~_through_others(has_ended)
    last = np.zeros_like(pairs.both)
    gaps: dict[int, list[float]] = defaultdict(list)
    delays: dict[int, list[float]] = defaultdict(list)
    for run in chosen:
        places = [place for place in run.first if run.kinds[place] in pairs.number]
        numbers = np.array([pairs.number[run.kinds[place]] for place in places], np.int64)
        if not places:
            continue
        arrived, ended = run.arrived[places], run.ended[places]
        in_time = needs[numbers[:, None], numbers[None, :]]
        in_time &= ended[None, :] <= arrived[:, None] + run.tolerance
        latest = np.argmax(np.where(in_time, ended[None, :], -np.inf), axis=1)
        for place in np.flatnonzero(in_time.any(axis=1)).tolist():
            need = int(latest[place])
            last[numbers[place], numbers[need]] += 1
            number = int(numbers[place])
            gap = float(run.released[places[place]] - ended[need])
            gaps[number].append(gap)
            if gap == arrived[place] - ended[need]:
                delays[number].append(gap)
    for number, kind in enumerate(kinds):
        explained = sum(gap <= RIGHT_AFTER for gap in gaps[number])
        if gaps[number] and explained >= EXPLAINED * len(gaps[number]):
            needed = np.flatnonzero(needs[number]).tolist()
            yield JobNeeds(
                workflow=workflow,
                kind=kind,
                needs=tuple(kinds[need] for need in needed),
                explained=explained,
                runs=len(gaps[number]),
                delay=max(0.0, float(np.median(delays[number]))) if delays[number] else 0.0,
                unproven=tuple(kinds[need] for need in needed if not last[number, need]),
            )


def _through_others(has_ended: Array) -> Array:
    """Return which jobs had ended before another of those that had ended came."""
    # of a and c: whether there is a b that had ended before a came, and c before b came
    paths: Array = has_ended.astype(np.float32) @ has_ended.astype(np.float32) > 0
    return paths
