"""How much heavy jobs slow a job down on this machine: §5.2 of the thesis, repeated here.

A reference job is timed beside 0, 1, … N heavy jobs, each of some threads that burn until they are
killed. In every round each number of heavy jobs has its turn, up in one round and down in the
next, so that a drift of the machine (heat, neighbours) touches all numbers alike; the median of the
rounds that others did not disturb is taken.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from farm.core.errors import RunError
from workers.burn.burners import MODES, Burners, BurnSettings
from workers.burn.client import launch
from workers.burn.limits import cores_of, cpu_quota, own_cores
from workers.burn.rates import HASTY

Reference = Literal["pi", "burn"]
PROGRAM = Path(__file__).with_name("reference.py")
DIGITS = 5000
#: real seconds for burners to fall silent, or to get going
SETTLE = 0.05
#: processors that others may keep busy without a measurement being disturbed
QUIET = 0.25


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured; times are real seconds."""

    #: heavy jobs beside the reference job: 0 … this many
    jobs: int = 4
    repeats: int = 5
    #: of each heavy job
    threads: int = 4
    reference: Reference = "pi"
    #: what the reference job takes alone, about
    alone: float = 0.25
    #: processors, as of a builder with this many; None: all
    cores: int | None = None
    #: after it no measurement begins, and what runs is given up
    limit: float = 60.0
    #: in all, for waiting until others are quiet and repeating what they disturbed
    patience: float = 0.0
    burner: str = "own"
    #: units of work per second, by kernel; those left out are measured
    rates: dict[str, float] = {}
    nice: int = 0


class Timing(msgspec.Struct, frozen=True):
    """One run of the reference job."""

    round: int
    heavy: int
    seconds: float
    #: processors that others kept busy at that time (0 where the system does not say)
    others: float = 0.0


def measure(plan: Plan, report: Callable[[Timing], None] = lambda _: None) -> list[Timing]:
    """Return the timings of all rounds that the limit left time for; at least one whole round.

    Raises RunError when there was no time for that, InputError for a burner that is not there.
    """
    deadline = time.monotonic() + plan.limit + plan.patience
    patience = plan.patience
    timings: list[Timing] = []
    settings = BurnSettings(burner=plan.burner, nice=plan.nice, rates=plan.rates)
    with contextlib.closing(Burners(settings)) as burners:
        bench = _Bench(plan, burners, deadline)
        with bench:
            for number, heavy in _turns(plan):
                timing, wasted = _quiet_turn(bench, number, heavy, patience)
                patience -= wasted
                if timing is None:
                    break
                timings.append(timing)
                report(timing)
    if len({timing.heavy for timing in timings}) <= plan.jobs:
        raise RunError(
            f"the first of {plan.repeats} rounds took longer than the limit of {plan.limit:g} s: "
            "ask for fewer heavy jobs or threads, or allow more time"
        )
    return timings


def _quiet_turn(
    bench: _Bench, number: int, heavy: int, patience: float
) -> tuple[Timing | None, float]:
    """Return a timing that others did not disturb, as far as patience goes, and what it cost."""
    wasted = 0.0
    while True:
        began = time.monotonic()
        before = busy_with_others()
        if before <= QUIET or wasted >= patience:
            seconds = bench.time(heavy)
            if seconds is None:
                return None, wasted
            others = bench.others
            if others <= QUIET or wasted >= patience:
                return Timing(number, heavy, seconds, others), wasted
        wasted += time.monotonic() - began


