"""Rollouts: fork the farm into the simulation many times, and record when each job is dispatched.

A rollout draws the service time of every waiting job and the rest of every running one from a
distribution of run times and plays the snapshot forward under the farm's own rules. Jobs are drawn
from kind-level run times (they have no builder yet), running ones from those of their builder.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, takewhile
from multiprocessing import get_context
from typing import ClassVar

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.commands import Command, EndJob, StartJob
from farm.core.driver import World
from farm.core.events import Event, FarmOpened
from farm.core.jobs.needs import need_of, renamed
from farm.core.model import Builder, Job, Outcome
from farm.core.pools.algorithm import AnyAlgorithm
from farm.core.pools.keeper import surplus_of
from farm.core.pools.spec import PoolSpec
from farm.core.rules import Estimator, SchedulingRules
from farm.core.state.restore import restored
from farm.core.state.snapshot import FarmSnapshot, JobRecord, snapshot_of
from farm.core.state.working_state import JobStatus
from farm.forecasts.dispatch.recent_arrivals import RecentArrivals
from farm.forecasts.dispatch.starvation import starve
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.sim.fast.kernel import native
from farm.sim.rollouts import fair_share, fates
from farm.sim.rollouts.draws import RunningJob, RunTimes, ServiceTimes
from farm.sim.rollouts.later_arrivals import drawn, last_at, matter
from farm.sim.rollouts.queue_only import OnRollout, roll, slots_to_come
from farm.sim.rollouts.wait_quantiles import Rollouts
from farm.sim.simulation import play, provision
from farm.sim.world import Arrivals, SimulatedWorld
from farm.workload import needed_of

#: rollouts of a forecast that a user asks for and waits for: ten of them are beyond its P90
ROLLOUTS = 100
#: rollouts that are made whatever they cost: with fewer, P90 would be the longest wait of all
LEAST = 10
#: jobs simulated in about a second by one process: from twice that on, several processes are used
ENOUGH_FOR_ONE = 60_000
#: events without a dispatch after which the remaining jobs are given up
MAX_EVENTS_IN_VAIN = 20_000
#: later submissions in a rollout: a job that is always overtaken is dispatched after them
MOST_LATER = 3_000


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A farm to be simulated from its present state: snapshot, pools and rules, and unknowns.

    ``snapshot`` is the farm's present state; ``rekey``: the policy or keys of ``rules`` differ from
    those of the snapshot.
    """

    snapshot: FarmSnapshot
    pools: tuple[PoolSpec, ...]
    rules: SchedulingRules
    run_times: RuntimeDistribution
    #: by which the farm sorts jobs and sizes pools, if not by those run times
    estimator: Estimator | None = None
    #: the algorithms of the provisioned pools, by the pool's name; their memory is unknown
    algorithms: Mapping[str, AnyAlgorithm] = {}
    rekey: bool = False
    #: by seed, a workload that continues after the snapshot; None: nothing more arrives
    load: Callable[[int], Arrivals] | None = None
    #: without such a workload: what arrived lately, and arrives again where it can matter
    recent: RecentArrivals | None = None
    #: the run times are the truth: outcomes are known too
    truthful: bool = False
    #: so are the fates of builders, which each rollout draws otherwise
    knows_fates: bool = False

    @property
    def later(self) -> RecentArrivals | None:
        """What arrives during a rollout, drawn from what arrived lately; None: nothing of it."""
        snapshot, recent = self.snapshot, self.recent
        if recent is None or self.load is not None:
            return None
        known = (*snapshot.waiting, *snapshot.blocked)
        jobs = [*(view.job for view in known), *recent.jobs]
        return recent if matter(self.rules, snapshot.choices, self.pools, jobs) else None

    @property
    def tells_means(self) -> bool:
        """Whether a wait's mean is told, not its median: later arrivals may overtake jobs.

        Where they may do so without end, the mean is that of the few which wait for them all.
        """
        return self.later is not None and not starve(self.rules, self.snapshot.choices)

    @property
    def is_certain(self) -> bool:
        """Whether all rollouts are the same: nothing of the future is drawn."""
        return self.truthful and self.later is None and not self.draws_fates

    @property
    def draws_fates(self) -> bool:
        """Whether each rollout draws when builders come and go."""
        return not self.knows_fates and fates.are_drawn(self.pools)


