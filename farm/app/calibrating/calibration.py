"""This machine's slowdown under co-scheduled load, measured."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from farm.app.calibrating.work_rates import burn_settings, work_rates
from farm.scenario.calibration import Calibration, Machine, Measurement
from workers.burn.burning_jobs import rates_text
from workers.burn.calibration import (
    QUIET,
    Plan,
    Timing,
    measure,
    never_falling,
    quiet_times,
    slowdowns,
)
from workers.burn.limits import usable_cores

__all__ = ["QUIET", "Plan", "Timing", "calibration", "processor_name", "rates_text"]


def calibration(plan: Plan, on_timing: Callable[[Timing], None]) -> Calibration:
    """Measure as planned; ``on_timing`` is called with every timing."""
    rates = work_rates(burn_settings())
    timings = measure(msgspec.structs.replace(plan, rates=rates), on_timing)
    times = quiet_times(timings)
    factors = slowdowns(times)
    return Calibration(
        slowdown=tuple(never_falling(factors)),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=_machine(timings),
        reference=plan.reference,
        threads=plan.threads,
        cores=plan.cores or 0,
        repeats=max(timing.round for timing in timings) + 1,
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
