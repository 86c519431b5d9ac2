"""Wire messages: what hosts and submitters report, and what hosts are commanded to do.

JSON, versioned, bounded in size. What the farm's core knows travels as it is: its events in an
``Envelope`` through one of the scheduler's streams, its commands as the argument of a Celery task.
Each stream takes only its own kinds of report (a drain is one of two: an operator asks for it, or
the host whose builder is to leave). A message of another version is refused with a
``MessageError`` that names both versions.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Generic, Literal, TypeVar

import msgspec

from farm.core.commands import CancelJob, LoseBuilder, RetireBuilder, StartJob
from farm.core.errors import FarmError
from farm.core.events import (
    CancelRequested,
    DrainRequested,
    JobsSubmitted,
    PriorityChanged,
    SchedulingChanged,
    UndrainRequested,
)
from farm.core.model import Job
from farm.emulation.behaviour import BuilderSpec
from farm.emulation.builder import BuilderEvent
from farm.live.redis.keys import UNREADABLE, Stream

VERSION = 3
#: bytes of a message
MAX_BYTES = 1_000_000
#: reports in one envelope
MAX_REPORTS = 1000


class MessageError(FarmError):
    """A message that cannot be understood: another version, too large, malformed."""

    def __init__(
        self, why: str, reason: Literal["unreadable", "version", "too-large"] = "unreadable"
    ) -> None:
        super().__init__(why)
        self.reason = reason


# --- reports: to the scheduler ---------------------------------------------------------------


class _Report(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True, gc=False):
    """Base of reports to the scheduler that are not events of the farm."""


class LoadDone(_Report, frozen=True, tag="load-done"):
    """The sender submits nothing more."""


class HostUp(_Report, frozen=True, tag="host-up"):
    """A builder host is up and has no builders yet."""

    pid: int = 0
    #: it plays a builder of its own and must not be given others
    own: bool = False
    #: builders that it plays at most; 0: any number
    room: int = 0
    #: it plays builders of this pool only; empty: of any
    pool: str = ""
    #: the life of the farm that it was started for, and ends with; empty: it stands alone
    incarnation: str = ""


class Beat(_Report, frozen=True, tag="beat"):
    """A host is alive; these are all the attempts it holds and the builders it plays.

    One that is too large is sent in parts: each has those whose names (ids of jobs, of builders)
    come after the one and not after the other. So every part can be judged by itself.
    """

    held: tuple[tuple[str, int], ...] = ()
    builders: tuple[str, ...] = ()
    #: builders that were asked to retire and are shutting down
    retiring: tuple[str, ...] = ()
    #: it was asked to leave: it finishes its attempts and takes no more commands
    leaving: bool = False
    #: which part of each attempt in ``held`` is done, 0 to 1, in that order; None: not known
    done: tuple[float | None, ...] = ()
    after: str = ""
    #: None: to the last one
    until: str | None = None

    def covers(self, name: str) -> bool:
        """Whether it would name this job or builder if the host had it."""
        return self.after < name and (self.until is None or name <= self.until)

    def halves(self) -> tuple[Beat, ...]:
        """Return it as two parts; as it is, if it names one thing at most."""
        names = sorted({job for job, _ in self.held}.union(self.builders, self.retiring))
        if len(names) < 2:
            return (self,)
        middle = names[len(names) // 2 - 1]
        return self._part(self.after, middle), self._part(middle, self.until)

    def _part(self, after: str, until: str | None) -> Beat:
        part = Beat(leaving=self.leaving, after=after, until=until)
        kept = [place for place, (job, _) in enumerate(self.held) if part.covers(job)]
        return msgspec.structs.replace(
            part,
            held=tuple(self.held[place] for place in kept),
            done=tuple(self.done[place] for place in kept) if self.done else (),
            builders=tuple(filter(part.covers, self.builders)),
            retiring=tuple(filter(part.covers, self.retiring)),
        )


class HostLeft(_Report, frozen=True, tag="host-left"):
    """A host leaves deliberately; its remaining attempts are void."""


class Watch(_Report, frozen=True, tag="watch"):
    """A provisioner takes charge of this pool, and numbers its decisions from 1."""

    pool: str
    #: shown in the pool's reports once this has been read
    token: str
    #: its algorithm needs the estimates of work and time in the pool's reports
    closely: bool = False
    #: hosts that it starts itself (containers) play the pool's builders, one each
    outside: bool = False
    #: it plans at the multiples of this span of farm time, and needs a report then (s); 0: it does
    #: not plan
    interval: float = 0.0


class Plan(_Report, frozen=True, tag="plan"):
    """A provisioner's decision on a pool: builders that are to come, and how many are to go."""

    pool: str
    #: counts this provisioner's decisions on the pool; a report says which it follows upon
    serial: int
    desired: int
    start: int = 0
    #: to be drained, the idle ones first
    stop: int = 0
    #: what it was decided upon: booting, joined and waiting jobs
    booting: int = 0
    joined: int = 0
    waiting: int = 0
    why: str = ""
    #: limits that held, and the times for which the scenario has them (empty: all)
    least: int = 0
    most: int | None = None
    period: str = ""
    #: that of the Watch under which it was made: what another provisioner decided since then holds
    token: str = ""


