"""How good the dispatch estimates of a farm were lately, from what jobs were told and what came."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from farm.core.commands import Command, EndJob, StartJob
from farm.core.events import EstimateMade, Event

#: jobs that count, by method
REMEMBERED = 50
#: waiting jobs of which it is kept what they were told: a longer queue's last ones are left out
MAX_TOLD = 10_000
MINUTE = 60.0


class Lately(msgspec.Struct, frozen=True):
    """The last jobs that were told when they would start: shares that did, within some minutes."""

    jobs: int
    within_1_min: float
    within_10_min: float

    def __str__(self) -> str:
        """Return it in a sentence."""
        some = "the last job" if self.jobs == 1 else f"the last {self.jobs} jobs"
        one, ten = (f"{100 * share:.0f} %" for share in (self.within_1_min, self.within_10_min))
        return f"of {some} {one} started within 1 minute of what they were told, {ten} within 10"


class ErrorMemory(msgspec.Struct):
    """What a farm's next scheduler takes over of this."""

    #: by job: the method, and when it is to start, of each estimate
    given: dict[str, list[tuple[str, float]]] = msgspec.field(name="told", default_factory=dict)
    #: by method, seconds
    errors: dict[str, list[float]] = {}


class RecentErrors:
    """Observes estimates and dispatches; an estimate that comes after its job's dispatch is none.

    ``waits``: says whether a job waits.
    """

    def __init__(self, waits: Callable[[str], bool]) -> None:
        self._waits = waits
        self.memory = ErrorMemory()

    def observe(self, event: Event, commands: Sequence[Command]) -> None:
        """Note what was told, and how it went."""
        given = self.memory.given
        if type(event) is EstimateMade:
            kept = event.job in given or len(given) < MAX_TOLD
            if kept and event.waiting and event.dispatch_at is not None and self._waits(event.job):
                given.setdefault(event.job, []).append((event.rules, event.dispatch_at))
            return
        for command in commands:
            if type(command) is StartJob:
                for rules, estimate_at in given.pop(command.job.id, ()):
                    errors = self.memory.errors.setdefault(rules, [])
                    errors.append(abs(event.at - estimate_at))
                    del errors[:-REMEMBERED]
            elif type(command) is EndJob:
                given.pop(command.job.id, None)

    def of(self, rules: str) -> Lately | None:
        """Return how good a method was; None: no job that it told anything has started."""
        errors = self.memory.errors.get(rules)
        if not errors:
            return None
        within = [
            sum(error <= most for error in errors) / len(errors) for most in (MINUTE, 10 * MINUTE)
        ]
        return Lately(len(errors), *within)
