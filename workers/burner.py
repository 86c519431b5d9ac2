"""The program that burns: a builder host's child that starts, kills and buries processes.

``python workers/burner.py SETTINGS`` reads requests from standard input and answers on standard
output, a line of JSON each:

    {"start": 7, "mode": "stress", "threads": 4, "seconds": 2.5, "cores": [0, 1]}
    {"kill": 7}
        {"burning": 7}                          all its processes are at work
        {"ended": 7, "error": null, "cpu": 10.0}

``seconds`` are of work, for each thread, on one otherwise idle core; null burns until killed. When
standard input closes, the host is gone: everything is killed and the program ends. Each burning
process looks between two bits of work whether this program still lives, so SIGKILL here ends them
too. It has one thread and few imports, so that a fork is safe, and quick: a job begins to burn
within a few milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:  # run as a file, with an empty path
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workers import stress_ng
from workers.kernels import Kernel, buffer_size, cpu_kernel, memory_kernel, rate_of

MODES = ("stress", "memory", "mixed")
#: seconds of work between two looks at the parent
BIT = 0.01
PR_SET_PDEATHSIG = 1
#: the exit code of a burning process whose parent is gone
ORPHANED = 3


class Group:
    """The burning processes of one job: a process group of their own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.leader = 0
        self.alive: set[int] = set()
        self.cpu = 0.0
        self.error: str | None = None
        self.ready = -1

    def kill(self) -> None:
        """End them all at once."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.leader, signal.SIGKILL)
            for pid in self.alive:  # one that has not yet joined the group
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def buried(self, pid: int, status: int, cpu: float) -> None:
        """Take note of one that has ended."""
        self.alive.discard(pid)
        self.cpu += cpu
        code = os.waitstatus_to_exitcode(status)
        if code and self.error is None:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self.error = f"a burning process {how}"


class Burner:
    """The loop: requests in, processes out, ends reported."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._program: str | None = settings.get("stress_ng")
        self._buffer = int(settings.get("buffer") or buffer_size())
        self._rates: dict[str, float] = dict(settings.get("rates") or {})
        self._groups: dict[int, Group] = {}
        self._owner: dict[int, Group] = {}
        self._unread = b""
        if nice := int(settings.get("nice") or 0):
            os.nice(nice)

    def serve(self) -> None:
        """Obey until standard input closes; then leave nothing behind."""
        wake, alarm = os.pipe()
        os.set_blocking(alarm, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            while True:
                pipes = [group.ready for group in self._groups.values() if group.ready >= 0]
                readable, _, _ = select.select([0, wake, *pipes], [], [])
                if wake in readable:
                    os.read(wake, 4096)
                    self._bury()
                for group in [g for g in self._groups.values() if g.ready in readable]:
                    self._answer_ready(group)
                if 0 in readable and not self._read():
                    return
        finally:
            for group in self._groups.values():
                group.kill()

    def _read(self) -> bool:
        data = os.read(0, 65536)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))
        return bool(data)

    def _obey(self, request: dict[str, Any]) -> None:
        if "start" in request:
            self._start(request)
        elif "kill" in request and (group := self._groups.get(request["kill"])) is not None:
            group.kill()
        elif "rates" in request:
            _answer({"rates": {name: self._rate(name) for name in self._kernels()}})

    def _kernels(self) -> tuple[str, ...]:
        return ("cpu", "memory", *(("stress_ng",) if self._program else ()))

    def _start(self, request: dict[str, Any]) -> None:
        """Fork a job's processes; they get to work when all of them stand."""
        group = Group(request["start"])
        seconds, cores = request.get("seconds"), request.get("cores")
        plan = [
            (name, None if seconds is None else seconds * part)
            for name, part in self._parts(request["mode"])
        ]
        for name, _ in plan:
            self._rate(name)
        group.ready, told = os.pipe()
        self._groups[group.number] = group
        try:
            for _ in range(request["threads"]):
                pid = os.fork()
                if pid == 0:
                    self._burn(group.leader, plan, cores, told)
                group.leader = group.leader or pid
                with contextlib.suppress(OSError):
                    os.setpgid(pid, group.leader)
                group.alive.add(pid)
                self._owner[pid] = group
        except OSError as error:
            group.error = f"cannot start a burning process: {error.strerror}"
            group.kill()
            if not group.alive:
                self._end(group)
        finally:
            os.close(told)

    def _parts(self, mode: str) -> list[tuple[str, float]]:
        """Return which kernels a mode works with, and the share of the work of each."""
        if mode == "stress":
            return [("stress_ng" if self._program else "cpu", 1.0)]
        return [("memory", 1.0)] if mode == "memory" else [("cpu", 0.5), ("memory", 0.5)]

    def _rate(self, name: str) -> float:
        """Return a kernel's units per second on an idle core, measured when first asked for."""
        if name not in self._rates:
            if name == "stress_ng":
                self._rates[name] = stress_ng.rate(self._program or name)
            else:
                self._rates[name] = rate_of(self._kernel(name), 10 if name == "cpu" else 96)
        return self._rates[name]

    def _kernel(self, name: str) -> Kernel:
        return cpu_kernel() if name == "cpu" else memory_kernel(self._buffer)

    def _burn(
        self, leader: int, plan: list[tuple[str, float | None]], cores: list[int] | None, told: int
    ) -> None:
        """Be a burning process: never returns."""
        code = 1
        try:
            parent = os.getppid()
            signal.set_wakeup_fd(-1)
            os.setpgid(0, leader)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            if cores and hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, cores)
            name, seconds = plan[0]
            if name == "stress_ng":
                _die_with(parent)
                os.close(told)
                units = None if seconds is None else self._units(name, seconds)
                words = stress_ng.command(self._program or name, units)
                os.execv(words[0], words)  # noqa: S606
            kernels = [(self._kernel(name), self._rates[name], seconds) for name, seconds in plan]
            os.close(told)
            code = 0 if all(_work(kernels, parent)) else ORPHANED
        except MemoryError:
            code = 12
        finally:
            os._exit(code)

    def _units(self, name: str, seconds: float) -> int:
        return max(1, round(seconds * self._rates[name]))

    def _answer_ready(self, group: Group) -> None:
        """Every process of the group has closed its end of the pipe: all are at work."""
        os.close(group.ready)
        group.ready = -1
        if group.alive:
            _answer({"burning": group.number})

    def _bury(self) -> None:
        while self._owner:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            group = self._owner.pop(pid, None)
            if group is not None:
                group.buried(pid, status, usage.ru_utime + usage.ru_stime)
                if not group.alive:
                    self._end(group)

    def _end(self, group: Group) -> None:
        if group.ready >= 0:
            os.close(group.ready)
        del self._groups[group.number]
        _answer({"ended": group.number, "error": group.error, "cpu": group.cpu})


def _work(kernels: list[tuple[Kernel, float, float | None]], parent: int) -> Iterator[bool]:
    """Do the work of all kernels in turns, bit by bit; False: the parent is gone."""
    left = [
        None if seconds is None else max(1, round(seconds * rate)) for _, rate, seconds in kernels
    ]
    while any(units is None or units > 0 for units in left):
        for k, (kernel, rate, _) in enumerate(kernels):
            units, bit = left[k], max(1, round(BIT * rate))
            kernel(bit if units is None else min(bit, units))
            left[k] = None if units is None else max(0, units - bit)
        yield os.getppid() == parent


def _die_with(parent: int) -> None:
    """Let the system kill this process when its parent dies; for programs that do not look."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(ORPHANED)


def _answer(answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode() + b"\n"
    with contextlib.suppress(BrokenPipeError):  # the host is gone: standard input tells us
        os.write(1, data)


if __name__ == "__main__":
    Burner(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}).serve()
