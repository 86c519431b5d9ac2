"""The auditor's own records of jobs and builders, from events and commands alone."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

import msgspec

from farm.core.commands import Command
from farm.core.events import Event
from farm.core.model import Builder, Job, Outcome, Platform

Place = Literal["waiting", "placed", "nowhere"]


class Occupant(NamedTuple):
    """The holder of a slot."""

    job: str
    attempt: int


class AuditedJob(msgspec.Struct):
    """What events and commands say about a job.

    A job is ``nowhere`` from the end of its attempt until it is requeued, and after its end.
    """

    job: Job
    submitted_at: float
    place: Place = "waiting"
    #: how it ended
    outcome: Outcome | None = None
    attempts: int = 0
    builder: str = ""
    slot: int = 0
    history: list[tuple[float, Event | Command]] = []

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.outcome is not None

    @property
    def hangs(self) -> bool:
        """Whether the job was forgotten without having ended."""
        return self.place == "nowhere" and not self.ended

    def note(self, at: float, value: Event | Command) -> None:
        """Add to the job's history."""
        self.history.append((at, value))


class AuditedBuilder(msgspec.Struct):
    """What events and commands say about a present builder."""

    builder: Builder
    #: by slot number; free slots are missing
    slots: dict[int, Occupant] = {}
    cleaning: set[int] = set()
    draining: bool = False
    #: it is being retired: draining cannot be undone
    leaving: bool = False
    #: attempts dispatched to it so far
    used: int = 0

    def is_named(self, pattern: str) -> bool:
        """Return whether the shell pattern matches the builder's id."""
        return fnmatchcase(self.builder.id, pattern)

    def occupants(self) -> Iterator[Occupant]:
        """Yield the holders of its slots, by slot number."""
        for _, occupant in sorted(self.slots.items()):
            yield occupant

    def free(self, slot: int, *, to_be_cleaned: bool) -> None:
        """Remove a job from its slot."""
        del self.slots[slot]
        if to_be_cleaned:
            self.cleaning.add(slot)

    def refuses(self, platform: Platform, slot: int) -> str | None:
        """Return why a job of this platform may not be put into that slot; None if it may."""
        if not self.builder.takes_jobs:
            return "which takes no jobs"
        if self.draining or self.leaving:
            return "which is draining"
        if (uses := self.builder.uses) is not None and self.used >= uses:
            return f"whose uses ({uses}) are all taken"
        if not self.builder.can_run(platform):
            return f"which cannot run {platform}"
        if not 0 <= slot < self.builder.slots:
            return f"which has no slot {slot}"
        if slot in self.slots:
            return f"whose slot {slot} holds {self.slots[slot].job!r}"
        if slot in self.cleaning:
            return f"whose slot {slot} is being cleaned"
        return None
