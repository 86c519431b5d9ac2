"""Farm time in the live world: real time since the start, times a speed."""

from __future__ import annotations

import time
from collections.abc import Callable

from farm.processes.identity import boot_id


class FarmClock:
    """Farm seconds since ``start()``; 0 before. Steps of the system clock do not affect it."""

    def __init__(self, speed: float = 1.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.speed = speed
        self.monotonic = monotonic
        self._started: float | None = None
        self._began_at = 0.0

    def start(self, at: float = 0.0) -> None:
        """Start farm time."""
        self._began_at = at
        self._started = self.monotonic()

    def now(self) -> float:
        """Return farm time, seconds."""
        if self._started is None:
            return 0.0
        return self._began_at + (self.monotonic() - self._started) * self.speed

    def real_until(self, farm_at: float) -> float:
        """Return the real seconds until that farm time; not positive if it is past."""
        return (farm_at - self.now()) / self.speed


class MachineClock:
    """The time since this machine booted, as text for other processes, unaffected by the clock."""

    def __init__(self) -> None:
        self._boot = boot_id()

    def now(self) -> str:
        """Return the present moment."""
        return f"{self._boot} {time.monotonic()!r}"

    def since(self, mark: str) -> float | None:
        """Return the real seconds since a moment; None: another machine's, or before a boot."""
        boot, _, instant = mark.partition(" ")
        if not boot or boot != self._boot:
            return None
        return max(0.0, time.monotonic() - float(instant))
