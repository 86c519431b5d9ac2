"""The kernels of burning processes: given amounts of computation, without a clock.

``cpu`` hashes one block of 16 KiB repeatedly (MD5). It lives in registers and the first-level
cache, allocates nothing, is compiled C that is the same on every Python, uses no instruction that
some processors lack, and takes the same time for any data. Each of its steps waits for the one
before, so that half of a core is idle all the time: another load on the same core, perhaps in
another virtual machine, changes its speed by a twentieth. A kernel that fills a core (BLAKE2b)
loses a third.

``pi`` is the reference job of a calibration, 5000 digits of π a unit, by Machin's formula
(π/4 = 4 arccot 5 - arccot 239) in whole numbers: no floating point, a few kilobytes of memory.

``memory`` copies one half of a buffer to the other. The buffer is twice the last-level cache, so
every byte goes over the memory bus. A unit is 1 MiB copied.

Standard library only: a burner must start at once, whatever is installed.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable
from pathlib import Path

KIB, MIB = 1024, 1024 * 1024
BLOCK = bytes(16 * KIB)
BLOCKS_PER_UNIT = MIB // len(BLOCK)

#: a bus cannot be saturated with less, and more might exhaust the memory
MIN_BUFFER, MAX_BUFFER = 32 * MIB, 256 * MIB
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")

#: the kernels that a user may rate: of processors (with or without stress-ng), and of memory
KERNELS = ("cpu", "memory", "stress_ng")
DIGITS, GUARD = 5000, 10

Kernel = Callable[[int], None]
"""Does this many units of work and returns."""


def kernel_of(name: str, buffer: int) -> Kernel:
    """Return a kernel by its name; ``buffer``: bytes for a walk through memory."""
    if name == "memory":
        return memory_kernel(buffer)
    return pi_kernel if name == "pi" else cpu_kernel()


def cpu_kernel() -> Kernel:
    """Return the processor kernel."""
    digest = hashlib.md5(usedforsecurity=False)

    def work(units: int) -> None:
        update = digest.update
        for _ in range(units * BLOCKS_PER_UNIT):
            update(BLOCK)

    return work


def pi_kernel(units: int) -> None:
    """Compute π this many times."""
    for _ in range(units):
        pi_digits(DIGITS)


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


def memory_kernel(size: int) -> Kernel:
    """Return the memory bus kernel, with its own buffer of this many bytes."""
    half = max(MIB, size // 2 // MIB * MIB)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)
    buffer = memoryview(mmap.mmap(-1, 2 * half, flags=flags))
    # pages that were never written are all the same page of zeros, which stays in the cache
    buffer[:: mmap.PAGESIZE] = bytes([1]) * len(buffer[:: mmap.PAGESIZE])
    at = 0

    def work(units: int) -> None:
        nonlocal at
        for _ in range(units):
            buffer[half + at : half + at + MIB] = buffer[at : at + MIB]
            at = (at + MIB) % half

    return work


def buffer_size(caches: Path = CACHES, room: int | None = None) -> int:
    """Return the size of the memory kernel's buffer, bytes.

    Twice the largest cache that the kernel reports, within 32 and 256 MiB, and at most a
    sixteenth of the free memory (``room``): several walk at once.
    """
    largest = max((_cache_size(path) for path in caches.glob("index*/size")), default=0)
    wanted = min(max(2 * largest, MIN_BUFFER), MAX_BUFFER)
    return wanted if room is None else max(2 * MIB, min(wanted, room // 16))


def _cache_size(path: Path) -> int:
    try:
        text = path.read_text().strip()
        scale = {"K": KIB, "M": MIB, "G": KIB * MIB}.get(text[-1:], 1)
        return int(text.rstrip("KMG")) * scale
    except (OSError, ValueError):
        return 0
