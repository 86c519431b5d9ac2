"""``farm retry``: ended jobs run again."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import typer

from farm.app.jobs.filter import JobFilter, JobState
from farm.app.jobs.lookup import ended_of, ids_given, next_tries
from farm.app.staying_up.farm_place import reach, warn_if_unattended
from farm.cli.jobs.job_options import Ids, with_job_options
from farm.core.errors import InputError
from farm.terminal.console import many
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet, Redis
from farm.terminal.output import print_json

EndedState = Literal["ended", "succeeded", "failed", "cancelled"]


@with_job_options
def retry(
    wanted: JobFilter,
    job_ids: Ids = None,
    state: Annotated[EndedState | None, typer.Option(help="Only those that ended so.")] = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run ended jobs again, each as a new job.

    It is named ID~2, then ID~3, …, and the old stories stay.
    Which: IDs (one a line of standard input, if the only ID is -), or every ended job that is like
    all the options say and has not been tried again yet.
    """
    filtered = state is not None or wanted.names_some
    wanted = msgspec.structs.replace(wanted, state=JobState(state or "ended"))
    if bool(job_ids) == filtered:
        raise InputError(
            "found nothing to retry, or two ways to say what; allowed: IDs, or options that say "
            "what the jobs are like (--state failed)"
        )
    with reach(redis, folder) as operator:
        warn_if_unattended(operator)
        if filtered:
            found = list(wanted.found(operator, stable=True))
        else:
            found = ended_of(operator, ids_given(job_ids or ()))
        again = next_tries(operator, found, once=filtered)
        operator.check_room(len(again))
        operator.submit(again)
    if as_json:
        print_json({"submitted": [job.id for job in again]})
    elif filtered and not quiet:
        typer.echo(f"{many(len(again), 'job')} submitted again")
    elif not quiet:
        for one in again:
            typer.echo(one.id)
