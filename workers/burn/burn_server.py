"""The burn server: a builder host's child that starts, kills and reaps burning processes.

``python workers/burn/burn_server.py SETTINGS`` reads requests from standard input and answers on
standard output, a line of JSON each:

    {"job": 7, "mode": "stress", "threads": 4, "seconds": 2.5, "cores": [0, 1]}
    {"job": 8, "measure": ["stress", "memory"], "turns": 10}
    {"kill": 7}
        {"job": 7, "burning": 1}        from each of its processes, when it is at work
        {"job": 7, "error": null, "cpu": 10.0, "real": 2.6, "rates": {"cpu": 960.0}, "own": false}

``seconds`` are of work, for each thread, on one otherwise idle core; null burns until killed. A
job whose rates are not known measures them first.

When standard input closes, the host is gone: everything is killed and the program ends. Linux also
kills the program when the host ends, and the burning processes when the program ends; each of them
may be stopped at the time. The program has one thread and few imports, so that a fork is safe, and
quick: a job begins to burn within a few milliseconds. It is not niced, as the processes are:
otherwise it would wait behind the burning processes before it could cancel one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:  # run as a file, with an empty path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from farm.processes.child import become_subreaper, die_with
from workers.burn.kernels import buffer_size
from workers.burn.limits import OVERHEAD, MemoryBudget, NoMemoryError, memory_room
from workers.burn.process import REASONS, KernelWork, Work, burn
from workers.burn.rates import HASTY, Burst, bursts_of, measure
from workers.burn.stress_ng import MAX_OPERATIONS, StressNg, UnusableStressNgError
from workers.burn.stress_ng import OVERHEAD as STRESS_NG_OVERHEAD

#: processes of a job that are started before requests are read again: some milliseconds, so that a
#: request to end one does not wait until a job of many threads has all of its own
FORKS_AT_ONCE = 8


class ProcessGroup:
    """The burning processes of one job: a process group of their own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.began = time.monotonic()
        #: what each process does, and how many are still to be started
        self.work: Work | None = None
        self.to_start = 0
        self.leader = 0
        self.alive: set[int] = set()
        self.cpu = 0.0
        self.error: str | None = None

    def add(self, pid: int) -> None:
        """Add a process."""
        self.leader = self.leader or pid
        with contextlib.suppress(OSError):  # it does so itself as well: whichever is first
            os.setpgid(pid, self.leader)
        self.alive.add(pid)

    @property
    def is_over(self) -> bool:
        """Whether no process is left, and none is to be started."""
        return not self.alive and not self.to_start

    def kill(self) -> None:
        """Kill all processes, and start no more."""
        self.to_start = 0
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.leader, signal.SIGKILL)

    def ended(self, pid: int, status: int, cpu: float) -> None:
        """Note that one has ended."""
        self.alive.discard(pid)
        if not self.alive:
            self.leader = 0  # its process group is gone: the next process leads another
        self.cpu += cpu
        code = os.waitstatus_to_exitcode(status)
        if code and self.error is None:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self.error = f"a burning process {REASONS.get(code, how)}"


