"""Pools as arrays, and the run of a load on them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.contention.laws import ContentionLaw, Load
from farm.core.dispatching.balancers import RANKINGS
from farm.core.errors import InputError
from farm.core.jobs.failure_judgement import NO_LIMIT
from farm.core.model import Platform
from farm.core.pools.spec import PoolSpec
from farm.core.rules import HeavyLightOptions, SchedulingRules
from farm.sim.fast.job_arrays import JobArrays
from farm.sim.fast.kernel import generators, layout, native
from farm.sim.fast.kernel.heaps import Array, Keyed, keyed
from farm.sim.fast.needed_jobs import Needs
from farm.sim.setting import Setting
from farm.sim.too_large import LIVES_ALLOWED
from farm.workload.streams import ByNumber

if TYPE_CHECKING:
    from farm.sim.fast.provisioners import Asking

T = TypeVar("T")

Kinds = Mapping[tuple[tuple[str, ...], bool], int]
"""Groups of builders by (processors, virtualized), numbered."""
Watch = Callable[[float, int, int], None]
"""Told of a run under way: farm time (s), and how many jobs have ended and events happened."""

#: real seconds between two looks at a run under way
LOOK_EVERY = 0.2

#: notes of a job (submitted, dispatched, started, finished, ended, cleaned)
NOTES_OF_A_JOB = 6


class PlayedFarm(msgspec.Struct):
    """A finished run: its values, and its jobs and pools."""

    farm: layout.Farm
    load: JobArrays
    pools: Sequence[PoolSpec]
    rules: SchedulingRules


def play(
    load: JobArrays, setting: Setting, *, noted: bool = False, watch: Watch | None = None
) -> PlayedFarm | None:
    """Run a load on a farm, once; None: it reaches a state that only the reference covers.

    ``why_not`` has found nothing against it. ``noted``: the events will be needed. ``watch`` is
    called every ``LOOK_EVERY`` real seconds, and the run can then be interrupted.
    """
    run = begun(load, setting, noted=noted)
    halt = run.to_halt() if watch is None else looked(in_thread(run), run, watch)
    done = halt == layout.PLAYED
    return PlayedFarm(run.farm, load, setting.pools, setting.rules) if done else None


def begun(load: JobArrays, setting: Setting, *, noted: bool = False) -> Playing:
    """Return a load on a farm, to be played."""
    farm = _farm(load, setting, noted=noted)
    asking: list[Asking | None] = [None] * len(setting.pools)
    if setting.algorithms:
        # only here: farms without an autoscaler start sooner without it
        from farm.sim.fast.provisioners import Asking, with_algorithms  # noqa: PLC0415

        farm = with_algorithms(farm, setting)
        asking = [
            Asking(number, pool, setting.algorithms[pool.name]) if pool.provisioned else None
            for number, pool in enumerate(setting.pools)
        ]
    return Playing(farm, setting.pools, asking)


def farms_after(loads: Sequence[JobArrays], setting: Setting) -> Iterator[layout.Farm | None]:
    """Run loads with the same platforms, each on a separate farm; yield it, or None, as ``play``.

    The next run overwrites it, but for its load.
    """
    pools = setting.pools
    if setting.algorithms:
        for load in loads:
            run = begun(load, setting)
            yield run.farm if run.to_halt() == layout.PLAYED else None
        return
    most = max(loads, key=lambda load: len(load.columns))
    farm, kinds = _farm(most, setting), numbered_kinds(pools)
    call, written = native.Call("play", farm), _bytes([getattr(farm, name) for name in _WRITTEN])
    before = [array.copy() for array in written]
    for load in loads:
        for array, empty in zip(written, before, strict=True):
            array[:] = empty
        farm.lanes[:] = lanes_of(load, farm.serves, pools, kinds)
        changed = {
            "jobs": load.columns,
            "in_order": load.in_order,
            "batches": load.batches,
            "fails": load.fails,
        }
        for name, array in changed.items():
            call.put(farm._fields.index(name), array)  # no tuple of arrays precedes them
        run = Playing(farm._replace(**changed), pools, [None] * len(pools), call)
        yield run.farm if run.to_halt() == layout.PLAYED else None


def _bytes(part: Any) -> list[Array]:
    """Return arrays, in tuples, as bytes: NumPy copies records field by field."""
    if isinstance(part, np.ndarray):
        return [part.reshape(-1).view(np.uint8)]
    return [array for one in part for array in _bytes(one)]


@dataclass
class Playing:
    """A load on a farm, being played: the farm is another one once it needed more room."""

    farm: layout.Farm
    pools: Sequence[PoolSpec]
    #: by pool; None: it is not provisioned
    asking: Sequence[Asking | None]
    #: plays it, if that is known
    call: native.Call | None = None

    def to_halt(self) -> int:
        """Play it to the end, to where more jobs are needed, or to what is not covered."""
        call = self.call or native.Call("play", self.farm)
        while True:
            halt, number = call(), int(self.farm.counts["asked"][0])
            if halt == layout.FULL and not _goes_nowhere(self.farm):
                self.farm = _with_more_room(self.farm, self.pools)
                call = native.Call("play", self.farm)
            elif halt == layout.ASKS and (asked := self.asking[number]) is not None:
                asked.answer(self.farm)
            else:
                return halt


def in_thread(run: Playing) -> Future[int]:
    """Play a run in a thread, to its halt."""
    halt: Future[int] = Future()

    def play_there() -> None:
        try:
            halt.set_result(run.to_halt())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
            halt.set_exception(error)

    # daemon: where this thread is interrupted, the process ends without the other
    Thread(target=play_there, daemon=True).start()
    return halt


def looked(halt: Future[int], run: Playing, watch: Watch, ended: int = 0) -> int:
    """Return the halt of a run in a thread, looking at the arrays that the compiled loop writes.

    ``ended``: jobs that it no longer counts.
    """
    done = False
    while not done:
        done = bool(wait([halt], LOOK_EVERY).done)
        at, counts = float(run.farm.instants["now"][0]), run.farm.counts[0]
        watch(at, ended + int(counts["ended"]), int(counts["events"]))
    return halt.result()


def ends_of_each(
    loads: Sequence[JobArrays], pools: Sequence[PoolSpec], rules: SchedulingRules
) -> Array:
    """Run loads of one size, in batches of the same instants, each on a separate farm.

    No builder may come or go. Returns the instant at which each job ends (s), by load and job;
    without the interpreter lock. Raises InputError if jobs can never run.
    """
    farm = _copy(_farm(loads[0], Setting(pools, rules)))
    farm.counts["gives_up"] = False
    columns = np.array([load.columns for load in loads])
    orders = np.array([load.in_order for load in loads])
    ends = np.empty(columns.shape)
    run = native.Call("play_each", farm, _copy(farm), columns, orders, ends)
    if run() != layout.PLAYED:
        raise InputError("found jobs that no builder can run; allowed: none")
    return ends


def _copy(part: Any) -> Any:
    return part.copy() if isinstance(part, np.ndarray) else type(part)(*map(_copy, part))


def _farm(load: JobArrays, setting: Setting, *, noted: bool = False) -> layout.Farm:
    pools, rules, _, ends_at = setting
    jobs = len(load.columns)
    ranking = layout.LONGEST_IDLE if rules.ranking is RANKINGS["longest-idle"] else layout.JENKINS
    grace, resets = rules.platform_grace, rules.max_resets
    limits = (
        ranking,
        rules.retries,
        rules.max_builders_lost,
        ends_at,
        -1.0 if grace is None else grace,
        NO_LIMIT if resets is None else resets,
        *_held_back(rules.heavy_light),
        0.0 if load.needs is None else load.needs.ageing,
    )
    site = _Site(tuple(pools), tuple(load.platforms), limits)
    small = sum(pool.builders * pool.slots for pool in pools) <= MOST_KEPT
    empty = _kept(site) if small else _empty(site)
    kinds = numbered_kinds(pools)
    farm = empty._replace(
        jobs=load.columns,
        in_order=load.in_order,
        batches=load.batches,
        estimates=load.estimates,
        fails=load.fails,
        lanes=lanes_of(load, empty.serves, pools, kinds),
        queue=np.empty(jobs, np.int32),
        ended=np.empty(jobs, np.int32),
        **{name: _copy(getattr(empty, name)) for name in _WRITTEN if small},
    )
    if load.needs is not None:
        farm = _with_needs(farm, load.needs)
    if noted:
        blank = farm._replace(notes=np.zeros(1, layout.NOTE), plans=np.zeros(1, layout.PLAN))
        farm = _with_room(blank, pools, len(farm.builders))
    return farm


def _with_needs(farm: layout.Farm, needs: Needs) -> layout.Farm:
    """Return the farm with jobs that need others."""
    jobs = len(farm.jobs)
    delayed = int(np.count_nonzero(needs.blocking["delay"]))
    return farm._replace(
        queue=np.empty(0, np.int32),
        line=np.empty(jobs, layout.WAITER),
        needs=needs.needs,
        blocking=needs.blocking,
        dependents=needs.dependents,
        news=np.empty(jobs, np.int32),
        due=keyed(jobs if delayed else 0, 1),
        alarms=np.zeros(len(farm.alarms) + delayed),
    )


def _held_back(options: HeavyLightOptions | None) -> tuple[float, ...]:
    """Return by which load builders are held free of heavy jobs, the limits, and how long."""
    if options is None:
        return layout.NO_LOAD, 0.0, 0.0, 0.0
    from farm.core.dispatching.heavy_light import (  # noqa: PLC0415 - few farms have this balancer
        heavy_share,
    )

    load = layout.HEAVY_SHARE if options.measure is heavy_share else layout.SLOWDOWN
    limits = options.limits
    return load, limits.overloaded_at, limits.room_at, options.hold_at_most


#: slots of a farm that is kept for the next run on the same pools
MOST_KEPT = 10_000
_WRITTEN = (
    "pool_counts",
    "answers",
    "looks",
    "fates",
    "builders",
    "slots",
    "free",
    "timers",
    "agenda",
    "alarms",
    "counts",
    "instants",
    "soon",
    "void",
)
"""The arrays of a farm without jobs that a run writes into."""


@dataclass(frozen=True)
class _Site:
    """What a farm is made for, apart from its jobs and algorithms."""

    pools: tuple[PoolSpec, ...]
    platforms: tuple[Platform, ...]
    limits: tuple[float, ...]

    def __hash__(self) -> int:
        return hash(self.limits)  # pools may have dicts


def _empty(site: _Site) -> layout.Farm:
    """Return a farm without jobs."""
    pools = site.pools
    kinds = numbered_kinds(pools)
    most_slots = max((pool.slots for pool in pools), default=1)
    losses = sorted((at, n) for n, pool in enumerate(pools) for at in pool.lost_at if at > 0)
    comes = any(pool.provisioned or pool.loses for pool in pools)
    room = sum(pool.builders for pool in pools) + (64 if comes else 2)
    counts = np.zeros(1, layout.COUNTS)
    counts["slots_each"], counts["next_tick"], counts["gives_up"] = most_slots, -1, True
    farm = layout.Farm(
        jobs=np.zeros(0, layout.JOB),
        in_order=np.zeros(0, np.int32),
        batches=np.zeros(1, np.int32),
        estimates=np.zeros(0),
        fails=np.zeros(0, np.bool_),
        pools=_pool_columns(pools, kinds),
        pool_counts=np.zeros(len(pools), layout.POOL_COUNTS),
        provisioners=np.zeros(len(pools), layout.PROVISIONER),
        answers=np.zeros(len(pools), layout.ANSWER),
        options=np.zeros(len(pools), layout.OPTIONS),
        memories=np.zeros(len(pools), layout.MEMORY),
        looks=np.zeros(len(pools), layout.LOOK),
        samples=np.zeros(0, layout.SAMPLE),
        numbers=np.zeros(0),
        fates=np.zeros((len(pools), 0), layout.FATE),
        losses=np.array(losses, layout.LOSS),
        builders=np.zeros(0, layout.BUILDER),
        slots=np.zeros(0, layout.SLOT),
        lanes=np.zeros(0, layout.LANE),
        queue=np.empty(0, np.int32),
        line=np.empty(0, layout.WAITER),
        needs=np.empty(0, layout.NEED),
        blocking=np.empty(0, layout.BLOCKING),
        dependents=np.empty(0, np.int32),
        news=np.empty(0, np.int32),
        due=keyed(0, 1),
        serves=served(site.platforms, kinds),
        slowdown=_slowdowns(_laws(pools), most_slots),
        free=keyed(0, len(kinds)),
        timers=keyed(0, 1),
        agenda=keyed(0, 1),
        alarms=np.zeros(2 * len(pools) + 16),
        counts=counts,
        instants=np.array([(0.0, 0.0, np.inf, 0.0)], layout.INSTANTS),
        rules=np.array([site.limits], layout.RULES),
        soon=np.zeros(0, layout.SOON),
        ended=np.empty(0, np.int32),
        void=np.zeros(0, layout.VOID_ATTEMPT),
        notes=np.zeros(0, layout.NOTE),
        plans=np.zeros(0, layout.PLAN),
    )
    return _with_room(farm, pools, room)


_kept = lru_cache(maxsize=4)(_empty)


# --- room: builders are made, and notes taken, until the arrays are full -------------------------

#: builders for which room is made at a time; a quarter of those that are there, if that is more
MAX_MORE_BUILDERS = 1 << 13
#: builders from which on what is drawn for each is drawn at once
MIN_TOGETHER = 64


def _with_more_room(farm: layout.Farm, pools: Sequence[PoolSpec]) -> layout.Farm:
    """Return the farm with room for the next builders and notes."""
    wanted = int(farm.counts["made"][0]) + int(farm.answers["start"].max(initial=0)) + 2
    builders = len(farm.builders)
    if wanted >= builders:
        # not many more than are wanted: the fate of each may have to be drawn
        builders = wanted + min(3 * wanted, max(MAX_MORE_BUILDERS, wanted // 4))
    return _with_room(farm, pools, builders)


def _with_room(farm: layout.Farm, pools: Sequence[PoolSpec], builders: int) -> layout.Farm:
    """Return the farm with room for this many builders, and for more of everything else."""
    most_slots = max((pool.slots for pool in pools), default=1)
    counts, each = farm.counts, most_slots + 4
    things = layout.LIVES + builders * (most_slots + 2)
    made = farm._replace(
        fates=_fates(farm.fates, pools, builders),
        builders=_longer(farm.builders, builders, _UNBORN),
        slots=_longer(farm.slots, builders * most_slots, _FREE),
        free=_roomier(farm.free, builders),
        timers=_roomier(farm.timers, builders),
        agenda=_roomier(farm.agenda, things),
        soon=_longer(farm.soon[: int(counts["soon_last"][0])], builders * each + 8),
        void=_longer(farm.void, 2 * int(counts["void"][0]) + each + 8),
    )
    if not len(farm.notes):
        return made
    notes = 2 * (int(counts["noted"][0]) + each * (builders + 8))
    notes += NOTES_OF_A_JOB * len(farm.jobs)
    plans = 2 * int(counts["plans"][0]) + 1024
    return made._replace(notes=_longer(farm.notes, notes), plans=_longer(farm.plans, plans))


_UNBORN = {"joined_at": np.nan, "gone_at": np.nan, "seen_at": -np.inf}
_FREE = {"job": layout.FREE}


def _longer(array: Array, length: int, blank: Mapping[str, float] | None = None) -> Array:
    """Return the array with more elements at its end: 0, and in ``blank`` fields something else."""
    made = np.zeros(length, array.dtype)
    (to,), (old,) = _bytes(made), _bytes(array)
    to[: len(old)] = old
    for name, value in (blank or {}).items():
        made[name][len(array) :] = value
    return made


def _roomier(heaps: Keyed, things: int) -> Keyed:
    """Return heaps with room for more entries."""
    made = keyed(things, len(heaps.heaps))
    made.places[: len(heaps.places)] = heaps.places
    for old, new in zip(heaps.heaps, made.heaps, strict=True):
        count = old["count"]
        new["count"] = count
        made.entries[new["begin"] :][:count] = heaps.entries[old["begin"] :][:count]
    return made


def _fates(before: Array, pools: Sequence[PoolSpec], numbers: int) -> Array:
    """Return the fates of each pool's builders up to a number; known ones are kept."""
    made = np.zeros((len(pools), numbers + 1), layout.FATE)
    made["takes_jobs"], made["lifetime"] = True, np.nan
    known = before.shape[1]
    made[:, :known] = before
    for row, pool in zip(made, pools, strict=True):
        new = range(max(1, known), numbers + 1)
        if pool.fails_to_boot is not None:
            row["takes_jobs"][new.start :] = np.logical_not(_drawn(pool.fails_to_boot, new))
        if pool.lifetime is not None:
            row["lifetime"][new.start :] = _drawn(pool.lifetime, new)
        if pool.boot_delay is not None:
            row["boot_delay"][new.start :] = _drawn(pool.boot_delay, new)
    return made