def rollouts(
    make: Callable[[], Fork],
    *,
    count: int = ROLLOUTS,
    seed: int = 1,
    jobs: Sequence[str] | None = None,
    processes: int | None = None,
    fast: bool = True,
    events: int | None = None,
    on_rollout: OnRollout = int,
) -> Rollouts:
    """Roll a fork out ``count`` times; return when the jobs (None: all waiting) are dispatched.

    Each rollout ends when the last job of interest is dispatched. The same seed gives the same
    numbers whatever the number of processes, each of which makes the fork: rules are functions, and
    do not pass from one to another. ``fast`` False always uses the whole simulation. ``events``:
    once one process has simulated that many, there are no more than ``LEAST`` rollouts.
    ``on_rollout`` is given how many are done.
    Raises LookupError for a job that neither waits nor is blocked.
    """
    common = _Common(make(), count, seed, jobs)
    at = common.base.at
    if fast and common.is_simple and (found := common.roll_queues(on_rollout)) is not None:
        return Rollouts(at, common.wanted, found)
    work = count * (len(common.waiting) + len(common.attempts))
    processes = processes or min(os.cpu_count() or 1, max(1, work // ENOUGH_FOR_ONE))
    if processes > 1:
        rows = _together(make, common, processes, on_rollout)
    else:
        rows = []
        for number in range(count):
            if events is not None and number >= LEAST and common.events >= events:
                break
            rows.append(common.play(number))
            on_rollout(number + 1)
            # a rollout is full of cycles, and a simulation around it collects none
            gc.collect(0)
    return Rollouts(at, common.wanted, np.array(rows).reshape(len(rows), -1))


class _Common:
    """The common part of all rollouts of a fork."""

    #: in a process that plays some of them
    here: ClassVar[_Common | None] = None

    def __init__(self, fork: Fork, count: int, seed: int, jobs: Sequence[str] | None) -> None:
        self.fork, self.count, self.seed = fork, count, seed
        #: simulated so far, by whole simulations
        self.events = 0
        # drawn run times already include the effect of the user's builders
        self.specs = [
            msgspec.structs.replace(pool, behaviour="", claims=False) for pool in fork.pools
        ]
        self.base = self._opened()
        #: jobs that will be executed, without those that share another's execution
        self.waiting = [v for v in self.base.waiting if v.leader is None]
        self.attempts = [v for v in self.base.running if v.leader is None]
        self.leader_of = {v.job.id: v.leader or v.job.id for v in fork.snapshot.waiting}
        self.wanted = tuple(self.leader_of) if jobs is None else tuple(jobs)
        self.leader_of |= {v.job.id: v.job.id for v in fork.snapshot.blocked}
        for name in jobs or ():
            if name not in self.leader_of:
                raise LookupError(name)
        #: those that are executed, or will be once what they need has ended
        self.going = [*self.waiting, *self.base.blocked]
        going = [view.job for view in self.going]
        self._columns = {job.id: column for column, job in enumerate(going)}
        run_times = RunTimes(fork.run_times, self._running(), self.base.at, seed, count)
        self._times = ServiceTimes(run_times, going, seed, count)
        self._later = fork.later
        if self._later is not None:
            self._later_times = ServiceTimes(run_times, self._later.jobs, seed, count)
        self._ends = run_times.ends
        for column, view in enumerate(self.attempts):
            if view.status is JobStatus.CANCELLING:
                self._ends[:, column] = self.base.at

    def _opened(self) -> FarmSnapshot:
        """Return the farm once it has opened under the fork's rules.

        Missing builders of a fixed pool are requested, and surplus ones stopped; the jobs are in
        the order of the new policy.
        """
        fork, before = self.fork, self.fork.snapshot
        if not (fork.rekey or any(self._surpluses(before))):
            return before
        scheduler = restored(before, fork.rules, _Frozen(fork), pools=self.specs, rekey=fork.rekey)
        scheduler.handle(FarmOpened(before.at, provisioned=False, resized=True))
        return snapshot_of(scheduler, before.at)

    def _surpluses(self, snapshot: FarmSnapshot) -> list[int]:
        """Return, for each fixed pool, how many builders it has too many."""
        requested = {pool.name: pool.requested for pool in snapshot.pools}
        return [
            surplus_of(spec, snapshot.builders, requested.get(spec.name, ()))
            for spec in self.specs
            if not spec.provisioned
        ]

    def _running(self) -> list[RunningJob]:
        builders, at = {v.builder.id: v.builder for v in self.base.builders}, self.base.at
        found = []
        for view in self.attempts:
            began_at = at if view.began_at is None else view.began_at
            since = began_at if view.work_done is None else at - view.work_done
            found.append(RunningJob(view.job, builders[view.builder or ""], began_at, since))
        return found

    # --- the fast method --------------------------------------------------------------------

    @property
    def is_simple(self) -> bool:
        """Return whether nothing can happen but dispatches to slots that become free."""
        fork, rules = self.fork, self.fork.rules
        plain = not rules.by_speed and rules.heavy_light is None and not rules.ends_together
        plain = plain and self._later is None and not self.base.blocked
        failing = fork.truthful and (rules.fail_fast or rules.max_resets is not None)
        return plain and not (fork.load or failing or self._builders_change)

    @property
    def _builders_change(self) -> bool:
        """Return whether builders slow down, or come and go in a way that affects waiting jobs.

        So do those whose slots need time to go over to another invocation.
        """
        fork = self.fork
        changing = any(
            spec.law is not None
            or spec.switch_times
            or spec.provisioned
            or spec.uses is not None
            or spec.lifetime is not None
            or spec.lost_at
            for spec in self.specs
        )
        # a fixed pool that has too few builders after some have gone gets successors
        replaced = any(surplus < 0 for surplus in self._surpluses(self.base))
        # when those that boot will come, if they do, each rollout draws
        awaited = fork.draws_fates and any(p.requested for p in self.base.pools)
        return changing or replaced or awaited or any(map(self._may_go, self._builders()))

    def _builders(self) -> Iterator[Builder]:
        """Yield the joined and the booting builders."""
        for record in self.base.builders:
            yield record.builder
        for pool in self.base.pools:
            for request in pool.requested.values():
                yield request.builder

    def _may_go(self, builder: Builder) -> bool:
        """Return whether it may be lost or used up, or takes no jobs and is replaced in the end."""
        timed = any(s.name == builder.pool and s.idle_timeout is not None for s in self.specs)
        ends = builder.lifetime is not None or builder.uses is not None
        return ends or (timed and not builder.takes_jobs)

    def roll_queues(self, on_rollout: OnRollout) -> Floats | None:
        """Return the dispatch instants of the jobs of interest: a row per rollout.

        None: the trees of fair share are not of the kind that is covered.
        """
        slots = slots_to_come(self.base, self.attempts, self.specs)
        leaders = map(self.leader_of.__getitem__, self.wanted)
        columns = np.array([self._columns.get(name, -1) for name in leaders], np.int64)
        found: Floats | None
        if self.fork.rules.path is None:
            found = roll(self.waiting, slots, self._ends, self._times, columns, on_rollout)
        elif not native.is_there():
            return None  # the scheduler itself is as fast as the loop in Python
        else:
            scheduler = restored(self.base, self.fork.rules, _Frozen(self.fork), pools=self.specs)
            farm = scheduler, self.waiting, self.attempts, slots, self.specs
            found = fair_share.roll(*farm, self._ends, self._times, columns, on_rollout)
            if found is None:
                return None
        # the others were dispatched at the instant of the opening
        found[:, columns < 0] = self.base.at
        return found

    # --- the whole simulation ---------------------------------------------------------------

    def play(self, number: int) -> list[float]:
        """Simulate one rollout; return the dispatch instants of the jobs of interest."""
        times, ends = self._times.of(number).tolist(), self._ends[number].tolist()
        end_of = {v.job.id: end for v, end in zip(self.attempts, ends, strict=True)}
        fork, base, truthful = self.fork, self.base, self.fork.truthful
        specs: Sequence[PoolSpec] = self.specs
        if fork.draws_fates:
            specs = fates.specs_of(specs, (self.seed << 20) + number)
            base = fates.snapshot_of_rollout(base, specs)
        own = {
            v.job.id: v.job if truthful else no_truth(v.job, time)
            for v, time in zip(self.going, times, strict=True)
        }
        plain = {v.job.id: v.job if truthful else no_truth(v.job, 0.0) for v in self.attempts}
        start = msgspec.structs.replace(
            base,
            waiting=tuple(_with_job(v, own.get(v.job.id, v.job)) for v in base.waiting),
            blocked=tuple(_with_job(v, own.get(v.job.id, v.job)) for v in base.blocked),
            running=tuple(_with_job(v, plain.get(v.job.id, v.job)) for v in base.running),
        )
        scheduler = restored(start, fork.rules, _Frozen(fork), pools=specs)
        world = SimulatedWorld(
            specs,
            self._arrivals(number),
            start=start,
            end_of=lambda record: end_of[record.job.id],
            needed=() if fork.load is None else needed_of(iter(())),
        )
        provision(world, scheduler, specs, fork.algorithms)
        watch = _Watch(world, {self.leader_of[job] for job in self.wanted} & self._columns.keys())
        play(scheduler, watch, [watch.observe])
        self.events += watch.events
        at_once = dict.fromkeys(self.leader_of.keys() - self._columns.keys(), base.at)
        found = at_once | watch.dispatched
        return [found.get(self.leader_of[name], np.inf) for name in self.wanted]

    def _arrivals(self, number: int) -> Arrivals:
        if self._later is not None:
            later = drawn(self._later, self._later_times, self.seed, number, self.base.at)
            until = last_at(self._later, self.fork.rules, self.seed, number, self.base.at)
            return islice(takewhile(lambda one: one[0] <= until, later), MOST_LATER)
        if self.fork.load is None:
            return iter(())
        load, at = self.fork.load((self.seed << 20) + number), self.base.at
        base = self.base
        records = (*base.running, *base.waiting, *base.blocked)
        return to_come(load, at, {record.job.id for record in records})


class _Watch:
    """A world that ends when the last job of interest is dispatched."""

    def __init__(self, world: World, wanted: set[str]) -> None:
        self._world = world
        self._left = wanted
        self.dispatched: dict[str, float] = {}
        self._events_in_vain = 0
        self.events = 0

    def next_event(self) -> Event | None:
        """Return the next event while a job of interest waits and there are still dispatches.

        Otherwise builders that come and go would prevent an end when the rest can never run.
        """
        self._events_in_vain += 1
        if not self._left or self._events_in_vain > MAX_EVENTS_IN_VAIN:
            return None
        return self._world.next_event()

    def execute(self, command: Command) -> None:
        """Forward a command."""
        self._world.execute(command)

    def observe(self, event: Event, commands: Sequence[Command]) -> None:
        """Note first dispatches."""
        self.events += 1
        for command in commands:
            if type(command) is StartJob:
                self._events_in_vain = 0
            if type(command) is StartJob and command.job.id in self._left:
                self._left.discard(command.job.id)
                self.dispatched[command.job.id] = event.at
            elif type(command) is EndJob and command.job.id in self._left:
                self._left.discard(command.job.id)
                if command.served_by is not None:  # it joined an execution that was under way
                    joined = command.released_at or command.submitted_at
                    dispatched_at = command.dispatched_at or joined
                    self.dispatched[command.job.id] = max(joined, dispatched_at)


class _Frozen:
    """Estimates of the snapshot: a rollout's own draws are not learned."""

    learns = False

    def __init__(self, fork: Fork) -> None:
        self._estimator = fork.estimator or fork.run_times

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected run time in seconds."""
        return self._estimator.estimate(job, builder)

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Learn nothing."""


def no_truth(job: Job, service_time: float) -> Job:
    """Return the job as a rollout sees it: with a drawn service time, and not known to fail."""
    return msgspec.structs.replace(job, service_time=service_time, fails=False)


def _with_job(view: JobRecord, job: Job) -> JobRecord:
    return msgspec.structs.replace(view, job=job)


def to_come(load: Arrivals, at: float, live: Container[str]) -> Arrivals:
    """Yield the jobs of a load after an instant, by other ids than those of the snapshot.

    Needs and matrices that reach over the instant are those of a trace, whose jobs are in the
    snapshot by their own ids, if they are ``live``. What has ended counts as met: how it ended is
    not in the load.
    """
    names: dict[str, str] = {}
    begun: set[str | None] = {None}
    for when, jobs in load:
        if when <= at:
            names.update({job.id: job.id for job in jobs if job.id in live})
            begun.update(job.matrix for job in jobs)
        else:
            names.update({job.id: f"{job.id}~to-come" for job in jobs})
            yield when, tuple(_renamed(job, names, begun) for job in jobs)


def _renamed(job: Job, names: Mapping[str, str], begun: Container[str | None]) -> Job:
    kept = tuple(text for text in job.needs if need_of(text).job in names)
    return msgspec.structs.replace(
        job,
        id=names[job.id],
        needs=renamed(kept, names.__getitem__),
        matrix=job.matrix if job.matrix in begun else f"{job.matrix}~to-come",
    )


# --- several processes -------------------------------------------------------------------------


def _together(
    make: Callable[[], Fork],
    common: _Common,
    processes: int,
    on_rollout: Callable[[int], object],
) -> list[list[float]]:
    """Run the rollouts on several processes; the order is that of their numbers."""
    parts = (make, common.count, common.seed, common.wanted)
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin, parts) as pool:
        # small ones, so that it can be told how many are done, and Ctrl-C waits for few
        chunk = max(1, min(25, common.count // (processes * 4)))
        rows = []
        for row in pool.map(_play, range(common.count), chunksize=chunk):
            rows.append(row)
            on_rollout(len(rows))
        return rows


def _begin(make: Callable[[], Fork], count: int, seed: int, wanted: Sequence[str]) -> None:
    _Common.here = _Common(make(), count, seed, wanted)


def _play(number: int) -> list[float]:
    if _Common.here is None:
        raise RuntimeError("the process was not given a fork")
    return _Common.here.play(number)
