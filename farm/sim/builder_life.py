"""The life of a simulated builder: boot, run jobs, clean, shut down, or be lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from farm.core import events
from farm.core.commands import CancelJob, StartJob
from farm.core.contention.progress import Progress
from farm.core.events import Event
from farm.core.model import Builder, Outcome
from farm.core.pools.spec import PoolSpec
from farm.sim.agenda import FINISH, LIFE, Agenda


class _Timer:
    """Something that a builder does by itself when its time comes."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[float], Event | None]) -> None:
        self.action = action

    def due(self, serial: int, at: float) -> Event | None:  # noqa: ARG002 - as every entry's
        """Do it."""
        return self.action(at)


class BuilderLife:
    """What one builder does; it writes its future into the agenda."""

    def __init__(
        self,
        builder: Builder,
        pool: PoolSpec,
        agenda: Agenda,
        at_once: deque[Event],
        gone: Callable[[BuilderLife], None],
    ) -> None:
        self.builder = builder
        self.pool = pool
        self.speed = builder.speed
        #: finishes of one instant come out by builder, then slot
        self.place = builder.index << 16
        self.alive = True
        #: the attempts that run here, by job
        self.attempts: dict[str, StartJob] = {}
        #: how they share the builder; None: they do not slow each other down
        self.progress: Progress[str] | None = None
        if (law := pool.law) is not None:
            self.progress = Progress(law, builder.speed)
        self._agenda = agenda
        self._at_once = at_once
        self._gone = gone
        #: no cleaning to think of when a job ends
        self.simple = not builder.cleans
        #: serial of the agenda's entry for the next finish under contention
        self._expected = 0
        self._overloaded = False

    # --- jobs -------------------------------------------------------------------------------

    def start_shared(self, order: StartJob, at: float) -> None:
        """Begin an attempt whose end depends on its neighbours."""
        job = order.job
        if self.progress is not None:
            self.progress.start(
                at,
                job.id,
                job.service_time,
                heavy=job.heavy,
                memory_heavy=job.memory_heavy,
                threads=job.threads,
                slot=order.slot,
            )
            self._expect_next()
            self._report_load(at)

    def due(self, serial: int, at: float) -> Event | None:
        """The next finish under contention has come; None if the plan changed since."""
        if serial != self._expected or self.progress is None:
            return None
        finished = self.progress.pop_due(at)
        self._expect_next()
        if finished is None:
            return None
        start = self.attempts[finished[1]]
        self.freed(start, at)
        outcome: Outcome = "failed" if start.job.fails else "succeeded"
        return events.JobFinished(at, start.job.id, start.attempt, start.builder, outcome)

    def _expect_next(self) -> None:
        """Write down who ends next under contention; an earlier note is void."""
        upcoming = None if self.progress is None else self.progress.next_finish()
        if upcoming is None:
            self._expected = 0
        else:
            place = self.place + self.attempts[upcoming[1]].slot
            self._expected = self._agenda.put(upcoming[0], FINISH, place, self)

    def cancel(self, order: CancelJob, at: float) -> None:
        """Stop an attempt at this instant, if it still runs."""
        start = self.attempts.get(order.job)
        if start is None or start.attempt != order.attempt:
            return
        if self.progress is not None:
            self.progress.stop(at, order.job)
            self._expect_next()
        self._at_once.append(
            events.JobFinished(
                at, order.job, order.attempt, order.builder, "cancelled", order.reason
            )
        )
        self.freed(start, at)

    def freed(self, start: StartJob, at: float) -> None:
        """An attempt is over: the slot is cleaned, then free."""
        del self.attempts[start.job.id]
        if self.progress is not None:
            self._report_load(at)
        if self.simple:
            return
        if self.builder.cleans:
            slot = start.slot
            self._after(self.pool.inter_job_time, at, lambda now: self._cleaned(slot, now), slot)

    def _report_load(self, at: float) -> None:
        """Say how loaded the builder is, if it is to say so: after every change."""
        limits = self.pool.load_limits
        if limits is not None and self.progress is not None:
            load = self.progress.slowdown
            self._overloaded = limits.overloaded(load, was=self._overloaded)
            self._at_once.append(events.LoadReported(at, self.builder.id, load, self._overloaded))

    def _cleaned(self, slot: int, at: float) -> Event | None:
        if not self.alive:
            return None
        return events.SlotCleaned(at, self.builder.id, slot)

    def resume(
        self,
        running: Sequence[tuple[StartJob, float]],
        cleaning: Sequence[tuple[int, float]],
        at: float,
    ) -> None:
        """Go on from a snapshot: attempts with their ends, slots being cleaned until then."""
        for order, finish_at in running:
            job = order.job
            self.attempts[job.id] = order
            if self.progress is None:
                self._agenda.put(finish_at, FINISH, self.place + order.slot, order)
            else:
                self.progress.start(
                    at,
                    job.id,
                    (finish_at - at) * self.speed,
                    heavy=job.heavy,
                    memory_heavy=job.memory_heavy,
                    threads=job.threads,
                    slot=order.slot,
                )
        if self.progress is not None:
            self._expect_next()
        for slot, cleaned_at in cleaning:
            action = partial(self._cleaned, slot)
            self._agenda.put(cleaned_at, LIFE, self.place + slot, _Timer(action))

    def give_up(self, job_id: str, reason: str, at: float) -> None:
        """Stop an attempt that was told to stop before the snapshot."""
        start = self.attempts[job_id]
        self.cancel(CancelJob(job_id, start.attempt, start.builder, reason), at)

    # --- the builder itself -----------------------------------------------------------------

    def boot(self, at: float) -> None:
        """Join after the pool's boot time."""
        self._after(self.pool.boot_time, at, self._joined)

    def _joined(self, at: float) -> Event | None:
        if not self.alive:
            return None
        if self.builder.life_time is not None:
            self._after(self.builder.life_time, at, self._lost)
        return events.BuilderJoined(at, self.builder)

    def retire(self, at: float) -> None:
        """Shut down; the builder is gone after the pool's shutdown time."""
        self._after(self.pool.shutdown_time, at, self._retired)

    def _retired(self, at: float) -> Event | None:
        if not self.alive:
            return None
        self._die()
        return events.BuilderRetired(at, self.builder.id)

    def lose(self, at: float) -> None:
        """Vanish with whatever runs here."""
        if (event := self._lost(at)) is not None:
            self._at_once.append(event)

    def _lost(self, at: float) -> Event | None:
        if not self.alive:
            return None
        self._die()
        return events.BuilderLost(at, self.builder.id, "lost")

    def _die(self) -> None:
        self.alive = False
        self.attempts.clear()
        self._expected = 0
        self._gone(self)

    def _after(
        self, span: float, at: float, action: Callable[[float], Event | None], slot: int = 0
    ) -> None:
        self._agenda.put(at + span, LIFE, self.place + slot, _Timer(action))
