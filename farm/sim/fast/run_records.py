"""From compiled runs to the reference's records: of one, or of several in the same tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from farm.columns import Coded, in_order_of_appearance
from farm.core.commands import EndJob
from farm.core.jobs.giving_up import why_given_up, why_unserved
from farm.core.jobs.needs import UNKNOWN, Ended, needs_of, why_skipped
from farm.core.model import Builder, Cause, Outcome
from farm.emulation.losses import AS_PLANNED, LIFETIME_OVER
from farm.results.table.builder_columns import ENDS, Attempts, Builders
from farm.results.table.job_columns import CAUSES, OUTCOMES, Edges, Jobs
from farm.results.table.recorder import RunRecords, lost
from farm.results.table.runs import Runs
from farm.sim.fast.job_arrays import JobArrays, taken
from farm.sim.fast.kernel import layout
from farm.sim.fast.kernel.heaps import Array
from farm.sim.fast.needed_jobs import Needs
from farm.sim.fast.play import PlayedFarm, farms_after
from farm.sim.setting import Setting
from farm.workload.blocks import JobColumns

_FINISHED, _FAILED = CAUSES.index(Cause.FINISHED), CAUSES.index(Cause.FAILED)
_HOW_ENDED: dict[int, tuple[Cause, Outcome]] = {
    0: (Cause.FINISHED, "succeeded"),
    layout.ENDS_WELL: (Cause.FINISHED, "succeeded"),
    layout.ENDS_LOST: (Cause.LOST, "failed"),
    layout.ENDS_POISONOUS: (Cause.POISONOUS, "failed"),
    layout.ENDS_BLAMED: (Cause.FAILED, "failed"),
    layout.ENDS_UNSERVED: (Cause.UNRUNNABLE, "failed"),
    layout.ENDS_GIVEN_UP: (Cause.UNRUNNABLE, "cancelled"),
    layout.ENDS_SKIPPED: (Cause.SKIPPED, "cancelled"),
}
"""By how a job ended (``layout.ENDS_…``), unless its attempt failed: as in its record."""
_CAUSES = np.array([CAUSES.index(cause) for cause, _ in _HOW_ENDED.values()], np.int8)
_OUTCOMES = np.array([OUTCOMES.index(outcome) for _, outcome in _HOW_ENDED.values()], np.int8)
_REASONS = {layout.BY_LIFETIME: LIFETIME_OVER, layout.AS_PLANNED: AS_PLANNED}


def records(played: PlayedFarm) -> RunRecords:
    """Return a recorder's records."""
    farm, load = played.farm, played.load
    left = np.flatnonzero(farm.jobs["ended"] == 0)
    endless = [
        EndJob(load.jobs[n], "cancelled", 0, float(farm.jobs["submitted_at"][n]), math.nan)
        for n in left.tolist()
    ]
    names = names_of(played)
    return RunRecords(
        jobs=jobs_of(load, farm, _ended(played), names),
        lost=lost(
            endless,
            builder=Coded(np.full(len(left), -1), ()),
            has_needs=load.needs is not None,
        ),
        builders=builders_table(played, names),
        void=_void(played, names),
        events=int(farm.counts["events"][0]),
        last_at=float(farm.instants["last_event"][0]),
        rows=(_ended(played), left) if isinstance(load.jobs, JobColumns) else None,
        edges=None if load.needs is None else _edges(load.needs, np.append(_ended(played), left)),
    )


def _edges(needs: Needs, jobs: Array) -> Edges:
    """Return needs by the rows of a table whose jobs are these."""
    row = np.empty(len(jobs), np.int64)
    row[jobs] = np.arange(len(jobs))
    known = needs.needs["job"] >= 0
    dependent, need = row[needs.needs["of"][known]], row[needs.needs["job"][known]]
    order = np.argsort(dependent, kind="stable")
    return Edges(dependent[order], need[order])