class BurnServer:
    """The loop: requests in, processes out, ends reported."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._program: str | None = settings.get("stress_ng")
        self._must = bool(settings.get("must"))
        self._nice = int(settings.get("nice") or 0)
        self._rates: dict[str, float] = dict(settings.get("rates") or {})
        self._stress_ng: StressNg | None = None
        self._buffer = buffer_size(room=memory_room())
        self._budget = MemoryBudget(self._buffer, memory_room)
        self._groups: dict[int, ProcessGroup] = {}
        self._owner: dict[int, ProcessGroup] = {}
        self._unread = b""

    def serve(self) -> None:
        """Handle requests until standard input closes; then kill everything."""
        wake, alarm = os.pipe()
        for pipe in (wake, alarm):
            os.set_blocking(pipe, False)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        poll = select.poll()
        for pipe in (0, wake):
            poll.register(pipe, select.POLLIN)
        try:
            while True:
                is_starting = self._start_some()
                readable = {pipe for pipe, _ in poll.poll(0 if is_starting else None)}
                if wake in readable:
                    os.read(wake, 4096)
                    self._reap()
                if 0 in readable and not self._read():
                    return
        finally:
            for group in self._groups.values():
                group.kill()

    def handle(self, request: dict[str, Any]) -> None:
        """Carry out a request; an error ends the job and is reported."""
        if "kill" in request:
            if (doomed := self._groups.get(request["kill"])) is not None:
                doomed.kill()
                if doomed.is_over:
                    self._end(doomed)
            return
        group = self._groups[request["job"]] = ProcessGroup(request["job"])
        try:
            if "measure" in request:
                names = [name for mode in request["measure"] for name in self._kernels(mode)]
                self._measure(names, request["turns"])
            else:
                group.work, group.began = self._work(request), time.monotonic()
                group.to_start = request["threads"]
        except (UnusableStressNgError, NoMemoryError) as error:
            group.error = str(error)
        if group.is_over:
            self._end(group)

    def _read(self) -> bool:
        data = os.read(0, 65536)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self.handle(json.loads(line))
        return bool(data)

    def _work(self, request: dict[str, Any]) -> Work:
        """Return what each process of a job does; measures rates that are not known yet."""
        number, seconds, program = request["job"], request["seconds"], ""
        names, overhead = self._kernels(request["mode"]), OVERHEAD
        self._measure(names, HASTY)
        if names == ["stress_ng"] and (seconds or 0) * self._rates["stress_ng"] > MAX_OPERATIONS:
            names = ["cpu"]
            self._measure(names, HASTY)
        if names == ["stress_ng"] and self._stress_ng is not None:
            program, overhead = self._stress_ng.program, STRESS_NG_OVERHEAD
            seconds = seconds and max(0.0, seconds - self._stress_ng.start_up)
        walks, threads = "memory" in names, request["threads"]
        buffer = self._budget.take(number, threads, walks=walks, overhead=overhead)
        share = None if seconds is None else seconds / len(names)
        parts = tuple(KernelWork(name, self._rates[name], share) for name in names)
        return Work(number, parts, self._nice, buffer, request.get("cores"), program)

    def _start_some(self) -> bool:
        """Start some of the processes that are to be started; return whether there are more.

        Each job gets as many at a time: one of many threads holds up neither the others nor the
        request that cancels it.
        """
        for group in [one for one in self._groups.values() if one.to_start]:
            try:
                self._fork(group)
            except OSError as error:
                group.error = f"cannot start a burning process: {error.strerror}"
                group.kill()
                if group.is_over:
                    self._end(group)
        return any(group.to_start for group in self._groups.values())

    def _fork(self, group: ProcessGroup) -> None:
        if group.work is None:
            return
        parent = os.getpid()
        for _ in range(min(group.to_start, FORKS_AT_ONCE)):
            pid = os.fork()
            if pid == 0:
                burn(group.work, group.leader, parent)
            group.add(pid)
            group.to_start -= 1
            self._owner[pid] = group

    def _kernels(self, mode: str) -> list[str]:
        """Return which kernels a mode works with, in equal shares."""
        if mode == "stress":
            return ["stress_ng"] if self._uses_stress_ng() else ["cpu"]
        return ["cpu", "memory"] if mode == "mixed" else [mode]

    def _uses_stress_ng(self) -> bool:
        """Test the program when it is first needed; one that does not work is not used."""
        if self._program is not None and self._stress_ng is None:
            try:
                self._stress_ng = StressNg(self._program)
            except UnusableStressNgError as error:
                if self._must:
                    raise
                self._program = None
                sys.stderr.write(f"{error}: jobs of mode stress burn without it\n")
                sys.stderr.flush()
        return self._stress_ng is not None

    def _measure(self, names: list[str], turns: int) -> None:
        """Measure the rates of these kernels."""
        unknown = [name for name in names if name not in self._rates]
        self._rates |= measure({name: self._burst(name) for name in unknown}, turns)

    def _burst(self, name: str) -> Burst:
        if name == "stress_ng" and self._stress_ng is not None:
            return self._stress_ng.burst
        return bursts_of(name, self._buffer)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                pid, status, usage = ended
                if (group := self._owner.pop(pid, None)) is None:
                    continue
                group.ended(pid, status, usage.ru_utime + usage.ru_stime)
                if group.is_over:
                    self._end(group)

    def _end(self, group: ProcessGroup) -> None:
        self._budget.give_back(group.number)
        del self._groups[group.number]
        answer = {
            "job": group.number,
            "error": group.error,
            "cpu": group.cpu,
            "real": time.monotonic() - group.began,
            "rates": self._rates,
            "own": self._program is None,
        }
        with contextlib.suppress(BrokenPipeError):  # the host is gone: standard input will show it
            os.write(1, json.dumps(answer).encode() + b"\n")


def main(settings: dict[str, Any]) -> None:
    """Run the burn server for the host that started this process."""
    if (host := settings.get("host")) is not None:
        die_with(host)
    become_subreaper()
    BurnServer(settings).serve()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
