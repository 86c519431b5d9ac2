"""``scheduling``: which job goes next, and where; ``estimates``: how dispatches are estimated."""

from typing import Literal, Self

from pydantic import Field, model_validator

from farm.core.contention.laws import LoadLimits
from farm.core.policies.ageing import AGING_FACTOR
from farm.scenario.quantities import (
    Count,
    Duration,
    FileName,
    Flag,
    NonNegative,
    Positive,
    PositiveDuration,
    PositiveNumber,
    Text,
)
from farm.scenario.section import Section

RuleSet = Literal["page", "launchpad-2010", "launchpad", "farm", "rollout"]


#: of heavy jobs ÷ slots: half full of heavy jobs a builder gets no more, until half of these end
HEAVY_SHARE_LIMITS = LoadLimits(overloaded_at=0.5, room_at=0.25)
#: of the slowdown: 1.4 is that of two heavy jobs in the table of the thesis; with room again once
#: nothing is slowed down
SLOWDOWN_LIMITS = LoadLimits(overloaded_at=1.4, room_at=1.0)


class HeavyLight(Section):
    """When the heavy-light balancer holds heavy jobs back from a builder."""

    load: Literal["heavy-share", "slowdown", "reported"] = "heavy-share"
    """The measure of load: heavy jobs ÷ slots, the pool's contention factor for the jobs sent
    there, or that factor as reported by the builder."""
    overloaded_at: NonNegative | None = None
    """From this load on a builder gets light jobs only … (absent: 0.5 of the slots, or 1.4)."""
    room_at: NonNegative | None = None
    """… until its load is back at this one or below (absent: 0.25 of the slots, or 1)."""
    hold_at_most: Duration = 3600.0
    """After this time without a dispatch, one heavy job may go to an overloaded builder."""
    heavy_first: Flag = False
    """A builder with room takes heavy jobs before light ones, whatever the policy says."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.limits.room_at > self.limits.overloaded_at:
            raise ValueError(
                f"found room_at {self.limits.room_at:g} above overloaded_at "
                f"{self.limits.overloaded_at:g}; allowed: room_at <= overloaded_at"
            )
        return self

    @property
    def limits(self) -> LoadLimits:
        """The two thresholds, with their defaults."""
        usual = HEAVY_SHARE_LIMITS if self.load == "heavy-share" else SLOWDOWN_LIMITS
        return LoadLimits(
            usual.overloaded_at if self.overloaded_at is None else self.overloaded_at,
            usual.room_at if self.room_at is None else self.room_at,
        )


class RuntimeOptions(Section):
    """Options of the runtime estimator named by `runtime_estimates`."""

    default_time: Duration = 300.0
    """The estimate if nothing is known."""
    overdue_time: Duration = 120.0
    """The remaining time of a job that has outrun its estimate."""
    size_rate: PositiveNumber | None = None
    """`boinc`: size units that a builder of speed 1 does in a second; absent: as many as the first
    success that has a size needed."""
    host: Literal["builder", "pool"] = "builder"
    """`boinc`: what counts as a host: each builder, or a whole pool."""
    host_samples: Count = 10
    """`boinc`: a host's history of a kind counts from more than this many successes on."""
    kind_samples: Count = 100
    """`boinc`: a kind's history counts from more than this many successes on."""
    host_scale_check: Flag = False
    """`boinc`: scale only builders with a streak of ten successes."""