def quiet_times(timings: list[Timing]) -> dict[int, list[float]]:
    """Return the times that count for each number of heavy jobs, in order of the rounds.

    Those that others left alone; where that is less than half of them, the quietest half. Which
    ones count depends on what others did, never on how long the reference job took.
    """
    times: dict[int, list[float]] = {}
    for heavy in sorted({timing.heavy for timing in timings}):
        own = [timing for timing in timings if timing.heavy == heavy]
        quietest = sorted(timing.others for timing in own)
        bound = max(QUIET, quietest[(len(own) - 1) // 2])
        times[heavy] = [timing.seconds for timing in own if timing.others <= bound]
    return times


def slowdowns(times: dict[int, list[float]]) -> list[float]:
    """Return, for k = 0, 1, …, the median time beside k heavy jobs ÷ the median time alone."""
    medians = [statistics.median(times[k]) for k in sorted(times)]
    return [median / medians[0] for median in medians]


def never_falling(factors: list[float]) -> list[float]:
    """Return the table that a scenario takes: from 1 on; noise that falls is levelled up."""
    table: list[float] = []
    for factor in factors:
        table.append(round(max(1.0, factor, *table[-1:]), 4))
    return table


def busy_with_others(watch: float = 2 * SETTLE) -> float:
    """Return how many processors are busy while nothing of ours runs, over a short while."""
    before, began = _busy_seconds(), time.monotonic()
    time.sleep(watch)
    return max(0.0, (_busy_seconds() - before) / (time.monotonic() - began))


def _busy_seconds() -> float:
    """Return the processor seconds that the machine has spent on anything but waiting."""
    try:
        fields = [
            int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        ]
    except (OSError, ValueError):
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = (fields + [0] * 8)[:8]
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _seconds_under(pids: list[int], root: int | None) -> float:
    """Return the processor seconds of these processes, of ``root``, and of its children.

    Children that have ended are counted with the parent that buried them.
    """
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parent, times = int(fields[1]), [int(word) for word in fields[11:15]]
        pid = int(path.parent.name)
        if pid == root:
            total += sum(times)
        elif pid in pids or (root is not None and parent == root):
            total += sum(times[:2])
    return total / os.sysconf("SC_CLK_TCK")


def work_rates(settings: BurnSettings, modes: Iterable[str] = MODES) -> dict[str, float]:
    """Return this machine's units of work in a second of an idle core, by kernel.

    Those that jobs of these modes need; what the settings do not say is measured, with care.
    Raises RunError when that cannot be done, InputError for settings that cannot be.
    """
    with contextlib.closing(Burners(settings)) as burners:
        return burners.rates(modes)


def _turns(plan: Plan) -> Iterator[tuple[int, int]]:
    for number in range(plan.repeats):
        upwards = range(plan.jobs + 1)
        for heavy in upwards if number % 2 == 0 else reversed(upwards):
            yield number, heavy


class _Bench:
    """The reference job of a plan, and the heavy jobs that stand beside it."""

    def __init__(self, plan: Plan, burners: Burners, deadline: float) -> None:
        self._plan = plan
        self._burners = burners
        self._deadline = deadline
        #: processors that others kept busy during the last run
        self.others = 0.0
        self._cores: list[int] | None = None
        if plan.cores is not None:
            self._cores = cores_of(0, plan.cores, own_cores(), cpu_quota())
        self._pi: _PiJob | None = None
        if plan.reference == "pi":
            self._pi = _PiJob(plan, self._cores)

    def __enter__(self) -> None:
        """Find out how often the reference job fits into the time that it is to take."""
        self._burners.rates(["stress"], HASTY)
        if self._pi is not None:
            self._pi.warm_up(self._left())

    def __exit__(self, *_: object) -> None:
        if self._pi is not None:
            self._pi.close()

    def time(self, heavy: int) -> float | None:
        """Return how long the reference takes beside ``heavy`` heavy jobs; None: no time left.

        A burning reference is itself one of the heavy jobs; alone (0) it has a single thread.
        """
        burning = heavy if self._pi is not None else max(0, heavy - 1)
        numbers = [self._burn_for_ever() for _ in range(burning)]
        try:
            if not all(self._burners.await_burning(number, self._left()) for number in numbers):
                return None
            time.sleep(SETTLE)
            began, before = time.monotonic(), self._used_by_others()
            seconds = self._run(heavy)
            spent = max(time.monotonic() - began, 1e-9)
            self.others = max(0.0, (self._used_by_others() - before) / spent)
            return seconds
        finally:
            for number in numbers:
                self._burners.kill(number)

    def _run(self, heavy: int) -> float | None:
        if self._pi is not None:
            return self._pi.time(self._left())
        return self._burn(1 if heavy == 0 else self._plan.threads)

    def _used_by_others(self) -> float:
        """Return processor seconds of all processes but the burning ones, π's and ours."""
        own = [os.getpid(), *([self._pi.pid] if self._pi is not None else [])]
        return _busy_seconds() - _seconds_under(own, self._burners.pid)

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _burn_for_ever(self) -> int:
        return self._burners.start(
            "stress", None, self._plan.threads, lambda *_: None, cores=self._cores
        )

    def _burn(self, threads: int) -> float | None:
        ended: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        began = time.perf_counter()
        number = self._burners.start(
            "stress", self._plan.alone, threads, lambda e, _: ended.put(e), cores=self._cores
        )
        try:
            error = ended.get(timeout=self._left())
        except queue.Empty:
            self._burners.kill(number)
            return None
        if error is not None:
            raise RunError(f"the reference job failed: {error}")
        return time.perf_counter() - began


class _PiJob:
    """The child process that computes π."""

    def __init__(self, plan: Plan, cores: list[int] | None) -> None:
        settings = {"digits": DIGITS, "nice": plan.nice, "cores": cores, "parent": os.getpid()}
        self._alone = plan.alone
        self._times = 1
        self._process = launch(PROGRAM, json.dumps(settings))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def warm_up(self, timeout: float) -> None:
        """Choose the number of repetitions by processor time, which others hardly disturb."""
        spent = min((self._ask(1, timeout) or (0.0, self._alone))[1] for _ in range(3))
        self._times = max(1, round(self._alone / max(spent, 1e-6)))

    def time(self, timeout: float) -> float | None:
        """Return the real seconds of one run; None if it took longer than the time-out."""
        answer = self._ask(self._times, timeout)
        return None if answer is None else answer[0]

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, times: int, timeout: float) -> tuple[float, float] | None:
        assert self._process.stdin is not None  # noqa: S101 - made with pipes
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(f"{times}\n".encode())
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            return None
        words = self._process.stdout.readline().split()
        if len(words) != 2:
            raise RunError("the reference job ended without an answer")
        return float(words[0]), float(words[1])
