"""How good the dispatch estimates of a farm were lately, from what jobs were told and what came."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from farm.core.commands import Command, EndJob, StartJob
from farm.core.events import EstimateMade, Event
from farm.forecasts.dispatch.wait_range import GUESSED, WaitRange

Kept = TypeVar("Kept", float, bool)

#: jobs that count, by method
REMEMBERED = 50
#: waiting jobs of which it is kept what they were told: a longer queue's last ones are left out
MAX_TOLD = 10_000
MINUTE = 60.0
#: errors from which a method without ranges of its own has one by them
RANGE_FROM = 10
#: errors after which the range by them is calculated again: each job of a burst has an estimate
RENEWED = 5
#: seconds that are added to waits before they are compared: of a short one any error is large
AT_LEAST = 30.0
#: tolerance: a certain estimate is met exactly except for rounding
ROUNDING = 1e-6


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


class Given(msgspec.Struct, array_like=True, frozen=True):
    """An estimate that a waiting job was given, as instants of farm time."""

    rules: str
    dispatch_at: float
    #: None: given by an earlier release, which did not keep it
    asked_at: float | None = None
    low_at: float | None = None
    high_at: float | None = None


class ErrorMemory(msgspec.Struct):
    """What a farm's next scheduler takes over of this."""

    #: by job
    given: dict[str, list[Given]] = msgspec.field(name="told", default_factory=dict)
    #: by method, seconds
    errors: dict[str, list[float]] = {}
    #: by method: whether jobs started within their range
    in_range: dict[str, list[bool]] = {}
    #: by method: logarithms of true waits as multiples of the estimated ones
    ratios: dict[str, list[float]] = {}


class RecentErrors:
    """Observes estimates and dispatches; an estimate that comes after its job's dispatch is none.

    ``waits``: says whether a job waits.
    """

    def __init__(self, waits: Callable[[str], bool]) -> None:
        self._waits = waits
        self.memory = ErrorMemory()
        #: by method: P10 and P90 of its ratios, and for how many more errors they are kept
        self._tenths: dict[str, tuple[float, float]] = {}
        self._kept: dict[str, int] = {}

    def observe(self, event: Event, commands: Sequence[Command]) -> None:
        """Note what was told, and how it went."""
        given = self.memory.given
        if type(event) is EstimateMade:
            kept = event.job in given or len(given) < MAX_TOLD
            if kept and event.waiting and event.dispatch_at is not None and self._waits(event.job):
                given.setdefault(event.job, []).append(self._given(event, event.dispatch_at))
            return
        for command in commands:
            if type(command) is StartJob:
                for one in given.pop(command.job.id, ()):
                    self._learn(one, event.at)
            elif type(command) is EndJob:
                given.pop(command.job.id, None)

    def _given(self, event: EstimateMade, dispatch_at: float) -> Given:
        asked_at = event.at if event.asked_at is None else event.asked_at
        if event.quantiles_at:
            low_at, high_at = event.quantiles_at[0], event.quantiles_at[-1]
        else:
            by_errors = self.range_of(event.rules, dispatch_at - asked_at)
            low_at, high_at = asked_at + by_errors.p10_time, asked_at + by_errors.p90_time
        return Given(event.rules, dispatch_at, asked_at, low_at, high_at)

    def _learn(self, given: Given, at: float) -> None:
        """Learn the truth about an estimate: its job was dispatched at this instant."""
        memory, rules = self.memory, given.rules
        _remember(memory.errors, rules, abs(at - given.dispatch_at))
        if given.low_at is not None and given.high_at is not None:
            held = given.low_at - ROUNDING <= at <= given.high_at + ROUNDING
            _remember(memory.in_range, rules, held)
        if given.asked_at is not None:
            true, estimated = max(0.0, at - given.asked_at), given.dispatch_at - given.asked_at
            ratio = (true + AT_LEAST) / (max(0.0, estimated) + AT_LEAST)
            _remember(memory.ratios, rules, math.log(ratio))
            self._kept[rules] = self._kept.get(rules, 0) - 1

    def of(self, rules: str) -> Lately | None:
        """Return how good a method was; None: no job that it told anything has started."""
        errors = self.memory.errors.get(rules)
        if not errors:
            return None
        one, ten = (
            sum(error <= most for error in errors) / len(errors) for most in (MINUTE, 10 * MINUTE)
        )
        return Lately(len(errors), one, ten)

    def in_time(self) -> Sequence[bool]:
        """Return of the last jobs that were told a range whether they started within it.

        Of rollouts, where there are any: the formula then answers for them.
        """
        by_method = self.memory.in_range
        return by_method.get("rollout") or next(iter(by_method.values()), ())

    def range_of(self, rules: str, wait: float) -> WaitRange:
        """Return the range of a wait (s) that a method estimates, by its last errors."""
        ratios = self.memory.ratios.get(rules, ())
        held = self.memory.in_range.get(rules, ())
        low, high = GUESSED
        is_proven = len(ratios) >= RANGE_FROM
        if is_proven:
            low, high = self._tenths_of(rules, ratios)
        known = max(0.0, wait) + AT_LEAST
        return WaitRange(
            p10_time=max(0.0, known * low - AT_LEAST),
            p90_time=max(0.0, known * high - AT_LEAST),
            is_proven=is_proven,
            errors=len(held),
            coverage=sum(held) / len(held) if held else None,
        )

    def _tenths_of(self, rules: str, ratios: Sequence[float]) -> tuple[float, float]:
        if rules not in self._tenths or self._kept.get(rules, 0) <= 0:
            tenths = statistics.quantiles(ratios, n=10)
            self._tenths[rules] = math.exp(tenths[0]), math.exp(tenths[-1])
            self._kept[rules] = RENEWED
        return self._tenths[rules]


def _remember(values: dict[str, list[Kept]], rules: str, value: Kept) -> None:
    kept = values.setdefault(rules, [])
    kept.append(value)
    del kept[:-REMEMBERED]
