"""``farm cancel``: cancels jobs."""

from __future__ import annotations

from typing import Literal

import msgspec
import typer

from farm.app.jobs.changing import cancel_invocation, cancel_jobs
from farm.app.jobs.filter import JobFilter, JobState
from farm.app.jobs.lookup import catch_up, ids_given, live_of
from farm.app.long_running.farm_place import reach, warn_if_unattended
from farm.cli.jobs.job_options import Ids, with_job_options
from farm.core.errors import InputError
from farm.core.model import Cause
from farm.live.wire.report_checks import MAX_TEXT
from farm.terminal.console import many
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet, Redis
from farm.terminal.output import print_json

LiveState = Literal["live", "waiting", "running"]


@with_job_options
def cancel(
    wanted: JobFilter,
    job_ids: Ids = None,
    state: LiveState | None = None,
    invocation: str | None = None,
    reason: str = Cause.REQUESTED.text,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Cancel jobs of a live farm.

    Waiting jobs end immediately; running ones are stopped on their builders. Jobs are given by IDs
    (from standard input, one per line, if the only ID is -), by options that must all match, or
    by --invocation.

    Args:
        state: Only waiting, or only running, jobs.
        invocation: Every live job charged to this invocation: a path such as team/user.
        reason: Stored with each job.
    """
    filtered = state is not None or wanted.names_some
    wanted = msgspec.structs.replace(wanted, state=JobState(state or "live"))
    if bool(job_ids) + filtered + (invocation is not None) != 1:
        raise InputError(
            "found no jobs, or several ways to select them; allowed: IDs, or options that "
            "say what the jobs are like, or --invocation"
        )
    if len(reason) > MAX_TEXT or not reason.isprintable():
        raise InputError(f"--reason: found {reason!r:.60}; allowed: up to {MAX_TEXT} characters")
    with reach(redis, folder) as client:
        warn_if_unattended(client)
        if not job_ids:
            catch_up(client)
        if invocation is not None:
            cancel_invocation(client, invocation, reason)
            names, ended = [], 0
        elif filtered:
            # not group by group: a job may leave one that is read later for one that was
            found = wanted.found(client, stable=True)
            names, ended = [one.job.id for one in found], 0
        else:
            names, ended = live_of(client, ids_given(job_ids or ()))
        cancel_jobs(client, names, reason)
    if as_json:
        asked = {"jobs": len(names), "matrix": wanted.matrix, "invocation": invocation}
        print_json({"asked": asked, "ended": ended})
    elif not quiet:
        what = many(len(names), "job") if invocation is None else f"all of {invocation}"
        before = f" ({ended:,} had ended already)" if ended else ""
        typer.echo(f"asked to cancel {what}{before}")
