"""What operators change of a live farm: jobs cancelled, tried again or first; its rules."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import msgspec

from farm.app.jobs.charges import charges_of, parse_invocation, unknown_invocation
from farm.core.commands import EndJob
from farm.core.errors import InputError, ServerError, did_you_mean
from farm.core.events import CancelRequested, PriorityChanged, SchedulingChanged
from farm.core.model import Cause, Job
from farm.core.policies import POLICIES
from farm.core.rules import Choices
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import AT_ONCE, Group, KnownJob
from farm.live.wire.messages import UNSTAMPED
from farm.live.wire.report_checks import flaw_of

#: real seconds until the scheduler goes by what was sent, and between two looks
TIMEOUT, INTERVAL = 20.0, 0.1

#: a job that was tried again: ID~2, ID~3
RETRIED = re.compile(r"(.*)~([0-9]+)\Z", re.DOTALL)
LIVE: tuple[Group, ...] = ("waiting", "running")


def cancel_jobs(
    client: FarmClient, names: Sequence[str], reason: str = Cause.REQUESTED.text
) -> None:
    """Ask for the end of these jobs; the reason is stored with each."""
    for first in range(0, len(names), AT_ONCE):
        chunk = tuple(names[first : first + AT_ONCE])
        client.send(CancelRequested(UNSTAMPED, chunk, reason=reason))


def cancel_invocation(
    client: FarmClient, invocation: str, reason: str = Cause.REQUESTED.text
) -> int:
    """Ask for the end of all jobs charged to an invocation, such as ``team/user``.

    If all of them have ended nothing is asked, and their number is returned, else 0. Raises
    InputError for a path to which no job that the farm knows was charged, and without fair share.
    """
    path, path_of = parse_invocation(invocation), charges_of(client)
    jobs = (job for group in LIVE for job in client.jobs(group))
    if not any(path_of(job)[: len(path)] == path for job in jobs):
        # each job once, whatever becomes of it in between
        known = [(path_of(job), isinstance(job, EndJob)) for job in client.submitted()]
        ended = [has_ended for found, has_ended in known if found[: len(path)] == path]
        if not ended:
            keys = client.status().fair_share_keys
            raise InputError(unknown_invocation(path, keys, (found for found, _ in known)))
        if all(ended):
            return len(ended)
    client.send(CancelRequested(UNSTAMPED, invocation=path, reason=reason))
    return 0


def change_priority(
    client: FarmClient,
    names: Sequence[str],
    *,
    level: int | None = None,
    score: float | None = None,
    weight: int | None = None,
) -> None:
    """Ask for another level, score or fair-share weight of waiting jobs; None: as it is."""
    client.send(*(PriorityChanged(UNSTAMPED, name, level, score, weight) for name in names))


def choose(client: FarmClient, wanted: SchedulingChanged) -> Choices:
    """Change rules and sizes of a farm; return what it goes by after the change.

    Raises InputError for a policy that it does not know, ServerError if its scheduler does not
    answer in time.
    """
    policy = wanted.policy
    if policy is not None and policy not in POLICIES and ":" not in policy:
        raise InputError(
            f"found policy {policy!r:.60}; {did_you_mean(policy, POLICIES)}allowed: "
            f"{', '.join(POLICIES)}, or the module:function of its scenario"
        )
    goal = client.status().choices.changed(wanted)
    client.send(wanted)
    deadline = time.monotonic() + TIMEOUT
    while (found := client.status().choices) != goal:
        if time.monotonic() > deadline:
            raise ServerError(
                f"the farm has not changed after {TIMEOUT:g}s: its scheduler is busy or down, or "
                f"{goal.policy} is not the module:function of its scenario"
            )
        time.sleep(INTERVAL)
    return found


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
