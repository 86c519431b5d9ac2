"""From a fast play to what the reference would have told: records, and every event in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from farm.core.commands import Command, EndJob, RequestBuilder, SetAlarm, StartJob
from farm.core.events import (
    ArrivalsEnded,
    BuilderJoined,
    Event,
    FarmOpened,
    JobFinished,
    JobsSubmitted,
    JobStarted,
    SlotCleaned,
)
from farm.core.model import Cause, Outcome
from farm.results.summary.records import BuilderSpan, RunRecords
from farm.sim.fast import layout
from farm.sim.fast.play import Played


def story(played: Played) -> Iterator[tuple[Event, Sequence[Command]]]:
    """Yield every event with its commands, as the driver tells observers of them."""
    farm = played.farm
    notes = farm.notes[: farm.counts[layout.NOTED]]
    event: Event = FarmOpened(0.0)
    commands: list[Command] = [RequestBuilder(builder) for builder in played.builders]
    events, orders = _events(played), _commands(played)
    for kind, number, instant in notes.tolist():
        if kind in orders:
            commands.append(orders[kind](number, instant))
        else:
            yield event, commands
            event, commands = events[kind](number, instant), []
    yield event, commands


def _events(played: Played) -> dict[int, Callable[[int, float], Event]]:
    """Return, by kind of note, what makes its event from a number and an instant."""
    jobs, builders = played.load.jobs, played.builders
    where = played.farm.jobs["builder"].tolist()
    slots = [(b.id, slot) for b in builders for slot in range(b.slots)]
    return {
        layout.ARRIVALS_ENDED: lambda _, at: ArrivalsEnded(at),
        layout.SUBMITTED: lambda batch, at: JobsSubmitted(at, played.load.batches[batch][1]),
        layout.JOINED: lambda builder, at: BuilderJoined(at, builders[builder]),
        layout.STARTED: lambda job, at: JobStarted(at, jobs[job].id, 1, builders[where[job]].id),
        layout.FINISHED: lambda job, at: JobFinished(
            at, jobs[job].id, 1, builders[where[job]].id, _outcome(jobs[job].fails)
        ),
        layout.CLEANED: lambda slot, at: SlotCleaned(at, *slots[slot]),
    }


def _commands(played: Played) -> dict[int, Callable[[int, float], Command]]:
    """Return, by kind of note, what makes its command from a number and an instant."""
    jobs, builders = played.load.jobs, played.builders
    where, slots = (played.farm.jobs[name].tolist() for name in ("builder", "slot"))
    ends: dict[int, EndJob] = dict(zip(played.farm.ended.tolist(), _ends(played), strict=False))
    return {
        layout.START: lambda job, _: StartJob(jobs[job], 1, builders[where[job]].id, slots[job]),
        layout.END: lambda job, _: ends[job],
        layout.ALARM: lambda _, at: SetAlarm(at),
    }


def records(played: Played) -> RunRecords:
    """Return what a recorder would have kept."""
    farm = played.farm
    last_at = float(farm.instants[layout.LAST_EVENT])
    joins = farm.builders[["joins_at", "joined"]].tolist()
    spans = []
    for builder, (joined_at, joined) in zip(played.builders, joins, strict=True):
        span = BuilderSpan(builder.id, builder.pool, requested_at=0.0)
        if joined:
            span.slots, span.speed, span.joined_at = builder.slots, builder.speed, joined_at
        spans.append(span)
    return RunRecords(
        ends=list(_ends(played)),
        submissions=[JobsSubmitted(at, together) for at, together in played.load.batches],
        builders=spans,
        void_attempts=[],
        estimates={},
        events=int(farm.counts[layout.EVENTS]),
        last_at=last_at,
    )


def _ends(played: Played) -> Iterator[EndJob]:
    """Yield how each job ended, in the order of ending."""
    farm, jobs, estimates = played.farm, played.load.jobs, played.load.estimates
    names = [builder.id for builder in played.builders]
    ended = farm.ended[: farm.counts[layout.ENDED]]
    told = farm.jobs[["submitted_at", "finished_at", "dispatched_at", "builder", "slot"]][ended]
    for number, row in zip(ended.tolist(), told.tolist(), strict=True):
        submitted_at, finished_at, at, builder, slot = row
        job = jobs[number]
        yield EndJob(
            job,
            _outcome(job.fails),
            1,
            submitted_at,
            finished_at,
            at,
            at,
            names[builder],
            slot,
            "",
            estimates[number],
            None,
            Cause.FAILED if job.fails else Cause.FINISHED,
        )


def _outcome(fails: bool) -> Outcome:
    return "failed" if fails else "succeeded"
