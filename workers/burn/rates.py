"""How much work one otherwise idle core does in a second: units by processor time, per kernel.

Processor time leaves out what others get, yet a core is not always equally fast. A core of a
virtual machine has two speeds, a third apart, for seconds at a time (its sibling works or rests,
which cannot be seen from inside), caches are shared, and a core that rested takes tens of
milliseconds to reach its clock. All of that only ever slows down. So work is done in bursts without
a pause, in slices of a few milliseconds; the bursts are spread over a while, the kernels take
turns; and what counts is a slice near the fastest: the very fastest may be an error of the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from workers.burn.kernels import Kernel, kernel_of

Burst = Callable[[], list[float]]
"""Works for a while and returns the rates of its slices, in units per second."""

#: units of a slice, of two to five milliseconds (π: some more), and slices of a burst
SLICES = {"cpu": (2, 40), "memory": (24, 40), "pi": (1, 4)}
#: seconds between two turns
PAUSE = 0.05
#: turns when a job waits for the answer, and when none does
HASTY, CAREFUL = 3, 10


def bursts_of(name: str, buffer: int) -> Burst:
    """Return the bursts of a built-in kernel; ``buffer``: bytes for a walk through memory."""
    kernel, (units, count) = kernel_of(name, buffer), SLICES[name]
    return lambda: slices_of(kernel, units, count)


def slices_of(kernel: Kernel, units: int, count: int) -> list[float]:
    """Return the rates of ``count`` slices, one right after the other."""
    rates = []
    for _ in range(count):
        began = time.process_time()
        kernel(units)
        rates.append(units / max(time.process_time() - began, 1e-9))
    return rates


def near_fastest(rates: list[float]) -> float:
    """Return the fastest rate but for one in twenty."""
    return sorted(rates)[-1 - len(rates) // 20]


def measure(bursts: Mapping[str, Burst], turns: int, pause: float = PAUSE) -> dict[str, float]:
    """Return the rate of each kernel, from ``turns`` turns of all of them."""
    found: dict[str, list[float]] = {name: [] for name in bursts}
    for turn in range(turns if bursts else 0):
        if turn:
            time.sleep(pause)
        for name, burst in bursts.items():
            found[name] += burst()
    return {name: near_fastest(rates) for name, rates in found.items()}