def _drawn(property_of: Callable[[int], T], numbers: range) -> list[T]:
    """Return a property of the builders of these numbers."""
    if isinstance(property_of, ByNumber) and len(numbers) >= MIN_TOGETHER:
        property_of.know(numbers[-1], first_numbers)
    return [property_of(number) for number in numbers]


def first_numbers(seeds: bytes) -> Floats:
    """Return the first number of each stream that is seeded by one of these digests."""
    keys = np.frombuffer(seeds, ">u4").reshape(-1, generators.KEY_WORDS)[:, ::-1]
    count = len(keys)
    whole = -(-count // generators.LANES) * generators.LANES
    rows = np.zeros((whole, generators.KEY_WORDS), np.int64)
    rows[:count] = keys
    numbers = np.empty(whole)
    state = np.empty(generators.WORDS * generators.LANES, np.int64)
    native.Call("first_numbers", rows, _initial_state(), state, numbers)()
    for place in np.flatnonzero(rows[:count, -1] == 0).tolist():
        # one in four billion has fewer words
        key = int.from_bytes(seeds[32 * place : 32 * (place + 1)], "big")
        numbers[place] = random.Random(key).random()  # noqa: S311 - as a stream is made
    return numbers[:count]


@cache
def _initial_state() -> Array:
    """Return the state that keys are mixed into (``init_genrand``)."""
    words = [19650218]
    for place in range(1, generators.WORDS):
        word = 1812433253 * (words[-1] ^ words[-1] >> 30) + place
        words.append(word & generators.MASK)
    return np.array(words, np.int64)


def _goes_nowhere(farm: layout.Farm) -> bool:
    """Return whether builders come and go at one instant: the reference reports it, with advice."""
    gone = farm.builders["gone_at"] == farm.instants["now"][0]
    return int(np.count_nonzero(gone & (farm.builders["used"] == 0))) > LIVES_ALLOWED


# --- the farm as arrays --------------------------------------------------------------------------


_AS_SPECIFIED = (
    "slots",
    "speed",
    "boot_time",
    "pickup_time",
    "inter_job_time",
    "shutdown_time",
)


def _pool_columns(pools: Sequence[PoolSpec], kinds: Kinds) -> Array:
    made = np.zeros(len(pools), layout.POOL)
    laws = _laws(pools)
    for row, pool in zip(made, pools, strict=True):
        for name in _AS_SPECIFIED:
            row[name] = getattr(pool, name)
        row["provisioned"] = pool.provisioned
        row["uses"] = pool.uses or 0
        row["kept_at"] = pool.builders
        row["group"] = kinds[pool.processors, pool.virtualized]
        row["law"] = -1 if pool.law is None else laws.index(pool.law)
        row["idle_timeout"] = np.nan if pool.idle_timeout is None else pool.idle_timeout
    return made


def _laws(pools: Sequence[PoolSpec]) -> tuple[ContentionLaw, ...]:
    return tuple([pool.law for pool in pools if pool.law is not None])


@lru_cache(maxsize=64)
def _slowdowns(laws: tuple[ContentionLaw, ...], slots: int) -> Array:
    """Return each law as a table, by the numbers of heavy and of memory-heavy jobs."""
    counts = range(slots + 1)
    tables = [
        [[law.slowdown(Load(slots, heavy, memory)) for memory in counts] for heavy in counts]
        for law in laws
    ]
    return np.array(tables).reshape(len(laws), slots + 1, slots + 1)


def numbered_kinds(pools: Sequence[PoolSpec]) -> Kinds:
    """Number the groups of builders, in the order in which they appear."""
    kinds = dict.fromkeys((pool.processors, pool.virtualized) for pool in pools)
    return {kind: number for number, kind in enumerate(kinds)}


def served(platforms: Sequence[Platform], kinds: Kinds) -> Array:
    """Return, by group of builders and by platform, which may run the jobs of which."""
    made = np.zeros((len(kinds), len(platforms)), np.bool_)
    for (processors, virtualized), group in kinds.items():
        made[group] = [one.runs_on(processors, virtualized=virtualized) for one in platforms]
    return made


def lanes_of(load: JobArrays, serves: Array, pools: Sequence[PoolSpec], kinds: Kinds) -> Array:
    """Give each lane room in the queue for all of its jobs."""
    lanes = serves.shape[1]
    made = np.zeros(lanes, layout.LANE)
    counts = np.bincount(load.columns["lane"], minlength=lanes)
    made["heavy"], made["held_since"] = load.heavy_lanes, np.nan
    made["passed_over"] = load.heavy_lanes.any()
    made["begin"], made["since"] = np.cumsum(counts) - counts, np.inf
    for pool in pools:
        if pool.provisioned or pool.loses:
            made["hopeful"] |= serves[kinds[pool.processors, pool.virtualized]]
    return made
