"""The twin as a scenario file that a person can read: each inferred number with its evidence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any
from unicodedata import normalize

import numpy as np

from farm.records.attempt import Attempt
from farm.records.attempt_columns import AttemptColumns
from farm.records.runners import most_at_once
from farm.records.traces.bundle import UNLABELLED
from farm.results.formatting import readable_span
from farm.scenario.file.document import value_text
from farm.units import format_roughly, many
from farm_twin.twins.candidates import STOPPING, Candidate, at_defaults, boot_seen, readable
from farm_twin.twins.pool_shapes import Shape

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._-]*\Z")
"""A text that YAML takes as one without quotes, but for its words for booleans and null."""
_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
UNJUDGED = "unjudged"
FORMAT_REMARKS = {
    "bundle-retries-first": "    # tried again, jobs started before older ones that waited"
}
SHORT = 300.0
"""Seconds that the idle runners of most provisioners stay, at least."""
ONE_POOL = "jobs without a label are one pool: any of its runners runs any of them"
_SPANS = (
    "pickup_time", "inter_job_time", "boot_time", "idle_timeout", "objective", "window",
    "idle_time", "interval", "first_plan", "start", "hold", "cooldown", "stabilization_window",
    "polling_interval", "initial_delay", "out_cooldown", "in_cooldown", "ahead",
)  # fmt: skip


def pool_names(shapes: Sequence[Shape]) -> list[str]:
    """Return a name for each pool, as scenarios allow them: its most frequent label."""
    names: list[str] = []
    for shape in shapes:
        label = shape.platforms[0] if shape.platforms else ""
        plain = normalize("NFKD", label).encode("ascii", "ignore").decode()
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", plain)[:60].strip("-") or "pool"
        names.append(name if name not in names else f"{name}-{len(names) + 1}")
    return names


def pool_document(
    name: str, shape: Shape, candidate: Candidate, begins: float, *, labelled: bool
) -> dict[str, object]:
    """Return a pool as a scenario has it; its first job arrives at ``begins``, farm time.

    ``labelled``: some jobs of the farm ask for labels.
    """
    found: dict[str, Any] = {"name": name}
    if labelled:
        found["platform"] = {"processors": sorted(one or UNLABELLED for one in shape.platforms)}
    found["slots"] = shape.slots
    pickup, between = times_of(shape)
    if pickup:
        found["pickup_time"] = pickup
    if between:
        found["inter_job_time"] = between
    found |= candidate.document()
    if "provisioner" in found:
        found["provisioner"] = _later(found["provisioner"], begins)
    return found


def unjudged(
    ran: Sequence[Attempt], pools: Sequence[Shape]
) -> tuple[dict[str, object], str] | None:
    """Return a pool for the jobs of labels that none of these has, and why it is as it is.

    Since when any of them waited is not known. None: there are no such jobs.
    """
    known = {name for one in pools for name in one.platforms}
    others = [one for one in ran if one.platform not in known]
    if not others:
        return None
    labels = sorted({one.platform or UNLABELLED for one in others})
    columns = AttemptColumns.of(others)
    most = most_at_once(columns.started_at, columns.finished_at)
    why = (
        f"since when these {many(len(others), 'job')} waited is not in the records: as many "
        "runners as jobs ran at once, and no check"
    )
    return {"name": UNJUDGED, "platform": {"processors": labels}, "builders": most}, why


def _later(sizing: Mapping[str, Any], begins: float) -> dict[str, Any]:
    """Return a provisioner with its instants counted from ``begins``."""
    instants = (key for key in ("first_plan", "start") if key in sizing)
    # microseconds, as instants of today have them
    moved = {key: round(sizing[key] + begins, 6) for key in instants}
    if "by_time" in sizing:
        moved["by_time"] = [_later(one, begins) for one in sizing["by_time"]]
    return {**sizing, **moved}


def times_of(shape: Shape) -> tuple[float, float]:
    """Return how long a slot is held before a job and after it, seconds.

    After the job of a runner of one job the next runner boots, which is not part of either.
    """
    if shape.ephemeral:
        return readable(shape.warm_pickup), 0.0
    before = readable(shape.pickup_time)
    return before, readable(max(0.0, shape.turnaround - before))


def scenario_text(
    path: str,
    pools: Sequence[tuple[dict[str, object], Sequence[str]]],
    scheduling: Mapping[str, object],
    remarks: Sequence[str],
    errors: Mapping[str, object] | None,
    starts: str,
    trace_format: str = "bundle",
) -> str:
    """Return the file: ``remarks``, then ``pools`` with the evidence for their numbers.

    ``starts``: weekday and time of day of the first arrival by the records' clock, if they have
    dates or numbers go by it.
    ``errors`` are the section ``twin``: the errors of the waits of all pools together (shares),
    and how well each pool waits as recorded; ``trace_format`` that of the records.
    """
    lines = [*(f"# {line}" for line in remarks), "version: 1", "name: twin", "seed: 1"]
    lines += [f"starts: {starts}", "pools:"] if starts else ["pools:"]
    for document, evidence in pools:
        lines += [f"  # {line}" for line in evidence]
        marks = chain(["  - "], repeat("    "))
        lines += [f"{mark}{line}" for mark, line in zip(marks, pool_keys(document), strict=False)]
    lines += ["workload:", "  - trace:", f"      path: {value_text(path)}"]
    lines.append(f"      format: {trace_format}{FORMAT_REMARKS.get(trace_format, '')}")
    if errors is not None:
        lines.append(f"twin: {{{', '.join(_marks(errors))}}}")
    return "\n".join([*lines, "scheduling:", *scheduling_lines(scheduling)]) + "\n"


def _marks(errors: Mapping[str, object]) -> Iterator[str]:
    """Yield the keys of the section ``twin``."""
    for name, value in errors.items():
        yield f"{name}: {value:.4f}" if isinstance(value, float) else f"{name}: {_flow(value)}"


def scheduling_lines(scheduling: Mapping[str, object]) -> Iterator[str]:
    """Yield the lines of the section ``scheduling``."""
    for key, value in scheduling.items():
        yield f"  {key}: {_flow(value)}"


def pool_keys(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the lines of a pool, a key each."""
    for key, value in document.items():
        yield f"{key}: {_flow(value, key)}"


