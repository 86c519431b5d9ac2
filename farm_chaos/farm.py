"""The farm for fault injection, with its own processes and folder."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from farm.app.long_running.farm_place import FarmPlace, place_file, read_place
from farm.core.errors import InputError, RunError
from farm.live.redis.server import EmbeddedServer, choose_server
from farm.live.settings import environment_of_another
from farm.processes.child import die_with_parent, end_at_once
from farm.processes.identity import began_at, is_alive
from farm_chaos.machine import Machine
from farm_chaos.server_faults import ServerFaults

log = logging.getLogger("farm.chaos")

PREFIX = "chaos:"
#: real seconds for the farm to come up, and to go down
UP_TIMEOUT, DOWN_TIMEOUT = 120.0, 60.0
#: real seconds within which no process is left of a farm whose keeper has ended
GONE_WITHIN = 15.0
STEP = 0.05
#: descriptors beyond which a process opens none when it is denied more
FEW_FILES = 3

Process = tuple[int, str]
"""A process: its id, and when it began."""


class ChaosFarm:
    """A farm that stays up.

    Its processes are found by their working directory: only Linux shows it.

    Args:
        folder: an empty one.
        scenario: the text of its scenario.
    """

    def __init__(self, folder: Path, scenario: str) -> None:
        if not Path("/proc/self/cwd").exists():
            raise InputError("farm admin chaos finds processes in /proc: it works on Linux only")
        self.folder = folder.resolve()
        self.state = self.folder / "farm"
        self.data = self.state / "redis"
        self.journals = self.folder / "journals"
        self.machine = Machine(self.folder, disk=self.state)
        (self.folder / "scenario.yaml").write_text(scenario, encoding="utf-8")
        self._environment = environment_of_another(
            FARM_PREFIX=PREFIX,
            FARM_JOURNAL=str(self.journals),
            PATH=os.pathsep.join([str(self._server_that_keeps_all()), *os.get_exec_path()]),
            **self.machine.environment(),
        )
        self._keeper: subprocess.Popen[bytes] | None = None
        #: processes that must be gone by an instant
        self._ending: list[tuple[float, Process]] = []
        #: how often the keeper ended of itself
        self.gave_up = 0
        #: processes that outlived their keeper
        self.orphans = 0

    def _server_that_keeps_all(self) -> Path:
        """Return a folder with a server that never rewrites its append-only file.

        An audit wants all of it, and a server that starts on a large one may rewrite it at once.
        """
        server = choose_server(None)
        program = self.folder / "bin/redis-server"
        program.parent.mkdir(exist_ok=True)
        if isinstance(server, EmbeddedServer):
            words = f'exec {shlex.quote(str(server.binary))} "$@" --auto-aof-rewrite-percentage 0'
            program.write_text(f"#!/bin/sh\n{words}\n")
            program.chmod(0o700)
        return program.parent

    # --- its life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the keeper; it comes up by itself."""
        words = ["farm", "up", "scenario.yaml", "--foreground", "--dir=farm", "--metrics-port=0"]
        with (self.folder / "keeper.log").open("ab") as sink:
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - one prctl call, nothing more
            )

    def supervise(self) -> None:
        """Restart what has ended and has no supervisor; note which processes outlive the keeper."""
        if self._keeper is not None and self._keeper.poll() is not None:
            self.gave_up += 1
            self.expect_end()
            self.start()
        self._look_for_orphans()

    def await_up(self) -> None:
        """Return when it is up; raises RunError if it is not in time."""
        deadline = time.monotonic() + UP_TIMEOUT
        while not self.is_up:
            self.supervise()
            if time.monotonic() > deadline:
                raise RunError(f"the farm did not come up (logs: {self.state})")
            time.sleep(STEP)
        self.supervise()

    def await_gone(self, timeout: float) -> None:
        """Return when no process of an earlier keeper is left; raises RunError."""
        deadline = time.monotonic() + timeout
        while self.processes():
            if time.monotonic() > deadline:
                raise RunError(f"processes of an earlier campaign still run in {self.folder}")
            time.sleep(STEP)

    def end(self, kind: signal.Signals) -> None:
        """End the keeper by a signal (SIGTERM: running jobs end first) and wait for that."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            self.expect_end()
            keeper.send_signal(kind)
            try:
                keeper.wait(DOWN_TIMEOUT)
            except subprocess.TimeoutExpired:
                keeper.kill()
                keeper.wait()
            self._ending = [(time.monotonic() + GONE_WITHIN, one) for _, one in self._ending]

    def keep_data(self) -> Path:
        """Take the data away from the server of a farm that is down; return where they are now."""
        lost = self.data.with_name(f"redis.lost-{len(self.lost_data()) + 1}")
        self.data.rename(lost)
        return lost

    def lost_data(self) -> list[Path]:
        """Return the folders of the data that were taken away, the first one first."""
        return sorted(self.state.glob("redis.lost-*"), key=lambda path: int(path.suffix[6:]))

    def close(self) -> None:
        """End whatever is still there."""
        self.end(signal.SIGTERM)
        while self._ending:
            self._look_for_orphans()
            time.sleep(STEP)
        for pid in self.processes():
            self.orphans += 1
            end_at_once(pid)

    def place(self) -> FarmPlace | None:
        """Return where the farm of this keeper is; None: it is not known yet."""
        with contextlib.suppress(InputError):
            place = read_place(self.state)
            if place is not None and self._keeper is not None and place.pid == self._keeper.pid:
                return place
        return None

    @property
    def is_up(self) -> bool:
        """Whether this keeper's farm has come up."""
        return (place := self.place()) is not None and place.state == "up"

    # --- its processes ------------------------------------------------------------------------

    def processes(self) -> dict[int, list[str]]:
        """Return the command line of each live process of the farm."""
        found: dict[int, list[str]] = {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.folder in ((cwd := (path / "cwd").readlink()), *cwd.parents):
                    found[int(path.name)] = (path / "cmdline").read_text().split("\0")
        return found

    def forget_place(self) -> None:
        """Remove the file that says where the farm is."""
        place_file(self.state).unlink(missing_ok=True)

    def find(self, target: str, server: ServerFaults, rng: random.Random) -> Process | None:
        """Return a process of this role; None: there is none just now."""
        if target == "keeper":
            found = [self._keeper.pid] if self._keeper is not None else []
        elif target == "server":
            found = [server.server_pid()]
        else:
            leader = server.client.leader()
            found = [
                pid
                for pid, words in self.processes().items()
                if _role(words, leads=leader is not None and pid == leader.pid) == target
            ]
        pid = rng.choice(sorted(found)) if found else 0
        began = began_at(pid) if pid else ""
        return (pid, began) if began else None

    def expect_end(self) -> None:
        """The keeper ends: all its processes have to end soon."""
        deadline = time.monotonic() + GONE_WITHIN
        ending = {pid: began_at(pid) for pid in self.processes()}
        self._ending += [(deadline, (pid, began)) for pid, began in ending.items() if began]

    def _look_for_orphans(self) -> None:
        left = [(by, one) for by, one in self._ending if is_alive(*one)]
        late = [one for by, one in left if time.monotonic() > by]
        self.orphans += len(late)
        for pid, _ in late:
            log.warning("left behind: process %d: %s", pid, " ".join(self.processes().get(pid, [])))
            end_at_once(pid)
        self._ending = [(by, one) for by, one in left if one not in late]


def _role(words: list[str], *, leads: bool) -> str:
    """Return what a process with this command line is."""
    scheduler = "scheduler" if leads else "standby"
    roles = {"workers.app": "host", "provisioner": "provisioner", "scheduler": scheduler}
    return next((role for word, role in roles.items() if word in words), "")


def send(process: Process, kind: signal.Signals) -> None:
    """Send a signal to a process, if it is still that one."""
    if is_alive(*process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process[0], kind)


def deny_files(process: Process) -> Callable[[], None]:
    """Let a process open no more files; return what allows it again."""
    pid, _ = process
    least = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(least, FEW_FILES), hard))

    def allow() -> None:
        if is_alive(*process):
            with contextlib.suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    return allow


def until(there: Callable[[], bool], supervise: Callable[[], None], timeout: float) -> bool:
    """Wait, supervising the farm, until a condition holds; False: it does not in time."""
    deadline = time.monotonic() + timeout
    while not there():
        if time.monotonic() > deadline:
            return False
        supervise()
        time.sleep(STEP)
    return True
