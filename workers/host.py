"""A builder host: the builders of one process, their agenda and their reports."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path

from farm.core.commands import CancelJob, LoseBuilder, RetireBuilder, StartJob
from farm.core.errors import InputError
from farm.core.events import BuilderRetired, JobFinished
from farm.emulation.behaviour import BuilderBehaviour
from farm.emulation.builder import BuilderEvent
from farm.live.redis.keys import Keys
from farm.live.settings import LiveSettings
from farm.live.wire.messages import (
    UNSTAMPED,
    Beat,
    HostLeft,
    HostUp,
    Play,
    Reset,
    decode_play,
    stamped,
)
from farm.live.wire.reporter import Reporter
from farm.metrics.metrics_service import HostMetrics
from farm.metrics.targets import host_target
from farm.plugins.own_behaviours import OwnBehaviours
from workers.burn.burning_jobs import MODES as BURNING_MODES
from workers.burn.burning_jobs import Burners, BurnSettings
from workers.host_agenda import HostAgenda
from workers.journal import AttemptJournal
from workers.played_builder import PlayedBuilder

Token = tuple[str, int]
"""An attempt: the job's id and the attempt's number."""

#: ended attempts remembered, so that a repeated command is carried out once
REMEMBERED = 20_000
MODES = ("timed", *sorted(BURNING_MODES))
CLOSE_TIMEOUT = 2.0
#: share of its drain time, and seconds, that a host that leaves waits for a server that is away:
#: without one the scheduler does not learn of their ends, and runs them again elsewhere
SERVER_SHARE, SERVER_TIMEOUT = 0.25, 30.0
#: … and seconds that it then gives its last reports
LAST_TRY_TIMEOUT = 0.2
#: between two looks at the threads of a host that leaves (real seconds)
LOOK_INTERVAL = 0.5
log = logging.getLogger(__name__)


class HostMetering:
    """Counts always; serves between ``open`` and ``close`` if there is a port or a folder."""

    def __init__(self, settings: LiveSettings) -> None:
        self.metrics = HostMetrics()
        #: where to scrape; None: nowhere
        self.url: str | None = None
        self._settings = settings
        self._serving = ExitStack()

    def open(self) -> None:
        """Start serving. A failure is only logged: the host continues."""
        settings = self._settings
        if not (settings.metrics_port or settings.metrics_targets):
            return
        # its import takes a tenth of the host's start: only if it is wanted
        from farm.metrics.exporter import LOOPBACK, MetricsPlace  # noqa: PLC0415

        folder, address = settings.metrics_targets, settings.metrics_address or LOOPBACK
        try:
            port = port_of(settings.metrics_port or "0")
            place = MetricsPlace(port, address, Path(folder) if folder else None)
            server = place.server(self.metrics.readings, lambda it: host_target(it, settings.host))
            self.url = self._serving.enter_context(server).url
        except InputError as error:
            log.error("this host serves no metrics: %s", error)

    def close(self) -> None:
        """Stop serving; no thread is left."""
        self._serving.close()


def port_of(text: str) -> int:
    """Return the port that FARM_METRICS_PORT names; raises InputError."""
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        return int(text)
    raise InputError(f"FARM_METRICS_PORT: found {text!r}; allowed: 0 to 65535 (0: any free one)")


class ReadyFile:
    """A file for readiness probes that exists while the host plays a builder; empty path: none."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._shown: bool | None = None

    def show(self, *, playing: bool) -> None:
        """Create or delete the file. A failure is only logged: the host continues."""
        if self._path is None or playing == self._shown:
            return
        self._shown = playing
        try:
            if playing:
                self._path.touch()
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            log.error("FARM_READY_FILE: %s", error)


