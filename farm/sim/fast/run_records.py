"""From a compiled run to the reference's records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from farm.core.commands import EndJob
from farm.core.jobs.requeueing import why_given_up
from farm.core.model import Builder, Cause, Outcome
from farm.emulation.builder import AS_PLANNED, LIFETIME_OVER
from farm.results.summary.columns import Columns
from farm.results.summary.job_columns import CAUSES, FAILED, SUCCEEDED, Ends, in_order_of_appearance
from farm.results.summary.records import RunRecords
from farm.results.summary.spans import Attempts, Spans
from farm.sim.fast.kernel import layout
from farm.sim.fast.play import Played

T = TypeVar("T")

#: how a job ended, by ``layout.ENDS_…``, unless its attempt failed
_CAUSES = np.array(
    [CAUSES[one] for one in (Cause.FINISHED, Cause.FINISHED, Cause.LOST, Cause.POISONOUS)], np.int8
)
_REASONS = {layout.BY_LIFETIME: LIFETIME_OVER, layout.AS_PLANNED: AS_PLANNED}


class Lazily(Sequence[T]):
    """A sequence that is made at its first use."""

    def __init__(self, make: Callable[[], Iterable[T]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> list[T]:
        return list(self._make())

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, place: Any) -> Any:
        return self._made[place]


def records(played: Played) -> RunRecords:
    """Return a recorder's records; the values are made at their first use."""
    farm, load = played.farm, played.load
    last_at = float(farm.instants["last_event"][0])
    left = np.flatnonzero(farm.jobs["ended"] == 0)
    return RunRecords(
        ends=Lazily(lambda: ends_of(played, _ended(played))),
        unended=[(load.jobs[n], float(farm.jobs["submitted_at"][n])) for n in left.tolist()],
        estimates={},
        events=int(farm.counts["events"][0]),
        last_at=last_at,
        made_of=Columns(
            _end_columns(played), _span_columns(played), _void_columns(played), last_at
        ),
    )


def _end_columns(played: Played) -> Ends:
    """Return how each job ended, in the order of ending."""
    traits, ended = played.load.traits, _ended(played)

    def of(name: str) -> Any:
        return played.farm.jobs[name][ended]

    def each(values: Any) -> Any:
        whole = len(values) == len(played.farm.jobs)
        return values[ended] if whole else np.broadcast_to(values, len(ended))

    failed, cause = each(traits.fails), _CAUSES[of("ended")]
    failed = failed | (cause != CAUSES[Cause.FINISHED])
    cause[failed & (cause == CAUSES[Cause.FINISHED])] = CAUSES[Cause.FAILED]
    dispatched_at, started = of("dispatched_at"), of("started")
    return Ends(
        arrived_at=of("submitted_at"),
        dispatched_at=dispatched_at,
        started_at=dispatched_at if started.all() else np.where(started, dispatched_at, np.nan),
        finished_at=of("finished_at"),
        service_time=of("work"),
        attempts=of("attempts"),
        outcome=np.array((SUCCEEDED, FAILED), np.int8)[failed.astype(np.int8)],
        cause=cause,
        slot=of("slot"),
        shared=np.broadcast_to(np.False_, len(ended)),
        builder=of("builder"),
        platform=each(traits.platform),
        attribution=each(traits.attribution),
        matrix=each(traits.matrix),
        platforms=traits.platforms,
        attributions=traits.attributions,
        matrices=traits.matrices,
    )


def _span_columns(played: Played) -> Spans:
    made = _made(played)
    slots, speeds = (played.farm.pools[name][made["pool"]] for name in ("slots", "speed"))
    pool, pools = in_order_of_appearance(made["pool"])
    return Spans(
        builder=np.arange(len(made)),
        pool=pool,
        slots=slots,
        speed=speeds,
        requested_at=made["requested_at"],
        joined_at=made["joined_at"],
        gone_at=made["gone_at"],
        end=made["end"],
        pools=[played.pools[number].name for number in pools.tolist()],
    )


def _void_columns(played: Played) -> Attempts:
    ended, void = _ended(played), played.farm.void[: played.farm.counts["void"][0]]
    rows = np.full(len(played.farm.jobs), -1)
    rows[ended] = np.arange(len(ended))
    return Attempts(
        builder=void["builder"],
        row=rows[void["job"]],
        dispatched_at=void["dispatched_at"],
        ended_at=void["ended_at"],
    )


def _ended(played: Played) -> Any:
    return played.farm.ended[: played.farm.counts["ended"][0]]


def _made(played: Played) -> Any:
    return played.farm.builders[: played.farm.counts["made"][0]]


def _names(played: Played) -> list[str]:
    rows = _made(played)[["pool", "number"]].tolist()
    return [f"{played.pools[pool].name}-{number}" for pool, number in rows]


def builders_of(played: Played) -> list[Builder]:
    """Return every builder that was requested, in the order of request."""
    rows = _made(played)[["pool", "number"]].tolist()
    return [
        played.pools[pool].builder(number, index) for index, (pool, number) in enumerate(rows, 1)
    ]


def reasons_of(played: Played) -> list[str]:
    """Return why each builder was lost; empty: it was not."""
    return [_REASONS.get(reason, "") for reason in _made(played)["reason"].tolist()]


def ends_of(played: Played, ended: Any) -> Iterator[EndJob]:
    """Yield how these jobs ended, by their numbers."""
    farm, jobs, names, reasons = played.farm, played.load.jobs, _names(played), reasons_of(played)
    estimates = played.load.estimates[ended].tolist()
    fields = ["submitted_at", "finished_at", "dispatched_at", "builder", "slot", "attempts"]
    told = farm.jobs[[*fields, "started", "ended", "losses"]][ended].tolist()
    lost_under, pools = _lost_under(played), _made(played)["pool"].tolist()
    for number, estimate, row in zip(ended.tolist(), estimates, told, strict=True):
        submitted_at, finished_at, at, builder, slot, attempts, started, how, losses = row
        job, reason = jobs[number], ""
        cause = Cause.FAILED if job.fails else Cause.FINISHED
        if how != layout.ENDS_WELL:
            poisonous = how == layout.ENDS_POISONOUS
            cause = Cause.POISONOUS if poisonous else Cause.LOST
            under = [names[one] for one in (*lost_under[number], builder)] if poisonous else ()
            reason = why_given_up(reasons[builder], losses, played.rules.retries, under)
        yield EndJob(
            job,
            outcome_of(job.fails or how != layout.ENDS_WELL),
            attempts,
            submitted_at,
            finished_at,
            at,
            at if started else None,
            names[builder],
            slot,
            reason,
            estimate,
            None,
            cause,
            played.pools[pools[builder]].name,
        )


def _lost_under(played: Played) -> dict[int, list[int]]:
    """Return the builders whose loss each job outlived, by job."""
    found: dict[int, list[int]] = defaultdict(list)
    void = played.farm.void[: played.farm.counts["void"][0]]
    for job, builder in void[["job", "builder"]].tolist():
        found[job].append(builder)
    return found


def outcome_of(fails: bool) -> Outcome:
    """Return the outcome of an attempt that fails, or does not."""
    return "failed" if fails else "succeeded"
