"""What a campaign came to: each job against all that was written of it.

Four records are compared, each by another writer: what was acknowledged to the submitter, what
the farm keeps of ended jobs, all that its server ever wrote to its append-only file, and the
builder hosts' own journals. The farm's event log is audited and replayed besides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from statistics import median

import msgspec

from farm.app.recorded.auditing import audit_run
from farm.core.commands import EndJob
from farm.core.errors import InputError
from farm.core.model import Cause
from farm.live.redis.keys import Keys
from farm_chaos.append_only_reader import hash_writes
from farm_chaos.farm import PREFIX, ChaosFarm
from farm_chaos.plan import FaultKind
from workers.journal import Note, read_journals

#: the ends that a builder's report makes
BY_BUILDERS = (Cause.FINISHED, Cause.FAILED)


class Recovery(msgspec.Struct, frozen=True):
    """How long after a fault (once it was lifted) a new job had been run to its end."""

    kind: FaultKind
    #: real seconds; infinite: it was not within the time-out
    seconds: float


class RecoveryTimes(msgspec.Struct, frozen=True):
    """Recoveries from one kind of fault, real seconds; infinite: not within the time-out."""

    faults: int
    median: float
    max: float


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found; ``flaws`` counts broken promises."""

    submitted: int
    ended: int
    #: by outcome
    outcomes: dict[str, int]
    #: acknowledged, and not known any more
    lost: tuple[str, ...]
    #: known, and not ended though nothing happens any more
    stuck: tuple[str, ...]
    #: their end was written twice, differently
    ended_twice: tuple[str, ...]
    #: the same attempt was begun more than once
    on_two_builders: tuple[str, ...]
    #: ended as by a builder, and no builder ended them so
    untrue: tuple[str, ...]
    #: a client was told otherwise of them than what became of them
    told_wrongly: tuple[str, ...]
    #: processes that outlived their keeper by more than 15 s
    orphans: int
    #: faults after which no job ended within the time-out
    unrecovered: int
    #: what is wrong with the farm's event log; empty: it is sound and replays the same
    log: str
    #: how often the farm ended of itself, and was started again
    gave_up: int
    recoveries: dict[str, RecoveryTimes]

    @property
    def flaws(self) -> dict[str, int]:
        """The counts that must be zero, by name."""
        return {
            "lost": len(self.lost),
            "stuck": len(self.stuck),
            "ended twice": len(self.ended_twice),
            "on two builders": len(self.on_two_builders),
            "untrue ends": len(self.untrue),
            "told wrongly": len(self.told_wrongly),
            "orphans": self.orphans,
            "faults without recovery": self.unrecovered,
            "unsound log": int(bool(self.log)),
        }

    @property
    def holds(self) -> bool:
        """Whether the farm kept its promises."""
        return not any(self.flaws.values())


def judge(
    farm: ChaosFarm,
    recoveries: Sequence[Recovery],
    submitted: AbstractSet[str],
    ends: Mapping[str, EndJob],
    live: AbstractSet[str],
    mistakes: AbstractSet[str],
) -> Verdict:
    """Compare the records of a farm that is down."""
    outcomes: dict[str, int] = defaultdict(int)
    for end in ends.values():
        outcomes[end.outcome] += 1
    notes = list(read_journals(farm.journals))
    return Verdict(
        submitted=len(submitted),
        ended=len(ends),
        outcomes=dict(outcomes),
        lost=_sorted(submitted - ends.keys() - live),
        stuck=_sorted(live),
        ended_twice=_sorted(ended_twice([*farm.lost_data(), farm.data])),
        on_two_builders=_sorted(begun_twice(notes)),
        untrue=_sorted(without_builder(ends, notes)),
        told_wrongly=_sorted(mistakes),
        orphans=farm.orphans,
        unrecovered=sum(one.seconds == float("inf") for one in recoveries),
        log=_flaw_of_log(farm.state / "log"),
        gave_up=farm.gave_up,
        recoveries=_times(recoveries),
    )


def ended_twice(folders: Iterable[Path]) -> set[str]:
    """Return the jobs of which servers with these data, one after the other, wrote different ends.

    The same one twice is a transaction that was repeated after its answer was lost.
    """
    ends: dict[bytes, bytes] = {}
    writes = (pair for data in folders for pair in hash_writes(data, Keys(PREFIX).results))
    return {job.decode() for job, end in writes if ends.setdefault(job, end) != end}


def begun_twice(notes: Iterable[Note]) -> set[str]:
    """Return the jobs of which an attempt was started more than once, by any host.

    Two attempts that differ may overlap: a host that was given up may be alive.
    """
    seen: set[tuple[str, int]] = set()
    found: set[str] = set()
    for note in notes:
        if note.what == "began":
            token = note.job, note.attempt
            if token in seen:
                found.add(note.job)
            seen.add(token)
    return found


def without_builder(ends: Mapping[str, EndJob], notes: Iterable[Note]) -> set[str]:
    """Return the jobs whose end is recorded as a builder's, though none noted it so."""
    made = {(n.job, n.attempt, n.builder, n.outcome) for n in notes if n.what == "ended"}
    return {
        name
        for name, end in ends.items()
        if end.cause in BY_BUILDERS
        and end.served_by is None
        and (name, end.attempts, end.builder, end.outcome) not in made
    }


def _flaw_of_log(path: Path) -> str:
    try:
        return audit_run(path).wrong
    except InputError as error:
        return str(error)


def _times(recoveries: Sequence[Recovery]) -> dict[str, RecoveryTimes]:
    by_kind: dict[str, list[float]] = defaultdict(list)
    for one in recoveries:
        by_kind[one.kind.value].append(one.seconds)
    return {
        kind: RecoveryTimes(len(times), median(times), max(times))
        for kind, times in sorted(by_kind.items())
    }


def _sorted(names: AbstractSet[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
