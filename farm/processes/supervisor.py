"""Keeps a farm's services up, as child processes; and ends them again.

A service that ends unexpectedly is restarted. One that repeatedly ends soon after its start
is given longer and longer pauses, and given up in the end.
Each has a *keeper's pipe* (``farm.processes.ends_with_keeper``), whose other end only this process
holds: builder hosts inherit theirs from the provisioner. All leave when it closes, however this
process ended.
They have process groups, not sessions, of their own: who is stopped at that moment is woken by the
kernel (as a member of an orphaned group), and leaves too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from farm.core.errors import RunError, ServerError
from farm.processes.ends_with_keeper import command_with_keeper
from farm.processes.log_files import last_line

log = logging.getLogger("farm.supervisor")

#: a service that ends within this time from its start has ended early, real seconds
EARLY_END_TIME = 5.0
#: early ends in a row with which a service is given up: it was started as often, the first included
MAX_EARLY_ENDS = 6
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
STOP_TIMEOUT = 15.0
#: real seconds until what the system has refused is tried again
TRY_AGAIN = 1.0


class Service(msgspec.Struct, frozen=True):
    """A module of the farm that runs as a process as long as the farm."""

    name: str
    command: tuple[str, ...]


class Restarts:
    """Exponential backoff for a process that ends by itself.

    One that ran for a while is started again almost at once; one that keeps ending early waits
    twice as long each time, up to 10 s.
    """

    def __init__(self) -> None:
        #: how often in a row it ended early, the last end included (which need not be early)
        self.in_a_row = 0
        #: when it may be started again (real seconds), or was started first
        self.not_before = time.monotonic()

    def pause(self, now: float) -> float:
        """It ended; return the real seconds until it is started again."""
        self.in_a_row = self.in_a_row + 1 if now < self.not_before + EARLY_END_TIME else 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.in_a_row - 1, 20))
        self.not_before = now + pause
        return pause


class _KeeperPipe:
    """A pipe: its one end is for a child and what that starts, its other one stays here."""

    def __init__(self) -> None:
        self.end, self._ours = os.pipe()

    def close(self) -> None:
        """Let go of both ends, if that is not done already."""
        for end in {self.end, self._ours} - {-1}:
            os.close(end)
        self.end = self._ours = -1


class _Running:
    """One service: its process now, and how often it ended."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.process: subprocess.Popen[bytes] | None = None
        self.pipe = _KeeperPipe()
        self.restarts = Restarts()
        #: why it could not be started when that was tried last; empty: it could
        self.not_started = ""


class Supervisor:
    """Runs services, which are started in this order, end together, and log to FOLDER/NAME.log."""

    def __init__(
        self, services: Sequence[Service], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._running = {service.name: _Running(service) for service in services}
        #: all were well once: what a service says to be impossible (exit code 2) may be temporary
        self.settled = False

    def start(self) -> None:
        """Start every service."""
        for running in self._running.values():
            self._start(running)

    def add(self, service: Service) -> None:
        """Start one more."""
        self._running[service.name] = _Running(service)
        self._start(self._running[service.name])

    def check(self) -> float:
        """Restart services that ended.

        Raises RunError for one that keeps on ending, ServerError if it cannot use the server.
        Returns after how many seconds the next check is due, unless one ends before (SIGCHLD).
        """
        now = time.monotonic()
        due = float("inf")
        for running in self._running.values():
            if running.process is not None and running.process.poll() is not None:
                self._ended(running, now)
            if running.process is None and now >= running.restarts.not_before:
                self._start_again(running, now)
            if running.process is None:
                due = min(due, running.restarts.not_before - now)
        return due

    def stop_one(self, name: str) -> None:
        """End one service: SIGTERM first, SIGKILL after the time-out."""
        running = self._running[name]
        running.restarts.not_before = float("inf")
        end_process(running.process, STOP_TIMEOUT)
        running.process = None

    def close_pipe(self, name: str) -> None:
        """Let the processes on this service's pipe end."""
        self._running[name].pipe.close()

    def terminate(self) -> None:
        """Ask everything that still runs to end, together: none takes over from another."""
        for running in self._running.values():
            running.restarts.not_before = float("inf")
            if running.process is not None:
                terminate(running.process)

    @property
    def is_at_work(self) -> bool:
        """Whether a service still runs."""
        processes = (running.process for running in self._running.values())
        return any(one is not None and one.poll() is None for one in processes)

    def stop(self) -> None:
        """End everything that still runs."""
        self.terminate()
        for running in self._running.values():
            end_process(running.process, STOP_TIMEOUT)
            running.process = None
            running.pipe.close()

    def process(self, name: str) -> subprocess.Popen[bytes] | None:
        """Return a service's process; None while it waits for its next start."""
        return self._running[name].process

    def pids(self) -> set[int]:
        """Return the processes of all services."""
        running = self._running.values()
        return {one.process.pid for one in running if one.process is not None}

    def _start(self, running: _Running) -> None:
        service = running.service
        with (self._folder / f"{service.name}.log").open("ab") as sink:
            running.process = subprocess.Popen(
                command_with_keeper(*service.command),
                stdin=running.pipe.end,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=self._environment,
                process_group=0,
            )
        log.info("%s runs as process %d", service.name, running.process.pid)

    def _start_again(self, running: _Running, now: float) -> None:
        """Start a service if the system lets us: descriptors, processes or memory may be used up.

        That is none of the service's doing, so it is tried again for as long as it takes.
        """
        try:
            self._start(running)
        except OSError as error:
            running.restarts.not_before = now + TRY_AGAIN
            if str(error) != running.not_started:
                log.error("%s cannot be started: %s; tried again", running.service.name, error)
            running.not_started = str(error)
        else:
            running.not_started = ""

    def _ended(self, running: _Running, now: float) -> None:
        name, process = running.service.name, running.process
        code = None if process is None else process.returncode
        running.process = None
        pause = running.restarts.pause(now)
        count = running.restarts.in_a_row
        # exit code 2 is what it says of a server that it cannot use: that passes, once all was well
        unusable = code == ServerError.exit_code
        hopeless = not self.settled if unusable else count >= MAX_EARLY_ENDS
        if hopeless and takes_writes(self._folder):
            row = f" ({count} times in a row)" if count > 1 else ""
            path = self._folder / f"{name}.log"
            raise (ServerError if unusable else RunError)(
                f"the farm's {name} ended, exit code {code}{row}; "
                f"it said: {last_line(path)} (log: {path})"
            )
        log.warning("%s ended with exit code %s: started again in %gs", name, code, pause)


def takes_writes(folder: Path) -> bool:
    """Whether the disk has room."""
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        return file.write(b"x") == 1
    return False


def terminate(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and wake it, as others may wait for what it holds while paused."""
    process.terminate()
    process.send_signal(signal.SIGCONT)


def end_process(process: subprocess.Popen[bytes] | None, timeout: float) -> None:
    """End a process, if it runs: SIGTERM first, SIGKILL after the time-out (real seconds)."""
    if process is None:
        return
    terminate(process)
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
