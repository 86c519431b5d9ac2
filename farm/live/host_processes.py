"""Builder hosts as Celery worker processes on this machine."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import time
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Self

import msgspec

from farm.core.errors import RunError
from farm.live.settings import LiveSettings, child_environment
from farm.metrics.targets import forget_host
from farm.processes.ends_with_keeper import command_with_keeper
from farm.processes.log_files import last_line

log = logging.getLogger(__name__)

STOP_TIMEOUT = 5.0
#: a host that ends this soon after its start is broken; restarting it would not help
TOO_SOON = 3.0
#: a host that the scheduler has not known for so long will not come (back) by itself (real seconds)
MISSING_TIME = 120.0
#: after a longer pause between two looks nothing is known of the time between them (real seconds)
LONGEST_PAUSE = 10.0
#: builders per host process, before another process is worth its start-up
BUILDERS_PER_HOST = 200


def hosts_needed(builders: int, room: int = 0) -> int:
    """Return how many hosts these builders need (``room``: per host; 0: unlimited)."""
    return max(1, -(-builders // (room or BUILDERS_PER_HOST)))


class HostProcess(subprocess.Popen[bytes]):
    """One Celery worker process that runs builders.

    Its standard input is the keeper's pipe (``farm.processes.ends_with_keeper``): when the other
    end closes, it leaves. With a pipe of its own this process holds that end; otherwise it inherits
    our standard input and lives as long as that is open.
    """

    def __init__(self, settings: LiveSettings, log: Path, *, own_pipe: bool = True) -> None:
        self.name, self.log, self._settings = settings.host, log, settings
        self.started_at = time.monotonic()
        with log.open("ab") as sink:
            super().__init__(
                command_with_keeper(*host_command(settings.host)),
                stdin=subprocess.PIPE if own_pipe else None,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=child_environment(settings),
                # Ctrl-C at the terminal is for the farm, which stops its hosts. No new session: the
                # kernel wakes a stopped host when its keeper is gone
                process_group=0,
            )

    @property
    def broke_down_at_once(self) -> bool:
        """Whether it ended by itself so soon that another one would do the same."""
        lived = time.monotonic() - self.started_at
        return (self.exit_code or 0) > 0 and lived < TOO_SOON

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.poll()

    def close(self) -> None:
        """Release the resources of an ended process."""
        forget_host(self._settings.metrics_targets, self.name)
        if self.stdin is not None:
            with contextlib.suppress(OSError):
                self.stdin.close()


class MissingHosts:
    """Finds hosts whose processes live, but that the scheduler does not know.

    Such a host hangs, or takes no commands: so it is not reached by the one to begin a new life.
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._looked_at = 0.0

    def overdue(self, alive: Iterable[str], known: Container[str], now: float) -> str | None:
        """Return a host to be replaced, if there is one; ``now`` is real time (monotonic).

        One at a time: on a slow machine the others may yet come, and get as long again.
        """
        if now - self._looked_at > LONGEST_PAUSE:
            self._since.clear()
        self._looked_at = now
        self._since = {name: self._since.get(name, now) for name in alive if name not in known}
        for name, since in self._since.items():
            if now - since > MISSING_TIME:
                self._since.clear()
                return name
        return None


class HostProcesses:
    """The builder hosts of a run; one that dies or hangs is replaced. Used from one thread.

    ``settings``: those of the farm; each host gets a different name. ``folder``: for their logs.
    """

    def __init__(self, settings: LiveSettings, count: int, folder: Path) -> None:
        self.settings, self._folder = settings, folder
        self._count, self._made = count, 0
        self._missing = MissingHosts()
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

    def check(self, known: Container[str]) -> None:
        """Replace hosts that died, and end one that is missing from those that the scheduler knows.

        Raises RunError if that does not help.
        """
        missing = self._missing.overdue([p.name for p in self.alive], known, time.monotonic())
        for process in self.alive:
            if process.name == missing:
                log.warning("builder host %s is missing: replaced", missing)
                process.kill()
        for process in [p for p in self.alive if p.exit_code is not None]:
            self.alive.remove(process)
            process.close()
            if process.broke_down_at_once:
                raise RunError(
                    f"builder host {process.name} ended with exit code {process.exit_code}; "
                    f"it said: {last_line(process.log)} (log: {process.log})"
                )
            self._add()

    def ensure(self, count: int) -> None:
        """Keep at least this many hosts from now on."""
        while self._count < count:
            self._count += 1
            self._add()

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Stop all hosts by their process ids: terminated, then killed if need be."""
        for process in self.alive:
            process.terminate()
        deadline = time.monotonic() + timeout
        for process in self.alive:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout)
            process.close()
        self.alive.clear()

    def _add(self) -> None:
        self._made += 1
        name = f"host-{self._made}"
        settings = msgspec.structs.replace(self.settings, host=name)
        self.alive.append(HostProcess(settings, self._folder / f"{name}.log"))


def host_command(name: str | None) -> list[str]:
    """Return the command line of a builder host, wherever it runs (None: of any name)."""
    worker = ["celery", "--quiet", "-A", "workers.app", "worker", "--loglevel", "WARNING"]
    return [*worker, *(["--hostname", f"{name}@farm"] if name else [])]
