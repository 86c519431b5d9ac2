"""The lines of the event log, whose form is derived from the event and command classes.

A line is the event or command with ``at_s`` and ``event`` in front and its keys renamed by
:func:`farm.core.fields.json_name`. The exceptions are:

* ``job-submitted`` is one line per job (with its fields inlined, ``id`` as ``job``); the jobs of
  one event share a ``batch`` number;
* ``builder-requested`` and ``builder-joined`` have the builder's fields inlined (``id`` as
  ``builder``);
* ``job-dispatched`` names the job instead of repeating it;
* the end of a job is written into the ``job-finished`` line that caused it, or, if no such event
  did, as a separate line: ``job-cancelled``, or ``job-finished`` with ``decided``.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, get_args

import msgspec

from farm.core.commands import Command, EndJob, RequestBuilder, StartJob
from farm.core.events import BuilderJoined, Event, JobFinished, JobsSubmitted
from farm.core.fields import json_name
from farm.core.model import Builder, Cause, Job

Field = tuple[str, Any] | tuple[str, Any, Any]


def fields_of(struct: type[msgspec.Struct], *leave_out: str) -> list[Field]:
    """Return a struct's fields, in order, as ``msgspec.defstruct`` takes them."""
    found: list[Field] = []
    for field in msgspec.structs.fields(struct):
        if field.name in leave_out:
            continue
        if field.default is not msgspec.NODEFAULT:
            found.append((field.name, field.type, field.default))
        elif field.default_factory is not msgspec.NODEFAULT:
            factory = msgspec.field(default_factory=field.default_factory)
            found.append((field.name, field.type, factory))
        else:
            found.append((field.name, field.type))
    return found


def line_type(name: str, fields: list[Field]) -> Any:
    """Return a struct class for lines with these fields and renamed keys."""
    return msgspec.defstruct(
        name, fields, rename=json_name, omit_defaults=True, gc=False, module=__name__
    )


def values_of(struct: type[msgspec.Struct], *leave_out: str) -> Any:
    """Return a fast function from a struct to the tuple of its values, in order."""
    names = [f.name for f in msgspec.structs.fields(struct) if f.name not in leave_out]
    if not names:
        return lambda _: ()
    values = attrgetter(*names)
    return values if len(names) > 1 else lambda value: (values(value),)


def _named(key: str) -> Field:
    """Return the field of an id that is written under this key."""
    return ("id", str, msgspec.field(name=key))


def _required(fields: list[Field]) -> list[Field]:
    return [field for field in fields if len(field) == 2]


def _optional(fields: list[Field]) -> list[Field]:
    return [field for field in fields if len(field) == 3]


JobDetail = line_type("JobDetail", fields_of(Job))
"""A whole job in a line, only given if it differs from the submitted one."""

HEAD: list[Field] = [("at", float), ("event", str)]
IGNORED_MARK: Field = ("ignored", bool, False)
JOB_NOW: Field = ("job_now", JobDetail | None, None)

EVENTS: tuple[type[Event], ...] = get_args(Event)
COMMANDS: tuple[type[Command], ...] = get_args(Command)

SubmittedLine = line_type(
    "SubmittedLine",
    [*HEAD, _named("job"), *fields_of(Job, "id"), ("batch", int | None, None), IGNORED_MARK],
)
EmptyBatchLine = line_type("EmptyBatchLine", [*HEAD, ("batch", int), ("empty", bool), IGNORED_MARK])
JoinedLine = line_type(
    "JoinedLine", [*HEAD, _named("builder"), *fields_of(Builder, "id"), IGNORED_MARK]
)
RequestedLine = line_type(
    "RequestedLine",
    [*HEAD, _named("builder"), *fields_of(Builder, "id"), *fields_of(RequestBuilder, "builder")],
)
DispatchedLine = line_type(
    "DispatchedLine", [*HEAD, ("job", str), *fields_of(StartJob, "job"), JOB_NOW]
)

#: what EndJob adds to the job-finished event that caused it
_TOLD = ("job", "outcome", "attempts", "finished_at", "builder", "reason", "pool")
_STORY = fields_of(EndJob, *_TOLD)
FinishedLine = line_type(
    "FinishedLine",
    [
        *HEAD,
        *fields_of(JobFinished, "at"),
        IGNORED_MARK,
        ("ended", bool, False),
        *((name, kind | None, None) for name, kind, *_ in _STORY),
        JOB_NOW,
    ],
)
EndedLine = line_type(
    "EndedLine",
    [
        *HEAD,
        ("job", str),
        *_required(fields_of(EndJob, "job")),
        *_optional(fields_of(EndJob, "job", "cause", "pool")),
        ("cause", Cause | None, None),
        ("ended", bool, False),
        ("decided", bool, False),
        JOB_NOW,
    ],
)

_SPECIAL_EVENTS = (JobsSubmitted, BuilderJoined, JobFinished)
PLAIN_EVENTS: dict[type[Event], Any] = {
    event: line_type(event.__name__ + "Line", [*HEAD, *fields_of(event, "at"), IGNORED_MARK])
    for event in EVENTS
    if event not in _SPECIAL_EVENTS
}
PLAIN_COMMANDS: dict[type[Command], Any] = {
    command: line_type(command.__name__ + "Line", [*HEAD, *fields_of(command)])
    for command in COMMANDS
    if command not in (StartJob, EndJob, RequestBuilder)
}

LINES: dict[Any, Any] = {
    **PLAIN_EVENTS,
    **PLAIN_COMMANDS,
    JobsSubmitted: SubmittedLine,
    BuilderJoined: JoinedLine,
    JobFinished: FinishedLine,
    StartJob: DispatchedLine,
    EndJob: EndedLine,
    RequestBuilder: RequestedLine,
}
"""The type of an event's or a command's line, if it has a separate one."""

job_values = values_of(Job)
builder_values = values_of(Builder)
story_values = attrgetter(*(field[0] for field in _STORY))
