"""Rollouts: fork the farm into the simulation many times, and see when each job is dispatched.

A rollout draws the service time of every waiting job and the rest of every running one from a
distribution of run times and plays the snapshot forward under the farm's own rules. Jobs are drawn
from kind-level run times (they have no builder yet), running ones from those of their builder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property
from multiprocessing import get_context

import msgspec
import numpy as np

from farm.assembly import make_rules, pool_specs
from farm.core.commands import Command, StartJob
from farm.core.driver import World, drive
from farm.core.events import Event
from farm.core.model import Builder, Job, Outcome
from farm.core.restore import restored
from farm.core.snapshot import FarmSnapshot, JobRecord, snapshot_of
from farm.core.state import JobStatus
from farm.forecasts.runtime import RuntimeDistribution, make_estimator
from farm.scenario import Scenario, parse_scenario
from farm.sim.rollouts.draws import Floats, RunTimes, end_at, service_times, uniforms
from farm.sim.rollouts.fork import ForkedWorld, no_truth, pools_of, resized
from farm.sim.rollouts.queue_only import Lane, roll, slots_to_come
from farm.sim.world import Arrivals
from farm.workload import batches, build_jobs

#: jobs simulated in about a second by one process: from twice that on, several share the work
ENOUGH_FOR_ONE = 60_000
#: events without a dispatch after which the jobs that are left are given up
MOST_EVENTS_IN_VAIN = 20_000


class Rollouts(msgspec.Struct, frozen=True, eq=False, dict=True):
    """When each job of interest is dispatched, rollout by rollout.

    ``dispatch_at`` is farm time, a row per rollout and a column per job; infinity: not at all.
    """

    at: float
    jobs: tuple[str, ...]
    dispatch_at: Floats

    @property
    def waits(self) -> Floats:
        """Seconds from the snapshot's instant to the dispatch."""
        return self.dispatch_at - self.at

    @cached_property
    def _sorted(self) -> Floats:
        return np.sort(self.waits, axis=0)

    def wait_quantile(self, p: float) -> Floats:
        """Return, for each job, the p-quantile of its wait in seconds (type 7; may be infinite)."""
        rank = (len(self._sorted) - 1) * p
        low = int(rank)
        high = min(low + 1, len(self._sorted) - 1)
        below, above = self._sorted[low], self._sorted[high]
        share = rank - low
        if not share:
            return np.asarray(below)
        with np.errstate(invalid="ignore"):
            between = below + (above - below) * share
        return np.asarray(np.where(np.isfinite(above), between, above))

    @property
    def mean_wait(self) -> Floats:
        """For each job the mean of its wait, seconds."""
        mean: Floats = self.waits.mean(axis=0)
        return mean


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A farm to be rolled out: where it stands, by which rules it goes on, what is not known.

    ``snapshot`` is of the farm as it is; ``rekey`` says that the scenario's policy or keys are
    others than those it ran under until then.
    """

    snapshot: FarmSnapshot
    scenario: Scenario
    run_times: RunTimes
    rekey: bool = False
    #: the scenario's workload goes on after the snapshot; otherwise nothing more arrives
    arrivals: bool = False
    #: the run times are the truth itself: outcomes are known too
    truthful: bool = False


def rollouts(
    fork: Fork,
    *,
    count: int = 100,
    seed: int = 1,
    jobs: Sequence[str] | None = None,
    processes: int | None = None,
    fast: bool = True,
) -> Rollouts:
    """Roll the fork out ``count`` times and say when the jobs (None: all that wait) are dispatched.

    Each rollout ends when the last job of interest is dispatched. The same seed gives the same
    numbers whatever the number of processes. ``fast`` False plays the whole simulation also where
    the fast lane would give the same. Raises LookupError for a job that does not wait.
    """
    plan = _Plan(fork, count, seed, jobs)
    if fast and plan.is_simple:
        return Rollouts(fork.snapshot.at, plan.wanted, plan.roll_queues())
    work = count * (len(plan.waiting) + len(plan.attempts))
    processes = processes or min(os.cpu_count() or 1, max(1, work // ENOUGH_FOR_ONE))
    rows = _together(plan, processes) if processes > 1 else [plan.play(k) for k in range(count)]
    return Rollouts(fork.snapshot.at, plan.wanted, np.array(rows).reshape(count, -1))


class _Plan:
    """What all rollouts of a fork share."""

    def __init__(self, fork: Fork, count: int, seed: int, jobs: Sequence[str] | None) -> None:
        self.fork, self.count, self.seed = fork, count, seed
        self.rules = make_rules(fork.scenario)
        specs = pool_specs(fork.scenario)
        base = resized(fork.snapshot, specs)
        self.specs = pools_of(base, specs)
        if fork.rekey:
            known = restored(base, self.rules, _Frozen(fork.run_times), rekey=True)
            base = snapshot_of(known, base.at)
        self.base = base
        #: jobs that will be executed, without those that share another's execution
        self.waiting = [v for v in base.waiting if v.leader is None]
        self.attempts = [v for v in base.running if v.leader is None]
        self.leader_of = {v.job.id: v.leader or v.job.id for v in base.waiting}
        self.wanted = tuple(self.leader_of) if jobs is None else tuple(jobs)
        for name in self.wanted:
            if name not in self.leader_of:
                raise LookupError(name)
        names = [view.job.id for view in self.waiting]
        self._columns = {name: column for column, name in enumerate(names)}
        self._times = service_times(
            fork.run_times,
            [view.job for view in self.waiting],
            uniforms(seed, "service time", count, names),
            seed,
        )
        self._ends = self._draw_ends()

    def _draw_ends(self) -> Floats:
        fork, builders = self.fork, {v.builder.id: v.builder for v in self.base.builders}
        u = uniforms(self.seed, "remaining", self.count, [v.job.id for v in self.attempts])
        ends = np.empty_like(u)
        for column, view in enumerate(self.attempts):
            builder = builders[view.builder or ""]
            at = self.base.at
            if view.status is JobStatus.CANCELLING:
                ends[:, column] = at
                continue
            ends[:, column] = [
                end_at(fork.run_times, view, builder, share, at) for share in u[:, column].tolist()
            ]
        return ends

    # --- the fast lane ----------------------------------------------------------------------

    @property
    def is_simple(self) -> bool:
        """Whether nothing can happen but that slots come free and waiting jobs take them."""
        rules, fork = self.rules, self.fork
        plain = rules.path is None and not rules.by_speed and rules.heavy_light is None
        failing = rules.fail_fast and fork.truthful
        contended = any(spec.law is not None for spec in self.specs)
        return plain and not (fork.arrivals or failing or contended or self._has_spares)

    @property
    def _has_spares(self) -> bool:
        """Whether a builder that goes (when empty) may be replaced, or one boots in vain."""
        ends = any(v.retiring or v.retired for v in self.base.builders)
        above = {spec.name: spec.builders for spec in self.specs if not spec.provisioned}
        for view in self.base.builders:
            if view.builder.pool in above:
                above[view.builder.pool] -= 1
        for pool in self.base.pools:
            if pool.name in above:
                above[pool.name] -= len(pool.requested)
        return ends and any(missing >= 0 for missing in above.values())

    def roll_queues(self) -> Floats:
        """Return the dispatch instants of the jobs of interest: a row per rollout."""
        by_platform: dict[str, Lane] = {}
        for column, view in enumerate(self.waiting):
            platform = view.job.platform.normalised()
            lane = by_platform.setdefault(str(platform), Lane(platform, [], []))
            lane.columns.append(column)
            lane.keys.append(view.key)
        cleaning = {spec.name: spec.inter_job_time for spec in self.specs}
        lanes = list(by_platform.values())
        if len(lanes) == 1:
            lanes = [self._cut(lanes[0])]
        slots = slots_to_come(self.base, self.attempts, cleaning, self._booting())
        dispatched = roll(lanes, slots, self._ends, self._times)
        return dispatched[:, [self._columns[self.leader_of[name]] for name in self.wanted]]

    def _cut(self, lane: Lane) -> Lane:
        """Leave out the jobs behind the last one of interest: they do not matter to it."""
        last = max((self._columns[self.leader_of[name]] for name in self.wanted), default=-1)
        return Lane(lane.platform, lane.columns[: last + 1], lane.keys[: last + 1])

    def _booting(self) -> list[tuple[Builder, float]]:
        if not any(pool.requested for pool in self.base.pools):
            return []
        world = ForkedWorld(self.base, self.specs, iter(()), lambda *_: 0.0)
        return world.booting_builders()

    # --- the whole simulation ---------------------------------------------------------------

    def play(self, number: int) -> list[float]:
        """Play one rollout; return the dispatch instants of the jobs of interest."""
        times, ends = self._times[number].tolist(), self._ends[number].tolist()
        end_of = {v.job.id: end for v, end in zip(self.attempts, ends, strict=True)}
        base, truthful = self.base, self.fork.truthful
        drawn = {
            v.job.id: v.job if truthful else no_truth(v.job, time)
            for v, time in zip(self.waiting, times, strict=True)
        }
        plain = {v.job.id: v.job if truthful else no_truth(v.job, 0.0) for v in self.attempts}
        start = msgspec.structs.replace(
            base,
            waiting=tuple(_with_job(v, drawn.get(v.job.id, v.job)) for v in base.waiting),
            running=tuple(_with_job(v, plain.get(v.job.id, v.job)) for v in base.running),
        )
        scheduler = restored(start, self.rules, _Frozen(self.fork.run_times), pools=self.specs)
        world = ForkedWorld(
            start, self.specs, self._arrivals(number), lambda view, _: end_of[view.job.id]
        )
        watch = _Watch(world, {self.leader_of[name] for name in self.wanted})
        drive(scheduler, watch, watch.observe)
        return [watch.dispatched.get(self.leader_of[name], np.inf) for name in self.wanted]

    def _arrivals(self, number: int) -> Arrivals:
        if not self.fork.arrivals:
            return iter(())
        scenario, at = self.fork.scenario, self.base.at
        own = scenario.model_copy(update={"seed": (self.seed << 20) + number})
        return (
            (when, tuple(map(_renamed, jobs)))
            for when, jobs in batches(build_jobs(own))
            if when > at
        )


class _Watch:
    """A world that ends when the last job of interest is dispatched."""

    def __init__(self, world: World, wanted: set[str]) -> None:
        self._world = world
        self._left = wanted
        self.dispatched: dict[str, float] = {}
        self._events_in_vain = 0

    def next_event(self) -> Event | None:
        """Return the next event while a job of interest waits and anything is dispatched at all.

        Builders that come and go for ever, while the rest can never run, would not end otherwise.
        """
        self._events_in_vain += 1
        if not self._left or self._events_in_vain > MOST_EVENTS_IN_VAIN:
            return None
        return self._world.next_event()

    def execute(self, command: Command) -> None:
        """Carry a command out."""
        self._world.execute(command)

    def observe(self, event: Event, commands: Sequence[Command]) -> None:
        """Note first dispatches."""
        for command in commands:
            if type(command) is StartJob:
                self._events_in_vain = 0
            if type(command) is StartJob and command.job.id in self._left:
                self._left.discard(command.job.id)
                self.dispatched[command.job.id] = event.at


class _Frozen:
    """Estimates as they stand at the snapshot: a rollout's own draws teach nothing."""

    learns = False

    def __init__(self, run_times: RunTimes) -> None:
        self._run_times = run_times

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected run time in seconds."""
        return self._run_times.estimate(job, builder)

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Nothing is learned."""


