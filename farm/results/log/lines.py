"""The lines of the event log: which fields each kind has, and where their values come from.

A line is the event or command with ``at_s`` and ``event`` in front and its keys renamed by
:func:`farm.core.fields.json_name`. The types of its fields decide the rest:

* a builder's fields are inlined (``id`` under the name of the field, ``builder``);
* a job is named, and ``job_now`` repeats it only if it differs from the submitted one;
* ``job-submitted`` is one line per job (with its fields inlined, ``id`` as ``job``); the jobs of
  one event share a ``batch`` number, and the first says by ``ended_needs`` how those ended that
  they need and that are over;
* the end of a job is folded into the ``job-finished`` line that caused it, or, if no such event
  did, it is a separate line: ``job-cancelled``, or ``job-finished`` with ``decided``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import astuple

from farm.core.commands import Command, EndJob, StartJob, log_name
from farm.core.events import Event, JobFinished, JobsSubmitted
from farm.core.fields import json_name
from farm.core.model import Builder, Job, Outcome

EVENTS: tuple[type[Event], ...] = get_args(Event)
COMMANDS: tuple[type[Command], ...] = get_args(Command)

FOLDED = {
    "finished_at": "at",
    "job.id": "job",
    "attempts": "attempt",
    "builder": "builder",
    "outcome": "outcome",
    "reason": "reason",
}
"""What the end of a job repeats of the JobFinished that caused it: all its fields, in order."""


class Part(NamedTuple):
    """A field of a line."""

    name: str
    kind: Any
    default: object = NODEFAULT
    #: where its value is in the event or command; empty: the writer adds it
    path: str = ""
    #: its key in the line, if it is not the name's
    key: str = ""


def parts_of(struct: type[msgspec.Struct], within: str = "") -> Iterator[Part]:
    """Yield the parts of a struct, or of one that is inlined: ``within`` that field of another."""
    for one in msgspec.structs.fields(struct):
        path = f"{within}.{one.name}" if within else one.name
        default = one.default if one.default_factory is NODEFAULT else one.default_factory
        if one.type is Builder:
            yield from parts_of(Builder, one.name)
        elif one.type is Job:
            yield Part(one.name, str, path=f"{path}.id")
        else:
            yield Part(one.name, one.type, default, path, within if one.name == "id" else "")


def values_of(paths: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    """Return a fast function from a value to what is found in it at these paths."""
    if not paths:
        return lambda _: ()
    values = attrgetter(*paths)
    return values if len(paths) > 1 else lambda value: (values(value),)


def line_type(name: str, parts: Sequence[Part], tag: str | None = None) -> type[msgspec.Struct]:
    """Return a struct class of these parts; ``tag``: it is recognised by its ``event``."""
    fields = []
    for part in parts:
        how = "default_factory" if isinstance(part.default, type) else "default"
        key = part.key or json_name(part.name)
        fields.append((part.name, part.kind, msgspec.field(name=key, **{how: part.default})))
    return msgspec.defstruct(
        name,
        fields,
        omit_defaults=True,
        gc=False,
        module=__name__,
        tag=tag,
        tag_field=None if tag is None else "event",
    )


class Line:
    """How the lines of one kind are written and read.

    Args:
        of: the event or command, or the job.
        parts: the fields after the instant and the kind.
        name: the kind.
    """

    def __init__(self, of: type[msgspec.Struct], parts: Sequence[Part], name: str) -> None:
        self.name = name
        self.parts = parts
        self._of = of
        #: the values of an event or command, which the writer's own follow
        paths = tuple([part.path for part in parts if part.path])
        self.values = astuple if paths == of.__struct_fields__ else values_of(paths)

    @cached_property
    def written(self) -> type[msgspec.Struct]:
        """The struct that is encoded; made when it is used, as most runs write no log."""
        kind = Part("event", str)
        return line_type(f"{self._of.__name__}Line", [_AT, kind, *self.parts])

    @cached_property
    def read(self) -> type[msgspec.Struct]:
        """The struct that is decoded: the instant comes first, where msgspec would write a tag."""
        return line_type(f"{self._of.__name__}Line", [_AT, *self.parts], self.name)

    @cached_property
    def decode(self) -> Callable[[bytes], msgspec.Struct]:
        """Reads one line. Raises as msgspec does."""
        return msgspec.json.Decoder(self.read).decode


_AT = Part("at", float)

JobDetail = line_type("JobDetail", list(parts_of(Job)))
"""A whole job in a line."""

_IGNORED, _ENDED = Part("ignored", bool, False), Part("ended", bool, False)
_JOB_NOW = Part("job_now", JobDetail | None, None)
#: the pool is known from the builder
_END = [part for part in parts_of(EndJob) if part.name != "pool"]
STORY = [Part(part.name, part.kind | None, None) for part in _END if part.path not in FOLDED]
"""What the end of a job adds to the line of the JobFinished that caused it."""

#: what the writer adds
_MORE: dict[object, list[Part]] = {
    **{of: [_IGNORED] for of in EVENTS},
    **{of: [] for of in COMMANDS},
    JobsSubmitted: [
        Part("batch", int | None, None),
        Part("ended_needs", dict[str, Outcome] | None, None),
        _IGNORED,
    ],
    JobFinished: [_IGNORED, _ENDED, *STORY, _JOB_NOW],
    StartJob: [_JOB_NOW],
    EndJob: [_ENDED, Part("decided", bool, False), _JOB_NOW],
}


def _line(of: type[msgspec.Struct]) -> Line:
    values_in, parts = of, [part for part in parts_of(of) if part.name != "at"]
    if of is JobsSubmitted:
        values_in, parts = Job, [part._replace(path=part.name) for part in parts_of(Job, "job")]
    elif of is EndJob:  # the cause is written even if it is the usual one
        *parts, cause = _END
        parts.append(cause._replace(kind=cause.kind | None, default=None))
    return Line(values_in, [*parts, *_MORE[of]], log_name(JobFinished if of is EndJob else of))


LINES: dict[object, Line] = {of: _line(of) for of in (*EVENTS, *COMMANDS)}
"""The line of each event and command; of an end that no event caused, if it is not CANCELLED."""
CANCELLED = Line(EndJob, LINES[EndJob].parts, "job-cancelled")
EMPTY = Line(
    JobsSubmitted, [Part("batch", int), Part("empty", bool), _IGNORED], log_name(JobsSubmitted)
)
"""A submission of no job."""
