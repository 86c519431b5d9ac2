"""How much work running attempts have done: their time, less what their neighbours cost them."""

from __future__ import annotations

from collections.abc import Mapping

from farm.core.contention.laws import ContentionLaw
from farm.core.model import Builder, Job


class WorkMeter:
    """Measures attempts on builders whose jobs slow each other down.

    Work is in seconds alone on the same builder: the time since the start ÷ the mean slowdown. Of
    builders in pools without a law nothing is measured. Instants are farm time, not decreasing.

    Args:
        laws: by pool.
    """

    def __init__(self, laws: Mapping[str, ContentionLaw]) -> None:
        self._laws = laws
        self._shared: dict[str, _SharedBuilder] = {}

    def started(self, builder: Builder, job: Job, at: float, done: float = 0.0) -> None:
        """An attempt runs, of which this much work is done already (s)."""
        law = self._laws.get(builder.pool)
        if law is not None:
            shared = self._shared.get(builder.id)
            if shared is None:
                shared = self._shared[builder.id] = _SharedBuilder(law, at)
            shared.pass_until(at)
            shared.start(job, done)

    def done(self, builder: str, job: str, at: float) -> float | None:
        """Return the work that an attempt has done (s); None: it is not measured."""
        shared = self._shared.get(builder)
        if shared is None or job not in shared.began:
            return None
        return shared.read(at) - shared.began[job]

    def ended(self, builder: str, job: str, at: float) -> float | None:
        """Forget an attempt, and return the work that it has done (s); None: it is not measured."""
        work = self.done(builder, job, at)
        if work is not None:
            self._shared[builder].pass_until(at)
            self._shared[builder].end(job)
        return work

    def gone(self, builder: str) -> None:
        """Forget a builder that is no longer there."""
        self._shared.pop(builder, None)


class _SharedBuilder:
    """A builder's clock of work, which runs slower the more is running."""

    def __init__(self, law: ContentionLaw, at: float) -> None:
        self.clock = 0.0
        #: by job, the clock's reading at which its attempt would have begun
        self.began: dict[str, float] = {}
        self._law = law
        self._at = at
        self._jobs: dict[str, Job] = {}
        self._slowdown = 1.0

    def read(self, at: float) -> float:
        return self.clock + max(0.0, at - self._at) / self._slowdown

    def pass_until(self, at: float) -> None:
        self.clock, self._at = self.read(at), max(at, self._at)

    def start(self, job: Job, done: float) -> None:
        self._jobs[job.id] = job
        self.began[job.id] = self.clock - done
        self._weigh()

    def end(self, job: str) -> None:
        del self._jobs[job], self.began[job]
        if not self._jobs:
            self.clock = 0.0  # an empty builder starts anew, so that rounding errors do not add up
        self._weigh()

    def _weigh(self) -> None:
        self._slowdown = self._law.slowdown(self._law.load_of(self._jobs.values()))
