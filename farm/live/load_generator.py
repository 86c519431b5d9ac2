"""The load generator: submits jobs at their farm times, independently of the scheduler."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import msgspec

from farm.core.errors import RunError
from farm.core.events import JobsSubmitted
from farm.core.model import Job
from farm.live.clock import FarmClock
from farm.live.wire.messages import UNSTAMPED, LoadDone
from farm.live.wire.reporter import Reporter

Batches = Iterable[tuple[float, tuple[Job, ...]]]


class LoadGenerator:
    """A thread that submits each batch at its time.

    The intended arrival is written on every job, so that a scheduler (or a generator) that lags
    behind does not hide its own delay: response times count from the intended instant.
    """

    def __init__(self, batches: Batches, clock: FarmClock, reporter: Reporter) -> None:
        self._batches = batches
        self._clock = clock
        self._reporter = reporter
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="farm-load", daemon=True)
        #: the error of the thread (a workload that cannot be generated)
        self.error: Exception | None = None

    def start(self) -> None:
        """Start the thread; the clock is running."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop submitting and end the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def check(self, *, stop: bool) -> None:
        """Raise the thread's error, or stop if that was requested."""
        if self.error is not None:
            raise self.error
        if self._reporter.refused is not None:
            raise RunError(f"a submission could not be sent: {self._reporter.refused}")
        if stop:
            self._stop.set()

    def _run(self) -> None:
        try:
            for arrived_at, jobs in self._batches:
                pause = self._clock.real_until(arrived_at)
                if pause > 0:
                    self._stop.wait(pause)
                if self._stop.is_set():
                    return
                stamped = tuple(_stamped(job, arrived_at) for job in jobs)
                self._reporter.put(JobsSubmitted(UNSTAMPED, stamped))
            self._reporter.put(LoadDone())
        except Exception as error:  # noqa: BLE001 - handed to the run, which ends with it
            self.error = error


def _stamped(job: Job, arrived_at: float) -> Job:
    if job.arrived_at is not None:
        return job
    return msgspec.structs.replace(job, arrived_at=arrived_at)
