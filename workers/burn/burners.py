"""A builder host's side of burning: starts jobs that take real computation, learns of their end.

The burning itself is done by ``workers/burn/server.py``, one child process of the host, started
with the first job that burns. A job of ``stress``, ``memory`` or ``mixed`` mode is an *amount of
work*: what one otherwise idle core does in its service time, for each of its threads. How long
that takes, the machine decides.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from farm.core.errors import InputError, RunError
from workers.burn import stress_ng
from workers.burn.client import BurnerProgram
from workers.burn.rates import CAREFUL

MODES = frozenset({"stress", "memory", "mixed"})
KERNELS = ("cpu", "memory", "stress_ng")
#: no machine does less or more units in a second; beyond that nobody would look up in between
MIN_RATE, MAX_RATE = 1e-3, 1e9
NICE = 10

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
        return {
            "stress_ng": program,
            "must": self.burner == "stress-ng",
            "rates": self.rates,
            "nice": self.nice,
        }


def parse_rates(text: str) -> dict[str, float]:
    """Read ``cpu=900,memory=12000``; raises InputError."""
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
        self._program: BurnerProgram | None = None
        self._serial = 0
        self._ended: dict[int, Ended] = {}
        self._burning: dict[int, threading.Event] = {}
        #: who waits for rates, and is told what hindered the measurement (None: nothing)
        self._asking: deque[queue.SimpleQueue[str | None]] = deque()

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

    def rates(
        self, modes: Iterable[str] = ("stress", "mixed"), turns: int = CAREFUL
    ) -> dict[str, float]:
        """Return units per second of an idle core for the kernels that these modes need.

        What the settings do not say is measured. Raises RunError when that cannot be done.
        """
        told: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        with self._lock:
            self._asking.append(told)
            self._send({"measure": list(modes), "turns": turns})
        error = told.get()
        if error is not None:
            raise RunError(f"what a core does in a second cannot be measured: {error}")
        rates: dict[str, float] = self._arguments["rates"]
        return dict(rates)

    @property
    def pid(self) -> int | None:
        """The burner program's process id, if it runs."""
        return None if self._program is None else self._program.pid

    def close(self) -> None:
        """End everything that burns, and the program."""
        with self._lock:
            program, self._program = self._program, None
            self._forget()
        if program is not None:
            program.close()

    def _send(self, request: dict[str, Any]) -> None:
        """Tell the program, which is started when there is none. Under the lock."""
        if self._program is None:
            self._program = BurnerProgram(self._arguments, self._hear, self._program_ended)
        self._program.send(request)

    def _hear(self, answer: dict[str, Any]) -> None:
        if "ended" in answer:
            self._tell(answer["ended"], answer["error"], answer["cpu"])
        elif "burning" in answer and (event := self._burning.get(answer["burning"])):
            event.set()
        elif "rates" in answer:
            self._learn(answer)

    def _learn(self, answer: dict[str, Any]) -> None:
        """Keep what the program found out, also for the one that may have to take its place."""
        with self._lock:
            self._arguments["rates"] = answer["rates"]
            if answer["own"]:
                self._arguments["stress_ng"] = None
            if "measured" in answer and self._asking:
                self._asking.popleft().put(answer["measured"])

    def _tell(self, number: int, error: str | None, cpu: float) -> None:
        with self._lock:
            ended = self._ended.pop(number, None)
            burning = self._burning.pop(number, None)
        if burning is not None:
            burning.set()
        if ended is not None:
            ended(error, cpu)

    def _program_ended(self, program: BurnerProgram, how: str) -> None:
        """Nobody asked for this: what burned has failed, and the next job starts a new program."""
        with self._lock:
            if self._program is not program:
                return
            self._program = None
            told = list(self._ended.values())
            self._forget(how)
        for ended in told:
            ended(how, 0.0)

    def _forget(self, how: str = "the burner program is closed") -> None:
        while self._asking:
            self._asking.popleft().put(how)
        for burning in self._burning.values():
            burning.set()
        self._ended.clear()
        self._burning.clear()
