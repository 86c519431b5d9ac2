"""The builders' states at any instant, as a fold over the event log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from farm.core.commands import (
    Command,
    DrainBuilder,
    Ignored,
    RequestBuilder,
    RetireBuilder,
    StartJob,
)
from farm.core.events import (
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    DrainRequested,
    Event,
    JobFinished,
    UndrainRequested,
)
from farm.core.model import Builder

BuilderStateName = Literal["requested", "idle", "busy", "draining", "retired", "lost"]


class FoldedBuilder(msgspec.Struct):
    """A builder as the log describes it."""

    state: BuilderStateName
    busy: int = 0
    joined: bool = False
    draining: bool = False
    leaving: bool = False


class BuilderFold:
    """Observer that keeps the state of each builder, and how many are in each state."""

    def __init__(self) -> None:
        #: the builders that are requested or present, by id
        self.builders: dict[str, FoldedBuilder] = {}
        #: by state; those that left are counted since the start
        self.counts: Counter[BuilderStateName] = Counter()
        #: attempts that hold a slot: job -> builder
        self._placed: dict[str, str] = {}
        self._take: dict[type, Callable[[Any], object]] = {
            JobFinished: self._attempt_over,
            AttemptLost: self._attempt_over,
            BuilderJoined: self._joined,
            BuilderRetired: lambda event: self._gone(event.builder, "retired"),
            BuilderLost: lambda event: self._gone(event.builder, "lost"),
            DrainRequested: self._drained,
            UndrainRequested: self._undrained,
            StartJob: self._dispatched,
            RequestBuilder: lambda command: self._requested(command.builder),
            DrainBuilder: self._told_to_go,
            RetireBuilder: self._told_to_go,
        }

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in one event and its commands; a stale event changes nothing."""
        if type(commands) is Ignored:
            return
        for value in (event, *commands):
            take = self._take.get(type(value))
            if take is not None:
                take(value)

    def _dispatched(self, command: StartJob) -> None:
        self._placed[command.job.id] = command.builder
        self._occupy(command.builder, 1)

    def _attempt_over(self, event: JobFinished | AttemptLost) -> None:
        builder = self._placed.pop(event.job, None)
        if builder is not None:
            self._occupy(builder, -1)

    def _requested(self, builder: Builder) -> FoldedBuilder:
        made = self.builders[builder.id] = FoldedBuilder("requested")
        self.counts["requested"] += 1
        return made

    def _joined(self, event: BuilderJoined) -> None:
        builder = self.builders.get(event.builder.id) or self._requested(event.builder)
        builder.joined = True
        self._settle(builder)

    def _gone(self, name: str, state: Literal["retired", "lost"]) -> None:
        builder = self.builders.pop(name, None)
        if builder is None:
            return
        self.counts[builder.state] -= 1
        self.counts[state] += 1
        if builder.busy:
            for job in [job for job, where in self._placed.items() if where == name]:
                del self._placed[job]

    def _drained(self, event: DrainRequested) -> None:
        for builder in self._named(event.pattern):
            builder.draining = True
            builder.leaving = builder.leaving or event.retire
            self._settle(builder)

    def _undrained(self, event: UndrainRequested) -> None:
        for builder in self._named(event.pattern):
            builder.draining = builder.leaving
            self._settle(builder)

    def _told_to_go(self, command: DrainBuilder | RetireBuilder) -> None:
        builder = self.builders.get(command.builder)
        if builder is not None:
            builder.draining = builder.leaving = True
            self._settle(builder)

    def _occupy(self, name: str, slots: int) -> None:
        builder = self.builders.get(name)
        if builder is not None:
            builder.busy += slots
            self._settle(builder)

    def _settle(self, builder: FoldedBuilder) -> None:
        """Give a builder that is there the state that its marks say."""
        if builder.draining:
            state: BuilderStateName = "draining"
        else:
            state = "busy" if builder.busy else "idle"
        if state != builder.state:
            self.counts[builder.state] -= 1
            self.counts[state] += 1
            builder.state = state

    def _named(self, pattern: str) -> list[FoldedBuilder]:
        return [b for name, b in self.builders.items() if b.joined and fnmatchcase(name, pattern)]
