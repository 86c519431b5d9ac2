"""Builder hosts as processes of this machine; each runs many builders.

A host's process id is kept in a file, so that a provisioner that starts again (even after SIGKILL)
adopts the hosts that are there instead of starting others beside them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from farm.live.host_processes import (
    MISSING_TIME,
    STOP_TIMEOUT,
    TOO_SOON,
    HostProcess,
    MissingHosts,
    hosts_needed,
)
from farm.live.settings import LiveSettings
from farm.live.wire.pool_report import HostRecord, PoolReport
from farm.metrics.targets import forget_host
from farm.processes.identity import began_at, is_alive
from farm.processes.log_files import last_line
from farm.whole_files import write_whole
from provisioner.backends.backend import Backend, BackendError, Pause, builders_to_host

log = logging.getLogger("farm.provisioner")

#: a host that was idle for it ends, if others are left (real seconds)
SPARE_TIME = 60.0


class HostOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How hosts are kept as processes of this machine.

    Attributes:
        hosts_dir: folder for the hosts' logs and process ids.
        keeper_pipe: hosts end when the standard input closes, not with this process.
    """

    hosts_dir: Path | None = None
    keeper_pipe: bool = False


class HostFile(msgspec.Struct, frozen=True):
    """The file of a host, which identifies its process exactly."""

    pid: int
    began: str


def read_host_file(path: Path) -> HostFile | None:
    """Return the file of a host; None if it cannot be read."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(path.read_bytes(), type=HostFile)
    return None


class AdoptedHost:
    """A host that an earlier provisioner started."""

    def __init__(self, name: str, file: HostFile, targets: str = "") -> None:
        self.name = name
        self.pid = file.pid
        self._targets = targets
        self._began = file.began

    @property
    def exit_code(self) -> int | None:
        """None while it lives; 0 after (it is no child, so its exit code is unknown)."""
        return None if is_alive(self.pid, self._began) else 0

    def terminate(self) -> None:
        """Ask it to leave."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it without notice."""
        self._signal(signal.SIGKILL)

    def _signal(self, kind: signal.Signals) -> None:
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, kind)

    def close(self) -> None:
        """Let go of an ended process."""
        forget_host(self._targets, self.name)


