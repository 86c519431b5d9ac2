"""What would shorten the waits of a run: builders of which pool, how many, or another setting.

Every remedy is simulated before it is named. Which jobs wait longest does not tell it: where one
pool has most of the jobs, two builders there may shorten the farm's p95 wait to a third, and two
for the jobs that wait longest by a minute. So each pool that is short is tried, with as many more
builders as halve the wait, and the policies that need none; what saves most time of waiting for
its cost comes first, and the rest is tried on top of it. Of a pool that an algorithm sizes its
limits are tried, and what makes builders come sooner and stay longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from shlex import quote
from typing import Final, NamedTuple

from farm.app.runs.own_parts import NONE, OwnParts
from farm.app.runs.simulated_run import simulated_run
from farm.core.errors import FarmError, InputError
from farm.core.model import Job
from farm.results.money import is_money
from farm.results.recorded_run import FinishedRun
from farm.results.summary.answer import (
    FULL,
    Advice,
    Remedy,
    answer_of_run,
    command_of,
    is_short,
    shortages_of,
)
from farm.results.summary.summary import Summary
from farm.scenario import Pool, Scenario
from farm.sim.engines import OneLoad
from farm.sim.too_large import expected_jobs
from farm.workload import FeedbackLoad, Workload
from farm.workload.blocks import JobColumns

MAX_EVENTS: Final = 5_000_000
"""Events of all simulations of a search together, in the compiled loop: a second of a processor."""
MAX_EVENTS_OF_A_RUN: Final = 500_000
"""A run of more events is not searched: to see what its jobs wait for takes half a second alone."""
MAX_EVENTS_OF_REFERENCE: Final = 80_000
"""Of all simulations together where the compiled loop does not play: a second or two."""
EVENTS_OF_A_JOB: Final = 4
EVENTS_OF_A_PLAN: Final = 3
"""A plan of an algorithm that is compiled into the loop is as much work as this many events."""
EVENTS_OF_AN_OWN_PLAN: Final = 60
"""The same of an algorithm of the user's, which the loop has to ask."""
USUAL_INTERVAL: Final = 10.0
"""Seconds between plans where the scenario leaves that to the algorithm."""
MAX_SIMULATIONS: Final = 60
MIN_SIMULATIONS: Final = 4
"""A run is not searched where there is time for fewer simulations."""
MAX_SIMULATED_JOBS: Final = 1_000_000
"""Jobs of a scenario that is simulated once, to say what it is short of: about a second."""
USUAL_WAIT: Final = 600.0
"""The p95 wait (s) of which a command halves where none was simulated."""
MAX_STEPS: Final = 2
"""Remedies that are named: each one on top of those before."""
HALF: Final = 0.5
HELPS: Final = 0.9
"""What leaves more than this share of the wait is no remedy."""
MAX_DEVIATION: Final = 0.2
"""A live run is searched if the simulated one waits as long as it did, up to this share."""
MAX_GROWTH: Final = 4
"""The maximum of a provisioned pool is tried up to as many times of what it is."""
SHORTER: Final = 0.5
"""A boot time, and a time between plans, are tried at this share of what they are."""
LONGER: Final = 4.0
"""An idle time-out is tried at as many times of what it is."""
WHOLE_RATIO: Final = 1.0
"""Builders for each waiting job, of algorithms that have a ``scaling_ratio`` and less of it."""
POLICIES: Final = ("fifo", "sjf-aging", "ljf-aging")
"""Policies under which no job waits forever; sjf is none of them."""
BY_RUN_TIME: Final = ("sjf-aging", "ljf-aging")
"""Those of them that are as good as the run times which the scheduler knows beforehand."""

OnShare = Callable[[float], object]


class ComputedAdvice(NamedTuple):
    """What would shorten the waits of a farm, tried in simulations of it.

    >>> plan = farm.plan("quickstart", "p95(waiting_time) < 20m", replications=1)
    >>> [first, *_] = plan.advice.remedies
    >>> first.pool, first.key, first.after > first.before, first.wait < first.wait_before
    ('linux', 'builders', True, True)
    """

    #: how long jobs wait, for which builders, when, and what helps; empty: nothing is advised
    sentence: str = ""
    #: what was simulated and helps, the best first, each on top of those before it
    remedies: tuple[Remedy, ...] = ()
    #: what finds remedies where none was tried, since that takes too long; empty: they were tried
    command: str = ""
    #: why nothing can be said; empty: something is, or nothing is short
    why_not: str = ""


