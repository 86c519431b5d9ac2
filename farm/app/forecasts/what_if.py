"""Simulations of a farm from its present state, with or without a change."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from functools import partial
from itertools import compress
from typing import Any, Literal

import msgspec
import numpy as np

from farm.app.long_running.snapshots import farm_of
from farm.assembly import estimator_of, make_rules, pool_specs
from farm.columns import Floats
from farm.core.errors import InputError, StateError
from farm.core.jobs.needs import failures_awaited, needs_of
from farm.core.state.snapshot import JobRecord
from farm.forecasts.dispatch.wait_range import WaitRange
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.live.operating.answers import FarmImage
from farm.results.formatting import after_caveat, spoken_span
from farm.scenario import Scenario, TwinErrors
from farm.scenario.model import NOT_DISTINGUISHABLE
from farm.sim.rollouts.rollout import ROLLOUTS, Fork, rollouts
from farm.sim.rollouts.wait_quantiles import Rollouts
from farm.sim.world import Arrivals
from farm.units import many
from farm.workload import batches, build_jobs, is_answered
from provisioner.from_scenario import algorithms_of

#: waiting jobs up to which what arrived lately arrives again: that takes whole simulations
MOST_WITH_ARRIVALS = 1_000

Wait = dict[str, float | None]
"""Measures of a wait over the rollouts, or over a platform's jobs, in seconds; None: never."""

MEAN, MEAN_WAIT = "mean_s", "mean_wait_s"
"""The means among the measures: over the rollouts, and over a platform's jobs, too."""


class JobForecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long a waiting or blocked job waits, from now to its dispatch, and with the changes."""

    job: str
    platform: str
    now: Wait
    then: Wait | None = None
    #: of a twin: whether the means differ by less than its own errors
    verdict: Literal["not distinguishable"] | None = None


class PlatformForecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """The waits of a platform now, and with the changes.

    ``waiting`` is its number of jobs, with those that are blocked.
    """

    platform: str
    waiting: int
    now: Wait
    then: Wait | None = None
    verdict: Literal["not distinguishable"] | None = None


class Range(msgspec.Struct, frozen=True):
    """What a number is in 8 of 10 rollouts, seconds."""

    p10_s: float
    p90_s: float

    def __str__(self) -> str:
        """Return it in words; less than nothing is less."""
        ends = sorted((self.p10_s, self.p90_s), key=abs)
        low, high = (spoken_span(abs(one)) for one in ends)
        if self.p10_s * self.p90_s < 0:
            less, more = (spoken_span(abs(one)) for one in (self.p10_s, self.p90_s))
            return f"{less} less to {more} more"
        return low if low == high else f"{low} to {high}"


class WhatIf(msgspec.Struct, frozen=True, omit_defaults=True):
    """The waits of a farm's waiting and blocked jobs, now and with changes."""

    #: farm time of the present state
    at_s: float
    rollouts: int
    changes: tuple[str, ...]
    #: what arrives until then: nothing, the scenario's workload, or jobs as they came lately
    arrivals: Literal["none", "workload", "lately"]
    platforms: tuple[PlatformForecast, ...]
    #: the slowest first, as it is now
    jobs: tuple[JobForecast, ...]
    #: of a farm's twin: its errors, as in its scenario
    twin: dict[str, Any] | None = None
    #: of all waiting jobs' mean wait as it is, and of its difference with the changes
    mean_wait: Range | None = None
    change: Range | None = None
    #: how many of the jobs are blocked
    blocked: int = 0

    @property
    def answer(self) -> str:
        """One sentence: how long the waiting jobs still wait, and with the changes.

        ``With pools.linux.builders=+3 the 3,000 waiting jobs wait 5.7 h on average instead of
        7.5 h; the last of them most likely starts in 11 h instead of 15 h.``
        """
        caveat = "" if self.twin is None else TwinErrors.model_validate(self.twin).caveat
        return after_caveat(caveat, self._answer)

    @property
    def _answer(self) -> str:
        futures = [[one.now, one.then] if one.then else [one.now] for one in self.platforms]
        start = [all(wait[MEAN_WAIT] is not None for wait in waits) for waits in futures]
        never = [
            one.platform for one, known in zip(self.platforms, start, strict=True) if not known
        ]
        without = f"some jobs of {', '.join(never)} never start"
        if not any(start):
            return without
        counts = [one.waiting for one in self.platforms]
        both = list(zip(*compress(futures, start), strict=True))
        means = [_mean(list(compress(counts, start)), waits) for waits in both]
        lasts = [spoken_span(max(wait["last_p50_s"] or 0.0 for wait in waits)) for waits in both]
        kind = "waiting or blocked job" if self.blocked else "waiting job"
        waiting = many(sum(compress(counts, start)), kind)
        text = f"the {waiting} {'waits' if waiting.startswith('1 ') else 'wait'} "
        last = "the last of them most likely starts in "
        if len(both) == 1:
            text += f"another {means[0]} on average{_ranging(self.mean_wait)}; {last}{lasts[0]}"
        else:
            text = f"with {' '.join(self.changes)} {text}{means[1]} on average instead of "
            text += f"{means[0]}{_ranging(self.change, ' of difference')}; "
            text += f"{last}{lasts[1]} instead of {lasts[0]}"
        hidden = all(one.verdict for one in self.platforms)
        text += f", which is {NOT_DISTINGUISHABLE}" if hidden else ""
        return f"{text}; {without}" if never else text


