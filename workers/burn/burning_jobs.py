"""The builder host's interface to the burn server: starts burning jobs and receives their ends.

The burning itself is done by ``workers/burn/burn_server.py``, one child process of the host,
started with the first job that burns. A job of ``stress``, ``memory`` or ``mixed`` mode is an
*amount of work*: what one otherwise idle core does in its service time, for each of its threads.
How long that takes, the machine decides.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from farm.core.errors import InputError, RunError
from workers.burn import stress_ng
from workers.burn.kernels import KERNELS
from workers.burn.rates import CAREFUL

MODES = frozenset({"stress", "memory", "mixed"})
#: no machine does less or more units in a second; beyond that the clock would not be read
MIN_RATE, MAX_RATE = 1e-3, 1e9
NICE = 10
#: real seconds until a measurement of rates, which takes some, is given up
MEASURE_TIMEOUT = 120.0


class Burnt(NamedTuple):
    """How a job ended: its error (None if it succeeded), and its seconds."""

    error: str | None
    #: processor seconds, of all its processes
    cpu: float = 0.0
    #: real seconds from its first process to the end of its last
    real: float = 0.0


Ended = Callable[[Burnt], None]
"""A callback, called once, from a thread of the burner."""


class BurnSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a host burns."""

    #: auto: stress-ng for ``stress`` jobs where it is installed; own: never; stress-ng: always
    burner: str = "auto"
    #: units per second of one idle core, by kernel; those left out are measured
    rates: dict[str, float] = {}
    nice: int = NICE

    @classmethod
    def from_texts(cls, burner: str, rates: str) -> BurnSettings:
        """Parse FARM_BURNER and FARM_WORK_RATES; raises InputError."""
        return cls(burner=burner or "auto", rates=parse_rates(rates))

    def arguments(self) -> dict[str, Any]:
        """Return the burner program's settings; raises InputError when stress-ng is missing."""
        if self.burner not in ("auto", "own", "stress-ng"):
            raise InputError(f"FARM_BURNER: found {self.burner!r}; allowed: auto, own, stress-ng")
        program = None if self.burner == "own" else stress_ng.find()
        if program is None and self.burner == "stress-ng":
            raise InputError("FARM_BURNER: stress-ng is not installed; allowed here: auto, own")
        return {
            "stress_ng": program,
            "must": self.burner == "stress-ng",
            "rates": self.rates,
            "nice": self.nice,
        }


def parse_rates(text: str) -> dict[str, float]:
    """Parse ``cpu=900,memory=12000``; raises InputError."""
    rates: dict[str, float] = {}
    for part in filter(str.strip, text.split(",")):
        name, _, number = part.partition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = -1.0
        if name.strip() not in KERNELS or not MIN_RATE <= rate <= MAX_RATE:
            raise InputError(
                f"FARM_WORK_RATES: found {part!r}; allowed: {', '.join(KERNELS)} = units per "
                f"second, from {MIN_RATE:g} to {MAX_RATE:g}"
            )
        if name.strip() in rates:
            raise InputError(f"FARM_WORK_RATES: found {name.strip()} twice; allowed: once")
        rates[name.strip()] = rate
    return rates


PROGRAM = Path(__file__).with_name("burn_server.py")
CLOSE_TIMEOUT = 2.0


