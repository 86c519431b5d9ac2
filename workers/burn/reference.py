"""The reference job of a calibration: 5000 digits of π, again and again, each one timed.

``python workers/burn/reference.py SETTINGS`` is a child process that answers each line on standard
input (a number of repetitions) with a line: real seconds, processor seconds. It stays alive
between measurements, so that none of them holds the start of a process.

π is Machin's: π/4 = 4 arccot 5 - arccot 239, in whole numbers: one thread, no floating point, a few
kilobytes of memory. ``bc`` computes its arctangent by the same series.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:  # run as a file, with an empty path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from farm.processes.child import die_with

GUARD = 10


def pi_digits(digits: int) -> int:
    """Return π times 10^digits, rounded down."""
    guard: int = 10**GUARD
    unit: int = 10**digits * guard
    return 4 * (4 * _arccot(5, unit) - _arccot(239, unit)) // guard


def _arccot(x: int, unit: int) -> int:
    """Return arccot(x) times unit, by the series 1/x - 1/3x³ + 1/5x⁵ - and so on."""
    total, power, divisor, sign = 0, unit // x, 1, 1
    while power:
        total += sign * (power // divisor)
        power //= x * x
        divisor, sign = divisor + 2, -sign
    return total


def serve(settings: dict[str, Any]) -> None:
    """Answer until standard input closes."""
    die_with(settings["parent"])
    os.nice(settings["nice"])
    if settings["cores"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, settings["cores"])
    for line in sys.stdin:
        began, spent = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            pi_digits(settings["digits"])
        real, used = time.perf_counter() - began, time.process_time() - spent
        sys.stdout.write(f"{real} {used}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
