"""``farm cancel``: cancels jobs."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from farm.app.jobs.filter import JobFilter
from farm.app.jobs.job_lookup import cancel_invocation, cancel_jobs, ids_given, live_of
from farm.cli.jobs.job_options import Ids, Wanted, Where, filter_of
from farm.cli.operating import operating
from farm.core.errors import InputError, ServerError
from farm.core.model import Cause
from farm.live.wire.report_checks import MAX_TEXT
from farm.terminal.field_options import with_fields
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet, Redis
from farm.terminal.output import print_json, warn
from farm.units import many

STATES = ("live", "blocked", "waiting", "running")
LiveState = Literal["live", "blocked", "waiting", "running"]


@with_fields
def cancel(
    *,
    job_ids: Ids = None,
    where: Where = None,
    state: Annotated[LiveState | None, typer.Option(hidden=True)] = None,
    wanted: Wanted,
    reason: str = Cause.REQUESTED.text,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Cancel jobs of a live farm.

    Waiting jobs end immediately; running ones are stopped on their builders. Jobs are given by IDs
    (from standard input, one per line, if the only ID is -), or by what they are like. An
    invocation alone also cancels jobs that arrive in this instant; one to which no job was charged
    is a mistake.

    Args:
        state: Only waiting, or only running, jobs.
        reason: Stored with each job.

    Examples:
        farm cancel build-17 build-18                            these two
        farm cancel --where user=bob,state=waiting               all of bob's that wait
        farm cancel --where invocation=web/ada --reason obsolete
    """
    wanted, filtered = filter_of(wanted, where, state, STATES)
    if bool(job_ids) == filtered:
        raise InputError(
            "found no jobs, or two ways to select them; allowed: IDs, or --where with what the "
            "jobs are like"
        )
    invocation = wanted.invocation
    only = JobFilter(invocation=invocation, state="live")
    whole = invocation if wanted == only else None
    if len(reason) > MAX_TEXT or not reason.isprintable():
        raise InputError(f"--reason: found {reason!r:.60}; allowed: up to {MAX_TEXT} characters")
    with operating(redis, folder) as client:
        if not job_ids:
            try:
                client.catch_up()
            except ServerError as error:  # a full farm reads no more
                warn(str(error))
        names, ended = [], 0
        if whole is not None:
            ended = cancel_invocation(client, whole, reason)
        elif filtered:
            # not group by group: a job may leave one that is read later for one that was
            found = wanted.found(client, stable=True)
            names = [one.job.id for one in found]
        else:
            names, ended = live_of(client, ids_given(job_ids or ()))
        cancel_jobs(client, names, reason)
    if as_json:
        asked = {"jobs": len(names), "matrix": wanted.matrix, "invocation": invocation}
        print_json({"asked": asked, "ended": ended})
    elif not quiet and filtered and not (names or whole):
        typer.echo(f"no waiting or running job matches {wanted.conditions()}")
    elif not quiet:
        all_of = whole is not None and not ended
        what = f"all of {invocation}" if all_of else many(len(names), "job")
        before = f" ({ended:,} had ended already)" if ended else ""
        typer.echo(f"asked to cancel {what}{before}")
