"""Limits of reports: sizes of numbers and texts that the whole farm can handle.

Submitters check them for an immediate error; the scheduler checks them again.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from farm.core import commands, events
from farm.core.model import Builder, Cause, Job
from farm.live.wire import messages as wire

#: characters of an id: of a job, a builder, a host
MAX_ID = 256
#: characters of a job's kind, matrix, attribute, …
MAX_TEXT = 1000
#: attributes of a job, labels of a builder, parts of an invocation, processors, …
MAX_ITEMS = 64
#: the largest level, priority, number of threads, of attempts
MAX_LEVEL = 10**9
#: builders that one plan may ask for, or one host may announce room for
MAX_BUILDERS = 100_000
#: slots of a builder
MAX_SLOTS = 10_000
#: jobs in one submission or one cancellation
MAX_JOBS = 1000
#: attempts and builders in one heartbeat
MAX_HELD = 100_000
#: a counter on the wire: no more than a float holds exactly
MAX_COUNT = 2**53


class _FlawError(Exception):
    """An unacceptable value."""


def flaw_of(job: Job) -> str | None:
    """Return what makes a submitted job unacceptable; None if it is acceptable."""
    try:
        _check_id("job id", job.id)
    except _FlawError as flaw:
        return str(flaw)
    try:
        _check_job(job)
    except _FlawError as flaw:
        return f"job {job.id}: {flaw}"
    return None


def flaw_of_envelope(envelope: wire.Envelope[wire.Report]) -> str | None:
    """Return what makes an envelope unacceptable, apart from its reports, or None."""
    try:
        _check_id("sender", envelope.sender)
        _check_id("life", envelope.life)
        _check_whole("seq", envelope.seq, 1, MAX_COUNT)
        _check_count("reports", envelope.reports, wire.MAX_REPORTS)
    except _FlawError as flaw:
        return str(flaw)
    return None


def flaw_of_report(report: wire.Report) -> str | None:
    """Return what makes a report unacceptable, or None (jobs are checked one by one)."""
    try:
        _check_report(report)
    except _FlawError as flaw:
        return f"{type(report).__name__}: {flaw}"
    return None


def flaw_of_command(command: wire.HostCommand) -> str | None:
    """Return what makes a command unacceptable to a host, or None."""
    try:
        _check_command(command)
    except _FlawError as flaw:
        return f"{type(command).__name__}: {flaw}"
    return None


def readable(text: str) -> str:
    """Return the printable part of a reason or remark, which is not worth refusing."""
    return text if text.isprintable() and len(text) <= MAX_TEXT else ascii(text[:MAX_TEXT])[1:-1]


def _check_report(report: wire.Report) -> None:
    match report:
        case events.JobsSubmitted():
            _check_count("jobs", report.jobs, MAX_JOBS)
        case events.CancelRequested():
            _check_cancellation(report)
        case events.PriorityChanged():
            _check_priority(report)
        case events.SchedulingChanged():
            _check_scheduling(report)
        case events.DrainRequested() | events.UndrainRequested():
            _check_id("pattern", report.pattern)
        case events.BuilderJoined():
            _check_builder(report.builder)
        case events.JobStarted() | events.JobFinished():
            _check_id("job", report.job)
            _check_id("builder", report.builder)
            _check_whole("attempt", report.attempt, 1, MAX_LEVEL)
        case events.BuilderRetired() | events.BuilderLost():
            _check_id("builder", report.builder)
        case events.SlotCleaned():
            _check_id("builder", report.builder)
            _check_whole("slot", report.slot, 0, MAX_SLOTS)
        case events.LoadReported():
            _check_id("builder", report.builder)
            _check_number("load", report.load)
        case wire.HostUp():
            _check_whole("room", report.room, 0, MAX_BUILDERS)
            _check_text("pool", report.pool)
        case wire.Beat():
            for name in ("held", "builders", "retiring"):
                _check_count(name, getattr(report, name), MAX_HELD)
        case wire.Watch():
            _check_text("pool", report.pool)
            _check_id("token", report.token)
        case wire.Plan():
            _check_plan(report)
        case wire.GiveUpBuilder():
            _check_id("builder", report.builder)
        case wire.Ask():
            _check_text("job", report.job)
            _check_id("reply_to", report.reply_to)
        case _:  # LoadDone and HostLeft say nothing more
            pass


def _check_command(command: wire.HostCommand) -> None:
    match command:
        case commands.StartJob():
            _check_id("job id", command.job.id)
            _check_job(command.job)
            _check_whole("attempt", command.attempt, 1, MAX_LEVEL)
            _check_whole("slot", command.slot, 0, MAX_SLOTS)
        case wire.Play():
            _check_builder(command.builder)
            _check_finite(msgspec.to_builtins(command))
            if not (command.speed > 0 and command.boot_time >= 0):
                raise _FlawError("speed is not > 0, or boot_time not >= 0")
        case _:  # the others have no such text
            pass


def _check_finite(value: Any) -> None:
    if isinstance(value, float):
        _check_number("a number", value)
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_finite(part)


def _check_job(job: Job) -> None:
    for name in ("service_time", "declared_time", "size"):
        value = getattr(job, name)
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise _FlawError(f"{name} {value} is not a finite number >= 0")
    for name in ("score", "arrived_at"):
        if (value := getattr(job, name)) is not None:
            _check_number(name, value)
    for name in ("level", "priority"):
        _check_whole(name, getattr(job, name), -MAX_LEVEL, MAX_LEVEL)
    _check_whole("threads", job.threads, 1, MAX_LEVEL)
    texts = {"kind": job.kind, "matrix": job.matrix, "action": job.action, "mode": job.mode}
    for name, text in texts.items():
        _check_text(name, text)
    _check_text("processor", job.platform.processor)
    _check_pairs("attribute", job.attributes)


def _check_builder(builder: Builder) -> None:
    _check_id("builder", builder.id)
    _check_text("pool", builder.pool)
    _check_text("host", builder.host)
    _check_whole("index", builder.index, -1, MAX_LEVEL)
    _check_whole("slots", builder.slots, 1, MAX_SLOTS)
    if builder.cores is not None:
        _check_whole("cores", builder.cores, 1, MAX_LEVEL)
    if not (math.isfinite(builder.speed) and builder.speed > 0):
        raise _FlawError(f"speed {builder.speed} is not a finite number > 0")
    if not (math.isfinite(builder.boot_delay) and builder.boot_delay >= 0):
        raise _FlawError(f"boot_delay {builder.boot_delay} is not a finite number >= 0")
    if builder.lifetime is not None and not (builder.lifetime >= 0):
        raise _FlawError(f"lifetime {builder.lifetime} is not a number >= 0")
    _check_texts("processors", builder.processors)
    _check_pairs("label", builder.labels)


def _check_cancellation(report: events.CancelRequested) -> None:
    if report.cause is not Cause.REQUESTED:
        raise _FlawError(f"cause {report.cause.value}: only {Cause.REQUESTED.value} is allowed")
    _check_count("jobs", report.jobs, MAX_JOBS)
    for name in report.jobs:
        _check_id("job", name)
    _check_text("matrix", report.matrix)
    _check_text("reason", report.reason)
    _check_texts("invocation", report.invocation or ())


def _check_scheduling(report: events.SchedulingChanged) -> None:
    weights = report.weights or {}
    _check_text("policy", report.policy)
    _check_texts("weight", tuple(weights))
    if (factor := report.aging_factor) is not None and not 0 <= factor < MAX_LEVEL:
        raise _FlawError(f"aging_factor {factor}: from 0, below {MAX_LEVEL} is allowed")
    for name, weight in weights.items():
        if not 0 < weight < MAX_LEVEL:
            raise _FlawError(f"{name} {weight}: above 0, below {MAX_LEVEL} is allowed")


def _check_priority(report: events.PriorityChanged) -> None:
    _check_id("job", report.job)
    for name in ("level", "priority"):
        if (value := getattr(report, name)) is not None:
            _check_whole(name, value, -MAX_LEVEL, MAX_LEVEL)
    if report.score is not None:
        _check_number("score", report.score)


def _check_plan(report: wire.Plan) -> None:
    _check_text("pool", report.pool)
    _check_whole("serial", report.serial, 0, MAX_COUNT)
    for name in ("desired", "start", "stop", "booting", "joined"):
        _check_whole(name, getattr(report, name), 0, MAX_BUILDERS)
    _check_whole("waiting", report.waiting, 0, MAX_COUNT)


def _check_id(name: str, text: str) -> None:
    if not text or len(text) > MAX_ID:
        raise _FlawError(f"{name} of {len(text)} characters: 1 to {MAX_ID} are allowed")
    if not text.isprintable():
        raise _FlawError(f"{name} {text!r} has control characters")


def _check_text(name: str, text: str | None) -> None:
    if text is not None and len(text) > MAX_TEXT:
        raise _FlawError(f"{name} of {len(text)} characters: up to {MAX_TEXT} are allowed")
    if text is not None and not text.isprintable():
        raise _FlawError(f"{name} {text!r:.100} has control characters")


def _check_texts(name: str, texts: tuple[str, ...]) -> None:
    _check_count(name, texts, MAX_ITEMS)
    for text in texts:
        _check_text(name, text)


def _check_pairs(name: str, pairs: dict[str, str]) -> None:
    _check_count(f"{name}s", pairs, MAX_ITEMS)
    for key, value in pairs.items():
        _check_text(f"{name} name", key)
        _check_text(f"{name} {key:.50}", value)


def _check_count(name: str, items: tuple[object, ...] | dict[str, str], most: int) -> None:
    if len(items) > most:
        raise _FlawError(f"{len(items)} {name}: up to {most} are allowed")


def _check_number(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise _FlawError(f"{name} {value} is not a finite number")


def _check_whole(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        shown = str(value) if abs(value) < 10**40 else "of very many digits"
        raise _FlawError(f"{name} {shown} is not between {least} and {most}")
