"""An emulated builder: it boots, runs attempts on its slots, cleans, shuts down, or is lost.

There is one for both worlds. It is given commands, writes its future into an agenda and reports
events; whether the agenda's time is virtual or real makes no difference to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from farm.core.commands import CancelJob, LoseBuilder, RetireBuilder, StartJob
from farm.core.errors import FarmError
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    DrainRequested,
    JobFinished,
    JobStarted,
    LoadReported,
    SlotCleaned,
    pattern_of,
)
from farm.core.model import Outcome
from farm.emulation.agenda import LIFE, Action, Agenda
from farm.emulation.attempt_ends import Alone, Sharing
from farm.emulation.behaviour import BuilderBehaviour, BuilderSpec
from farm.emulation.client_estimate import own_estimate
from farm.emulation.losses import AS_PLANNED, LIFETIME_OVER
from farm.emulation.own_loop import LoopDriver, OwnLoop
from farm.emulation.switching import Switching

BuilderEvent = (
    BuilderJoined
    | DrainRequested
    | BuilderRetired
    | BuilderLost
    | JobStarted
    | JobFinished
    | SlotCleaned
    | LoadReported
)
"""What a builder reports; it asks to be drained itself when its behaviour lets it leave."""


class EmulatedBuilder:
    """A builder and the attempts that it runs; ``report`` is given every event of its life."""

    def __init__(
        self,
        spec: BuilderSpec,
        agenda: Agenda,
        report: Callable[[BuilderEvent], None],
        behaviour: BuilderBehaviour | None = None,
    ) -> None:
        self.spec = spec
        self.builder = spec.builder
        self.id = spec.builder.id
        self.speed = spec.builder.speed
        #: entries of one instant come out by builder, then slot
        self.place = spec.builder.index << 16
        #: the attempts that run here, by job
        self.attempts: dict[str, StartJob] = {}
        #: slots being cleaned
        self.cleaning = 0
        self.booted = False
        self.retiring = False
        self.gone = False
        self._behaviour = behaviour = behaviour or BuilderBehaviour(spec)
        loop = behaviour.own_loop or (OwnLoop(spec) if spec.builder.claims else None)
        #: what a behaviour that drives its own loop decides
        self._loop: LoopDriver | None = None
        if loop is not None:
            self._loop = LoopDriver(loop, behaviour.failed, self, agenda, report)
        self._switching = Switching(spec.switch_times) if spec.switch_times else None
        #: when the attempts end
        self._ends: Sharing | Alone
        if spec.law is None:
            self._ends = Alone(self.speed, agenda, self.place, self._done)
        else:
            self._ends = Sharing(spec.law, self.speed, agenda, self.place, self._done)
        self._agenda = agenda
        self._report = report
        #: it reports its load, by these limits
        self._limits = spec.load_limits
        self._overloaded = False

    def obey(self, command: CancelJob | RetireBuilder | LoseBuilder) -> None:
        """Carry out a command."""
        if isinstance(command, CancelJob):
            self.cancel(command)
        elif isinstance(command, RetireBuilder):
            self.retire()
        else:
            self.lose(AS_PLANNED)

    # --- jobs -------------------------------------------------------------------------------

    def start(self, command: StartJob) -> None:
        """Begin an attempt; it takes the place of an earlier one of the same job."""
        name = command.job.id
        if (earlier := self.attempts.get(name)) is not None:
            self.cancel(CancelJob(name, earlier.attempt, self.id, "another attempt began"))
        self.attempts[name] = command
        delay = self.spec.pickup_time
        if self._switching is not None:
            delay += self._switching.serve(command.slot, command.job)
        if delay:
            self._after(delay, partial(self._picked_up, command), command.slot)
        else:
            self._begin(command)

    def _picked_up(self, command: StartJob, _: float) -> None:
        if self.attempts.get(command.job.id) is command:
            self._begin(command)

    def _begin(self, command: StartJob) -> None:
        self._report(self.started(command))
        try:
            job = self._behaviour.run(command.job)
        except FarmError as error:
            self._end(command, "failed", str(error))
            return
        if job is not command.job:
            command = self.attempts[command.job.id] = msgspec.structs.replace(command, job=job)
        if self._loop is not None:
            self._loop.received(command)
        else:
            self.work_on(command)

    def started(self, command: StartJob) -> JobStarted:
        """Return the report that an attempt begins now, with its own estimate if sent a size."""
        size, builder = command.size, self.builder
        expected = None if size is None else own_estimate(size, builder)
        return JobStarted(self._agenda.now, command.job.id, command.attempt, self.id, expected)

    def cancel(self, command: CancelJob) -> None:
        """Stop an attempt at this instant, if it still runs."""
        start = self.attempts.get(command.job)
        if start is not None and start.attempt == command.attempt:
            self.resolve(start, "cancelled", command.reason)

    def resolve(self, command: StartJob, outcome: Outcome, reason: str = "") -> bool:
        """End an attempt at this instant; return False if it has ended already."""
        if known := self.attempts.get(command.job.id) is command:
            self._ends.stop(command.job.id)
            self._end(command, outcome, reason)
        return known

    def work_on(self, command: StartJob) -> None:
        """Let an attempt's service time pass."""
        self._ends.start(command, command.job.service_time)
        self._report_load()

    def fraction_done(self, job: str) -> float | None:
        """Return which part of an attempt's work is done now, 0 to 1; None: that is not known."""
        start = self.attempts.get(job)
        if start is None or job not in self._ends:
            return None
        return part_done(self._ends.remaining(job), start.job.service_time)

    def _done(self, job: str) -> None:
        """An attempt's work is done."""
        command = self.attempts[job]
        self._end(command, "failed" if command.job.fails else "succeeded")

    def _end(self, command: StartJob, outcome: Outcome, reason: str = "") -> None:
        """An attempt is over: the slot is cleaned, if that has to be."""
        job, at = command.job.id, self._agenda.now
        rests = self.builder.cleans and self._loop is None
        rest_time = self._behaviour.rest_time(command.job) if rests else 0.0
        if rest_time is None:  # reported before the end, which would free a slot
            self._report(DrainRequested(at, pattern_of(self.id), retire=True))
        del self.attempts[job]
        self._report(JobFinished(at, job, command.attempt, self.id, outcome, reason))
        self._report_load()
        if self._loop is not None:
            self._loop.ended(command)
        elif rests:
            self._clean(command.slot, rest_time or 0.0)

    def _clean(self, slot: int, rest_time: float) -> None:
        self.cleaning += 1
        self._after(rest_time, partial(self._cleaned, slot), slot)

    def _cleaned(self, slot: int, at: float) -> None:
        if not self.gone:
            self.cleaning -= 1
            self._report(SlotCleaned(at, self.id, slot))

    def _report_load(self) -> None:
        """Report how loaded the builder is after a change, if it has limits."""
        if self._limits is not None and isinstance(self._ends, Sharing):
            load, at = self._ends.slowdown, self._agenda.now
            self._overloaded = self._limits.overloaded(load, was=self._overloaded)
            self._report(LoadReported(at, self.id, load, self._overloaded))

    # --- the builder itself -----------------------------------------------------------------

    def boot(self, since: float | None = None) -> None:
        """Join when the boot time is over; ``since``: it boots since that instant."""
        now = self._agenda.now
        boot_time = self._behaviour.boot_time() + self.builder.boot_delay
        joins_at = (now if since is None else since) + boot_time
        self._agenda.put(max(now, joins_at), LIFE, self.place, self._joined)

    def _joined(self, at: float) -> None:
        if self.gone:
            return
        self.booted = True
        self._report(BuilderJoined(at, self.builder))
        self._lives_since(at)
        if self._loop is not None:
            self._loop.start(set(range(self.builder.slots)))

    def _lives_since(self, at: float) -> None:
        if self.builder.lifetime is not None:
            over_at = max(self._agenda.now, at + self.builder.lifetime)
            self._agenda.put(over_at, LIFE, self.place, lambda _: self.lose(LIFETIME_OVER))

    def retire(self) -> None:
        """Shut down; the builder is gone when the shutdown time is over."""
        if not self.retiring:
            self.retiring = True
            self._after(self._behaviour.shutdown_time(), self._retired)

    def _retired(self, at: float) -> None:
        if not self.gone:
            self.vanish()
            self._report(BuilderRetired(at, self.id))

    def lose(self, reason: str) -> None:
        """Be lost with whatever runs here."""
        if not self.gone:
            self.vanish()
            self._report(BuilderLost(self._agenda.now, self.id, reason))

    def vanish(self) -> None:
        """Drop everything without a word; nothing happens here any more."""
        self.gone = True
        self.attempts.clear()
        self._ends.revoke()

    def resume(
        self,
        joined_at: float,
        running: Sequence[tuple[StartJob, float]],
        cleaning: Sequence[int],
    ) -> None:
        """Continue as a builder that is there: attempts with their ends, and slots to be cleaned.

        Under contention the work left of an attempt is its time left at the builder's full speed.
        """
        self.booted = True
        self._lives_since(joined_at)
        for command, finish_at in running:
            self.attempts[command.job.id] = command
            if self._switching is not None:
                self._switching.serve(command.slot, command.job)
            work = (finish_at - self._agenda.now) * self.speed
            self._ends.start(command, work, finish_at)
            self._report_load()
        if self._loop is not None:
            self._loop.start(set(cleaning))
            return
        for slot in cleaning:
            self._clean(slot, self.spec.inter_job_time)

    def _after(self, span: float, action: Action, slot: int = 0) -> None:
        self._agenda.put(self._agenda.now + span, LIFE, self.place + slot, action)


def part_done(left: float, work: float) -> float:
    """Return which part of an amount of work is done if so much is left of it, 0 to 1."""
    return min(max(1.0 - left / work, 0.0), 1.0) if work > 0 else 1.0