def _ranging(span: Range | None, what: str = "") -> str:
    """Return what to say of how uncertain a mean is; nothing of a certain one."""
    if span is None or span.p90_s - span.p10_s < 1.0:
        return ""
    return f" ({span}{what} in 8 of 10 rollouts)"


def _range(means: Floats) -> Range | None:
    """Return that of a mean over the rollouts; None: some jobs never start."""
    if not np.isfinite(means).all():
        return None
    return Range(*np.quantile(means, [0.1, 0.9], method="weibull").tolist())


def _mean(counts: Sequence[int], waits: Sequence[Wait]) -> str:
    """Return the mean wait of all jobs."""
    total = sum(count * (wait[MEAN_WAIT] or 0.0) for count, wait in zip(counts, waits, strict=True))
    return spoken_span(total / sum(counts))


def what_if(
    image: FarmImage,
    changes: Sequence[str] = (),
    *,
    count: int = ROLLOUTS,
    seed: int = 1,
    arrivals: bool | None = None,
    limit: int = 0,
    on_share: Callable[[float], object] = float,
) -> WhatIf:
    """Simulate a farm ``count`` times from its present state, as it is and with the changes.

    The image is simulated in this process: the farm that it is of is not asked, nor changed.

    Args:
        image: the farm.
        changes: of its scenario, such as ``pools.linux.builders=4``; none: only as it is.
        count: rollouts of each farm.
        seed: of the rollouts.
        arrivals: True continues the scenario's workload, False lets nothing arrive; None: jobs
            arrive as they did lately, where that can change when those that wait are dispatched.
        limit: the number of slowest jobs that are listed; 0: all.
        on_share: given how much (0 to 1) is simulated.

    Raises InputError for changes that cannot be, or a farm in which no job waits.
    """
    before = farm_of(image)
    scenarios = [before, *([farm_of(image, changes)] if changes else [])]
    if arrivals and is_answered(before):
        raise InputError(
            "--arrivals: found users or reruns in the workload: what they submit depends on how "
            "the jobs of the past have ended; allowed: a workload of jobs that come by themselves"
        )
    if arrivals and not before.workload:
        raise InputError(
            "--arrivals: found a state file, in which no workload is known; allowed: with a "
            "snapshot, or a live farm"
        )
    blocked = {record.job.id for record in image.snapshot.blocked}
    records = (*image.snapshot.waiting, *image.snapshot.blocked)
    platform_of = {record.job.id: str(record.job.platform) for record in records}
    if not platform_of:
        raise InputError("no job is waiting: nothing to forecast")
    futures: list[Rollouts] = []

    def on_rollout(done: int) -> None:
        on_share((len(futures) + done / count) / len(scenarios))

    for one in scenarios:
        make = partial(_fork_of, image, before, one, arrivals)
        futures.append(
            rollouts(make, count=count, seed=seed, jobs=[*platform_of], on_rollout=on_rollout)
        )
    futures = _without_skipped(futures, _skipped(image.snapshot.blocked))
    if not futures[0].jobs:
        raise InputError("no job is waiting, and those that are blocked are skipped: no forecast")
    waits = [_Waits(one) for one in futures]
    jobs = futures[0].jobs
    twin = before.twin
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, job in enumerate(jobs):
        places[platform_of[job]].append(place)
    slowest = np.lexsort((-waits[0].p90, -waits[0].p50))[: limit or None].tolist()
    platforms = []
    for name, theirs in places.items():
        found = _judged(twin, MEAN_WAIT, [one.together(theirs) for one in waits])
        platforms.append(PlatformForecast(name, len(theirs), *found))
    shown = []
    for place in slowest:
        found = _judged(twin, MEAN, [one.of(place) for one in waits])
        shown.append(JobForecast(jobs[place], platform_of[jobs[place]], *found))
    errors = None if twin is None else twin.model_dump(exclude_none=True)
    arriving: Literal["none", "workload", "lately"] = "workload" if arrivals else "none"
    if arrivals is None and any(_fork_of(image, before, one).later for one in scenarios):
        arriving = "lately"
    means = [one.waits.mean(axis=1) for one in futures]
    with np.errstate(invalid="ignore"):
        change = _range(means[1] - means[0]) if changes else None
    return WhatIf(
        futures[0].at,
        count,
        tuple(changes),
        arriving,
        tuple(platforms),
        tuple(shown),
        errors,
        mean_wait=_range(means[0]),
        change=change,
        blocked=sum(job in blocked for job in jobs),
    )


