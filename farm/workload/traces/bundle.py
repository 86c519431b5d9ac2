"""``bundle``: the attempts that ran on another farm (``farm import SOURCE``), each as a job.

A job arrives when it could start there, and runs as long as it ran there; its platform is the
labels that it asked for. Attempts that never started, or did not end, are left out. The first one
arrives at 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from farm.core.errors import TraceError
from farm.core.fields import json_name
from farm.core.model import Platform, Recorded
from farm.scenario.workload import TraceOptions
from farm.workload.traces.content import read_bytes
from farm.workload.traces.records import Records

JOBS = "jobs.jsonl.gz"


class _Attempt(msgspec.Struct, rename=json_name):
    """The part of a line that makes a job."""

    id: str
    submitted_at: float
    result: str
    eligible_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    platform: str = ""
    runner: str = ""
    kind: str = ""
    matrix: str = ""
    user: str = ""
    attributes: dict[str, str] = {}


def read(path: Path, options: TraceOptions) -> Records:  # noqa: ARG001 - a reader's signature
    """Return the attempts that ran; TraceError names the file that is wrong."""
    file = path / JOBS
    try:
        found = msgspec.json.Decoder(_Attempt).decode_lines(read_bytes(file))
    except msgspec.MsgspecError as error:
        raise TraceError(f"{file}: not a bundle's attempts: {error}") from None
    ran = [one for one in found if one.started_at is not None and one.finished_at is not None]
    if not ran:
        raise TraceError(f"{file}: found no attempt that ran; allowed: at least one")
    arrived = np.array([_arrival(one) for one in ran])
    service = np.array([(one.finished_at or 0.0) - (one.started_at or 0.0) for one in ran])
    platforms = {name: Platform(processor=name) for name in {one.platform for one in ran} if name}
    left_out = {"of attempts that never ran, or did not end": len(found) - len(ran)}
    return Records(
        arrived - arrived.min(),
        service,
        [one.id for one in ran],
        [_details(one, platforms) for one in ran],
        left_out={why: count for why, count in left_out.items() if count},
        recorded=[
            Recorded((one.started_at or 0.0) - at, time, one.runner or None, one.result)
            for one, at, time in zip(ran, arrived.tolist(), service.tolist(), strict=True)
        ],
    )


def _arrival(one: _Attempt) -> float:
    return one.submitted_at if one.eligible_at is None else one.eligible_at


def _details(one: _Attempt, platforms: dict[str, Platform]) -> dict[str, Any]:
    user = {"user": one.user} if one.user else {}
    found = {
        "platform": platforms.get(one.platform),
        "kind": one.kind,
        "matrix": one.matrix,
        "attributes": {**user, **one.attributes},
        "fails": one.result == "failed",
    }
    return {name: value for name, value in found.items() if value}
