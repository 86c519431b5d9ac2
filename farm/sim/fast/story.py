"""From a fast play to what the reference would have told: records, and every event in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from farm.core import commands, events
from farm.core.commands import Command, EndJob
from farm.core.events import Event
from farm.core.model import Builder, Cause, Outcome
from farm.emulation.builder import AS_PLANNED, LIFETIME_OVER
from farm.results.summary.records import BuilderSpan, RunRecords, VoidAttempt
from farm.sim.fast.kernel import layout
from farm.sim.fast.play import Played

_REASONS = {layout.BY_LIFETIME: LIFETIME_OVER, layout.AS_PLANNED: AS_PLANNED}


class Told(msgspec.Struct):
    """A play's builders, jobs and plans, as the values that events and commands are made of."""

    played: Played
    builders: Sequence[Builder]
    #: why each builder was lost
    reasons: Sequence[str]
    #: the end of each job that ended
    ends: dict[int, EndJob]

    @classmethod
    def of(cls, played: Played) -> Told:
        """Return what a play's notes are told with."""
        builders, reasons = _builders(played), _reasons(played)
        ended = played.farm.ended[: played.farm.counts[layout.ENDED]].tolist()
        told = _ends(played, [builder.id for builder in builders], reasons)
        return cls(played, builders, reasons, dict(zip(ended, told, strict=True)))

    def events(self) -> dict[int, Callable[..., Event]]:
        """Return, by kind of note, what makes its event from the note."""
        load, builders, reasons = self.played.load, self.builders, self.reasons
        jobs, names = load.jobs, [builder.id for builder in self.builders]
        pools, plans = self.played.pools, self.played.farm.plans

        def planned(at: float, place: int, *_: Any) -> Event:
            pool, *numbers = plans[place].item()
            return events.PoolPlanned(at, pools[pool].name, *numbers)

        return {
            layout.ARRIVALS_ENDED: lambda at, *_: events.ArrivalsEnded(at),
            layout.SUBMITTED: lambda at, n, *_: events.JobsSubmitted(at, load.batches[n][1]),
            layout.JOINED: lambda at, n, *_: events.BuilderJoined(at, builders[n]),
            layout.STARTED: lambda at, n, b, _, attempt: events.JobStarted(
                at, jobs[n].id, attempt, names[b]
            ),
            layout.FINISHED: lambda at, n, b, _, attempt: events.JobFinished(
                at, jobs[n].id, attempt, names[b], _outcome(jobs[n].fails)
            ),
            layout.CLEANED: lambda at, n, _, slot, __: events.SlotCleaned(at, names[n], slot),
            layout.RETIRED: lambda at, n, *_: events.BuilderRetired(at, names[n]),
            layout.LOST: lambda at, n, *_: events.BuilderLost(at, names[n], reasons[n]),
            layout.RANG: lambda at, *_: events.AlarmRang(at),
            layout.PLANNED: planned,
        }

    def commands(self) -> dict[int, Callable[..., Command]]:
        """Return, by kind of note, what makes its command from the note."""
        jobs, builders, reasons = self.played.load.jobs, self.builders, self.reasons
        names = [builder.id for builder in self.builders]
        return {
            layout.START: lambda _, n, b, slot, attempt: commands.StartJob(
                jobs[n], attempt, names[b], slot
            ),
            layout.END: lambda _, n, *__: self.ends[n],
            layout.REQUEUED: lambda _, n, b, __, attempt: commands.RequeueJob(
                jobs[n].id, attempt, names[b], reasons[b]
            ),
            layout.REQUESTED: lambda _, n, *__: commands.RequestBuilder(builders[n]),
            layout.DRAINED: lambda _, n, *__: commands.DrainBuilder(names[n]),
            layout.RETIRE: lambda _, n, *__: commands.RetireBuilder(names[n]),
            layout.LOSE: lambda _, n, *__: commands.LoseBuilder(names[n]),
            layout.ALARM: lambda at, *_: commands.SetAlarm(at),
        }


def story(played: Played) -> Iterator[tuple[Event, Sequence[Command]]]:
    """Yield every event with its commands, as the driver tells observers of them."""
    farm, told = played.farm, Told.of(played)
    notes = farm.notes[: farm.counts[layout.NOTED]]
    event: Event = events.FarmOpened(0.0)
    orders: list[Command] = []
    make_event, make_command = told.events(), told.commands()
    columns = [notes[name].tolist() for name in ("kind", "at", "what", "builder", "slot", "attempt")]
    for kind, *rest in zip(*columns, strict=True):
        if kind in make_command:
            orders.append(make_command[kind](*rest))
        else:
            yield event, orders
            event, orders = make_event[kind](*rest), []
    yield event, orders