class BurnerProgram:
    """One life of ``workers/burn/burn_server.py``.

    A thread starts it, listens to it, and lives as long: Linux kills the program when the thread
    that started it ends, and a thread that only needs it first might end before its time.

    Args:
        settings: of the program.
        receive: given each answer, in that thread.
        ended: called once, in that thread: the program is gone, and how it ended.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        receive: Callable[[dict[str, object]], None],
        ended: Callable[[BurnerProgram, str], None],
    ) -> None:
        self._receive = receive
        self._ended = ended
        self._process: subprocess.Popen[bytes] | None = None
        self._started = threading.Event()
        words = json.dumps({**settings, "host": os.getpid()})
        threading.Thread(target=self._live, args=(words,), name="farm-burner", daemon=True).start()
        self._started.wait()

    @property
    def pid(self) -> int | None:
        """Its process id; None: it could not be started."""
        return None if self._process is None else self._process.pid

    def send(self, request: Mapping[str, object]) -> bool:
        """Send a request; False: it is known to be gone. Its end answers what it never read."""
        if self._process is None or self._process.stdin is None:
            return False
        data = json.dumps(request).encode() + b"\n"
        try:
            while data:
                data = data[self._process.stdin.write(data) :]
        except (BrokenPipeError, ValueError):  # ended; closed
            return False
        return True

    def close(self) -> int:
        """Close its standard input, wait for its end, return its exit code."""
        process = self._process
        if process is None or process.stdin is None:
            return 0
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            return process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _live(self, settings: str) -> None:
        try:
            # isolated and without site: only the standard library, and half the time to start. A
            # process group, not a session: where the kernel shares out processors by session,
            # burners of a host must stay in one
            process = self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), settings],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                process_group=0,
            )
        except OSError as error:
            self._started.set()
            self._ended(self, f"the burner program cannot be started: {error.strerror}")
            return
        self._started.set()
        try:
            if process.stdout is not None:  # made with a pipe
                with process.stdout as answers:
                    for line in answers:
                        self._receive(json.loads(line))
        finally:
            self._ended(self, f"the burner program ended with exit code {self.close()}")


class _Job:
    """A burning job, and the program that runs it."""

    def __init__(self, program: BurnerProgram, ended: Ended, processes: int) -> None:
        self.program = program
        self.ended = ended
        self.measures = processes == 0
        #: those not yet burning
        self.starting = processes
        self.at_work = threading.Event()


class Burners:
    """The burning jobs of one process. Safe to use from several threads; starts nothing at first.

    Raises InputError (from the constructor) for settings that cannot be.
    """

    def __init__(self, settings: BurnSettings | None = None) -> None:
        self._arguments = (settings or BurnSettings()).arguments()
        self._lock = threading.Lock()
        self._program: BurnerProgram | None = None
        self._serial = 0
        self._jobs: dict[int, _Job] = {}

    def start(
        self,
        mode: str,
        seconds: float | None,
        threads: int,
        ended: Ended,
        *,
        cores: list[int] | None = None,
    ) -> int:
        """Start a burning job and return its number.

        ``seconds`` of work of one idle core for each thread; None: until killed. ``ended`` is
        called once, unless it is killed first. ``cores``: the processors that it may use.
        """
        request = {"mode": mode, "seconds": seconds, "threads": threads, "cores": cores}
        return self._request(request, ended, threads)

    def await_burning(self, number: int, timeout: float) -> bool:
        """Wait until all processes of a job are burning (or it has ended)."""
        job = self._jobs.get(number)
        return job is None or job.at_work.wait(timeout)

    def kill(self, number: int) -> None:
        """Kill a job immediately; ``ended`` is not called."""
        with self._lock:
            job = self._jobs.pop(number, None)
            if job is not None:
                job.at_work.set()
                job.program.send({"kill": number})

    def rates(
        self, modes: Iterable[str] = ("stress", "mixed"), turns: int = CAREFUL
    ) -> dict[str, float]:
        """Return units per second of an idle core for the kernels that these modes need.

        What the settings do not say is measured. Raises RunError when that cannot be done, or the
        burners are closed; or it takes too long, and the burner program is killed.
        """
        answer: queue.SimpleQueue[Burnt] = queue.SimpleQueue()
        self._request({"measure": list(modes), "turns": turns}, answer.put)
        try:
            error = answer.get(timeout=MEASURE_TIMEOUT).error
        except queue.Empty:
            error = f"no answer within {MEASURE_TIMEOUT:.0f}s"
            program = self._program
            if program is not None:
                program.close()
        if error is not None:
            raise RunError(f"what a core does in a second cannot be measured: {error}")
        return dict(self._arguments["rates"])

    @property
    def pid(self) -> int | None:
        """The burner program's process id, if it runs."""
        return None if self._program is None else self._program.pid

    def close(self) -> None:
        """Kill all jobs and the program; ``ended`` is not called any more."""
        with self._lock:
            program, jobs = self._program, [*self._jobs.values()]
            self._jobs.clear()
        for job in jobs:
            job.at_work.set()
            if job.measures:
                job.ended(Burnt("the burners are closed"))
        if program is not None:
            program.close()

    def _request(self, request: dict[str, Any], ended: Ended, processes: int = 0) -> int:
        """Send it to the program, a new one where there is none or it is gone."""
        with self._lock:
            self._serial += 1
            request["job"] = self._serial
            if self._program is None or not self._program.send(request):
                self._program = BurnerProgram(self._arguments, self._receive, self._program_ended)
                self._program.send(request)
            self._jobs[self._serial] = _Job(self._program, ended, processes)
            return self._serial

    def _receive(self, answer: dict[str, Any]) -> None:
        """Handle that a process of a job burns, or that all of them have ended."""
        with self._lock:
            if "burning" in answer:
                if (burning := self._jobs.get(answer["job"])) is not None:
                    burning.starting -= 1
                    if burning.starting == 0:
                        burning.at_work.set()
                return
            job = self._jobs.pop(answer["job"], None)
            # known also to the program that may have to take the place of this one
            self._arguments["rates"] = answer["rates"]
            if answer["own"]:
                self._arguments["stress_ng"] = None
        self._ended(job, Burnt(answer["error"], answer["cpu"], answer["real"]))

    def _program_ended(self, program: BurnerProgram, how: str) -> None:
        """What burned has failed, and the next job starts a new program."""
        with self._lock:
            if self._program is program:
                self._program = None
            lost = [number for number, job in self._jobs.items() if job.program is program]
            jobs = [self._jobs.pop(number) for number in lost]
        for job in jobs:
            self._ended(job, Burnt(how))

    def _ended(self, job: _Job | None, burnt: Burnt) -> None:
        if job is not None:
            job.at_work.set()
            job.ended(burnt)