class BuilderHost:
    """Carries out commands (from Celery's thread), with an agenda in its own thread.

    One lock guards everything; reports are queued under it, so their order is the order of
    what happened, and a heartbeat agrees with the reports before it.
    """

    def __init__(self, settings: LiveSettings, pid: int) -> None:
        self._settings = settings
        self._pid = pid
        self._lock = threading.RLock()
        self.metering = HostMetering(settings)
        self._agenda = HostAgenda(self._lock, self.metering.metrics.late)
        url = settings.redis_url or "redis://127.0.0.1:6379/0"
        self._reporter = Reporter(url, Keys(settings.prefix), settings.host)
        self._burners = Burners(BurnSettings.from_texts(settings.burner, settings.work_rates))
        self._builders: dict[str, PlayedBuilder] = {}
        #: by the scenario key that names it and its name: the next farm may name another
        self._own_behaviours: dict[tuple[str, str], OwnBehaviours] = {}
        self._complained: set[tuple[str, str]] = set()
        self._seen: OrderedDict[Token, None] = OrderedDict()
        self._empty = threading.Condition(self._lock)
        self._journal = AttemptJournal(settings.journal, settings.host)
        self._up = False
        #: leaving: no more jobs are taken
        self._leaving = False
        self._ready = ReadyFile(settings.ready_file)
        #: the host's own builder, if it has one
        self._own = decode_play(settings.play) if settings.play else None

    def start(self) -> None:
        """Start the host: announce it and send heartbeats."""
        self._agenda.start()
        self._reporter.start()
        with self._lock:
            self._up = True
            self._come_up()
            self._beat()
        self.metering.open()

    def close(self) -> None:
        """Stop the host: wait for running attempts as long as the settings allow, then sign off.

        Celery calls it at the first SIGTERM, and does nothing at another one. What ends a host
        sooner is SIGKILL: the scheduler then loses it for its silence, which is not excused.
        """
        if self._leave():
            self._burners.close()
            self._agenda.stop(CLOSE_TIMEOUT)
            is_away = self._reporter.stuck_time > LAST_TRY_TIMEOUT
            self._reporter.close(LAST_TRY_TIMEOUT if is_away else CLOSE_TIMEOUT)
        self.metering.close()

    def _leave(self) -> bool:
        """Drop everything and sign off; False if the host had not started."""
        with self._lock:
            if not self._up:
                return False
            if self._settings.drain_time > 0:
                self._drain()
            self._up = False
            for builder in self._builders.values():
                builder.vanish()
            self._reporter.put(HostLeft())
            self._ready.show(playing=False)
            return True

    def _drain(self) -> None:
        """Let what runs end, and builders go in order.

        Celery consumes no more commands by now. Builders that have not booted are dropped, which a
        heartbeat shows: the scheduler assigns them to other hosts (``farm.live.protocol.hosts``).
        """
        self._leaving = True
        for name in [name for name, builder in self._builders.items() if not builder.booted]:
            self._builders.pop(name).vanish()
        self._tell_beat()
        self._await_end_of_attempts()
        for builder in self._builders.values():
            if not (builder.attempts or builder.gone):
                self._reporter.put(BuilderRetired(UNSTAMPED, builder.id))

    def start_attempt(self, command: StartJob) -> None:
        """Start an attempt, unless it is known already or its builder is not on this host."""
        token = (command.job.id, command.attempt)
        with self._agenda.turn():
            builder = self._builders.get(command.builder)
            if builder is None or token in self._seen:
                return
            self._seen[token] = None
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
            self._journal.began(*token, command.builder)
            builder.start(command)

    def play(self, command: Play) -> None:
        """Run this builder from now on; one that is already running is left alone."""
        with self._agenda.turn():
            if command.builder.id not in self._builders:
                behaviour = self._behaviour_of(command)
                metrics = self.metering.metrics
                self._builders[command.builder.id] = PlayedBuilder(
                    command,
                    self._agenda,
                    self._report,
                    self._burners,
                    metrics,
                    behaviour,
                    self._journal,
                )
                self._ready.show(playing=True)

    def _behaviour_of(self, play: Play) -> BuilderBehaviour | None:
        """Return the user's behaviour, if the builder's pool has one."""
        if not (name := play.behaviour):
            return None
        key = f"pools.{play.builder.pool}.behaviour", name
        if key not in self._own_behaviours:
            self._own_behaviours[key] = OwnBehaviours(name, where=key[0])
        return self._own_behaviours[key].of(play)

    def obey(self, command: CancelJob | RetireBuilder | LoseBuilder) -> None:
        """Let a builder of this host carry out a command."""
        with self._agenda.turn():
            if (builder := self._builders.get(command.builder)) is not None:
                builder.obey(command)

    def reset(self, command: Reset) -> None:
        """Drop everything and restart as a new life, if the command is for this one."""
        with self._agenda.turn():
            if command.life != self._reporter.life:
                return
            for builder in self._builders.values():
                builder.vanish()
            self._builders.clear()
            # another farm, or a scheduler that starts from nothing, counts attempts from 1 again
            self._seen.clear()
            self._reporter.new_life()
            self._come_up()

    def _report(self, event: BuilderEvent) -> None:
        """Send an event without its instant: this machine's clock is never sent."""
        if isinstance(event, JobFinished):
            self._journal.ended(event.job, event.attempt, event.builder, event.outcome)
        self._reporter.put(stamped(event, UNSTAMPED))

    def _come_up(self) -> None:
        settings, own = self._settings, self._own is not None
        self._reporter.put(
            HostUp(self._pid, own, settings.room, settings.pool, settings.incarnation)
        )
        if self._own is not None:
            self.play(self._own)

    def _beat(self) -> None:
        if not self._up:
            return
        for name in [name for name, builder in self._builders.items() if builder.gone]:
            del self._builders[name]
        self._ready.show(playing=bool(self._builders))
        self._measure()
        self._tell_beat()
        self._complain()
        self._empty.notify_all()
        self._agenda.after(self._settings.beat_interval, self._beat)

    def _tell_beat(self) -> None:
        played = self._builders.values()
        attempts = [
            (builder, job, start.attempt)
            for builder in played
            for job, start in builder.attempts.items()
        ]
        self._reporter.put(
            Beat(
                held=tuple((job, attempt) for _, job, attempt in attempts),
                done=tuple(_rounded(builder.fraction_done(job)) for builder, job, _ in attempts),
                builders=tuple(self._builders),
                retiring=tuple(builder.id for builder in played if builder.retiring),
                leaving=self._leaving,
            )
        )

    def _measure(self) -> None:
        """Update metrics that are only sampled."""
        held = dict.fromkeys(MODES, 0)
        for builder in self._builders.values():
            for start in builder.attempts.values():
                held[start.job.mode] = held.get(start.job.mode, 0) + 1
        self.metering.metrics.holds(len(self._builders), held)
        self.metering.metrics.reports(self._reporter.waiting, self._reporter.failures)

    def _complain(self) -> None:
        """Log errors of the user's behaviours, once each."""
        for key, own in self._own_behaviours.items():
            if own.failures and key not in self._complained:
                self._complained.add(key)
                log.warning("%s", own.complaint())

    def _await_end_of_attempts(self) -> None:
        deadline = time.monotonic() + self._settings.drain_time
        while self._can_end_attempts and (left := deadline - time.monotonic()) > 0:
            self._empty.wait(min(left, LOOK_INTERVAL))

    @property
    def _can_end_attempts(self) -> bool:
        """Whether there are some; a host without one of its threads ends none, or tells no one.

        Nor does one whose server is away, as when the machine of both is shut down.
        """
        works = self._agenda.is_alive and self._reporter.is_alive
        patience = min(SERVER_SHARE * self._settings.drain_time, SERVER_TIMEOUT)
        is_heard = self._reporter.stuck_time < patience
        return works and is_heard and any(builder.attempts for builder in self._builders.values())


def _rounded(part: float | None) -> float | None:
    """Return a fraction as it is reported: four digits are enough, and few bytes."""
    return None if part is None else round(part, 4)
