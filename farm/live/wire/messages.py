"""Wire messages: what hosts and submitters report, and what hosts are ordered to do.

JSON, versioned (``v``), bounded in size. Reports travel in an ``Envelope`` through the inbox;
orders travel as the one argument of a Celery task. A message of another version is refused
with a ``MessageError`` that names both versions.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from farm.core.dispatching.load_limits import LoadLimits
from farm.core.errors import FarmError
from farm.core.model import Builder, Job, Outcome

VERSION = 1
MAX_BYTES = 64 * 1024 * 1024


class MessageError(FarmError):
    """A message that cannot be understood: another version, too large, malformed."""


# --- reports: to the scheduler ---------------------------------------------------------------


class _Report(msgspec.Struct, frozen=True, tag_field="r", omit_defaults=True, gc=False):
    """Base of what is told to the scheduler."""


class Submit(_Report, frozen=True, tag="submit"):
    """Jobs handed in together."""

    jobs: tuple[Job, ...]


class LoadDone(_Report, frozen=True, tag="load-done"):
    """The sender submits nothing more."""


class Cancel(_Report, frozen=True, tag="cancel"):
    """Somebody wants jobs, a matrix or an invocation to end."""

    jobs: tuple[str, ...] = ()
    matrix: str | None = None
    invocation: tuple[str, ...] | None = None
    reason: str = "cancelled by request"


class ChangePriority(_Report, frozen=True, tag="priority"):
    """A waiting job gets another level, score or priority."""

    job: str
    level: int | None = None
    score: float | None = None
    priority: int | None = None


class Drain(_Report, frozen=True, tag="drain"):
    """Builders that match the pattern take no more jobs; with ``retire`` they go when empty."""

    pattern: str
    retire: bool = False


class Undrain(_Report, frozen=True, tag="undrain"):
    """Builders that match the pattern take jobs again."""

    pattern: str


class HostUp(_Report, frozen=True, tag="host-up"):
    """A builder host is there and plays nobody yet."""

    pid: int = 0
    #: it plays a builder of its own and must not be given others
    own: bool = False
    #: builders that it plays at most; 0: any number
    room: int = 0
    #: it plays builders of this pool only; empty: of any
    pool: str = ""


class Beat(_Report, frozen=True, tag="beat"):
    """A host is alive; these are all the attempts it holds and the builders it plays."""

    held: tuple[tuple[str, int], ...] = ()
    builders: tuple[str, ...] = ()
    #: builders that were told to retire and are shutting down
    retiring: tuple[str, ...] = ()
    #: it was told to go: it finishes what it holds and takes no more orders
    leaving: bool = False


class HostLeft(_Report, frozen=True, tag="host-left"):
    """A host goes on purpose; whatever it still held is void."""


class BuilderUp(_Report, frozen=True, tag="builder-up"):
    """A played builder has booted and offers its slots."""

    builder: Builder


class BuilderGone(_Report, frozen=True, tag="builder-gone"):
    """A retired builder has shut down, or a builder was lost as the scenario says."""

    builder: str
    lost: bool = False


class Started(_Report, frozen=True, tag="started"):
    """An attempt began."""

    job: str
    attempt: int
    builder: str


class Finished(_Report, frozen=True, tag="finished"):
    """An attempt ended."""

    job: str
    attempt: int
    builder: str
    outcome: Outcome
    reason: str = ""


class Cleaned(_Report, frozen=True, tag="cleaned"):
    """A slot was cleaned after a job."""

    builder: str
    slot: int


class Load(_Report, frozen=True, tag="load"):
    """How loaded a builder is, and whether it refuses heavy jobs."""

    builder: str
    load: float
    overloaded: bool


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


Report = (
    Submit
    | LoadDone
    | Cancel
    | ChangePriority
    | Drain
    | Undrain
    | HostUp
    | Beat
    | HostLeft
    | BuilderUp
    | BuilderGone
    | Started
    | Finished
    | Cleaned
    | Load
    | Watch
    | Plan
    | GiveUpBuilder
    | Ask
)


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


# --- orders: to a builder host, as Celery tasks ----------------------------------------------


class _Order(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    v: int

    def __post_init__(self) -> None:
        if self.v != VERSION:
            raise MessageError(_versions(self.v))


class StartAttempt(_Order, frozen=True):
    """Run this job on that slot (task ``farm.start``)."""

    job: Job
    attempt: int
    builder: str
    slot: int


class CancelAttempt(_Order, frozen=True):
    """Stop an attempt (task ``farm.cancel``)."""

    job: str
    attempt: int
    builder: str
    reason: str = ""


class Play(_Order, frozen=True):
    """Play this builder from now on (task ``farm.play``); all spans in farm seconds."""

    builder: Builder
    #: farm seconds per real second
    speed: float = 1.0
    boot_time: float = 0.0
    inter_job_time: float = 0.0
    shutdown_time: float = 0.0
    #: the pool's contention model as the scenario writes it; empty: none
    contention: dict[str, Any] = {}
    #: report when the slowdown reaches these limits; None: never
    load_limits: LoadLimits | None = None


class Retire(_Order, frozen=True):
    """Shut this builder down (task ``farm.retire``)."""

    builder: str


class Lose(_Order, frozen=True):
    """Let this builder vanish with whatever it runs (task ``farm.lose``)."""

    builder: str


class Reset(_Order, frozen=True):
    """Forget every builder and attempt and come up as a new life (task ``farm.reset``).

    Obeyed only by the life named: a host that was given up for lost and is heard of again.
    """

    life: str


Order = StartAttempt | CancelAttempt | Play | Retire | Lose | Reset

TASK_NAMES: dict[type[Order], str] = {
    StartAttempt: "farm.start",
    CancelAttempt: "farm.cancel",
    Play: "farm.play",
    Retire: "farm.retire",
    Lose: "farm.lose",
    Reset: "farm.reset",
}

_encoder = msgspec.json.Encoder()
_envelopes = msgspec.json.Decoder(Envelope)


class _Head(msgspec.Struct):
    v: int


_heads = msgspec.json.Decoder(_Head)
AnyOrder = TypeVar("AnyOrder", bound=_Order)


def encode(message: Envelope | Order) -> bytes:
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


def decode_play(text: str) -> Play:
    """Return the Play order that is written in JSON; raises MessageError."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MessageError(f"malformed Play order: {error}") from None
    return convert_order(value, Play)


def convert_order(value: object, kind: type[AnyOrder]) -> AnyOrder:
    """Return the order that a Celery task got as its argument; raises MessageError."""
    if isinstance(value, dict) and value.get("v") != VERSION:
        raise MessageError(_versions(value.get("v")))
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MessageError(f"malformed {kind.__name__} order: {error}") from None


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