class Scheduling(Section):
    """Which waiting job goes next, on which builder."""

    policy: Text = "fifo"
    """`fifo random ljf sjf ljf-aging sjf-aging score buildbarn critical-path`, or your own
    `module:function`."""
    aging_factor: NonNegative = AGING_FACTOR
    """Seconds of run time that a second in the queue weighs (`ljf-aging`, `sjf-aging`)."""
    aging: Literal["linear", "matrix"] = "linear"
    """By time in queue, or by matrix: each sorted, the matrices in order of release."""
    fair_share: tuple[Text, ...] = ()
    """Keys of the fair-share tree, outermost first; empty: one queue."""
    weights: dict[Text, PositiveNumber] = Field(default_factory=dict)
    """Of invocations among their siblings, `{web: 2, web/ada: 0.5}`: twice the share; absent: 1."""
    stickiness: tuple[Duration, ...] = ()
    """How long a builder stays with an invocation, one limit per level."""
    balancer: Text = "jenkins"
    """Which free builder gets the job: `jenkins longest-idle fastest heavy-light`, or
    `module:function`."""
    simultaneous_ends: Literal["one-by-one", "together"] = "one-by-one"
    """Slots whose jobs end at one instant take jobs one after the other, or all are free first."""
    sort_every: PositiveDuration | None = None
    """Interval at which waiting jobs are sorted again by new estimates; absent: each keeps the
    place of its submission."""
    heavy_light: HeavyLight = HeavyLight.model_construct()
    """Thresholds of the `heavy-light` balancer."""
    runtime_estimates: Text = "declared"
    """The runtime estimator, from which policies get run times: `oracle declared learned last-3
    launchpad boinc boinc-2010 boinc-dcf`."""
    runtime_options: RuntimeOptions = RuntimeOptions.model_construct()
    """Options of that estimator."""
    fail_fast: Flag = False
    """A failed job cancels the rest of its matrix."""
    retries: Count = 2
    """Number of further attempts of a job whose builder was lost."""
    platform_grace: Duration | None = None
    """Time after which jobs fail if their platform has no builder; absent: they wait."""
    max_builders_lost: Count = 3
    """A job fails once this many builders were lost while they ran it, despite `retries`: it
    may be what ends them (0: no bound)."""
    failures: Literal["fail", "launchpad"] = "fail"
    """With `fail` a failed attempt is a failed job, with `launchpad` job and builder have counts
    of failures, and the one that failed more often is to blame."""
    max_resets: Count = 3
    """`launchpad`: how often a job is retried while it is unclear what is to blame."""
    dedup: Flag = True
    """Jobs with the same action that are in flight together run only once, if they agree on
    the work: failure, mode, threads, heaviness."""
    compatibility: Literal["buildbarn", "taskcluster"] | None = None
    """Reproduce another system's behaviour: `buildbarn`'s in the fair-share tree; `taskcluster`:
    the balancer is longest-idle by default, and the summary counts as its simulator does."""

    @model_validator(mode="before")
    @classmethod
    def _taskclusters_balancer(cls, given: object) -> object:
        if isinstance(given, dict) and given.get("compatibility") == "taskcluster":
            return {"balancer": "longest-idle", **given}
        return given

    @model_validator(mode="after")
    def _levels(self) -> Self:
        if self.simultaneous_ends == "together" and self.balancer in ("fastest", "heavy-light"):
            raise ValueError(
                f"found simultaneous_ends together with balancer {self.balancer}, which holds "
                "jobs back by its own rules; allowed: another balancer"
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
        if self.weights and not self.fair_share:
            raise ValueError(
                "found weights without fair_share, whose invocations they are for; allowed: both"
            )
        return self


class Estimates(Section):
    """Estimates of the dispatch of submitted jobs, as events in the log."""

    rules: tuple[RuleSet, ...] | None = None
    """The methods: rule sets of the formula, and `rollout` (simulations of the farm's future).
    Absent: `rollout` on live farms, `launchpad` where that is too dear; none in simulations."""
    run_times: tuple[Text, ...] = ()
    """The runtime estimators used with each of them; empty: the one named by
        `scheduling.runtime_estimates`."""
    every: Positive = 1
    """Every n-th submitted job gets estimates."""
    rollouts: Positive = 50
    """Number of rollouts per submission."""
    refresh: Duration = 5.0
    """Time between sweeps of a queue of more than a thousand jobs; in between a job is
    estimated by its place in the last sweep."""
    learn_from: FileName | None = None
    """A finished run or a bundle of records (directories), or exported statistics (a file), from
    which the runtime estimators learn before the run begins."""