class FarmAsItIs(NamedTuple):
    """A simulation of a scenario, and what others of it are made from."""

    run: FinishedRun
    #: the jobs, which are the same in all simulations
    load: Workload
    #: the caller's parts in all of them
    own: OwnParts = NONE


class TooLongError(Exception):
    """It would take too long: there are too many jobs, or all simulations are used up."""


def advice_for(run: FinishedRun, on_share: OnShare = float) -> Advice | None:
    """Return what would shorten the waits of a run; ``on_share`` is given the progress, 0 to 1.

    The advice has no remedies where the search would take longer than ``MAX_EVENTS`` allow: then a
    command finds them. None: nothing is short, slots are free while jobs wait, nothing helps, or
    the run cannot be simulated as it was (of jobs or functions of the caller's).
    """
    pools = _short_pools(run)
    if not pools:
        return None
    command = Advice((), quote(str(run.path / "scenario.yaml")) if run.path else "", pools[0])
    if _work_of(run) > MAX_EVENTS_OF_A_RUN:
        return command
    try:
        farm = simulated_as_it_is(run.scenario)
        if not _is_repeated(run.summary, farm.run.summary):
            return None
        return _Search(farm, on_share).advice(pools)
    except TooLongError:
        return command
    except FarmError:  # its trace is gone, its functions cannot be imported, …
        return None


def advice_on_scenario(
    scenario: Scenario, on_share: OnShare = float, *, own: OwnParts = NONE, typed: str = ""
) -> ComputedAdvice:
    """Return what would shorten the waits of a scenario, which is simulated with its seed.

    Args:
        scenario: of which there is no simulation yet.
        on_share: given the progress, 0 to 1.
        own: the caller's parts in it.
        typed: the scenario as a command takes it: a file, and options.
    """
    try:
        return advice_on_farm(simulated_as_it_is(scenario, own), on_share, typed=typed)
    except TooLongError:
        return ComputedAdvice(
            command=command_of(Advice((), typed), USUAL_WAIT),
            why_not="its jobs are too many to be simulated once more",
        )
    except FarmError:  # its trace is gone, …
        return ComputedAdvice()


def advice_on_farm(
    farm: FarmAsItIs, on_share: OnShare = float, *, typed: str = ""
) -> ComputedAdvice:
    """Return what would shorten the waits of a farm; arguments as for ``advice_on_scenario``."""
    run = farm.run
    pools = _short_pools(run)
    if not pools:
        return ComputedAdvice()
    advice: Advice | None = Advice((), typed, pools[0])
    with suppress(TooLongError):
        advice = _Search(farm, on_share).advice(pools)
    if advice is None:
        return ComputedAdvice()
    sentence = answer_of_run(run.summary, lambda: run.jobs, run.scenario, advice)
    command = "" if advice.remedies else command_of(advice, run.summary.waiting_time.p95 or 0.0)
    return ComputedAdvice(sentence, advice.remedies, command)


def simulated_as_it_is(scenario: Scenario, own: OwnParts = NONE) -> FarmAsItIs:
    """Simulate a scenario without estimates, which take long and change nothing.

    Raises ``TooLongError`` if it has more jobs than are simulated for advice, which are fewer where
    only the reference plays them, and FarmError for what cannot be simulated.
    """
    estimates = scenario.estimates.model_copy(update={"rules": None})
    plain = scenario.model_copy(update={"estimates": estimates})
    workload = own.load(plain)
    jobs = workload.jobs
    held: Sequence[Job] | JobColumns
    if isinstance(jobs, FeedbackLoad):  # begun anew for each simulation, which takes the reference
        if EVENTS_OF_A_JOB * expected_jobs(plain) > MAX_EVENTS_OF_REFERENCE:
            raise TooLongError
        return FarmAsItIs(simulated_run(plain, own=own, load=workload).kept, workload, own)
    if isinstance(jobs, JobColumns):
        jobs.hold(MAX_SIMULATED_JOBS + 1)
        held = jobs
    else:
        held = list(islice(jobs, MAX_SIMULATED_JOBS + 1))
    if len(held) > MAX_SIMULATED_JOBS:
        raise TooLongError
    load = workload._replace(jobs=OneLoad(held))
    with suppress(InputError):  # the compiled loop does not cover it
        return FarmAsItIs(simulated_run(plain, own=own, load=load, engine="fast").kept, load, own)
    if EVENTS_OF_A_JOB * len(held) > MAX_EVENTS_OF_REFERENCE:
        raise TooLongError
    return FarmAsItIs(simulated_run(plain, own=own, load=load).kept, load, own)


