"""The burn server: a builder host's child that starts, kills and reaps burning processes.

``python workers/burn/server.py SETTINGS`` reads requests from standard input and answers on
standard output, a line of JSON each:

    {"start": 7, "mode": "stress", "threads": 4, "seconds": 2.5, "cores": [0, 1]}
    {"kill": 7}
    {"measure": ["stress", "memory"], "turns": 10}
        {"burning": 7}                          all its processes are at work
        {"ended": 7, "error": null, "cpu": 10.0}
        {"rates": {"cpu": 960.0}, "own": false}    measured because a job needed it
        {"measured": null, "rates": {…}, "own": false}  measured because asked; or what hindered it

``seconds`` are of work, for each thread, on one otherwise idle core; null burns until killed.

When standard input closes, the host is gone: everything is killed and the program ends. Linux also
kills the program when the host ends, and the burning processes when the program ends; each of them
may be stopped at the time. The program has one thread and few imports, so that a fork is safe, and
quick: a job begins to burn within a few milliseconds. It is not niced, as the processes are: else
it would stand in line behind all that burns, with a cancel in its hands.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:  # run as a file, with an empty path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from farm.processes.child import become_subreaper, die_with
from workers.burn.kernels import buffer_size, cpu_kernel, memory_kernel
from workers.burn.limits import OVERHEAD, MemoryBudget, NoMemoryError, memory_room
from workers.burn.process import REASONS, Part, Work, burn
from workers.burn.rates import HASTY, SLICES, Burst, measure, slices_of
from workers.burn.stress_ng import MAX_OPERATIONS, StressNg, UnusableError


class Group:
    """The burning processes of one job: a process group of their own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.leader = 0
        self.alive: set[int] = set()
        self.cpu = 0.0
        self.error: str | None = None
        #: closed at its other end by each process that gets to work
        self.ready = -1

    def add(self, pid: int) -> None:
        """Take a process in."""
        self.leader = self.leader or pid
        with contextlib.suppress(OSError):  # it does so itself as well: whichever is first
            os.setpgid(pid, self.leader)
        self.alive.add(pid)

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
            self.error = f"a burning process {REASONS.get(code, how)}"