def play_together(
    whole: JobArrays, loads: Sequence[JobArrays], setting: Setting, seeds: Sequence[int]
) -> Runs | None:
    """Run loads, pieces of a whole, each on a separate farm as ``play`` does.

    Their builders are numbered on from run to run.
    None: one of them reaches a state that only the reference covers, or leaves a job open.
    """
    ended, builders, voids, counted, last_at = [], [], [], [], []
    farms = farms_after(loads, setting)
    for load, farm in zip(loads, farms, strict=True):
        if farm is None or farm.counts["ended"][0] < len(load.columns):
            return None
        last = farm
        ended.append(farm.ended[: len(load.columns)].copy())
        # as bytes: NumPy compares all fields of what it concatenates
        counted.append(farm.counts.tobytes())
        builders.append(farm.builders[: farm.counts["made"][0]].tobytes())
        voids.append(farm.void[: farm.counts["void"][0]].tobytes())
        last_at.append(float(farm.instants["last_event"][0]))
    sizes, every = [len(load.columns) for load in loads], _gathered(counted, layout.COUNTS)
    made, void = every["made"], _gathered(voids, layout.VOID_ATTEMPT)
    first_job, first_builder = np.cumsum([0, *sizes[:-1]]), np.cumsum([0, *made[:-1]])
    whole.columns["builder"] += np.repeat(first_builder, sizes).astype(np.int32)
    of_void = np.repeat(np.arange(len(loads)), every["void"])
    void["job"] += first_job[of_void].astype(np.int32)
    void["builder"] += first_builder[of_void].astype(np.int32)
    counts = every[:1].copy()
    for name in ("ended", "made", "void", "events"):
        counts[name] = every[name].sum()
    farm = last._replace(
        jobs=whole.columns,
        ended=np.concatenate(ended) + np.repeat(first_job, sizes).astype(np.int32),
        builders=_gathered(builders, layout.BUILDER),
        void=void,
        counts=counts,
    )
    found = records(PlayedFarm(farm, whole, setting.pools, setting.rules))
    of_builder = np.append(np.repeat(np.arange(len(loads)), made), 0)
    return Runs(found, seeds, np.array(last_at), of_builder)


def _gathered(parts: Sequence[bytes], dtype: np.dtype[np.void]) -> Array:
    return np.frombuffer(bytearray().join(parts), dtype)


def jobs_of(load: JobArrays, farm: layout.Farm, ended: Array, names: Sequence[str]) -> Jobs:
    """Return how each of the jobs that ended did, in the order of ending."""
    jobs, columns = load.jobs, farm.jobs  # not the load: its columns are let go

    def of(name: str) -> Any:
        return columns[name][ended]

    how, fails = of("ended"), load.fails[ended]
    cause, outcome = _CAUSES[how], _OUTCOMES[how]
    fails &= cause == _FINISHED
    cause[fails], outcome[fails] = _FAILED, OUTCOMES.index("failed")
    builder, slot = of("builder"), of("slot")
    waited = how >= layout.ENDS_UNSERVED
    if waited.any():
        builder[waited], slot[waited] = -1, -1
    submitted_at = of("submitted_at")
    needs_others = np.broadcast_to(np.False_, len(ended))
    release = np.broadcast_to(np.nan, len(ended))
    if load.needs is not None:
        needs_others = load.needs.has_needs[ended]
        release = farm.blocking["released_at"][ended]
    return Jobs(
        len(ended),
        lambda column: taken(jobs, column, ended),
        submitted_at=submitted_at,
        arrived_at=submitted_at,
        dispatched_at=of("dispatched_at"),
        started_at=started_at_of(farm, ended),
        finished_at=of("finished_at"),
        work=of("work"),
        attempts=of("attempts").astype(np.int64),
        outcome=Coded(outcome, OUTCOMES),
        cause=Coded(cause, CAUSES),
        slot=slot,
        shared=np.broadcast_to(np.False_, len(ended)),
        needs_others=needs_others,
        release=release,
        has_needs=load.needs is not None,
        builder=Coded(builder, names),
    )


