"""Measures how much heavy jobs slow a job down on this machine, as in §5.2 of the thesis.

A reference job is timed beside 0, 1, … N heavy jobs, each of some threads that burn until they are
killed. In every round each number of heavy jobs has its turn, up in one round and down in the
next, so that a drift of the machine (heat, neighbours) touches all numbers alike; the median of the
rounds that others did not disturb is taken.
"""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from farm.app.calibrating.example import example_errors
from farm.app.calibrating.work_rates import burn_settings, work_rates
from farm.core.errors import RunError
from farm.scenario.calibration_keys import Calibration, Law, Machine, Measurement
from workers.burn.burning_jobs import Burners, BurnSettings, Burnt
from workers.burn.limits import cores_of, cpu_quota, own_cores, usable_cores
from workers.burn.rates import HASTY

Reference = Literal["pi", "burn"]
#: real seconds for burners to stop, or to start
SETTLE = 0.05
#: processors that others may keep busy without a measurement being disturbed
QUIET = 0.25
#: /proc/stat's columns of processor time that is used
BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


class CalibrationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured; times are real seconds."""

    #: heavy jobs beside the reference job: 0 … this many
    jobs: int = 4
    repeats: int = 5
    #: of each heavy job
    threads: int = 4
    reference: Reference = "burn"
    #: about how long the reference job takes alone
    alone: float = 0.25
    #: processors, as of a builder with this many; None: all
    cores: int | None = None
    #: after it no measurement begins, and a running one is given up
    limit: float = 60.0
    #: in all, for waiting until others are quiet and repeating disturbed rounds
    patience: float = 0.0
    #: units of work per second, by kernel; those left out are measured
    rates: dict[str, float] = {}


class Timing(msgspec.Struct, frozen=True):
    """One run of the reference job."""

    round: int
    heavy: int
    seconds: float
    #: processors that others kept busy at that time
    others: float = 0.0


def calibration(options: CalibrationOptions, on_timing: Callable[[Timing], None]) -> Calibration:
    """Measure as planned; ``on_timing`` is called with every timing."""
    rates = work_rates(burn_settings())
    timings = measure(msgspec.structs.replace(options, rates=rates), on_timing)
    times = quiet_times(timings)
    factors = slowdowns(times)
    found = Calibration(
        slowdown=tuple(never_falling(factors)),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=_machine(timings),
        reference=options.reference,
        threads=options.threads,
        cores=options.cores or 0,
        repeats=max(timing.round for timing in timings) + 1,
        work_s=options.alone if options.reference == "burn" else 0.0,
        rates={name: float(f"{rates[name]:.5g}") for name in sorted(rates)},
        measurements=tuple(
            Measurement(
                heavy=heavy,
                median_s=round(statistics.median(seconds), 6),
                spread_s=(round(min(seconds), 6), round(max(seconds), 6)),
                slowdown=round(factor, 4),
                times_s=tuple(round(one, 6) for one in seconds),
            )
            for (heavy, seconds), factor in zip(times.items(), factors, strict=True)
        ),
    )
    return with_best_law(found, options)


def with_best_law(found: Calibration, options: CalibrationOptions) -> Calibration:
    """Return a calibration with the law that is least off jobs which burn together.

    Without the time to burn them it is threads against measured cores; without these the table.
    """
    if found.measured_cores is None:
        return found
    errors = example_errors(found, options.alone, _cores_for(options), options.limit)
    law: Law = min(errors, key=lambda one: abs(one.error)).law if errors else "threads"
    return found.model_copy(update={"law": law, "example": errors})


def _cores_for(options: CalibrationOptions) -> list[int] | None:
    """Return the processors that jobs may use; None: all."""
    if options.cores is None:
        return None
    return cores_of(0, options.cores, own_cores(), cpu_quota())


def _machine(timings: list[Timing]) -> Machine:
    return Machine(
        processor=processor_name(),
        cores=os.cpu_count() or 1,
        usable_cores=usable_cores(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        busy_with_others=round(statistics.median(one.others for one in timings), 2),
    )


def processor_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def disturbed(others: float, what: str) -> str:
    """Return a warning if others kept too many processors busy for this to be trusted."""
    if others <= QUIET:
        return ""
    return f"Others kept {others:g} processors busy during it: do not trust {what}."


def measure(
    options: CalibrationOptions, report: Callable[[Timing], None] = lambda _: None
) -> list[Timing]:
    """Return the timings of all rounds that the limit left time for; at least one whole round.

    Raises RunError when there was no time for that, InputError for a burner that is not there.
    """
    timings: list[Timing] = []
    settings = BurnSettings(burner="own", nice=0, rates=options.rates)
    with contextlib.closing(Burners(settings)) as burners:
        bench = _Bench(options, burners)
        for number, heavy in _turns(options):
            found = bench.quiet_turn(heavy)
            if found is None:
                break
            timings.append(Timing(number, heavy, *found))
            report(timings[-1])
    if len({timing.heavy for timing in timings}) <= options.jobs:
        raise RunError(
            f"the first of {options.repeats} rounds took longer than the limit of "
            f"{options.limit:g}s: ask for fewer heavy jobs or threads, or allow more time"
        )
    return timings


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
    """Return the table for a scenario: from 1 up, with decreases due to noise removed."""
    table: list[float] = []
    for factor in factors:
        table.append(round(max(1.0, factor, *table[-1:]), 4))
    return table


def busy_with_others(watch: float = 2 * SETTLE) -> float:
    """Return how many processors are busy without this measurement, over a short while."""
    others = LoadOfOthers()
    time.sleep(watch)
    return others.so_far()


class LoadOfOthers:
    """The processors that others keep busy from now on, beside this process and all below it."""

    def __init__(self) -> None:
        self._began, self._before = time.monotonic(), _busy_seconds() - _own_seconds()

    def so_far(self) -> float:
        """Return their mean number since then."""
        spent = max(time.monotonic() - self._began, 1e-9)
        return max(0.0, _busy_seconds() - _own_seconds() - self._before) / spent


def _busy_seconds() -> float:
    """Return the processor seconds that the machine has spent on anything but waiting."""
    times = psutil.cpu_times()
    return float(sum(getattr(times, name, 0.0) for name in BUSY))


def _own_seconds() -> float:
    """Return the processor seconds of this process and all below it, those that ended included."""
    total, this = 0.0, psutil.Process()
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


def _turns(options: CalibrationOptions) -> Iterator[tuple[int, int]]:
    for number in range(options.repeats):
        upwards = range(options.jobs + 1)
        for heavy in upwards if number % 2 == 0 else reversed(upwards):
            yield number, heavy


class _Bench:
    """The reference job of a plan, and the heavy jobs beside it."""

    def __init__(self, options: CalibrationOptions, burners: Burners) -> None:
        self._options = options
        self._burners = burners
        self._patience = options.patience
        self._deadline = time.monotonic() + options.limit + options.patience
        self._cores = _cores_for(options)
        self._mode = "pi" if options.reference == "pi" else "stress"
        burners.rates(["stress", self._mode], HASTY)

    def quiet_turn(self, heavy: int) -> tuple[float, float] | None:
        """Return a time that others did not disturb, as far as patience goes, and what they did.

        None: no time is left.
        """
        while True:
            began = time.monotonic()
            if busy_with_others() <= QUIET or self._patience <= 0:
                found = self._turn(heavy)
                if found is None or found[1] <= QUIET or self._patience <= 0:
                    return found
            self._patience -= time.monotonic() - began

    def _turn(self, heavy: int) -> tuple[float, float] | None:
        """Return how long the reference takes beside ``heavy`` heavy jobs.

        Also how many processors others kept busy in the meantime. A burning reference is itself
        one of the heavy jobs; alone (0) it has a single thread.
        """
        pi, threads = self._mode == "pi", self._options.threads
        numbers = [
            self._burners.start("stress", None, threads, lambda _: None, cores=self._cores)
            for _ in range(heavy if pi else max(0, heavy - 1))
        ]
        try:
            if not all(self._burners.await_burning(number, self._left()) for number in numbers):
                return None
            time.sleep(SETTLE)
            others = LoadOfOthers()
            seconds = self._reference(1 if pi or heavy == 0 else threads)
            return None if seconds is None else (seconds, others.so_far())
        finally:
            for number in numbers:
                self._burners.kill(number)

    def _reference(self, threads: int) -> float | None:
        """Return the real seconds of the reference job; None: it was given up."""
        ended: queue.SimpleQueue[Burnt] = queue.SimpleQueue()
        number = self._burners.start(
            self._mode, self._options.alone, threads, ended.put, cores=self._cores
        )
        try:
            burnt = ended.get(timeout=self._left())
        except queue.Empty:
            self._burners.kill(number)
            return None
        if burnt.error is not None:
            raise RunError(f"the reference job failed: {burnt.error}")
        return burnt.real

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())