class GiveUpBuilder(_Report, frozen=True, tag="give-up"):
    """A requested builder will not join, or its machine is gone."""

    builder: str
    reason: str
    #: its machine was stopped in order: the loss counts against no job
    #: (``farm.core.jobs.requeueing``); ``left`` in the message, as in those of earlier releases
    excused: bool = msgspec.field(default=False, name="left")


class Ask(_Report, frozen=True, tag="ask"):
    """A question to the scheduler's process; the answer is pushed on the list ``reply_to``."""

    #: ``farm``: the whole of it, a FarmImage; ``forecasts``: when the ``jobs`` start (``job`` is
    #: empty then)
    about: Literal["decision", "job", "farm", "forecasts"]
    job: str
    reply_to: str
    jobs: tuple[str, ...] = ()


HostReport = HostUp | Beat | HostLeft | BuilderEvent
Submission = JobsSubmitted | LoadDone
Request = CancelRequested | PriorityChanged | SchedulingChanged | DrainRequested | UndrainRequested
PlannerReport = Watch | Plan | GiveUpBuilder
Report = HostReport | Submission | Request | PlannerReport | Ask

UNSTAMPED = 0.0
"""``at`` of an event on its way: it is stamped with farm time when it is read."""

WireEvent = TypeVar("WireEvent", bound=BuilderEvent | JobsSubmitted | Request)
Kind_co = TypeVar("Kind_co", bound=Report, covariant=True)


def stamped(event: WireEvent, at: float) -> WireEvent:
    """Return the event as of this instant, whatever its sender's clock wrote on it."""
    return msgspec.structs.replace(event, at=at)


def limit_arrival(job: Job, at: float) -> None:
    """Let a job that was decoded at this instant not arrive later, by its submitter's clock."""
    if job.arrived_at is not None and job.arrived_at > at:
        msgspec.structs.force_setattr(job, "arrived_at", at)


class Envelope(msgspec.Struct, Generic[Kind_co], frozen=True, gc=False):
    """Reports of one sender, in order.

    ``life`` names one life of the sender (a restarted host has another) and is known to the sender
    and the scheduler only: who does not know it cannot speak for the sender. ``seq`` counts its
    envelopes, so that one that was sent twice over a broken connection is read once.
    """

    v: int
    sender: str
    life: str
    seq: int
    reports: tuple[Kind_co, ...]


def stream_of(report: Report) -> Stream:
    """Return the stream that takes such a report."""
    if isinstance(report, Submission):
        return "submissions"
    if isinstance(report, Request):
        return "requests"
    if isinstance(report, PlannerReport):
        return "plans"
    return "questions" if isinstance(report, Ask) else "reports"


