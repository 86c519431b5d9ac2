"""``farm jobs``: lists jobs."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import msgspec
import typer

from farm.app.jobs.filter import JobState
from farm.app.jobs.job_descriptions import row_of
from farm.app.long_running.farm_place import reach
from farm.cli.jobs.job_options import Wanted
from farm.live.store.job_reader import KnownJob, state_of
from farm.terminal.console import coloured, plain
from farm.terminal.field_options import with_fields
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note, print_json, warn
from farm.terminal.tables import Listing, folding, numbers, texts
from farm.units import format_roughly

COLUMNS = (
    *texts("job", "state", "platform", "kind", "user", "builder"),
    *numbers("response"),
    *folding("reason"),
)
FIRST_TO_GO = ("kind", "reason", "response", "user", "builder", "platform")


@with_fields
def jobs(
    *,
    state: JobState = JobState.LIVE,
    wanted: Wanted,
    stable: Annotated[bool, typer.Option("--in-order")] = False,
    after: Annotated[str | None, typer.Option(metavar="ID")] = None,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    limit: Annotated[int, typer.Option(min=0)] = 50,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List the jobs of a live farm.

    Waiting jobs come first, in dispatch order by platform, then running ones, then ended ones
    (newest first). With --json: one object per line.

    Args:
        state: Which jobs; live: waiting or running.
        stable: Sort by submission: pages then neither skip nor repeat jobs while the farm runs.
            Implied by --state all.
        after: Only jobs submitted after this one, in that order.
        offset: Skip this many jobs.
        limit: Rows per page; 0: no limit.
    """
    wanted = msgspec.structs.replace(wanted, state=state)
    stable = stable or after is not None or state is JobState.ALL
    with reach(redis, folder) as client:
        client.status()
        found = wanted.found(client, stable=stable, after=after, offset=offset, warn=warn)
        page = islice(found, limit or None)
        if as_json:
            for one in page:
                print_json(row_of(one))
            return
        shown = list(page)
        more = limit > 0 and next(found, None) is not None
    note(Listing(COLUMNS, map(_cells, shown), first_to_go=FIRST_TO_GO))
    if more:
        where = f"--after {shown[-1].job.id}" if stable else f"--offset {offset + limit}"
        typer.echo(plain(f"more: farm jobs {wanted.words()} {where}", 1000), err=True)


def _cells(job: KnownJob) -> list[Any]:
    row = row_of(job)
    response = row.get("response_time_s")
    return [
        job.job.id,
        coloured(state_of(job)),
        row["platform"],
        job.job.kind,
        row["user"] or "",
        row["builder"] or "",
        "" if response is None else format_roughly(response),
        row.get("reason") or "",
    ]
