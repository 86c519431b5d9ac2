"""A builder host's side of burning: starts jobs that take real computation, hears of their end.

The burning itself is ``workers/burner.py``, one child process of the host, started with the first
job that burns. A job of ``stress``, ``memory`` or ``mixed`` mode is an *amount of work*: what one
otherwise idle core does in its service time, for each of its threads. How long that takes, the
machine decides.
"""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from farm.core.errors import InputError
from workers import stress_ng
from workers.kernels import buffer_size
from workers.limits import memory_room

MODES = frozenset({"stress", "memory", "mixed"})
KERNELS = ("cpu", "memory", "stress_ng")
PROGRAM = Path(__file__).with_name("burner.py")
NICE = 10
CLOSE_TIMEOUT = 2.0

Ended = Callable[[str | None, float], None]
"""Told once, from a thread of the burner: what went wrong (None: nothing), processor seconds."""


class BurnSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a host burns."""

    #: auto: stress-ng for ``stress`` jobs where it is installed; own: never; stress-ng: always
    burner: str = "auto"
    #: units per second of one idle core, by kernel; those left out are measured
    rates: dict[str, float] = {}
    nice: int = NICE

    @classmethod
    def from_texts(cls, burner: str, rates: str) -> BurnSettings:
        """Read what FARM_BURNER and FARM_WORK_RATES say; raises InputError."""
        return cls(burner=burner or "auto", rates=parse_rates(rates))

    def arguments(self) -> dict[str, Any]:
        """Return the burner program's settings; raises InputError when stress-ng is missing."""
        if self.burner not in ("auto", "own", "stress-ng"):
            raise InputError(f"FARM_BURNER: found {self.burner!r}; allowed: auto, own, stress-ng")
        program = None if self.burner == "own" else stress_ng.find()
        if program is None and self.burner == "stress-ng":
            raise InputError("FARM_BURNER: stress-ng is not installed; allowed here: auto, own")
        buffer = buffer_size(room=memory_room())
        return {"stress_ng": program, "rates": self.rates, "nice": self.nice, "buffer": buffer}


def parse_rates(text: str) -> dict[str, float]:
    """Read ``cpu=900,memory=12000``; raises InputError."""
    rates: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = -1.0
        if name.strip() not in KERNELS or not 0 < rate < math.inf:
            raise InputError(
                f"FARM_WORK_RATES: found {part!r}; allowed: {', '.join(KERNELS)} = units per second"
            )
        rates[name.strip()] = rate
    return rates


def rates_text(rates: Mapping[str, float]) -> str:
    """Return rates as FARM_WORK_RATES has them."""
    return ",".join(f"{name}={rate!r}" for name, rate in rates.items())


class Burners:
    """The burning jobs of one process. Safe to use from several threads; starts nothing at first.

    Raises InputError (from the constructor) for settings that cannot be.
    """

    def __init__(self, settings: BurnSettings = BurnSettings()) -> None:  # noqa: B008 - a value
        self._arguments = settings.arguments()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._serial = 0
        self._ended: dict[int, Ended] = {}
        self._burning: dict[int, threading.Event] = {}
        self._rates: dict[str, float] | None = None
        self._measured = threading.Event()

    def start(
        self,
        mode: str,
        seconds: float | None,
        threads: int,
        ended: Ended,
        *,
        cores: list[int] | None = None,
    ) -> int:
        """Begin to burn and return the number to kill it by.

        ``seconds`` of work of one idle core for each thread; None: until killed. ``ended`` is
        told once, unless it is killed first. ``cores``: the processors that it may use.
        """
        with self._lock:
            self._serial += 1
            number = self._serial
            self._ended[number] = ended
            self._burning[number] = threading.Event()
            self._send(
                {"start": number, "mode": mode, "seconds": seconds, "threads": threads}
                | ({"cores": cores} if cores else {})
            )
            return number

    def await_burning(self, number: int, timeout: float) -> bool:
        """Wait until all processes of a job are at work (or it has ended)."""
        burning = self._burning.get(number)
        return burning is None or burning.wait(timeout)

    def kill(self, number: int) -> None:
        """End it at once; nobody is told."""
        with self._lock:
            if self._ended.pop(number, None) is not None:
                self._burning.pop(number).set()
                self._send({"kill": number})

    def rates(self, timeout: float = 30.0) -> dict[str, float]:
        """Return units per second of an idle core by kernel, measured if nobody said."""
        with self._lock:
            self._send({"rates": True})
        self._measured.wait(timeout)
        return dict(self._rates or {})

    @property
    def pid(self) -> int | None:
        """The burner program's process id, if it runs."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End everything that burns, and the program."""
        with self._lock:
            process, self._process = self._process, None
            self._forget()
        if process is not None:
            _bury(process)

    def _send(self, request: dict[str, Any]) -> None:
        """Tell the program, which is started when there is none. Under the lock."""
        if self._process is None:
            self._process = _launch(self._arguments)
            reader = threading.Thread(
                target=self._listen, args=(self._process,), name="farm-burner", daemon=True
            )
            reader.start()
        assert self._process.stdin is not None  # noqa: S101 - made with a pipe
        with contextlib.suppress(BrokenPipeError):  # its end is told by the reader
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 - made with a pipe
        with process.stdout as answers:
            for line in answers:
                self._hear(json.loads(line))
        self._program_ended(process)

    def _hear(self, answer: dict[str, Any]) -> None:
        if "ended" in answer:
            self._tell(answer["ended"], answer["error"], answer["cpu"])
        elif "burning" in answer and (event := self._burning.get(answer["burning"])):
            event.set()
        elif "rates" in answer:
            self._rates = answer["rates"]
            self._measured.set()

    def _tell(self, number: int, error: str | None, cpu: float) -> None:
        with self._lock:
            ended = self._ended.pop(number, None)
            burning = self._burning.pop(number, None)
        if burning is not None:
            burning.set()
        if ended is not None:
            ended(error, cpu)

    def _program_ended(self, process: subprocess.Popen[bytes]) -> None:
        """Nobody asked for this: what burned has failed, and the next job starts a new program."""
        with self._lock:
            if self._process is not process:
                return
            self._process = None
            told = list(self._ended.values())
            self._forget()
        code = _bury(process)
        for ended in told:
            ended(f"the burner program ended with exit code {code}", 0.0)

    def _forget(self) -> None:
        for burning in self._burning.values():
            burning.set()
        self._ended.clear()
        self._burning.clear()


def _launch(arguments: dict[str, Any]) -> subprocess.Popen[bytes]:
    # isolated and without site: only the standard library, and half the time to start. A process
    # group, not a session: where the kernel shares out processors by session, burners of a host
    # must stay in one
    return subprocess.Popen(  # noqa: S603 - our own interpreter and program, no shell
        [sys.executable, "-I", "-S", str(PROGRAM), json.dumps(arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )


def _bury(process: subprocess.Popen[bytes]) -> int:
    """Let the program see that we are done with it, wait for its end, return its exit code."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(CLOSE_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return process.returncode
