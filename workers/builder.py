"""One emulated builder: it boots, runs attempts on its slots, is cleaned, and shuts down.

It knows nothing of Celery or Redis: it is given orders and an agenda, and reports to ``tell``.
How fast its jobs advance is ``farm.core.contention.progress.Progress``, as in simulation.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from farm.core.contention.progress import NO_CONTENTION, ContentionLaw, Progress, contention_law
from farm.core.model import Outcome
from farm.live.wire.messages import (
    BuilderGone,
    BuilderUp,
    Cleaned,
    Finished,
    Load,
    Play,
    Report,
    StartAttempt,
    Started,
)
from farm.metrics.service import HostMetrics
from workers.agenda import Agenda, Entry
from workers.burn.builder_burns import BuilderBurns, Burner, Burnt
from workers.burn.burners import MODES as BURNING_MODES

Token = tuple[str, int]
"""An attempt: the job's id and the attempt's number."""


class PlayedBuilder:
    """A builder and the attempts that it holds. All calls are made under the host's lock."""

    def __init__(
        self,
        play: Play,
        agenda: Agenda,
        tell: Callable[[Report], None],
        law: ContentionLaw = NO_CONTENTION,
        burner: Burner | None = None,
        metrics: HostMetrics | None = None,
    ) -> None:
        self._metrics = metrics or HostMetrics()
        self.play = play
        self.id = play.builder.id
        self.retiring = False
        self.gone = False
        self.booted = False
        self.held: dict[Token, StartAttempt] = {}
        self._agenda = agenda
        self._tell = tell
        self._progress: Progress[Token] = Progress(law, play.builder.speed)
        self._next: Entry | None = None
        self._burns = BuilderBurns(burner, play.builder, play.speed) if burner else None
        self._overloaded = False
        self._after(play.boot_time, self._boot)

    def start(self, order: StartAttempt) -> None:
        """Begin an attempt; one that is held already is left alone."""
        token = (order.job.id, order.attempt)
        if token in self.held:
            return
        self.held[token] = order
        self._tell(Started(order.job.id, order.attempt, self.id))
        job = order.job
        burns = self._burns if job.mode in BURNING_MODES else None
        if burns is None and job.mode != "timed":
            self._end(token, "failed", f"this builder cannot run jobs of mode {job.mode!r}")
            return
        now = self._now()
        self._progress.start(
            now,
            token,
            job.service_time if burns is None else burns.endless,
            heavy=job.heavy,
            memory_heavy=job.memory_heavy,
            threads=job.threads,
            slot=order.slot,
        )
        if burns is not None:
            self._metrics.burns(job.mode)
            burns.start(token, order, lambda burnt: self._burned(token, burnt))
        self._report_load()
        self._end_due(now)

    def cancel(self, token: Token, reason: str) -> None:
        """Stop an attempt that is held; another one is none of our business (it is over)."""
        if token in self.held:
            self._progress.stop(self._now(), token)
            self._stop_burning(token)
            self._end(token, "cancelled", reason)
            self._look_ahead()

    def retire(self) -> None:
        """Shut down; ``gone`` when the shutdown time is over."""
        if not self.retiring:
            self.retiring = True
            self._after(self.play.shutdown_time, self._leave)

    def lose(self) -> None:
        """Vanish, as the scenario says."""
        if not self.gone:
            self.vanish()
            self._tell(BuilderGone(self.id, lost=True))

    def vanish(self) -> None:
        """Drop everything without a word."""
        self.gone = True
        self._metrics.ended("lost", len(self.held))
        self.held.clear()
        if self._burns is not None:
            self._burns.stop_all()
        if self._next is not None:
            self._next.cancel()

    def _now(self) -> float:
        """Farm seconds on the host's own clock: good for spans, never sent anywhere."""
        return time.monotonic() * self.play.speed

    def _report_load(self) -> None:
        """Say how loaded the builder is, if it is to say so: after every change."""
        limits = self.play.load_limits
        if limits is not None:
            load = self._progress.slowdown
            self._overloaded = limits.overloaded(load, was=self._overloaded)
            self._tell(Load(self.id, load, self._overloaded))

    def _after(self, farm_seconds: float, action: Callable[[], None]) -> None:
        def unless_gone() -> None:
            if not self.gone:
                action()

        if farm_seconds > 0:
            self._agenda.after(farm_seconds / self.play.speed, unless_gone)
        else:
            unless_gone()

    def _boot(self) -> None:
        self.booted = True
        self._tell(BuilderUp(self.play.builder))
        if self.play.builder.life_time is not None:
            self._after(self.play.builder.life_time, self.lose)

    def _leave(self) -> None:
        self.vanish()
        self._tell(BuilderGone(self.id))

    def _look_ahead(self) -> None:
        """Be woken when the next attempt ends, if nothing changes before."""
        if self._next is not None:
            self._next.cancel()
        finish = self._progress.next_finish()
        if finish is None:
            self._next = None
        else:
            self._next = self._agenda.at(finish[0] / self.play.speed, self._finish_due)

    def _finish_due(self) -> None:
        # a hair early is possible: the agenda's clock and ours differ by rounding
        planned = self._next.due_at * self.play.speed if self._next else 0.0
        self._end_due(max(self._now(), planned))

    def _end_due(self, now: float) -> None:
        while (due := self._progress.pop_due(now)) is not None:
            token = due[1]
            self._stop_burning(token)
            self._end(token, "failed" if self.held[token].job.fails else "succeeded")
        self._look_ahead()

    def _burned(self, token: Token, burnt: Burnt) -> None:
        """A burning attempt has ended; told by the burner's thread, so the agenda takes over."""

        def end() -> None:
            if self._burns is None or token not in self._burns:
                return  # cancelled, or gone, meanwhile
            self._stop_burning(token)
            self._progress.stop(self._now(), token)
            if burnt.error is None:
                self._metrics.burnt(burnt.mode, burnt.taken, burnt.work, burnt.cpu)
            failed = burnt.error is not None or self.held[token].job.fails
            self._end(token, "failed" if failed else "succeeded", burnt.error or "")
            self._look_ahead()

        self._agenda.after(0, end)

    def _stop_burning(self, token: Token) -> None:
        if self._burns is not None:
            self._burns.stop(token)

    def _end(self, token: Token, outcome: Outcome, reason: str = "") -> None:
        order = self.held.pop(token)
        self._metrics.ended(outcome)
        self._tell(Finished(order.job.id, order.attempt, self.id, outcome, reason))
        self._report_load()
        if self.play.builder.cleans:
            cleaned = Cleaned(self.id, order.slot)
            self._after(self.play.inter_job_time, lambda: self._tell(cleaned))


def law_of(play: Play) -> ContentionLaw:
    """Return the contention law that the order names."""
    return contention_law(play.contention) or NO_CONTENTION
