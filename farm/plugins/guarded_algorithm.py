"""The user's own provisioning algorithms, guarded: an error in one leaves the pool as it is."""

from __future__ import annotations

from farm.core.errors import RunError
from farm.core.pools.algorithm import (
    AnyAlgorithm,
    InForce,
    Memory,
    PoolSnapshot,
    ScalingPlan,
    in_force,
    within,
)
from farm.plugins.guards import Guard, UnusableError
from farm.units import format_roughly

MOST_FAILURES = 10
"""Plans in a row that fail, after which a simulation would show nothing of the algorithm."""


class GuardedAlgorithm(Guard):
    """An algorithm whose plans are checked: whole numbers within the pool's limits.

    One that fails for a snapshot leaves the pool at the size that it has, within the limits, and
    keeps its memory; it is asked again at the next interval.
    """

    consequence = "for {failures} of {calls} plans, and the pool stayed as it was"

    def __init__(self, algorithm: AnyAlgorithm, name: str, where: str) -> None:
        super().__init__(name, where)
        self._algorithm = self._given = algorithm
        #: since the last plan that was good
        self.failures_in_a_row = 0
        self.min, self.max, self.interval = algorithm.min, algorithm.max, algorithm.interval
        self.first_plan = getattr(algorithm, "first_plan", None)
        self.before_time_outs = bool(getattr(algorithm, "before_time_outs", False))
        self.looks_closely = bool(getattr(algorithm, "looks_closely", False))

    def within(self, least: int | None, most: int | None) -> GuardedAlgorithm:
        """Have the algorithm plan within other limits from now on (None: its own)."""
        self._algorithm = within(self._given, least, most)
        self.min, self.max = self._algorithm.min, self._algorithm.max
        return self

    def in_force(self, snapshot: PoolSnapshot) -> InForce:
        """Return which limits hold now."""
        return in_force(self._algorithm, snapshot)

    def start(self) -> Memory:
        """Return the memory to begin with."""
        try:
            return _memory(self._algorithm.start())
        except Exception as error:
            self.failed("its memory to begin with", error)
            return Memory()

    def plan(self, snapshot: PoolSnapshot, memory: Memory) -> tuple[ScalingPlan, Memory]:
        """Return the algorithm's plan, or one that keeps what is there."""
        self.calls += 1
        try:
            plan, following = self._algorithm.plan(snapshot, memory)
            found = self._checked(plan), _memory(following)
        except Exception as error:
            self.failures_in_a_row += 1
            self.failed(f"at {format_roughly(snapshot.at)}", error)
            return self._as_it_is(snapshot), memory
        self.failures_in_a_row = 0
        return found

    def stays_until(self, snapshot: PoolSnapshot, _: Memory) -> float:
        """Return that any plan may differ: nothing is known of the user's own."""
        return snapshot.at

    def _checked(self, plan: object) -> ScalingPlan:
        if not isinstance(plan, ScalingPlan):
            raise UnusableError(f"returned {plan!r:.60}; a plan is a ScalingPlan")
        for key in ("desired", "start", "stop"):
            found = getattr(plan, key)
            if type(found) is not int or not 0 <= found <= self.max:
                raise UnusableError(
                    f"returned {key} {found!r:.60}; allowed: whole numbers from 0 to {self.max}"
                )
        return plan

    def _as_it_is(self, snapshot: PoolSnapshot) -> ScalingPlan:
        desired = min(max(self.min, snapshot.present), self.max)
        start = max(0, min(desired - snapshot.present, self.max - snapshot.total))
        return ScalingPlan(desired, start, 0, "the algorithm failed")

    def refuse_more_failures(self) -> None:
        """Raise RunError if the last plans failed, ``MOST_FAILURES`` in a row."""
        if self.failures_in_a_row >= MOST_FAILURES:
            raise RunError(
                f"{self.where}: {self.name} failed {MOST_FAILURES} times in a row, {self.first}"
            )

    @property
    def trouble(self) -> str:
        """What went wrong first, in words that stay the same; empty if nothing did."""
        return f"{self.where}: {self.name} failed {self.first}" if self.failures else ""


def _memory(found: object) -> Memory:
    if not isinstance(found, Memory):
        raise UnusableError(f"remembers {found!r:.60}; allowed: a Memory")
    return found
