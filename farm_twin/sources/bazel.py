"""``bazel``: the JSON execution log of a build (``--execution_log_json_file``).

Of a remote spawn, ``startTime`` is when the worker began to execute, after its set-up; what it
waited in the queue is before that. Local spawns wait inside Bazel, for nothing that a farm has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from farm.records.attempt import Attempt
from farm.records.key_styles import in_camel_case
from farm.records.reading import Reading
from farm.records.source import Source
from farm_twin.sources.writing import stamp


class _Property(msgspec.Struct):
    name: str = ""
    value: str = ""


class _Platform(msgspec.Struct):
    properties: list[_Property] = []


class _Metrics(msgspec.Struct, rename="camel"):
    queue_time: str | None = None
    setup_time: str | None = None
    execution_wall_time: str | None = None
    process_outputs_time: str | None = None
    retry_time: str | None = None
    start_time: str | None = None


class _Spawn(msgspec.Struct, rename="camel"):
    runner: str
    metrics: _Metrics = msgspec.field(default_factory=_Metrics)
    mnemonic: str = ""
    cache_hit: bool = False
    status: str = ""
    exit_code: int = 0
    target_label: str = ""
    platform: _Platform | None = None


def knows(value: dict[str, object]) -> bool:
    """Return whether this is a spawn of Bazel's."""
    is_spelled_otherwise = "target_label" in value
    return "mnemonic" in value and "runner" in value and not is_spelled_otherwise


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield the remote spawns.

    They have no ids: those of another file with the same times are copies.
    """
    for text in reading.texts():
        alike: Counter[str] = Counter()
        for attempt in reading.attempts(reading.objects_of(text), _attempt):
            alike[attempt.id] += 1
            attempt.id += f"#{alike[attempt.id]}"
            yield attempt


def _attempt(value: dict[str, object], reading: Reading) -> Attempt:
    if not knows(value):
        reading.refuse_other(value, "spawns of --execution_log_json_file (mnemonic, runner)")
    spawn = reading.record(value, _Spawn)
    if spawn.cache_hit or spawn.runner.endswith("cache hit"):
        reading.leave_out("served from the cache")
    if spawn.runner != "remote":
        reading.leave_out("run locally, by Bazel itself")
    metrics = spawn.metrics
    executed_at = reading.instant(metrics.start_time, "startTime")
    if executed_at is None:
        reading.leave_out("without a time of start")
    started_at = executed_at - _seconds(metrics.setup_time, reading)
    spans = (metrics.execution_wall_time, metrics.process_outputs_time)
    properties = spawn.platform.properties if spawn.platform else []
    queued_at = started_at - _seconds(metrics.queue_time, reading)
    if _seconds(metrics.retry_time, reading):
        # the queue's time is the sum of all tries, the others are the last one's
        reading.noted["tried again by Bazel, with one wait for all tries"] += 1
    finished_at = executed_at + sum(_seconds(one, reading) for one in spans)
    return Attempt(
        id=f"{spawn.target_label}/{spawn.mnemonic}@{queued_at:.3f}-{finished_at:.3f}",
        submitted_at=queued_at,
        eligible_at=queued_at,
        started_at=started_at,
        finished_at=finished_at,
        result="failed" if spawn.status or spawn.exit_code else "succeeded",
        platform=",".join(sorted(f"{one.name}={one.value}" for one in properties)),
        kind=spawn.mnemonic,
        attributes={"target_id": spawn.target_label},
    )


def _seconds(span: str | None, reading: Reading) -> float:
    try:
        return float(span.removesuffix("s")) if span else 0.0
    except ValueError:
        reading.unreadable(f"found {span!r:.60}; allowed: seconds as 12.5s")


def write(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    """Yield remote spawns, of those that ran; the log has no workers."""
    for one in attempts:
        if one.started_at is None or one.finished_at is None:
            continue
        metrics = {
            "startTime": stamp(one.started_at),
            "queueTime": f"{one.waited or 0.0:.3f}s",
            "executionWallTime": f"{one.ran or 0.0:.3f}s",
        }
        parts = (part.partition("=") for part in one.platform.split(",") if part)
        properties = [{"name": name, "value": value} for name, _, value in parts]
        yield {
            "mnemonic": one.kind,
            "runner": "remote",
            "exitCode": int(one.result != "succeeded"),
            "targetLabel": one.id,
            "platform": {"properties": properties},
            "metrics": metrics,
        }


SOURCE = Source(read, knows, write, styles=(in_camel_case,))