def _flow(value: object, key: str = "") -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_flow(name)}: {_flow(one, name)}" for name, one in value.items())
        return "{" + inner + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(one) for one in value) + "]"
    if key in _SPANS:
        return f"{value:.15g}s"
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    return value_text(value)


def evidence_of(shape: Shape, candidate: Candidate, tried: str) -> list[str]:
    """Return why a pool is as it is, a line each."""
    found = []
    if "boot_time" in candidate.pool or "boot_delay" in candidate.pool:  # not searched
        return [_hosted(shape)]
    if shape.platforms == ("",):
        found.append(ONE_POOL)
    if shape.ever:
        runners = many(shape.ever, "runner")
        runners += f", at most {shape.runners:,} at once" * (shape.runners < shape.ever)
        jobs = f"{many(shape.slots, 'job')} at once on each"
        found.append(f"{runners}, {'one job each' if shape.ephemeral else jobs}")
    else:
        found.append(f"no runners in the records: {many(shape.runners, 'job')} at once")
    if shape.turnarounds and not shape.ephemeral:
        found.append(
            f"{format_roughly(shape.turnaround)} from an end to the next start on its slot "
            f"(mean of {shape.turnarounds:,}); {format_roughly(shape.pickup_time)} from a free "
            "slot to a start"
        )
    if shape.is_fixed and candidate.algorithm == "fixed":
        longest, _ = shape.idle_times.bounds(0)
        if longest < SHORT:
            found.append(
                f"none was without work for longer than {readable_span(longest)}: a provisioner "
                "that is always at its maximum shows the same"
            )
    if candidate.algorithm != "fixed":
        if candidate.algorithm == "manual":
            found.append(_changes(candidate.options, shape.clock.zone))
            return found
        found.append(
            f"the number of runners follows the queue as {candidate.algorithm}'s does{tried}"
        )
        if unseen := at_defaults(candidate):
            found.append(f"nothing speaks against the defaults of {', '.join(unseen)}")
        if shape.ages:
            usual = format_roughly(float(np.median(shape.ages)))
            found.append(
                f"a runner's first start came {usual} after its request "
                f"(median of {len(shape.ages):,})"
            )
        elif (boots := boot_seen(shape)) is not None:
            first, last = map(format_roughly, boots)
            found.append(
                f"after a first job had to wait, runners mostly came {first} to {last} later: a "
                "boot time after the next plan"
            )
        if "idle_timeout" in {**candidate.free, **candidate.pool}:
            leaves = candidate.algorithm not in STOPPING
            longest, most = shape.idle_times.bounds(candidate.options["min"], leaves=leaves)
            line = f"a runner had another job after {readable_span(longest)} without one, at most"
            if most < math.inf:
                line += f": the time-out is no longer than some {readable_span(most)}"
            found.append(line)
    return found


def _changes(options: Mapping[str, Any], zone: str) -> str:
    number, by_time = options["capacity"], options.get("by_time", ())
    if not isinstance(number, Mapping):
        [change] = by_time
        return (
            f"{number:,} runners were busy while jobs waited, and {change['capacity']:,} from "
            f"{format_roughly(change['start'])} after the first job on: changed by hand"
        )
    weekend = ", with others on Saturdays and Sundays" if by_time else ""
    return (
        f"the runners that were busy while jobs waited go by the hour of the day ({zone}), not by "
        f"the queue{weekend}"
    )


def _hosted(shape: Shape) -> str:
    what = "hosted runners" if shape.hosted else f"{shape.ever:,} runners, one job each"
    limit = (
        f"{shape.runners:,} at once at most, as jobs that met that many waited longer"
        if shape.limited
        else f"always one for a new job ({shape.runners:,} at once were seen), without a limit"
    )
    middle = format_roughly(shape.delays[len(shape.delays) // 2])
    return (
        f"{what}: {limit}; a start is delayed as recorded ({middle} as a rule, up to "
        f"{format_roughly(shape.delays[-1])})"
    )