def _work_of(run: FinishedRun) -> float:
    """Return how much work a simulation of a run is: events, or as many in the place of plans."""
    summary = run.summary
    work = float(summary.events)
    for pool in run.scenario.pools:
        if pool.provisioner is not None:
            plans = (summary.makespan or 0.0) / (pool.provisioner.interval or USUAL_INTERVAL)
            is_own = ":" in pool.provisioner.algorithm
            work += plans * (EVENTS_OF_AN_OWN_PLAN if is_own else EVENTS_OF_A_PLAN)
    return work


def _short_pools(run: FinishedRun) -> list[Pool]:
    """Return the pools whose slots are busy while jobs for them wait, or whose size varies."""
    pools: dict[str, Pool] = {}
    if not run.summary.events or not is_short(run.summary):
        return []
    for shortage in shortages_of(run.jobs, run.summary, run.scenario):
        if shortage.full is None or shortage.full >= FULL:
            pools.update({pool.name: pool for pool in shortage.pools})
    return list(pools.values())


def _is_repeated(summary: Summary, simulated: Summary) -> bool:
    """Return whether a simulation waits as the run did: else nothing follows for it."""
    wait = summary.waiting_time.p95
    simulated_wait = simulated.waiting_time.p95
    if wait is None or simulated_wait is None:
        return False
    if summary.world == "simulated":
        return wait == simulated_wait
    return abs(simulated_wait - wait) <= MAX_DEVIATION * wait


class _Change(NamedTuple):
    """A change of the farm."""

    #: the pool that it is of; None: another policy
    pool: str | None
    #: the key of the pool, or "policy"
    key: str
    before: object
    after: object


class _Trial(NamedTuple):
    """A change of the farm, and the farm with it."""

    scenario: Scenario
    summary: Summary
    change: _Change