def started_at_of(farm: layout.Farm, jobs: Array | slice) -> Array:
    """Return when the last attempt of each of these jobs started (s); nan: it did not.

    A builder picks a job up some time after its dispatch, which is the same for all of its pool.
    """
    at, started = farm.jobs["dispatched_at"][jobs], farm.jobs["started"][jobs]
    pickup_times = farm.pools["pickup_time"]
    if pickup_times.any():
        at = at + pickup_times[farm.builders["pool"][farm.jobs["builder"][jobs]]]
    return at if started.all() else np.where(started, at, np.nan)


def builders_table(played: PlayedFarm, names: Sequence[str]) -> Builders:
    """Return the lives of the builders."""
    made = _made(played)
    pools = played.farm.pools[made["pool"]]
    pool, found = in_order_of_appearance(made["pool"])
    return Builders(
        len(made),
        builder=Coded(np.arange(len(made)), names),
        pool=Coded(pool, [played.pools[number].name for number in found.tolist()]),
        slots=pools["slots"],
        speed=pools["speed"],
        requested_at=made["requested_at"],
        joined_at=made["joined_at"],
        gone_at=made["gone_at"],
        end=Coded(made["end"] - layout.HAS_RETIRED, ENDS),
    )


def _void(played: PlayedFarm, names: Sequence[str]) -> Attempts:
    ended, void = _ended(played), played.farm.void[: played.farm.counts["void"][0]]
    rows = np.full(len(played.farm.jobs) if len(void) else 0, -1)
    if len(void):
        rows[ended] = np.arange(len(ended))
    return Attempts(
        len(void),
        builder=Coded(void["builder"], names),
        row=rows[void["job"]],
        dispatched_at=void["dispatched_at"],
        ended_at=void["ended_at"],
    )


def _ended(played: PlayedFarm) -> Array:
    return played.farm.ended[: played.farm.counts["ended"][0]]


def _made(played: PlayedFarm) -> Array:
    return played.farm.builders[: played.farm.counts["made"][0]]


class _BuilderNames(Sequence[str]):
    """The name of each builder that was requested, made when the first is asked for.

    A week of a planned pool has tens of thousands of builders, and its summary names none.
    """

    def __init__(self, played: PlayedFarm) -> None:
        made = _made(played)
        self._pool_of_each = made["pool"].copy()
        self._number_of_each = made["number"].copy()
        self._pools = [pool.name for pool in played.pools]

    @cached_property
    def _names(self) -> list[str]:
        places = zip(self._pool_of_each.tolist(), self._number_of_each.tolist(), strict=True)
        return [f"{self._pools[pool]}-{number}" for pool, number in places]

    def __len__(self) -> int:
        return len(self._pool_of_each)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        return self._names[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)


def names_of(played: PlayedFarm) -> Sequence[str]:
    """Return the name of each builder that was requested."""
    return _BuilderNames(played)


def builders_of(played: PlayedFarm) -> list[Builder]:
    """Return every builder that was requested, in the order of request."""
    rows = _made(played)[["pool", "number"]].tolist()
    return [
        played.pools[pool].builder(number, index) for index, (pool, number) in enumerate(rows, 1)
    ]


def reasons_of(played: PlayedFarm) -> list[str]:
    """Return why each builder was lost; empty: it was not."""
    return [_REASONS.get(reason, "") for reason in _made(played)["reason"].tolist()]


