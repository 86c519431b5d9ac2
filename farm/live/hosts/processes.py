"""Builder hosts as processes of this machine: Celery workers, started and ended by us."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path
from typing import IO, Self

import msgspec

from farm.core.errors import RunError
from farm.live.settings import LiveSettings, child_environment
from farm.metrics.targets import forget_host
from farm.processes.log_files import last_line
from farm.processes.on_cord import command_on_cord

STOP_TIMEOUT = 5.0
#: a host that ends so soon after its start is broken; starting it again would not help
TOO_SOON = 3.0
#: builders that one host process plays before another process is worth its start-up
BUILDERS_PER_HOST = 200


def hosts_needed(builders: int, room: int = 0) -> int:
    """Return how many hosts are to play these builders (``room``: of one host; 0: any)."""
    return max(1, -(-builders // (room or BUILDERS_PER_HOST)))


class HostProcess:
    """One Celery worker process that plays builders.

    Its standard input is its cord (``farm.processes.on_cord``): when the other end closes, it
    leaves. With a cord of its own the other end is ours; else it inherits our standard input, and
    outlives us with that.
    """

    def __init__(self, settings: LiveSettings, log: Path, *, own_cord: bool = True) -> None:
        self.name = settings.host
        self.log = log
        self._settings = settings
        self.started_at = time.monotonic()
        with log.open("ab") as sink:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
                command_on_cord(*host_command(settings.host)),
                stdin=subprocess.PIPE if own_cord else None,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=child_environment(settings),
                # Ctrl-C at the terminal is for the farm, which tells its hosts. Not a session of
                # its own: a host that is stopped is woken by the kernel when its keeper is gone
                process_group=0,
            )
        self.pid = self._process.pid

    @property
    def broke_down_at_once(self) -> bool:
        """Whether it ended of itself, and so soon that another one would do the same."""
        lived = time.monotonic() - self.started_at
        return (self.exit_code or 0) > 0 and lived < TOO_SOON

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it lives."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it to leave."""
        if self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """End it without notice."""
        if self._process.poll() is None:
            self._process.kill()

    def wait(self, timeout: float) -> bool:
        """Wait for its end; False if it still lives."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """Let go of an ended process."""
        forget_host(self._settings.metrics_targets, self.name)
        cord: IO[bytes] | None = self._process.stdin
        if cord is not None:
            with contextlib.suppress(OSError):
                cord.close()


class HostProcesses:
    """The builder hosts of a run. Used from one thread.

    Args:
        settings: where the farm is; each host gets a name of its own.
        count: how many processes.
        folder: where their logs go.
        restart: start another host when one dies.
    """

    def __init__(
        self, settings: LiveSettings, count: int, folder: Path, *, restart: bool = True
    ) -> None:
        self._settings = settings
        self._count = count
        self._folder = folder
        self._restart = restart
        self._made = 0
        self.alive: list[HostProcess] = []

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            for _ in range(self._count):
                self._add()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def settings(self) -> LiveSettings:
        """Where the farm is that they play builders of."""
        return self._settings

    def check(self) -> None:
        """Replace hosts that have died; raises RunError when that does not help or none is left."""
        for process in [p for p in self.alive if p.exit_code is not None]:
            self.alive.remove(process)
            process.close()
            if self._restart:
                if process.broke_down_at_once:
                    raise RunError(_obituary(process))
                self._add()
            elif not self.alive:
                raise RunError(f"no builder host is left: {_obituary(process)}")

    def ensure(self, count: int) -> None:
        """Have at least so many hosts from now on."""
        while self._count < count:
            self._count += 1
            self._add()

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """End all hosts by their own process ids: asked first, killed if they do not listen."""
        for process in self.alive:
            process.terminate()
        deadline = time.monotonic() + timeout
        for process in self.alive:
            if not process.wait(max(0.0, deadline - time.monotonic())):
                process.kill()
                process.wait(timeout)
            process.close()
        self.alive.clear()

    def _add(self) -> None:
        self._made += 1
        name = f"host-{self._made}"
        settings = msgspec.structs.replace(self._settings, host=name)
        self.alive.append(HostProcess(settings, self._folder / f"{name}.log"))


def host_command(name: str | None) -> list[str]:
    """Return the command line of a builder host, wherever it runs (None: of any name)."""
    worker = ["celery", "--quiet", "-A", "workers.app", "worker", "--loglevel", "WARNING"]
    return [*worker, *(["--hostname", f"{name}@farm"] if name else [])]


def _obituary(process: HostProcess) -> str:
    return (
        f"builder host {process.name} ended with exit code {process.exit_code}; "
        f"it said: {last_line(process.log)} (log: {process.log})"
    )
