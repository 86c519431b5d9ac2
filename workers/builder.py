"""A builder played by a host: its jobs let time pass, or burn real processor time or memory."""

from __future__ import annotations

from collections.abc import Callable

from farm.core.commands import StartJob
from farm.core.model import Outcome
from farm.emulation.behaviour import BuilderBehaviour
from farm.emulation.builder import BuilderEvent, EmulatedBuilder
from farm.live.wire.messages import Play
from farm.metrics.service import HostMetrics
from workers.agenda import Agenda, FarmAgenda
from workers.burn.builder_burns import BuilderBurns, Burnt
from workers.burn.burners import MODES as BURNING_MODES
from workers.burn.burners import Burners


class PlayedBuilder(EmulatedBuilder):
    """An emulated builder in real time. All calls are made in a turn of the host's agenda."""

    def __init__(
        self,
        play: Play,
        agenda: Agenda,
        report: Callable[[BuilderEvent], None],
        burners: Burners | None = None,
        metrics: HostMetrics | None = None,
        behaviour: BuilderBehaviour | None = None,
    ) -> None:
        super().__init__(play, FarmAgenda(agenda, play.speed), report, behaviour)
        self._turn = agenda.turn
        self._metrics = metrics or HostMetrics()
        self._burns = BuilderBurns(burners, play.builder, play.speed) if burners else None
        self.boot()

    def vanish(self) -> None:
        """Drop everything without a word; nothing happens here any more."""
        self._metrics.ended("lost", len(self.attempts))
        if self._burns is not None:
            self._burns.stop_all()
        super().vanish()

    def _begin(self, command: StartJob) -> None:
        mode = command.job.mode
        if mode == "timed":
            super()._begin(command)
        elif self._burns is None or mode not in BURNING_MODES:
            self._end(command, "failed", f"this builder cannot run jobs of mode {mode!r}")
        else:
            self._metrics.burns(mode)
            self._burns.start(command, lambda burnt: self._burned(command, burnt))
            self._share(command, self._burns.endless)

    def _burned(self, command: StartJob, burnt: Burnt) -> None:
        """A burning attempt has ended; called by the burner's thread."""
        with self._turn():
            if self.attempts.get(command.job.id) is not command:
                return  # cancelled, or gone, in the meantime
            if burnt.error is None:
                self._metrics.burnt(burnt.mode, burnt.taken, burnt.work, burnt.cpu)
            failed = burnt.error is not None or command.job.fails
            self._stop(command)
            self._end(command, "failed" if failed else "succeeded", burnt.error or "")

    def _end(self, command: StartJob, outcome: Outcome, reason: str = "") -> None:
        if self._burns is not None:
            self._burns.stop(command.job.id)
        self._metrics.ended(outcome)
        super()._end(command, outcome, reason)