def _without_skipped(futures: Sequence[Rollouts], skipped: Container[str]) -> list[Rollouts]:
    """Return rollouts without the jobs that are skipped, as far as they never start in some."""
    starts = np.all([np.isfinite(each.dispatch_at).all(axis=0) for each in futures], axis=0)
    jobs = futures[0].jobs
    kept = [place for place, job in enumerate(jobs) if job not in skipped or starts[place]]
    names = tuple(jobs[place] for place in kept)
    return [Rollouts(each.at, names, each.dispatch_at[:, kept]) for each in futures]


def _skipped(blocked: Sequence[JobRecord]) -> set[str]:
    """Return the blocked jobs that need another to fail, as none is known to, or that need these.

    The others that never start are shown: no builder could run them, or what they need.
    """
    found = {
        record.job.id
        for record in blocked
        if not record.failure_met and failures_awaited(record.job, record.unmet)
    }
    more = True
    while more:
        its = {
            record.job.id
            for record in blocked
            if any(n.condition == "succeeded" and n.job in found for n in needs_of(record.job))
        }
        more = not its <= found
        found |= its
    return found


class _Waits:
    """The waits of each job over the rollouts, seconds."""

    def __init__(self, found: Rollouts) -> None:
        self.p50 = found.wait_quantile(0.5)
        self.p90 = found.wait_quantile(0.9)
        self.mean = found.mean_wait

    def of(self, place: int) -> Wait:
        """Return one job's."""
        return _finite(p50_s=self.p50[place], p90_s=self.p90[place], mean_s=self.mean[place])

    def together(self, places: Sequence[int]) -> Wait:
        """Return a platform's: the mean over its jobs, and its last job's."""
        return _finite(
            mean_wait_s=self.mean[places].mean(),
            last_p50_s=self.p50[places].max(),
            last_p90_s=self.p90[places].max(),
        )


def _judged(
    twin: TwinErrors | None, mean: str, waits: Sequence[Wait]
) -> tuple[Wait, Wait | None, Literal["not distinguishable"] | None]:
    """Return the waits now and with the changes, and the verdict on their means."""
    known = [one for wait in waits if (one := wait[mean]) is not None]
    hidden = twin is not None and len(known) == 2 and twin.hide(known[0], known[1] - known[0])
    then = waits[1] if len(waits) > 1 else None
    return waits[0], then, NOT_DISTINGUISHABLE if hidden else None


def _finite(**numbers: np.floating[Any]) -> Wait:
    return {name: float(one) if np.isfinite(one) else None for name, one in numbers.items()}


def _fork_of(
    image: FarmImage, before: Scenario, after: Scenario, arrivals: bool | None = None
) -> Fork:
    """Return the farm of an image under the pools and rules of ``after``; ``before`` is its own.

    Raises StateError for statistics that cannot be taken up again.
    """
    name, waiting = after.scheduling.runtime_estimates, len(image.snapshot.waiting)
    run_times = RuntimeDistribution(estimator_of(after))
    if image.statistics is not None and image.statistics.get("estimator") == name:
        try:
            run_times.load(image.statistics)
        except StateError as error:
            raise StateError(f"snapshot: statistics: {error}") from None
    return Fork(
        snapshot=image.snapshot,
        pools=tuple(pool_specs(after)),
        rules=make_rules(after),
        run_times=run_times,
        algorithms=algorithms_of(after),
        rekey=after.scheduling != before.scheduling,
        load=partial(_load_of, after) if arrivals else None,
        recent=image.recent if arrivals is None and waiting <= MOST_WITH_ARRIVALS else None,
        truthful=name == "oracle",
    )


def _load_of(scenario: Scenario, seed: int) -> Arrivals:
    return batches(build_jobs(scenario.model_copy(update={"seed": seed})))


def dispatch_of(image: FarmImage, job: str) -> tuple[float | None, WaitRange | None, int]:
    """Return in which time a waiting job is dispatched, the range, and by how many rollouts.

    None: it is never dispatched, or not in every rollout. The fewer jobs wait, the more rollouts
    are made, up to 20: half a second of simulation in all.
    Raises LookupError for a job that does not wait, InputError for functions that are not here.
    """
    scenario = farm_of(image)
    count = min(20, 1 + 20_000 // len(image.snapshot.waiting or (1,)))
    found = rollouts(partial(_fork_of, image, scenario, scenario), count=count, jobs=[job])
    low, median, high = (float(found.wait_quantile(level)[0]) for level in (0.1, 0.5, 0.9))
    if not math.isfinite(median):
        return None, None, count
    return max(0.0, median), WaitRange(low, high) if math.isfinite(high) else None, count
