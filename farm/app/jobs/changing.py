"""What operators change of a live farm: its jobs, cancelled or with another priority; its rules."""

from __future__ import annotations

import time
from collections.abc import Sequence

from farm.app.jobs.charges import charges_of, parse_invocation, unknown_invocation
from farm.app.long_running.farm_place import check_fair_share
from farm.core.commands import EndJob
from farm.core.errors import InputError, ServerError, did_you_mean
from farm.core.events import CancelRequested, PriorityChanged, SchedulingChanged
from farm.core.model import Cause
from farm.core.policies import POLICIES
from farm.core.rules import Choices
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import AT_ONCE, Group
from farm.live.wire.messages import UNSTAMPED

#: real seconds until the scheduler goes by what was sent, and between two looks
TIMEOUT, INTERVAL = 20.0, 0.1

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


def choose(
    client: FarmClient,
    policy: str | None = None,
    aging_factor: float | None = None,
    weights: dict[str, float] | None = None,
) -> Choices:
    """Change the rules of a farm (None: as it is); return its rules after the change.

    Raises InputError for a policy that it does not know, or weights of a farm without fair share;
    ServerError if its scheduler does not answer in time.
    """
    if policy is not None and policy not in POLICIES and ":" not in policy:
        raise InputError(
            f"found policy {policy!r:.60}; {did_you_mean(policy, POLICIES)}allowed: "
            f"{', '.join(POLICIES)}, or the module:function of its scenario"
        )
    if weights:
        check_fair_share(client, "--weight")
    wanted = SchedulingChanged(UNSTAMPED, policy, aging_factor, weights)
    goal = client.status().choices.changed(wanted)
    client.send(wanted)
    deadline = time.monotonic() + TIMEOUT
    while (found := client.status().choices) != goal:
        if time.monotonic() > deadline:
            raise ServerError(
                f"the farm still goes by {found.policy} after {TIMEOUT:g}s: its scheduler is busy "
                f"or down, or {goal.policy} is not the module:function of its scenario"
            )
        time.sleep(INTERVAL)
    return found
