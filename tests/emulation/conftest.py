"""An emulated builder on the agenda of either world; the test moves its time."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from farm.core.commands import CancelJob, StartJob
from farm.core.events import Event
from farm.core.model import Builder, Job
from farm.emulation.behaviour import BuilderBehaviour, BuilderSpec
from farm.emulation.builder import EmulatedBuilder
from farm.emulation.own_loop import OwnLoop
from farm.live.wire.messages import Play
from farm.sim.world import VirtualAgenda
from workers.host_agenda import HostAgenda
from workers.played_builder import PlayedBuilder


class Stage:
    """A builder called b, and what it reported; instants are farm seconds."""

    #: how time passes there: defined by the two stages below
    make: Any
    do: Any
    now: Any
    clock: Any

    def __init__(self, own: type[BuilderBehaviour] = BuilderBehaviour, **spec: Any) -> None:
        self.own = own
        self.told: list[tuple[float, Event]] = []
        more: dict[str, Any] = {
            name: spec.pop(name) for name in ("speed", "takes_jobs", "lifetime") if name in spec
        }
        cleans = spec.get("inter_job_time", 0.0) > 0 or own is not BuilderBehaviour
        more["claims"] = issubclass(own, OwnLoop)
        builder = Builder(id="b", pool="p", index=1, slots=4, cleans=cleans, **more)
        self.spec = BuilderSpec(builder=builder, **spec)
        self.builder = self.make()
        self.do(lambda: None)

    def report(self, event: Event) -> None:
        self.told.append((self.now, event))

    def start(self, name: str, service_time: float, slot: int = 0, attempt=1, **job) -> None:
        command = StartJob(Job(id=name, service_time=service_time, **job), attempt, "b", slot)
        self.do(lambda: self.builder.start(command))

    def cancel(self, name: str, reason: str = "", attempt: int = 1) -> None:
        self.do(lambda: self.builder.cancel(CancelJob(name, attempt, "b", reason)))

    def of(self, kind: type) -> list[Any]:
        """Return the events of one kind; each with the instant at which it was reported."""
        assert all(event.at == at for at, event in self.told)
        return [event for _, event in self.told if isinstance(event, kind)]

    def instants(self, kind: type) -> list[float]:
        return [event.at for event in self.of(kind)]

    def kinds(self) -> list[str]:
        return [type(event).__name__ for _, event in self.told]


class VirtualStage(Stage):
    """In virtual time."""

    def make(self) -> EmulatedBuilder:
        self.agenda = VirtualAgenda()
        own = self.own(self.spec)
        builder = EmulatedBuilder(self.spec, self.agenda, self.report, own)
        builder.boot()
        return builder

    @property
    def now(self) -> float:
        return self.agenda.now

    def do(self, action: Callable[[], None]) -> None:
        action()
        self.until(self.now)

    def until(self, instant: float) -> None:
        heap = self.agenda.heap
        while heap and heap[0][0] <= instant:
            at, _, _, _, what = heapq.heappop(heap)
            self.agenda.now = at
            if what.action is not None:
                what.action(at)
        self.agenda.now = instant


class RealStage(Stage):
    """Real time, eight times as fast; its clock moves only when told to."""

    SPEED = 8.0

    def make(self) -> PlayedBuilder:
        self.clock = 1000.0  # the machine has been up for some time
        self.agenda = HostAgenda(threading.RLock())
        spec = msgspec.structs.asdict(self.spec)
        with self.agenda.turn():
            play = Play(speed=self.SPEED, **spec)
            return PlayedBuilder(play, self.agenda, self.told_at, behaviour=self.own(play))

    def told_at(self, event: Event) -> None:
        self.report(msgspec.structs.replace(event, at=event.at - 1000.0 * self.SPEED))

    @property
    def now(self) -> float:
        return (self.clock - 1000.0) * self.SPEED

    def do(self, action: Callable[[], None]) -> None:
        with self.agenda.turn():
            action()

    def until(self, instant: float) -> None:
        until, heap = 1000.0 + instant / self.SPEED, self.agenda._heap
        while heap and heap[0][0] <= until:
            self.clock = max(self.clock, heap[0][0])
            self.do(lambda: None)
        self.clock = until


@pytest.fixture(params=[VirtualStage, RealStage], ids=["virtual", "real"])
def stage(request, monkeypatch) -> Callable[..., Stage]:
    """Make a builder in one of the worlds; every test is run in both."""
    made: list[Stage] = []

    class Made(request.param):
        def make(self):
            made.append(self)
            return super().make()

    if request.param is RealStage:
        monkeypatch.setattr(
            "workers.host_agenda.time.monotonic", lambda: made[-1].clock if made else 1000.0
        )
    return Made
