"""Wire messages: what hosts and submitters report, and what hosts are commanded to do.

JSON, versioned, bounded in size. What the farm's core knows travels as it is: its events in an
``Envelope`` through the inbox, its commands as the argument of a Celery task. A message of
another version is refused with a ``MessageError`` that names both versions.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from farm.core.commands import CancelJob, LoseBuilder, RetireBuilder, StartJob
from farm.core.errors import FarmError
from farm.core.events import (
    CancelRequested,
    DrainRequested,
    JobsSubmitted,
    PriorityChanged,
    UndrainRequested,
)
from farm.emulation.builder import BuilderEvent
from farm.emulation.spec import BuilderSpec

VERSION = 2
MAX_BYTES = 64 * 1024 * 1024


class MessageError(FarmError):
    """A message that cannot be understood: another version, too large, malformed."""


# --- reports: to the scheduler ---------------------------------------------------------------


class _Report(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True, gc=False):
    """Base of what is told to the scheduler and is no event of the farm."""


class LoadDone(_Report, frozen=True, tag="load-done"):
    """The sender submits nothing more."""


class HostUp(_Report, frozen=True, tag="host-up"):
    """A builder host is there and plays nobody yet."""

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
    """A host is alive; these are all the attempts it holds and the builders it plays."""

    held: tuple[tuple[str, int], ...] = ()
    builders: tuple[str, ...] = ()
    #: builders that were told to retire and are shutting down
    retiring: tuple[str, ...] = ()
    #: it was told to go: it finishes what it holds and takes no more commands
    leaving: bool = False


class HostLeft(_Report, frozen=True, tag="host-left"):
    """A host goes on purpose; whatever it still held is void."""


class Watch(_Report, frozen=True, tag="watch"):
    """A provisioner looks after this pool from now on, and counts its decisions from 1."""

    pool: str
    #: shown in the pool's reports from the moment that this is taken in
    token: str
    #: its algorithm needs the estimates of work and time in the pool's reports
    closely: bool = False
    #: hosts that it starts itself (containers) play the pool's builders, one each
    outside: bool = False


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


class GiveUpBuilder(_Report, frozen=True, tag="give-up"):
    """A builder that was asked for will not come, or its machine is gone."""

    builder: str
    reason: str


class Ask(_Report, frozen=True, tag="ask"):
    """A question to the scheduler's process; the answer is pushed on the list ``reply_to``."""

    #: ``farm``: the whole of it, a FarmImage (``job`` is empty then)
    about: Literal["decision", "job", "farm"]
    job: str
    reply_to: str


SubmitterEvent = (
    JobsSubmitted | CancelRequested | PriorityChanged | DrainRequested | UndrainRequested
)
"""Events of the farm that submitters and operators report."""

HostReport = Beat | HostLeft | BuilderEvent
Report = HostUp | HostReport | SubmitterEvent | LoadDone | Watch | Plan | GiveUpBuilder | Ask

UNSTAMPED = 0.0
"""``at`` of an event on its way: it is stamped with farm time where it is taken in."""

WireEvent = TypeVar("WireEvent", bound=BuilderEvent | SubmitterEvent)


def stamped(event: WireEvent, at: float) -> WireEvent:
    """Return the event as of this instant, whatever its sender's clock wrote on it."""
    return msgspec.structs.replace(event, at=at)


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """Reports of one sender, in order.

    ``life`` names one life of the sender (a restarted host has another); ``seq`` counts its
    envelopes, so that one that was sent twice over a broken connection is taken in once.
    """

    v: int
    sender: str
    life: str
    seq: int
    reports: tuple[Report, ...]


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
_envelopes = msgspec.json.Decoder(Envelope)


class _Head(msgspec.Struct):
    v: int


_heads = msgspec.json.Decoder(_Head)
AnyCommand = TypeVar("AnyCommand", bound=HostCommand)


def encode(message: Envelope | HostCommand) -> bytes:
    """Return the message as JSON; raises MessageError if it is larger than MAX_BYTES."""
    data = _encoder.encode(message)
    if len(data) > MAX_BYTES:
        raise MessageError(f"message of {len(data)} bytes: at most {MAX_BYTES} are allowed")
    return data


def decode_envelope(data: bytes) -> Envelope:
    """Return what was reported; raises MessageError (too large, malformed, another version)."""
    if len(data) > MAX_BYTES:
        raise MessageError(f"message of {len(data)} bytes: at most {MAX_BYTES} are allowed")
    try:
        envelope = _envelopes.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MessageError(_why_undecodable(data, error)) from None
    if envelope.v != VERSION:
        raise MessageError(_versions(envelope.v))
    return envelope


def encode_play(play: Play) -> str:
    """Return a Play command as text, with the version (for FARM_PLAY)."""
    return msgspec.json.encode({"v": VERSION} | msgspec.to_builtins(play)).decode()


def decode_play(text: str) -> Play:
    """Return the Play command that is written in JSON; raises MessageError."""
    try:
        value = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise MessageError(f"malformed Play command: {error}") from None
    return convert_command(value, value.pop("v", None), Play)


def convert_command(value: object, version: object, kind: type[AnyCommand]) -> AnyCommand:
    """Return the command that a Celery task got as its arguments; raises MessageError."""
    if version != VERSION:
        raise MessageError(_versions(version))
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MessageError(f"malformed {kind.__name__} command: {error}") from None


def _why_undecodable(data: bytes, error: Exception) -> str:
    try:
        version = _heads.decode(data).v
    except (msgspec.DecodeError, RecursionError):
        return f"malformed message: {error}"
    return _versions(version) if version != VERSION else f"malformed message: {error}"


def _versions(found: object) -> str:
    return (
        f"message of version {found!r}, this side speaks version {VERSION}: "
        "run the same release of the farm on all sides"
    )
