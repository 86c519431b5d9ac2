"""``scheduling``: who goes next, and where; ``estimates``: who says when, and from what."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from farm.core.dispatching.load_limits import LoadLimits
from farm.scenario.quantities import (
    Count,
    Duration,
    Flag,
    NonNegative,
    Positive,
    PositiveDuration,
    PositiveNumber,
    Text,
)
from farm.scenario.section import Section

RuleSet = Literal["page", "launchpad-2010", "launchpad", "farm", "rollout"]


class HeavyLight(Section):
    """When the heavy-light balancer holds heavy jobs back from a builder."""

    load: Literal["heavy-share", "slowdown", "reported"] = "heavy-share"
    """How load is known: heavy jobs ÷ slots, the pool's contention factor by what was sent there,
    or that factor as the builder itself reports it."""
    overloaded_at: NonNegative | None = None
    """From this load on a builder gets light jobs only … (absent: 0.5 of the slots, or 1.4)."""
    room_at: NonNegative | None = None
    """… until its load is back at this one or below (absent: 0.25 of the slots, or 1)."""
    hold_at_most: Duration = 3600.0
    """When no heavy job of a platform could go for so long, one may go to an overloaded builder."""

    @model_validator(mode="after")
    def _ordered(self) -> HeavyLight:
        if self.limits.room_at > self.limits.overloaded_at:
            raise ValueError(
                f"found room_at {self.limits.room_at:g} above overloaded_at "
                f"{self.limits.overloaded_at:g}; allowed: room_at <= overloaded_at"
            )
        return self

    @property
    def limits(self) -> LoadLimits:
        """The two thresholds, with what is meant where they are not given."""
        near, room = (0.5, 0.25) if self.load == "heavy-share" else (1.4, 1.0)
        return LoadLimits(
            near if self.overloaded_at is None else self.overloaded_at,
            room if self.room_at is None else self.room_at,
        )


class RuntimeOptions(Section):
    """How the runtime estimator of `runtime_estimates` learns and answers."""

    default_time: Duration = 300.0
    """The answer when nothing at all is known."""
    overdue_time: Duration = 120.0
    """What a job that has outrun its estimate is still given."""
    size_rate: PositiveNumber | None = None
    """`boinc`: size units that a builder of speed 1 does in a second; absent: as many as the first
    success that has a size needed."""
    host: Literal["builder", "pool"] = "builder"
    """`boinc`: whose history counts as a host's: each builder its own, or a pool together."""
    host_samples: Count = 10
    """`boinc`: a host's history of a kind counts from more than this many successes on."""
    kind_samples: Count = 100
    """`boinc`: a kind's history counts from more than this many successes on."""
    host_scale_check: Flag = False
    """`boinc`: only builders with a streak of ten successes are scaled."""


class Scheduling(Section):
    """Which waiting job goes next, on which builder."""

    policy: Text = "fifo"
    """Name of a policy, or `module:function` of your own."""
    aging_factor: NonNegative = 10.0
    """Seconds of run time that a second in the queue weighs (`ljf-aging`, `sjf-aging`)."""
    aging: Literal["linear", "matrix"] = "linear"
    """By time in queue, or each matrix sorted and the matrices in order."""
    fair_share: tuple[Text, ...] = ()
    """Keys of the fair-share tree, outermost first; empty: one queue."""
    weights: dict[Text, PositiveNumber] = Field(default_factory=dict)
    """Of invocations among their siblings, `{web: 2, web/ada: 0.5}`: twice the share; absent: 1."""
    stickiness: tuple[Duration, ...] = ()
    """How long a builder stays with an invocation, one limit a level."""
    balancer: Text = "jenkins"
    """Which free builder takes the job."""
    simultaneous_ends: Literal["one-by-one", "together"] = "one-by-one"
    """Slots whose jobs end at one instant take jobs one after the other, or all are free first."""
    sort_every: PositiveDuration | None = None
    """Waiting jobs are sorted again this often, by what is estimated then; absent: each keeps the
    place of its submission."""
    heavy_light: HeavyLight = HeavyLight()
    """Thresholds of the `heavy-light` balancer."""
    runtime_estimates: Text = "declared"
    """Where policies take a job's run time from."""
    runtime_options: RuntimeOptions = RuntimeOptions()
    """Options of that estimator."""
    fail_fast: Flag = False
    """A failed job cancels the rest of its matrix."""
    retries: Count = 2
    """Further attempts of a job whose builder was lost."""
    platform_grace: Duration | None = None
    """Jobs for whose platform no builder is there fail after this time; absent: they wait."""
    max_builders_lost: Count = 3
    """A job fails once this many builders were lost while they ran it, despite `retries`: it
    may be what ends them (0: no bound)."""
    failures: Literal["fail", "launchpad"] = "fail"
    """A failed attempt is a failed job; or Launchpad's judgement: job and builder have counts of
    failures, and the one that failed more often is to blame."""
    max_resets: Count = 3
    """`launchpad`: how often a job is tried again while it is unclear who is to blame."""
    dedup: Flag = True
    """Jobs of the same action that are in flight together run once."""
    compatibility: Literal["buildbarn", "taskcluster"] | None = None
    """Repeat another system's habits: `buildbarn`'s in the fair-share tree; `taskcluster`: the
    balancer is longest-idle unless one is named, and the summary counts as its simulator does."""

    @model_validator(mode="before")
    @classmethod
    def _taskclusters_balancer(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("compatibility") == "taskcluster":
            return {"balancer": "longest-idle", **given}
        return given

    @model_validator(mode="after")
    def _levels(self) -> Scheduling:
        if self.simultaneous_ends == "together" and self.balancer in ("fastest", "heavy-light"):
            raise ValueError(
                f"found simultaneous_ends together with balancer {self.balancer}, which keeps jobs "
                "waiting by rules of its own; allowed: another balancer"
            )
        if self.balancer == "fastest" and self.stickiness:
            raise ValueError(
                "found stickiness with balancer fastest, which chooses builders by speed alone; "
                "allowed: one of them"
            )
        if len(self.stickiness) > len(self.fair_share):
            raise ValueError(
                f"found {len(self.stickiness)} stickiness limits for {len(self.fair_share)} "
                "fair_share keys; allowed: at most one a level"
            )
        return self


class Estimates(Section):
    """Each submitted job is given an estimate of its dispatch, as an event in the log."""

    rules: tuple[RuleSet, ...] | None = None
    """Who estimates: rule sets of the formula, and `rollout` (the farm forked and played forward).
    Absent: `launchpad` in `farm run`, none in `farm simulate`."""
    run_times: tuple[Text, ...] = ()
    """Runtime estimators that all of them are asked with, one after the other; empty: the one that
    `scheduling.runtime_estimates` names."""
    every: Positive = 1
    """Every n-th submitted job is given estimates."""
    rollouts: Positive = 50
    """How often the farm is rolled out for one submission."""
    refresh: Duration = 5.0
    """Time between two sweeps of a queue of more than a thousand jobs; in between a job is
    estimated by its place in the last sweep."""
    learn_from: Text | None = None
    """A finished run (its directory) or exported statistics (a file) that the runtime estimators
    have learned from when the run begins."""
