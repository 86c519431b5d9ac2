"""Waiting and running jobs of a live farm, cancelled or given another priority."""

from __future__ import annotations

from collections.abc import Sequence

from farm.app.long_running.farm_place import check_fair_share
from farm.core.events import CancelRequested, PriorityChanged
from farm.core.model import Cause
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import AT_ONCE
from farm.live.wire.messages import UNSTAMPED


def cancel_jobs(
    client: FarmClient, names: Sequence[str], reason: str = Cause.REQUESTED.text
) -> None:
    """Ask for the end of these jobs; the reason is stored with each."""
    for first in range(0, len(names), AT_ONCE):
        chunk = tuple(names[first : first + AT_ONCE])
        client.send(CancelRequested(UNSTAMPED, chunk, reason=reason))


def cancel_invocation(
    client: FarmClient, invocation: str, reason: str = Cause.REQUESTED.text
) -> None:
    """Ask for the end of all jobs charged to an invocation, such as ``team/user``.

    Raises InputError for a farm without fair share.
    """
    check_fair_share(client, "--invocation")
    path = tuple(invocation.strip("/").split("/"))
    client.send(CancelRequested(UNSTAMPED, invocation=path, reason=reason))


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