# --- commands: to a builder host, as Celery tasks --------------------------------------------


class Play(BuilderSpec, frozen=True, kw_only=True, omit_defaults=True):
    """Play this builder from now on (task ``farm.play``); all spans in farm seconds."""

    #: farm seconds per real second
    speed: float = 1.0


class Reset(msgspec.Struct, frozen=True):
    """Forget every builder and attempt and come up as a new life (task ``farm.reset``).

    Obeyed only by the life named: a host that was given up for lost and is heard of again.
    """

    life: str


HostCommand = StartJob | CancelJob | RetireBuilder | LoseBuilder | Play | Reset

TASK_NAMES: dict[type[HostCommand], str] = {
    StartJob: "farm.start",
    CancelJob: "farm.cancel",
    RetireBuilder: "farm.retire",
    LoseBuilder: "farm.lose",
    Play: "farm.play",
    Reset: "farm.reset",
}

_encoder = msgspec.json.Encoder()
_decoders: dict[Stream, msgspec.json.Decoder[Any]] = {
    "reports": msgspec.json.Decoder(Envelope[HostReport]),
    "submissions": msgspec.json.Decoder(Envelope[Submission]),
    "requests": msgspec.json.Decoder(Envelope[Request]),
    "plans": msgspec.json.Decoder(Envelope[PlannerReport]),
    "questions": msgspec.json.Decoder(Envelope[Ask]),
}


class _Head(msgspec.Struct):
    v: int


_heads = msgspec.json.Decoder(_Head)
AnyCommand = TypeVar("AnyCommand", bound=HostCommand)


def encode(message: Envelope[Report] | HostCommand) -> bytes:
    """Return the message as JSON; raises MessageError if it is larger than MAX_BYTES.

    Half a surrogate pair (in what the user's own code raised) becomes a question mark.
    """
    try:
        data = _encoder.encode(message)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(message), ensure_ascii=False)
        data = text.encode(errors="replace")
    _check_size(data)
    return data


def decode_envelope(data: bytes, stream: Stream) -> Envelope[Report]:
    """Return what was written to this stream; raises MessageError."""
    _check_size(data)
    try:
        envelope: Envelope[Report] = _decoders[stream].decode(data)
    except UNREADABLE as error:
        with contextlib.suppress(*UNREADABLE):
            if (version := _heads.decode(data).v) != VERSION:
                raise _another(version) from None
        raise MessageError(f"malformed message: {error}") from None
    if envelope.v != VERSION:
        raise _another(envelope.v)
    return envelope


def _check_size(data: bytes) -> None:
    if len(data) > MAX_BYTES:
        found = f"message of {len(data)} bytes"
        raise MessageError(f"{found}: at most {MAX_BYTES} are allowed", "too-large")


def encode_play(play: Play) -> str:
    """Return a Play command as text, with the version (for FARM_PLAY)."""
    return msgspec.json.encode({"v": VERSION} | msgspec.to_builtins(play)).decode()


def decode_play(text: str) -> Play:
    """Return the Play command that is written in JSON; raises MessageError."""
    try:
        value = msgspec.json.decode(text, type=dict[str, object])
    except UNREADABLE as error:
        raise MessageError(f"malformed Play command: {error}") from None
    return convert_command(value, value.pop("v", None), Play)


def convert_command(value: object, version: object, kind: type[AnyCommand]) -> AnyCommand:
    """Return the command that a Celery task got as its arguments; raises MessageError."""
    if version != VERSION:
        raise _another(version)
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MessageError(f"malformed {kind.__name__} command: {error}") from None


def _another(version: object) -> MessageError:
    return MessageError(
        f"message of version {version!r:.20}, this side speaks version {VERSION}: "
        "run the same release of the farm on all sides",
        "version",
    )