def ends_of(played: PlayedFarm, ended: Array) -> Iterator[EndJob]:
    """Yield how these jobs ended, by their numbers, if not with a success or unjudged failure.

    Where a job was to blame for its failures, the reason is in the notes alone.
    """
    rules = played.rules
    farm, jobs, names, reasons = played.farm, played.load.jobs, names_of(played), reasons_of(played)
    estimates = played.load.estimates[ended].tolist()
    fields = ["submitted_at", "finished_at", "dispatched_at", "builder", "slot", "attempts"]
    jobs_rows = farm.jobs[[*fields, "ended", "losses"]][ended].tolist()
    started = started_at_of(farm, ended).tolist()
    lost_under, pools = _lost_under(played), _made(played)["pool"].tolist()
    rows = zip(ended.tolist(), estimates, started, jobs_rows, strict=True)
    for number, estimate, started_at, row in rows:
        submitted_at, finished_at, at, builder, slot, attempts, how, losses = row
        cause, outcome = _HOW_ENDED[how]
        reason = ""
        if how in (layout.ENDS_LOST, layout.ENDS_POISONOUS):
            poisonous = how == layout.ENDS_POISONOUS
            under = [names[one] for one in (*lost_under[number], builder)] if poisonous else ()
            reason = why_given_up(reasons[builder], losses, rules.retries, under)
        elif how == layout.ENDS_UNSERVED and rules.platform_grace is not None:
            platform = played.load.platforms[farm.jobs["lane"][number]]
            reason = why_unserved(platform, rules.platform_grace)
        elif how == layout.ENDS_GIVEN_UP:
            reason = cause.text
        elif how == layout.ENDS_SKIPPED and played.load.needs is not None:
            reason = _why_skipped(played, number)
        ran = how < layout.ENDS_UNSERVED
        yield EndJob(
            jobs[number],
            outcome,
            attempts,
            submitted_at,
            finished_at,
            None if math.isnan(at) else at,
            None if math.isnan(started_at) else started_at,
            names[builder] if ran else None,
            slot if ran else None,
            reason,
            estimate,
            None,
            released_at_of(farm, number),
            cause,
            played.pools[pools[builder]].name if ran else None,
        )


def released_at_of(farm: layout.Farm, number: int) -> float | None:
    """Return when a job was released (s); None: it was not, or was never blocked."""
    if not len(farm.blocking):
        return None
    released_at = float(farm.blocking["released_at"][number])
    return None if math.isnan(released_at) else released_at


def _why_skipped(played: PlayedFarm, number: int) -> str:
    """Return why a job was skipped: by the need that was broken, or as nothing failed."""
    farm, job = played.farm, played.load.jobs[number]
    needs = farm.needs[farm.blocking["needs"][number] : farm.blocking["needs"][number + 1]]
    broken = int(farm.blocking["broken"][number])
    if broken < 0:
        decisive = needs["condition"] == layout.MET_BY_FAILURE
    else:
        decisive = np.arange(len(needs)) == broken - farm.blocking["needs"][number]
    known = {
        need.job: _end_of(played, row["job"], was_over=bool(row["was_over"]))
        for need, row, decides in zip(needs_of(job), needs, decisive.tolist(), strict=True)
        if decides
    }
    return why_skipped(needs_of(job), known, (), failure_met=False)


def _end_of(played: PlayedFarm, number: int, *, was_over: bool) -> Ended:
    """Return how a job ended that another needs; of an earlier submission the outcome is known."""
    if number < 0:
        return UNKNOWN
    how = int(played.farm.jobs["ended"][number])
    cause, outcome = _HOW_ENDED[how]
    if cause is Cause.FINISHED and played.load.fails[number]:
        outcome = "failed"
    return Ended.earlier(outcome) if was_over else Ended.of(outcome, skipped=cause is Cause.SKIPPED)


def outcomes_before(
    played: PlayedFarm, ids: Sequence[str], begin: int, end: int
) -> dict[str, Outcome]:
    """Return how those ended, before these jobs were submitted together, that they need.

    ``ids``: of all jobs.
    """
    farm = played.farm
    needs = farm.needs[farm.blocking["needs"][begin] : farm.blocking["needs"][end]]
    known = needs["job"][needs["was_over"] & (needs["job"] >= 0)]
    outcomes = {ids[n]: _end_of(played, n, was_over=True).outcome for n in known.tolist()}
    return dict(sorted(outcomes.items()))


def _lost_under(played: PlayedFarm) -> dict[int, list[int]]:
    """Return the builders whose loss each job outlived, by job."""
    found: dict[int, list[int]] = defaultdict(list)
    void = played.farm.void[: played.farm.counts["void"][0]]
    for job, builder in void[~void["failed"]][["job", "builder"]].tolist():
        found[job].append(builder)
    return found


def outcome_of(fails: bool) -> Outcome:
    """Return the outcome of an attempt that fails, or does not."""
    return "failed" if fails else "succeeded"
