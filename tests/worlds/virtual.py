"""Farms in memory: events in, commands out, the whole farm checked after each event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from farm.core.commands import (
    IGNORED,
    CancelJob,
    Command,
    DrainBuilder,
    EndJob,
    LoseBuilder,
    RequestBuilder,
    RequeueJob,
    RetireBuilder,
    SetAlarm,
    StartJob,
    log_name,
)
from farm.core.dispatching.matching import Lane
from farm.core.driver import Observer, World, drive
from farm.core.events import (
    AlarmRang,
    ArrivalsEnded,
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    CancelRequested,
    DrainRequested,
    Event,
    FarmOpened,
    JobFinished,
    JobsSubmitted,
    JobStarted,
    PoolPlanned,
    PriorityChanged,
    SlotCleaned,
    UndrainRequested,
)
from farm.core.model import Builder, Job
from farm.core.pools.spec import PoolSpec
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.restore import restored
from farm.core.state.snapshot import FarmSnapshot, snapshot_of
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.results.audit.auditor import Auditor
from farm.sim.world import SimulatedWorld
from farm.workload import batches, needed_of
from tests.worlds.counts import check

C = TypeVar("C")

#: rules by which users share a farm fairly
FAIR: dict[str, Any] = {"make_queue": FairShareQueue, "path": PathExtractor(["user"])}


def brief(command: Command) -> str:
    """Write a command on one short line, such as ``start a/1 on b.0`` or ``end a succeeded``."""
    match command:
        case StartJob():
            return f"start {command.job.id}/{command.attempt} on {command.builder}.{command.slot}"
        case CancelJob():
            return f"stop {command.job}/{command.attempt} on {command.builder}"
        case RequeueJob():
            return f"requeue {command.job}/{command.attempt}"
        case EndJob():
            return f"end {command.job.id} {command.outcome}"
        case RequestBuilder():
            return f"request {command.builder.id}"
        case DrainBuilder():
            return f"drain {command.builder}"
        case RetireBuilder():
            return f"retire {command.builder}"
        case LoseBuilder():
            return f"lose {command.builder}"
        case SetAlarm():
            return f"alarm {command.rings_at:g}"


class Ledger:
    """A scheduler and its events, one by one; each answer is checked and shortened.

    A second passes between two events unless ``at`` is set. Builders are of the pool "p", virtual,
    with the processor amd64, one slot.
    """

    def __init__(
        self,
        *builders: str,
        estimates: str = "oracle",
        pools: Sequence[PoolSpec] = (),
        **rules: Any,
    ) -> None:
        self.rules, self.estimates, self.pools = SchedulingRules(**rules), estimates, pools
        self.scheduler = Scheduler(self.rules, make_estimator(estimates), pools)
        self.auditor = Auditor()
        self.observers: list[Observer] = [self.auditor]
        self.at = 0.0
        #: every event with its commands, for replays
        self.story: list[tuple[Event, list[Command]]] = []
        #: those of the last event
        self.commands: Sequence[Command] = []
        self._made = 0
        for name in builders:
            self.join(name)

    # --- events ------------------------------------------------------------------------------

    def tell(self, event: Event) -> list[str] | str:
        """Handle an event; return its commands, shortened, or "ignored"."""
        self.commands = self.scheduler.handle(event)
        for observe in self.observers:
            observe(event, self.commands)
        check(self.scheduler)
        self.at = event.at + 1.0
        self.story.append((event, list(self.commands)))
        return "ignored" if self.commands is IGNORED else [brief(one) for one in self.commands]

    def submit(self, *jobs: str | Job, **more: Any) -> list[str] | str:
        """Submit jobs together; a name stands for a job of 10 s that any virtual builder runs."""
        made = [self.job(one, **more) if isinstance(one, str) else one for one in jobs]
        return self.tell(JobsSubmitted(self.at, tuple(made)))

    def job(self, name: str, service_time: float = 10.0, **more: Any) -> Job:
        """Return a job."""
        return Job(id=name, service_time=service_time, **more)

    def join(self, name: str, **more: Any) -> list[str] | str:
        """Let a builder join."""
        self._made += 1
        what = {"pool": "p", "index": self._made, "processors": ("amd64",), **more}
        return self.tell(BuilderJoined(self.at, Builder(id=name, **what)))

    def started(self, name: str, **which: Any) -> list[str] | str:
        """The builder of a job's attempt reports its start."""
        return self.tell(JobStarted(self.at, *self.attempt(name, **which)))

    def finish(
        self, name: str, outcome: Any = "succeeded", reason: str = "", **which: Any
    ) -> list[str] | str:
        """The builder of a job's attempt reports its end."""
        return self.tell(JobFinished(self.at, *self.attempt(name, **which), outcome, reason))

    def attempt_lost(self, name: str, **which: Any) -> list[str] | str:
        """The builder of a job's attempt does not know it."""
        return self.tell(AttemptLost(self.at, *self.attempt(name, **which)))

    def attempt(self, name: str, attempt: int = 0, builder: str = "") -> tuple[str, int, str]:
        """Return (job, attempt, builder), of the current attempt by default."""
        state = self.scheduler.jobs.get(name)
        slot = None if state is None else state.slot
        here = slot.builder.builder.id if slot is not None else "nowhere"
        return name, attempt or (1 if state is None else state.attempts), builder or here

    def cancel(self, *names: str, **more: Any) -> list[str] | str:
        """Request the cancellation of jobs."""
        return self.tell(CancelRequested(self.at, names, **more))

    def prioritise(self, name: str, **change: Any) -> list[str] | str:
        """Give a waiting job another level, score or priority."""
        return self.tell(PriorityChanged(self.at, name, **change))

    def lose(
        self, name: str, reason: str = "", *, excused: bool = False, returns: bool = False
    ) -> list[str] | str:
        """Lose a builder without notice."""
        return self.tell(BuilderLost(self.at, name, reason, excused, returns))

    def open(self, **how: Any) -> list[str] | str:
        """The farm opens."""
        return self.tell(FarmOpened(self.at, **how))

    def plan(self, pool: str = "p", **what: Any) -> list[str] | str:
        """A provisioner plans a pool."""
        seen = dict.fromkeys(("desired", "requested", "running", "waiting"), 0)
        return self.tell(PoolPlanned(self.at, pool, **{**seen, **what}))

    def boot(self, name: str) -> list[str] | str:
        """A requested builder comes up."""
        requests = self.all(RequestBuilder)
        (made,) = (request.builder for request in requests if request.builder.id == name)
        return self.tell(BuilderJoined(self.at, made))

    def arrivals_end(self) -> list[str] | str:
        """No more jobs will arrive."""
        return self.tell(ArrivalsEnded(self.at))

    def retired(self, name: str) -> list[str] | str:
        """A builder retires."""
        return self.tell(BuilderRetired(self.at, name))

    def ring(self, at: float | None = None) -> list[str] | str:
        """Ring an alarm (default: now)."""
        self.at = self.at if at is None else at
        return self.tell(AlarmRang(self.at))

    def drain(self, pattern: str, *, retire: bool = False) -> list[str] | str:
        """Drain builders."""
        return self.tell(DrainRequested(self.at, pattern, retire))

    def undrain(self, pattern: str) -> list[str] | str:
        """Let builders accept jobs again."""
        return self.tell(UndrainRequested(self.at, pattern))

    def cleaned(self, name: str, slot: int = 0) -> list[str] | str:
        """A slot has been cleaned."""
        return self.tell(SlotCleaned(self.at, name, slot))

    def restart(self, *pools: PoolSpec, at: float | None = None, **how: Any) -> None:
        """Another scheduler continues, from a snapshot that went through JSON.

        ``pools``: others than the former had; ``how``: more for ``restored``.
        """
        written = msgspec.json.encode(snapshot_of(self.scheduler, self.at if at is None else at))
        snapshot = msgspec.json.decode(written, type=FarmSnapshot)
        estimator = make_estimator(self.estimates)
        pools = pools or tuple(self.pools)
        self.scheduler = restored(snapshot, self.rules, estimator, pools=pools, **how)

    # --- state ------------------------------------------------------------------------------

    def all(self, kind: type[C]) -> list[C]:
        """Return the commands of one kind so far."""
        return [one for _, commands in self.story for one in commands if isinstance(one, kind)]

    @property
    def starts(self) -> list[str]:
        """Return what the last event started, as job@builder."""
        starts = [one for one in self.commands if isinstance(one, StartJob)]
        return [f"{one.job.id}@{one.builder}" for one in starts]

    @property
    def alarms(self) -> list[float]:
        """Return the instants of all alarms that were set."""
        return [alarm.rings_at for alarm in self.all(SetAlarm)]

    @property
    def lanes(self) -> list[Lane]:
        """Return the platform queues."""
        return self.scheduler.dispatcher.matching.lanes

    @property
    def running(self) -> dict[str, str]:
        """Return where each running job runs."""
        return {
            name: f"{state.slot.builder.builder.id}.{state.slot.number}"
            for name, state in self.scheduler.jobs.items()
            if state.slot is not None
        }

    @property
    def waiting(self) -> list[str]:
        """Return the waiting jobs, in order, lane by lane."""
        return [state.job.id for lane in self.lanes for state in lane.queue.in_order()]

    def dispatch_order(self, builder: str) -> list[str]:
        """Let a new builder work off the queue; return the jobs in its order."""
        self.join(builder)
        order = []
        while mine := [job for job, where in self.running.items() if where == f"{builder}.0"]:
            order.extend(mine)
            self.finish(mine[0])
        return order


