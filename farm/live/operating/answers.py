"""What the scheduler answers about a job: why it waits, how long yet, why it went where it did.

And about the whole farm: an image, from which it can be forked and its queue estimated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from farm.core.dispatching.decisions import Decision
from farm.core.queues.fair_share.turn_explanation import Turn
from farm.core.rules import Choices
from farm.core.state.snapshot import FarmSnapshot
from farm.forecasts.dispatch.recent_arrivals import RecentArrivals
from farm.forecasts.dispatch.recent_errors import Lately
from farm.forecasts.dispatch.wait_range import WaitRange
from farm.forecasts.runtime.interface import JobProgress, RunTimeRange
from farm.live.wire.pool_report import LostBuilder

if TYPE_CHECKING:
    from farm.scenario import Scenario

Method = Literal["formula", "rollouts"]
RULES: dict[Method, str] = {"formula": "launchpad", "rollouts": "rollout"}
"""The methods, as recorded estimates call them."""

Source = Literal["kind", "all kinds", "estimate"]
"""What a job's run time is drawn from: past ones of its kind, or of all; or it is not drawn."""

#: differences between two methods' answers that need no word, as a share of the greater one
ALIKE = 0.1


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A live job as its scheduler sees it; times are farm seconds."""

    status: str
    attempts: int
    submitted_at: float
    estimated_time: float
    #: from when it has waited, or was blocked
    queued_at: float = 0.0
    #: while it is blocked: the jobs it needs that have not ended, with where they stand, and when
    #: its delay is over if that runs
    unmet: dict[str, str] = {}
    released_at: float | None = None
    #: jobs before it in dispatch order that compete for its builders; None: it does not wait
    ahead: int | None = None
    #: builders that may run it: all there are, those that take jobs, those with a free slot
    builders: int = 0
    accepting: int = 0
    free: int = 0
    #: those that have taken as many attempts as they may
    used_up: int = 0
    #: requested builders of pools whose builders may run it
    booting: int = 0
    #: whether a provisioner may ask for more of them, or others take the place of those with
    #: ``uses``, which the estimate does not count
    may_grow: bool = False
    #: seconds until it is dispatched, as estimated; None: no builder could run it
    dispatch_in_time: float | None = None
    #: the range of that; None: it may wait very long, or is never dispatched
    dispatch_range: WaitRange | None = None
    #: jobs that go before it bring as much work as its builders can do: others may always be first
    may_starve: bool = False
    #: P10 and P90 of its run time; and where these do not bear its declared time out, that, and
    #: what jobs of its kind take
    run_time_range: RunTimeRange | None = None
    unlike_declared: float | None = None
    kind_time: float | None = None
    #: by which method, and how good that was lately; of rollouts: how many, how many past run times
    #: of its kind there are, and what its run time is drawn from
    method: Method = "formula"
    lately: Lately | None = None
    rollouts: int = 0
    past_run_times: int = 0
    drawn_from: Source | None = None
    #: why there are no rollouts, where they were wanted
    no_rollouts: str = ""
    #: the formula's answer too, and why it is another one
    formula_in_time: float | None = None
    differs: str = ""
    #: while it runs: for how long, which part is done by its builder's last report (0 to 1), and
    #: the expected rest
    elapsed_time: float | None = None
    done: float | None = None
    remaining_time: float | None = None
    remaining_range: RunTimeRange | None = None
    #: whose execution serves it too
    leader: str | None = None
    path: tuple[str, ...] = ()
    #: under fair share, level by level: whose turn it is where it waits
    turns: tuple[Turn, ...] = ()
    why: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler knows of a job now; both None: nothing (any more)."""

    at: float
    job: Waiting | None = None
    decision: Decision | None = None


class Forecasts(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler knows of when jobs start; those that have started are left out."""

    at: float
    jobs: dict[str, Waiting] = {}


class Refusal(msgspec.Struct, frozen=True):
    """Sent in the place of an answer; an answer, read as one, has refused nothing."""

    refused: str = ""


BUSY = Refusal("too many questions wait for the scheduler: ask again later")
FAILED = Refusal("the scheduler failed to answer this question, and its log says why")


def why_they_differ(job: Waiting) -> str:
    """Return in a line why the formula's answer is not that of the rollouts; empty if it is."""
    rolled, formula = job.dispatch_in_time, job.formula_in_time
    if job.method != "rollouts" or rolled is None or formula is None or job.ahead is None:
        return ""
    if abs(formula - rolled) <= ALIKE * max(formula, rolled):
        return ""
    if job.turns:
        return "the formula keeps the present order, in the rollouts turns change as jobs end"
    if formula < rolled:
        return "the formula takes jobs to run as estimated, the rollouts as such jobs really ran"
    if job.may_grow:
        return "the formula counts the builders that are there, in the rollouts others come"
    if job.ahead < job.accepting:
        return "the formula lets the few jobs ahead run as if they did not start side by side"
    return "the formula adds up waits that pass side by side, and takes jobs to run as estimated"


FORMAT = 1


class FarmImage(msgspec.Struct, frozen=True, kw_only=True):
    """A farm at one instant: its snapshot, its scenario, and its estimators' history.

    ``farm status --save`` writes it as JSON, and the commands that estimate read it back.
    """

    format: int = FORMAT
    snapshot: FarmSnapshot
    #: the resolved scenario, as plain values
    scenario: dict[str, Any]
    #: the dump of the runtime estimator; None: a user's own estimator
    statistics: dict[str, Any] | None = None
    #: by job: the progress that its builder reported last
    progress: dict[str, JobProgress] = {}
    #: recently lost builders, newest last
    lost: tuple[LostBuilder, ...] = ()
    #: what was submitted lately; None: too little to tell a rate, or nothing more is to come
    recent: RecentArrivals | None = None


class ImageName(msgspec.Struct, frozen=True):
    """Answers who asks for an image: where it is kept."""

    image: str


def as_chosen(scenario: Scenario, choices: Choices) -> dict[str, object]:
    """Return a scenario as plain values, with what operators have chosen since."""
    plain = scenario.model_dump(mode="json", exclude_none=True)
    rules: dict[str, Any] = msgspec.to_builtins(choices)
    sizes = rules.pop("pools")
    plain["scheduling"] |= rules
    for pool in plain["pools"]:
        size = sizes.get(pool["name"], {})
        (pool.get("provisioner") or pool).update(size)
    return plain