class ProcessBackend(Backend):
    """Keeps enough hosts.

    Args: settings: those of the farm; each host gets a different name. folder: where logs and files
    of the hosts go. keeper_pipe: hosts inherit this process's standard input, and leave when it
    closes: the other end is held by the process that keeps the farm up, so hosts outlive a
    provisioner but not the farm. False: hosts leave with this process. clock: real seconds.
    """

    def __init__(
        self,
        settings: LiveSettings,
        folder: Path,
        *,
        keeper_pipe: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._keeper_pipe = keeper_pipe
        self._clock = clock
        #: hosts that die as soon as they are started are tried again after it
        self._pause = Pause()
        self._trouble = ""
        self._spare_since: dict[str, float] = {}
        self.hosts: dict[str, HostProcess | AdoptedHost] = {}
        #: when those were started that have neither announced themselves nor lived for a while
        self._unproven: dict[str, float] = {}
        #: those that were asked to end
        self._ending: set[str] = set()
        self._missing = MissingHosts()
        #: the message until all hosts are known to the scheduler, after one was not
        self._absence = ""
        #: of the last reports, farm time
        self._reported_at: float | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._adopt()

    def tend(
        self, reports: Mapping[str, PoolReport], hosts: Mapping[str, HostRecord]
    ) -> Mapping[str, str]:
        """Drop ended hosts, end one that hangs, start what is needed, stop a spare one."""
        self._forget_ended()
        self._end_missing(reports, hosts)
        builders = sum(builders_to_host(reports).values())
        needed = hosts_needed(builders, self._settings.room)
        now = self._clock()
        while len(self._staying) < needed and self._pause.over(now):
            self._start()
        self._note_recovery(needed, hosts, now)
        self._end_spare(needed, hosts, now)
        trouble = self._trouble if self._pause.failures else self._absence
        return {"": trouble} if trouble else {}

    @property
    def _staying(self) -> list[str]:
        return [name for name in self.hosts if name not in self._ending]

    def processes(self) -> list[int]:
        """Return the ids of the hosts' processes."""
        return [host.pid for host in self.hosts.values()]

    def close(self) -> None:
        """Hosts with the keeper's pipe stay, to be adopted; others leave with this process."""
        if self._keeper_pipe:
            return
        for host in self.hosts.values():
            host.terminate()
        deadline = time.monotonic() + 5.0
        while any(h.exit_code is None for h in self.hosts.values()) and time.monotonic() < deadline:
            time.sleep(0.02)
        self._forget_ended()

    def _adopt(self) -> None:
        for path in sorted(self._folder.glob("*.json")):
            if (file := read_host_file(path)) is None:
                continue
            host = AdoptedHost(path.stem, file, self._settings.metrics_targets)
            if host.exit_code is None:
                self.hosts[host.name] = host
                log.info("adopted builder host %s (process %d)", host.name, host.pid)
            else:
                host.close()
                path.unlink(missing_ok=True)

    def _start(self) -> None:
        name = f"host-{uuid.uuid4().hex[:8]}"
        settings = msgspec.structs.replace(self._settings, host=name)
        try:
            host = HostProcess(
                settings, self._folder / f"{name}.log", own_pipe=not self._keeper_pipe
            )
            self._record(host)
        except OSError as error:
            raise BackendError(f"a builder host cannot be started: {error}") from None
        self.hosts[name] = host
        self._unproven[name] = self._clock()
        log.info("started builder host %s (process %d)", name, host.pid)

    def _record(self, host: HostProcess) -> None:
        """Write the file of a new host; one without a file, which none could adopt, is ended.

        Raises OSError.
        """
        file = HostFile(host.pid, began_at(host.pid))
        try:
            write_whole(self._folder / f"{host.name}.json", msgspec.json.encode(file))
        except OSError:
            host.kill()  # it has no builders yet
            host.wait(STOP_TIMEOUT)
            host.close()
            raise

    def _forget_ended(self) -> None:
        for name, host in list(self.hosts.items()):
            if host.exit_code is None:
                continue
            del self.hosts[name]
            self._ending.discard(name)
            (self._folder / f"{name}.json").unlink(missing_ok=True)
            if isinstance(host, HostProcess) and host.broke_down_at_once:
                pause = self._pause.failed(self._clock())
                last, again = last_line(host.log), f"next try in {pause:g}s"
                self._trouble = f"builder hosts fail at their start; one said: {last}"
                log.error(
                    "builder host %s failed at its start (%s); it said: %s", name, again, last
                )
            else:
                log.warning("builder host %s is gone (exit code %s)", name, host.exit_code)
            host.close()

    def _end_missing(
        self, reports: Mapping[str, PoolReport], hosts: Mapping[str, HostRecord]
    ) -> None:
        """End a host that the scheduler does not know although it has just reported its hosts."""
        at = max((report.snapshot.at for report in reports.values()), default=None)
        if at == self._reported_at:
            return
        self._reported_at = at
        if all(name in hosts for name in self._staying):
            self._absence = ""
        name = self._missing.overdue(self._staying, hosts, self._clock())
        if name is not None:
            missing = f"builder host {name} lived, but was missing for {MISSING_TIME:g}s"
            self._absence = f"{missing}: replaced"
            self.hosts[name].kill()
            self._ending.add(name)

    def _note_recovery(self, needed: int, hosts: Mapping[str, HostRecord], now: float) -> None:
        """End the pauses once there are enough hosts, and all of them have come up."""
        self._unproven = {
            name: started_at
            for name, started_at in self._unproven.items()
            if name in self.hosts and name not in hosts and now - started_at < TOO_SOON
        }
        if len(self._staying) >= needed and not self._unproven:
            self._pause.well()

    def _end_spare(self, needed: int, hosts: Mapping[str, HostRecord], now: float) -> None:
        staying = self._staying
        idle = [name for name in staying if name in hosts and not hosts[name].builders]
        spare = {name: self._spare_since.get(name, now) for name in idle}
        for name, since in sorted(spare.items(), key=lambda pair: (pair[1], pair[0])):
            if len(staying) > needed and now - since > SPARE_TIME:
                self.hosts[name].terminate()
                self._ending.add(name)
                del spare[name]
                break
        self._spare_since = spare
