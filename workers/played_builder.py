"""A builder on a host: its jobs let time pass, or burn real processor time or memory."""

from __future__ import annotations

from collections.abc import Callable

from farm.core.commands import StartJob
from farm.core.model import Outcome
from farm.emulation.attempt_ends import Sharing
from farm.emulation.behaviour import BuilderBehaviour
from farm.emulation.builder import BuilderEvent, EmulatedBuilder
from farm.live.wire.messages import Play
from farm.metrics.metrics_service import HostMetrics
from workers.burn.burning_jobs import MODES as BURNING_MODES
from workers.burn.burning_jobs import Burners, Burnt
from workers.burn.limits import cores_of, cpu_quota, own_cores
from workers.host_agenda import FarmAgenda, HostAgenda
from workers.journal import AttemptJournal

#: real seconds, alone, after which a burning job is given up: it weighs on its timed neighbours
#: (under the contention law) until its burner says that it has ended, which is long before
ENDLESS = 1e7


class PlayedBuilder(EmulatedBuilder):
    """An emulated builder in real time. All calls are made in a turn of the host's agenda.

    A burning job's work is its service time ÷ the builder's speed ÷ the farm's speed, in seconds of
    one idle core, for each thread: alone on an idle machine with a core for each thread it takes
    its service time, at any farm speed; beside others the machine decides.
    """

    def __init__(
        self,
        play: Play,
        agenda: HostAgenda,
        report: Callable[[BuilderEvent], None],
        burners: Burners | None = None,
        metrics: HostMetrics | None = None,
        behaviour: BuilderBehaviour | None = None,
        journal: AttemptJournal | None = None,
    ) -> None:
        super().__init__(play, FarmAgenda(agenda, play.speed), report, behaviour)
        self._turn = agenda.turn
        self._metrics = metrics or HostMetrics()
        self._burners = burners
        self._journal = journal or AttemptJournal("", "")
        #: by job, the number of its burning job
        self._burning: dict[str, int] = {}
        builder = play.builder
        self._pace = builder.speed * play.speed
        self._cores: list[int] | None = None
        if builder.cores is not None:
            self._cores = cores_of(builder.index, builder.cores, own_cores(), cpu_quota())
        self.boot()

    def vanish(self) -> None:
        """Drop everything without reporting it."""
        self._metrics.ended("lost", len(self.attempts))
        for job in list(self._burning):
            self._stop_burning(job)
        super().vanish()

    def fraction_done(self, job: str) -> float | None:
        """Return which part of an attempt is done; None of a burning one: the machine decides."""
        return None if job in self._burning else super().fraction_done(job)

    def work_on(self, command: StartJob) -> None:
        """Let an attempt's service time pass, or burn it."""
        mode = command.job.mode
        if mode == "timed":
            super().work_on(command)
        elif self._burners is None or mode not in BURNING_MODES:
            self._end(command, "failed", f"this builder cannot run jobs of mode {mode!r}")
        else:
            self._metrics.burns(mode)
            self._burning[command.job.id] = self._burners.start(
                mode,
                command.job.service_time / self._pace,
                max(1, command.job.threads),
                lambda burnt: self._burned(command, burnt),
                cores=self._cores,
            )
            if isinstance(self._ends, Sharing):  # it weighs on its neighbours
                self._ends.start(command, ENDLESS * self._pace)
                self._report_load()

    def _burned(self, command: StartJob, burnt: Burnt) -> None:
        """Handle the end of a burning attempt; called by the burner's thread."""
        job, threads = command.job, max(1, command.job.threads)
        with self._turn():
            if self.attempts.get(job.id) is not command:
                return  # cancelled, or gone, since
            if burnt.error is None:
                work = job.service_time / self._pace * threads
                self._metrics.burnt(job.mode, burnt.real * threads, work, burnt.cpu)
                self._journal.burnt(job.id, command.attempt, self.id, work, burnt.cpu)
            failed = burnt.error is not None or job.fails
            self._ends.stop(job.id)
            self._end(command, "failed" if failed else "succeeded", burnt.error or "")

    def _end(self, command: StartJob, outcome: Outcome, reason: str = "") -> None:
        self._stop_burning(command.job.id)
        self._metrics.ended(outcome)
        super()._end(command, outcome, reason)

    def _stop_burning(self, job: str) -> None:
        number = self._burning.pop(job, None)
        if number is not None and self._burners is not None:
            self._burners.kill(number)
