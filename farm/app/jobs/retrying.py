"""Jobs that are tried again, as new ones: ID~2, ID~3."""

from __future__ import annotations

import re

import msgspec

from farm.core.errors import InputError
from farm.core.model import Job
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import KnownJob
from farm.live.wire.report_checks import flaw_of

RETRIED = re.compile(r"(.*)~([0-9]+)\Z", re.DOTALL)


def next_tries(client: FarmClient, ended: list[KnownJob], *, once: bool) -> list[Job]:
    """Return the jobs that try these again; ``once``: not those that were tried again already."""
    numbered = [(one.job, *_stem_and_number(one.job.id)) for one in ended]
    taken: set[str] = set()
    again: dict[str, Job] = {}
    while numbered:
        names = [f"{stem}~{number + 1}" for _, stem, number in numbered]
        known = client.known(names)
        further = []
        for (job, stem, number), name in zip(numbered, names, strict=True):
            if name in known or name in taken:
                further.append((job, stem, number + 1))
                continue
            taken.add(name)
            new = msgspec.structs.replace(job, id=name, arrived_at=None)
            if (flaw := flaw_of(new)) is not None:
                raise InputError(f"job {job.id!r} cannot be given a new name: {flaw}")
            again[job.id] = new
        numbered = [] if once else further
    return [again[one.job.id] for one in ended if one.job.id in again]


def _stem_and_number(job_id: str) -> tuple[str, int]:
    match = RETRIED.match(job_id)
    return (match[1], int(match[2])) if match else (job_id, 1)