class Story:
    """The events of a simulated farm, with their commands, audited."""

    def __init__(self) -> None:
        self.events: list[tuple[Event, list[Command]]] = []
        self.auditor = Auditor()
        #: called after each event: to lose a builder, for example
        self.then: Callable[[Event, Any], object] = lambda _event, _world: None
        self.world: World | None = None

    def play(self, pools: Sequence[PoolSpec], jobs: Iterable[Job], **rules: Any) -> Story:
        """Run the jobs (which carry their arrivals) on the pools, to the end."""
        self.scheduler = Scheduler(SchedulingRules(**rules), make_estimator("oracle"), pools)
        arrivals = batches(sorted(jobs, key=lambda job: job.arrived_at or 0.0))
        self.world = SimulatedWorld(pools, arrivals, needed=needed_of(list(jobs)))
        drive(self.scheduler, self.world, self._observe)
        self._end()
        return self

    def _observe(self, event: Event, commands: Sequence[Command]) -> None:
        self.auditor(event, commands)
        self.events.append((event, list(commands)))
        assert len(self.events) < 100_000, "this story has no end"
        self.then(event, self.world)

    def _end(self) -> None:
        self.auditor.close()
        assert not self.scheduler.jobs

    def of(self, kind: type) -> list[Any]:
        """Return the events or commands of one kind, in order."""
        values = [value for event, commands in self.events for value in (event, *commands)]
        return [value for value in values if type(value) is kind]

    def ends(self) -> dict[str, EndJob]:
        """Return how each job ended."""
        return {end.job.id: end for end in self.of(EndJob)}

    def times(self) -> dict[str, tuple[float, float]]:
        """Return when each job last started and when it finished."""
        return {name: (end.started_at, end.finished_at) for name, end in self.ends().items()}

    def where(self) -> dict[str, str]:
        """Return on which builder each job last ran."""
        return {start.job.id: start.builder for start in self.of(StartJob)}

    def shape(self, *kinds: type) -> list[tuple[float, str, str]]:
        """Return (instant, kind, builder) of the events and commands of some kinds."""
        return [
            (event.at, log_name(type(value)), getattr(value.builder, "id", value.builder))
            for event, commands in self.events
            for value in (event, *commands)
            if type(value) in kinds
        ]