class _Search:
    """Tries changes of a farm, at most a number of them: then ``TooLongError`` is raised.

    ``on_share`` is given the share of the simulations that were made.
    """

    def __init__(self, farm: FarmAsItIs, on_share: OnShare) -> None:
        self._farm = farm
        self._on_share = on_share
        work = _work_of(farm.run)
        max_events = MAX_EVENTS
        if farm.run.summary.engine != "fast":
            max_events = MAX_EVENTS_OF_REFERENCE
        self._simulations = min(MAX_SIMULATIONS, int(max_events / max(1.0, work)))
        self._made = 1
        if work > MAX_EVENTS_OF_A_RUN or self._simulations < MIN_SIMULATIONS:
            raise TooLongError

    def advice(self, pools: list[Pool]) -> Advice | None:
        """Return the best change, and the best one on top of it; None if nothing helps."""
        scenario = self._farm.run.scenario
        summary = self._farm.run.summary
        left = list(pools)
        remedies: list[Remedy] = []
        while len(remedies) < MAX_STEPS and is_short(summary):
            try:
                trials = [*self._trials_of_pools(left, scenario, summary)]
                if not remedies:
                    trials += self._trials_of_policies(scenario, summary)
            except TooLongError:
                if not remedies:
                    raise
                break
            if not trials:
                break
            before = summary
            best = max(trials, key=lambda trial: _saved_per_cost(before, trial))
            remedies.append(_remedy(before, best))
            scenario = best.scenario
            summary = best.summary
            left = [pool for pool in left if pool.name != best.change.pool]
        return Advice(tuple(remedies)) if remedies else None

    def _trials_of_pools(
        self, pools: list[Pool], scenario: Scenario, summary: Summary
    ) -> Iterator[_Trial]:
        """Yield for each pool what shortens the waits for it."""
        for pool in pools:
            for trial in self._trials_of(pool, scenario, summary):
                if _helps(summary, trial.summary, pool.name):
                    yield trial

    def _trials_of(self, pool: Pool, scenario: Scenario, summary: Summary) -> Iterator[_Trial]:
        """Yield the changes of a pool that may help, with the fewest builders that do.

        That many halve the p95 wait of the farm, or else that of the pool's own jobs; there are at
        most twice as many. Of a provisioned pool the maximum (up to ``MAX_GROWTH`` times) and the
        minimum are such numbers.
        """
        for key, present, most in _numbers_of(pool):
            with_more = _WithMore(self, scenario, pool, key, present)
            trial = _fewest(with_more, most, None, HALF * _wait(summary))
            if trial is None:
                trial = _fewest(with_more, most, pool.name, HALF * _wait(summary, pool.name))
            if trial is None:  # no number does: the fewest that come as near as the most do
                trial = _fewest(
                    with_more, most, pool.name, _wait(with_more(most).summary, pool.name)
                )
            yield trial or with_more(most)
        for key, before, after in _settings_of(pool):
            yield self.with_change(scenario, pool, _Change(pool.name, key, before, after))

    def _trials_of_policies(self, scenario: Scenario, summary: Summary) -> Iterator[_Trial]:
        """Yield the first policy that halves the farm's p95 wait and makes no other wait longer.

        Those after it rely on run times that the scheduler has to know.
        """
        present = scenario.scheduling.policy
        if scenario.scheduling.fair_share or present not in (*POLICIES, "sjf", "ljf", "random"):
            return
        for policy in POLICIES:
            if policy == present:
                continue
            scheduling = scenario.scheduling.model_copy(update={"policy": policy})
            changed = scenario.model_copy(update={"scheduling": scheduling})
            result = self._simulated(changed)
            is_half = _wait(result) <= HALF * _wait(summary)
            if (
                is_half
                and _longest(result) <= _longest(summary)
                and _mean(result) <= _mean(summary)
            ):
                yield _Trial(changed, result, _Change(None, "policy", present, policy))
                return

    def with_change(self, scenario: Scenario, pool: Pool, change: _Change) -> _Trial:
        """Return the farm with another value of a pool's key."""
        name, _, option = change.key.rpartition(".")
        value: object = change.after
        if name and pool.provisioner is not None:
            value = pool.provisioner.model_copy(update={option: change.after})
        changed_pool = pool.model_copy(update={name or option: value})
        pools = tuple(
            changed_pool if other.name == pool.name else other for other in scenario.pools
        )
        changed = scenario.model_copy(update={"pools": pools})
        return _Trial(changed, self._simulated(changed), change)

    def _simulated(self, scenario: Scenario) -> Summary:
        if self._made == self._simulations:
            raise TooLongError
        self._made += 1
        self._on_share(self._made / self._simulations)
        run = simulated_run(scenario, own=self._farm.own, load=self._farm.load)
        return run.kept.summary_without_parties


class _WithMore:
    """The farm with more builders of a pool, each number of them simulated once.

    Args:
        search: makes the simulations.
        scenario: of the farm.
        pool: that has more builders.
        key: the number of builders, or a limit of it.
        present: its present value.
    """

    def __init__(
        self, search: _Search, scenario: Scenario, pool: Pool, key: str, present: int
    ) -> None:
        self._simulated = partial(search.with_change, scenario, pool)
        self._pool = pool.name
        self._key = key
        self._present = present
        self._tried: dict[int, _Trial] = {}

    def __call__(self, more: int) -> _Trial:
        """Return the farm with as many more builders; raises ``TooLongError``."""
        if more not in self._tried:
            change = _Change(self._pool, self._key, self._present, self._present + more)
            self._tried[more] = self._simulated(change)
        return self._tried[more]


