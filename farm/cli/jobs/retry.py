"""``farm retry``: runs ended jobs again."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from farm.app.jobs.job_lookup import ended_of, ids_given, try_again
from farm.cli.jobs.job_options import Ids, Wanted, Where, filter_of
from farm.cli.operating import operating, require_confirmed
from farm.core.errors import InputError
from farm.terminal.field_options import with_fields
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet, Redis
from farm.terminal.output import print_json
from farm.units import many

STATES = ("ended", "succeeded", "failed", "cancelled")
EndedState = Literal["ended", "succeeded", "failed", "cancelled"]


@with_fields
def retry(
    *,
    job_ids: Ids = None,
    where: Where = None,
    state: Annotated[EndedState | None, typer.Option(hidden=True)] = None,
    wanted: Wanted,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run ended jobs again, each as a new job.

    New jobs are named ID~2, then ID~3, …; the old histories are kept. Jobs are given by IDs (from
    standard input, one per line, if the only ID is -), or by what they are like, of ended jobs that
    have not been retried yet. What was skipped because one of them did not succeed is retried with
    it, unless something else that it needs has failed, too.

    Args:
        state: Only jobs that ended this way.

    Examples:
        farm retry build-17                    one job
        farm retry --where state=failed        all that failed
        farm retry --where state=cancelled,user=bob
    """
    wanted, filtered = filter_of(wanted, where, state, STATES)
    if bool(job_ids) == filtered:
        raise InputError(
            "found no jobs, or two ways to select them; allowed: IDs, or --where with what the "
            "jobs are like (--where state=failed)"
        )
    with operating(redis, folder) as client:
        if filtered:
            found = list(wanted.found(client, stable=True))
        else:
            found = ended_of(client, ids_given(job_ids or ()))
        again, not_confirmed = try_again(client, found, once=filtered)
    if as_json:
        print_json({"submitted": [job.id for job in again], "confirmed": not not_confirmed})
    elif filtered and not quiet:
        typer.echo(f"{many(len(again), 'job')} submitted again")
    elif not quiet:
        for one in again:
            typer.echo(one.id)
    require_confirmed(not_confirmed)