class BurnServer:
    """The loop: requests in, processes out, ends reported."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._program: str | None = settings.get("stress_ng")
        self._must = bool(settings.get("must"))
        self._stress_ng: StressNg | None = None
        self._buffer = int(settings.get("buffer") or buffer_size(room=memory_room()))
        self._budget = MemoryBudget(self._buffer, memory_room)
        self._rates: dict[str, float] = dict(settings.get("rates") or {})
        self._groups: dict[int, Group] = {}
        self._owner: dict[int, Group] = {}
        self._unread = b""
        self._poll = select.poll()
        self._nice = int(settings.get("nice") or 0)

    def serve(self) -> None:
        """Obey until standard input closes; then leave nothing behind."""
        wake, alarm = os.pipe()
        os.set_blocking(alarm, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for pipe in (0, wake):
            self._poll.register(pipe, select.POLLIN)
        try:
            while True:
                readable = {pipe for pipe, _ in self._poll.poll()}
                if wake in readable:
                    os.read(wake, 4096)
                    self._bury()
                for group in [g for g in self._groups.values() if g.ready in readable]:
                    self._all_at_work(group)
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
        elif "measure" in request:
            self._answer_measured(request["measure"], request["turns"])

    def _answer_measured(self, modes: list[str], turns: int) -> None:
        error = None
        try:
            self._measure([name for mode in modes for name in self._kernels(mode)], turns)
        except (UnusableError, OSError) as problem:
            error = str(problem)
        _answer({"measured": error, "rates": self._rates, "own": self._program is None})

    def _start(self, request: dict[str, Any]) -> None:
        """Fork a job's processes; whatever hinders that ends the job, and says so."""
        group = self._groups[request["start"]] = Group(request["start"])
        try:
            work = self._work(request)
            self._fork(group, work, request["threads"])
        except (UnusableError, NoMemoryError) as error:
            group.error = str(error)
        except OSError as error:
            group.error = f"cannot start a burning process: {error.strerror}"
            group.kill()
        if not group.alive:
            self._end(group)

    def _work(self, request: dict[str, Any]) -> Work:
        """Return what each process of a job does; measures rates that are not known yet."""
        seconds, program = request["seconds"], ""
        names = self._known(self._kernels(request["mode"]))
        if names == ["stress_ng"] and (seconds or 0) * self._rates[names[0]] > MAX_OPERATIONS:
            names = self._known(["cpu"])
        buffer = self._budget.take(
            request["start"],
            request["threads"],
            walks="memory" in names,
            overhead=StressNg.OVERHEAD if names == ["stress_ng"] else OVERHEAD,
        )
        if names == ["stress_ng"] and self._stress_ng is not None:
            program = self._stress_ng.program
            seconds = seconds and max(0.0, seconds - self._stress_ng.start_up)
        parts = tuple(
            Part(name, self._rates[name], None if seconds is None else seconds / len(names))
            for name in names
        )
        return Work(parts, self._nice, buffer, request.get("cores"), program)

    def _fork(self, group: Group, work: Work, threads: int) -> None:
        group.ready, told = os.pipe()
        self._poll.register(group.ready, select.POLLIN)
        try:
            for _ in range(threads):
                parent, pid = os.getpid(), os.fork()
                if pid == 0:
                    burn(work, group.leader, parent, told)
                group.add(pid)
                self._owner[pid] = group
        finally:
            os.close(told)

    def _kernels(self, mode: str) -> list[str]:
        """Return which kernels a mode works with, in equal shares."""
        if mode == "stress":
            return ["stress_ng"] if self._uses_stress_ng() else ["cpu"]
        return ["memory"] if mode == "memory" else ["cpu", "memory"]

    def _uses_stress_ng(self) -> bool:
        """Try the program when it is first needed; one that does not work is not used."""
        if self._program is not None and self._stress_ng is None:
            try:
                self._stress_ng = StressNg(self._program)
            except UnusableError as error:
                if self._must:
                    raise
                self._program = None
                sys.stderr.write(f"{error}: jobs of mode stress burn without it\n")
                sys.stderr.flush()
        return self._stress_ng is not None

    def _known(self, names: list[str]) -> list[str]:
        """Return the names; the rates of these kernels are known from now on."""
        if any(name not in self._rates for name in names):
            self._measure(names, HASTY)
            _answer({"rates": self._rates, "own": self._program is None})
        return names

    def _measure(self, names: list[str], turns: int) -> None:
        bursts = {name: self._burst(name) for name in names if name not in self._rates}
        self._rates |= measure(bursts, turns)

    def _burst(self, name: str) -> Burst:
        if name == "stress_ng" and self._stress_ng is not None:
            return self._stress_ng.burst
        kernel = cpu_kernel() if name == "cpu" else memory_kernel(self._buffer)
        return lambda: slices_of(kernel, SLICES[name])

    def _all_at_work(self, group: Group) -> None:
        """Every process of the group has closed its end of the pipe."""
        self._close_ready(group)
        if group.alive:
            _answer({"burning": group.number})

    def _close_ready(self, group: Group) -> None:
        if group.ready >= 0:
            self._poll.unregister(group.ready)
            os.close(group.ready)
            group.ready = -1

    def _bury(self) -> None:
        while True:
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
        self._close_ready(group)
        self._budget.give_back(group.number)
        del self._groups[group.number]
        _answer({"ended": group.number, "error": group.error, "cpu": group.cpu})


def _answer(answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode() + b"\n"
    with contextlib.suppress(BrokenPipeError):  # the host is gone: standard input tells us
        os.write(1, data)


def main(settings: dict[str, Any]) -> None:
    """Burn for the host whose child this process is."""
    if (host := settings.get("host")) is not None:
        die_with(host)
    become_subreaper()
    BurnServer(settings).serve()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