def _numbers_of(pool: Pool) -> Iterator[tuple[str, int, int]]:
    """Yield keys that are numbers of builders: with their value, and how many more may be tried."""
    if pool.provisioner is None:
        builders = pool.builders or 0
        yield "builders", builders, max(1, builders)
        return
    least = pool.provisioner.min
    most = pool.provisioner.max
    yield "provisioner.max", most, (MAX_GROWTH - 1) * most
    if least < most:
        yield "provisioner.min", least, most - least


def _settings_of(pool: Pool) -> Iterator[tuple[str, object, object]]:
    """Yield keys by which builders come sooner or stay longer: the value, and the one to try."""
    comes_and_goes = pool.provisioner is not None or pool.uses is not None
    if comes_and_goes and pool.boot_time:
        yield "boot_time", pool.boot_time, SHORTER * pool.boot_time
    if pool.provisioner is None:
        return
    if pool.idle_timeout:
        yield "idle_timeout", pool.idle_timeout, LONGER * pool.idle_timeout
    if pool.provisioner.interval:
        interval = pool.provisioner.interval
        yield "provisioner.interval", interval, SHORTER * interval
    ratio = pool.provisioner.options.get("scaling_ratio")
    if isinstance(ratio, int | float) and ratio < WHOLE_RATIO:
        yield "provisioner.scaling_ratio", ratio, WHOLE_RATIO


def _fewest(
    with_more: Callable[[int], _Trial], most: int, pool: str | None, limit: float
) -> _Trial | None:
    """Return the trial with the fewest more builders that brings a wait down to the limit.

    By doubling, then bisection. None: ``most`` builders do not.
    """
    too_few = 0
    enough = 1
    while _wait(with_more(enough).summary, pool) > limit:
        if enough >= most:
            return None
        too_few = enough
        enough = min(most, 2 * enough)
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if _wait(with_more(middle).summary, pool) <= limit:
            enough = middle
        else:
            too_few = middle
    return with_more(enough)


def _wait(summary: Summary, pool: str | None = None) -> float:
    """Return the p95 wait of the farm or of a pool's jobs (s); 0 if none started."""
    spread = summary.waiting_time if pool is None else summary.pools[pool].waiting_time
    return spread.p95 or 0.0


def _mean(summary: Summary) -> float:
    return summary.waiting_time.mean or 0.0


def _longest(summary: Summary) -> float:
    return summary.waiting_time.max or 0.0


def _helps(before: Summary, after: Summary, pool: str) -> bool:
    """Return whether a change shortens the p95 wait of the farm or of the pool's jobs."""
    return _shortens(before, after, None) or _shortens(before, after, pool)


def _shortens(before: Summary, after: Summary, pool: str | None) -> bool:
    return _wait(after, pool) <= HELPS * _wait(before, pool) and _wait(before, pool) > 0.0


def _saved_per_cost(before: Summary, trial: _Trial) -> tuple[float, float]:
    """Return the mean time of waiting that a change saves (s), for what it costs more.

    Then what it saves, of changes without cost. Another policy has none, even if the last job ends
    later by it.
    """
    after = trial.summary
    saved = _mean(before) - _mean(after)
    more_cost = 0.0 if trial.change.pool is None else after.cost - before.cost
    if more_cost <= 0.0:
        return (float("inf") if saved > 0.0 else saved), saved
    return saved / more_cost, saved


def _remedy(before: Summary, trial: _Trial) -> Remedy:
    change = trial.change
    relies_on = ""
    if change.key == "policy" and change.after in BY_RUN_TIME:
        relies_on = trial.scenario.scheduling.runtime_estimates
    waits_of = None if _shortens(before, trial.summary, None) else change.pool
    return Remedy(
        pool=change.pool,
        key=change.key,
        before=change.before,
        after=change.after,
        relies_on=relies_on,
        waits_of=waits_of,
        wait_before=_wait(before, waits_of),
        wait=_wait(trial.summary, waits_of),
        builder_time=trial.summary.builder_time - before.builder_time,
        per_month=(trial.summary.cost_per_month or 0.0) - (before.cost_per_month or 0.0),
        currency=trial.summary.currency if is_money(trial.summary.currency) else None,
    )
