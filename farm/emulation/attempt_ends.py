"""When the attempts on a builder end: each after its own work, or sharing what slows them down."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from farm.core.commands import StartJob
from farm.core.contention.laws import ContentionLaw
from farm.core.contention.progress import Progress
from farm.emulation.agenda import FINISH, Agenda, Due


class Alone:
    """Attempts that do not slow each other down; ``ended`` is called with each one that is done."""

    def __init__(
        self, speed: float, agenda: Agenda, place: int, ended: Callable[[str], None]
    ) -> None:
        self._speed, self._agenda, self._place, self._ended = speed, agenda, place, ended
        #: when each ends, and what happens then
        self._ends: dict[str, tuple[float, Due]] = {}

    def __contains__(self, job: str) -> bool:
        return job in self._ends

    def remaining(self, job: str) -> float:
        """Return the work left of an attempt now, seconds at full speed."""
        return (self._ends[job][0] - self._agenda.now) * self._speed

    def start(self, command: StartJob, work: float, finish_at: float | None = None) -> None:
        """Begin an attempt of this much work (s), or continue one that ends then."""
        job, agenda = command.job.id, self._agenda
        at = agenda.now + work / self._speed if finish_at is None else finish_at
        due = agenda.put(at, FINISH, self._place + command.slot, partial(self._due, job))
        self._ends[job] = at, due

    def stop(self, job: str) -> None:
        """Let an attempt not end, if it is here."""
        if (end := self._ends.pop(job, None)) is not None:
            end[1].action = None

    def revoke(self) -> None:
        """Let none of them end."""
        for _, end in self._ends.values():
            end.action = None

    def _due(self, job: str, _: float) -> None:
        del self._ends[job]
        self._ended(job)


class Sharing:
    """Attempts with work left; ``ended`` is called with each one whose work is done.

    Entries of the agenda at one instant come out by ``place``, then slot.
    """

    def __init__(
        self,
        law: ContentionLaw,
        speed: float,
        agenda: Agenda,
        place: int,
        ended: Callable[[str], None],
    ) -> None:
        self._progress: Progress[str] = Progress(law, speed)
        self._agenda, self._place, self._ended = agenda, place, ended
        self._slots: dict[str, int] = {}
        self._next: Due | None = None

    def __contains__(self, job: str) -> bool:
        return job in self._progress

    @property
    def slowdown(self) -> float:
        """The factor by which attempts take longer now."""
        return self._progress.slowdown

    def remaining(self, job: str) -> float:
        """Return the work left of an attempt now, seconds at full speed."""
        return self._progress.remaining(self._agenda.now, job)

    def start(self, command: StartJob, work: float, _: float | None = None) -> None:
        """Begin an attempt of this much work (s)."""
        job = command.job
        self._slots[job.id] = command.slot
        self._progress.start(
            self._agenda.now,
            job.id,
            work,
            heavy=job.heavy,
            memory_heavy=job.memory_heavy,
            threads=job.threads,
            slot=command.slot,
        )
        self._expect_next()

    def stop(self, job: str) -> None:
        """An attempt weighs no more on its neighbours, if it ever did."""
        if job in self._progress:
            self._progress.stop(self._agenda.now, job)
            self._expect_next()

    def revoke(self) -> None:
        """Let none of them end."""
        if self._next is not None:
            self._next.action = None
            self._next = None

    def _expect_next(self) -> None:
        """Write down who ends next; what was expected before is void."""
        self.revoke()
        if (upcoming := self._progress.next_finish()) is not None:
            at, job = upcoming
            self._next = self._agenda.put(at, FINISH, self._place + self._slots[job], self._due)

    def _due(self, at: float) -> None:
        finished = self._progress.pop_due(at)
        self._expect_next()
        if finished is not None:
            self._ended(finished[1])
