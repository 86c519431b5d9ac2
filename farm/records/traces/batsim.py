"""``batsim``: a workload file of Batsim (JSON): ``jobs`` and the ``profiles`` that they have.

Only delays have a length, and sequences of such profiles; others compute on a platform of Batsim's.
``walltime`` is the declared time: a job that would run for longer is killed then, and fails. The
profile's name is the kind (unless it has one of its own, as in what ``farm admin export`` writes),
``res`` the processors.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

import msgspec
import numpy as np

from farm.columns import columns_of
from farm.core.errors import TraceError
from farm.records.reading import read_bytes
from farm.records.traces.trace_records import Records
from farm.units import many


class _Job(msgspec.Struct):
    id: str | int
    subtime: float
    profile: str
    res: int = 1
    walltime: float = -1.0


#: what a profile of a fixed length, and one that is a sequence of others, are called; Batsim 5 has
#: the second name of each
ROUNDING = 1e-9
"""A run time that is longer than the walltime by this share is as long: both were rounded."""
_DELAYS = ("delay", "DelayProfile")
_SEQUENCES = ("composed", "SequentialCompositionProfile")
MAX_DEPTH = 50
"""How deep sequences may lie in each other: one that contains itself has no end."""


class _Profile(msgspec.Struct):
    type: str
    delay: float | None = None
    kind: str | None = None
    #: the profiles of a sequence, one after the other, and how often they are repeated
    seq: list[str] = []
    repeat: int = 1


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
    _check_jobs(path, found)
    lengths = _Lengths(path, found.profiles)
    wanted = np.array([lengths.of(job.profile) for job in found.jobs])
    limits = np.array([job.walltime if job.walltime >= 0 else np.inf for job in found.jobs])
    killed = wanted > limits * (1 + ROUNDING)
    ids = [str(job.id) for job in found.jobs]
    notes: tuple[str, ...] = ()
    if killed.any():
        count = many(int(killed.sum()), "job")
        notes = (f"killed at the walltime, and failed: {count} of a longer run time",)
    details = [
        _details(job, found.profiles[job.profile], fails=fails)
        for job, fails in zip(found.jobs, killed.tolist(), strict=True)
    ]
    return Records(
        np.array([job.subtime for job in found.jobs]),
        np.where(killed, limits, wanted),
        ids if len(set(ids)) == len(ids) else None,
        columns_of(details),
        np.array([job.res for job in found.jobs]),
        notes=notes,
    )


def _check_jobs(path: Path, workload: _Workload) -> None:
    """Raise TraceError for a job that cannot be."""
    for job in workload.jobs:
        where = f"{path}: job {job.id}"
        if job.profile not in workload.profiles:
            raise TraceError(
                f"{where}: found profile {job.profile!r:.40}, which is not in profiles"
            )
        if job.subtime < 0 or job.res < 1:
            raise TraceError(f"{where}: allowed: subtime from 0 up, and res from 1 up")


class _Lengths:
    """How long profiles run, each computed once: sequences may have the same parts a million times.

    Args:
        path: the file, for messages.
        profiles: by name.
    """

    def __init__(self, path: Path, profiles: dict[str, _Profile]) -> None:
        self._path = path
        self._profiles = profiles
        self._known: dict[str, float] = {}
        #: the sequences in which the present profile lies
        self._around: list[str] = []

    def of(self, name: str) -> float:
        """Return a profile's length, seconds. Raises TraceError for one that has none."""
        if name not in self._known:
            self._known[name] = self._computed(name)
        return self._known[name]

    def _computed(self, name: str) -> float:
        where = f"{self._path}: profile {name}"
        profile = self._profiles.get(name)
        if profile is None:
            raise TraceError(f"{where}: found in a sequence; allowed: one that is in profiles")
        if profile.type in _DELAYS and profile.delay is not None and profile.delay >= 0:
            return profile.delay
        if profile.type not in _SEQUENCES:
            raise TraceError(
                f"{where}: found type {profile.type!r:.40}; allowed: delay with a delay from 0 up, "
                "or a sequence of such: other types have no run time without Batsim's platform"
            )
        if profile.repeat < 0 or name in self._around or len(self._around) >= MAX_DEPTH:
            raise TraceError(f"{where}: allowed: repeat from 0 up, and no sequence within itself")
        self._around.append(name)
        length = profile.repeat * sum(self.of(part) for part in profile.seq)
        self._around.pop()
        return length


def _details(job: _Job, profile: _Profile, *, fails: bool) -> dict[str, object]:
    details: dict[str, object] = {"kind": profile.kind or job.profile}
    if job.walltime >= 0:
        details["declared_time"] = job.walltime
    if fails:
        details["fails"] = True
    return details
