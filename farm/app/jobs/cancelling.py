"""Jobs that are cancelled, by their names or the invocation that they are charged to."""

from __future__ import annotations

from collections.abc import Sequence

from farm.app.jobs.filter import charges_of, parse_invocation, unknown_invocation
from farm.core.commands import EndJob
from farm.core.errors import InputError
from farm.core.events import CancelRequested
from farm.core.model import Cause
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import AT_ONCE, Group
from farm.live.wire.messages import UNSTAMPED

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
