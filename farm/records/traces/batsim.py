"""``batsim``: a workload file of Batsim (JSON): ``jobs`` and the ``profiles`` that they have.

Only profiles of type ``delay`` have a length; others compute on a platform of Batsim's.
``walltime`` is the declared time, the profile's name the kind (unless it has one of its own, as in
what ``farm admin export`` writes), ``res`` the processors.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

import msgspec
import numpy as np

from farm.core.errors import TraceError
from farm.records.coded import columns_of
from farm.records.reading import read_bytes
from farm.records.traces.records import Records


class _Job(msgspec.Struct):
    id: str | int
    subtime: float
    profile: str
    res: int = 1
    walltime: float = -1.0


class _Profile(msgspec.Struct):
    type: str
    delay: float | None = None
    kind: str | None = None


class _Workload(msgspec.Struct):
    jobs: list[_Job]
    profiles: dict[str, _Profile]


def read(path: Path) -> Records:
    """Return the jobs of a workload file; TraceError names the job or the key that is wrong."""
    try:
        found = msgspec.json.decode(read_bytes(path).removeprefix(BOM_UTF8), type=_Workload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: not a Batsim workload: {error}") from None
    if not found.jobs:
        raise TraceError(f"{path}: jobs: found none; allowed: at least one")
    service = np.array([_delay(path, job, found.profiles) for job in found.jobs])
    ids = [str(job.id) for job in found.jobs]
    return Records(
        np.array([job.subtime for job in found.jobs]),
        service,
        ids if len(set(ids)) == len(ids) else None,
        columns_of([_details(job, found.profiles[job.profile]) for job in found.jobs]),
        np.array([job.res for job in found.jobs]),
    )


def _delay(path: Path, job: _Job, profiles: dict[str, _Profile]) -> float:
    where = f"{path}: job {job.id}"
    profile = profiles.get(job.profile)
    if profile is None:
        raise TraceError(f"{where}: found profile {job.profile!r:.40}, which is not in profiles")
    if profile.type != "delay" or profile.delay is None or profile.delay < 0:
        raise TraceError(
            f"{where}: profile {job.profile}: found type {profile.type!r:.40}; allowed: delay, "
            "with a delay from 0 up: other types have no run time without Batsim's platform"
        )
    if job.subtime < 0 or job.res < 1:
        raise TraceError(f"{where}: allowed: subtime from 0 up, and res from 1 up")
    return profile.delay


def _details(job: _Job, profile: _Profile) -> dict[str, object]:
    declared = {"declared_time": job.walltime} if job.walltime >= 0 else {}
    return {"kind": profile.kind or job.profile, **declared}