def _with_job(view: JobRecord, job: Job) -> JobRecord:
    return msgspec.structs.replace(view, job=job)


def _renamed(job: Job) -> Job:
    """Keep the ids of jobs to come apart from those of the snapshot."""
    return msgspec.structs.replace(job, id=f"{job.id}~to-come")


# --- several processes -------------------------------------------------------------------------

_plan: _Plan | None = None


def _together(plan: _Plan, processes: int) -> list[list[float]]:
    """Play the rollouts on several processes; the order is that of their numbers."""
    fork = plan.fork
    if not isinstance(fork.run_times, RuntimeDistribution):
        return [plan.play(k) for k in range(plan.count)]
    parts = (
        msgspec.json.encode(fork.snapshot),
        fork.scenario.model_dump(mode="json", exclude_none=True),
        (fork.run_times.name, fork.run_times.dump()),
        {"rekey": fork.rekey, "arrivals": fork.arrivals, "truthful": fork.truthful},
        (plan.count, plan.seed, plan.wanted),
    )
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin, parts) as pool:
        chunk = max(1, plan.count // (processes * 4))
        return list(pool.map(_play, range(plan.count), chunksize=chunk))


def _begin(
    snapshot: bytes,
    scenario: Mapping[str, object],
    estimator: tuple[str, dict[str, object]],
    flags: dict[str, bool],
    what: tuple[int, int, tuple[str, ...]],
) -> None:
    global _plan  # noqa: PLW0603 - one plan a process, as the pool's initialiser has it
    name, statistics = estimator
    run_times = RuntimeDistribution(make_estimator(name))
    run_times.load(statistics)
    fork = Fork(
        snapshot=msgspec.json.decode(snapshot, type=FarmSnapshot),
        scenario=parse_scenario(scenario),
        run_times=run_times,
        **flags,
    )
    count, seed, wanted = what
    _plan = _Plan(fork, count, seed, wanted)


def _play(number: int) -> list[float]:
    if _plan is None:
        raise RuntimeError("the process was not given a plan")
    return _plan.play(number)