def records(played: Played) -> RunRecords:
    """Return what a recorder would have kept."""
    farm, reasons, names = played.farm, _reasons(played), _names(played)
    void = farm.void[: farm.counts[layout.VOID]].tolist()
    return RunRecords(
        ends=list(_ends(played, names, reasons)),
        submissions=[events.JobsSubmitted(at, together) for at, together in played.load.batches],
        builders=list(_spans(played, names)),
        void_attempts=[
            VoidAttempt(played.load.jobs[job].id, names[builder], *instants, reasons[builder])
            for job, builder, *instants in void
        ],
        estimates={},
        events=int(farm.counts[layout.EVENTS]),
        last_at=float(farm.instants[layout.LAST_EVENT]),
    )


def _spans(played: Played, names: Sequence[str]) -> Iterator[BuilderSpan]:
    rows = _made(played)[["pool", "requested_at", "joined_at", "gone_at", "end"]].tolist()
    for name, (number, requested_at, joined_at, gone_at, end) in zip(names, rows, strict=True):
        pool = played.pools[number]
        span = BuilderSpan(name, pool.name, requested_at=requested_at)
        if joined_at == joined_at:  # it came; NaN: it did not
            span.slots, span.speed, span.joined_at = pool.slots, pool.speed, joined_at
        if end:
            span.gone_at = gone_at
            span.end = "retired" if end == layout.HAS_RETIRED else "lost"
        yield span


def _made(played: Played) -> Any:
    return played.farm.builders[: played.farm.counts[layout.MADE]]


def _names(played: Played) -> list[str]:
    rows = _made(played)[["pool", "number"]].tolist()
    return [f"{played.pools[pool].name}-{number}" for pool, number in rows]


def _builders(played: Played) -> list[Builder]:
    rows = _made(played)[["pool", "number"]].tolist()
    return [
        played.pools[pool].builder(number, index) for index, (pool, number) in enumerate(rows, 1)
    ]


def _reasons(played: Played) -> list[str]:
    return [_REASONS.get(reason, "") for reason in _made(played)["reason"].tolist()]


def _ends(played: Played, names: Sequence[str], reasons: Sequence[str]) -> Iterator[EndJob]:
    """Yield how each job ended, in the order of ending."""
    farm, jobs, estimates = played.farm, played.load.jobs, played.load.estimates
    ended = farm.ended[: farm.counts[layout.ENDED]]
    fields = ["submitted_at", "finished_at", "dispatched_at", "builder", "slot", "attempts"]
    told = farm.jobs[[*fields, "started", "ended", "losses"]][ended].tolist()
    lost_under = _lost_under(played)
    for number, row in zip(ended.tolist(), told, strict=True):
        submitted_at, finished_at, at, builder, slot, attempts, started, how, losses = row
        job, reason = jobs[number], ""
        cause = Cause.FAILED if job.fails else Cause.FINISHED
        if how != layout.ENDS_WELL:
            cause, reason = Cause.LOST, f"{reasons[builder]} (attempt {losses} of "
            reason += f"{1 + played.rules.retries})"
        if how == layout.ENDS_POISONOUS:
            under = ", ".join(names[one] for one in (*lost_under[number], builder))
            cause = Cause.POISONOUS
            reason = f"{reasons[builder]} (builders lost under it: {under})"
        yield EndJob(
            job,
            _outcome(job.fails or how != layout.ENDS_WELL),
            attempts,
            submitted_at,
            finished_at,
            at,
            at if started else None,
            names[builder],
            slot,
            reason,
            estimates[number],
            None,
            cause,
        )


def _lost_under(played: Played) -> dict[int, list[int]]:
    """Return the builders whose loss each job outlived, by job."""
    found: dict[int, list[int]] = defaultdict(list)
    void = played.farm.void[: played.farm.counts[layout.VOID]]
    for job, builder in void[["job", "builder"]].tolist():
        found[job].append(builder)
    return found


def _outcome(fails: bool) -> Outcome:
    return "failed" if fails else "succeeded"
