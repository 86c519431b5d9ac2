"""``farm jobs``: lists jobs, or to whom they are charged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from farm.app.jobs.filter import JobFilter, JobState
from farm.app.jobs.job_descriptions import row_of, start_fields
from farm.app.jobs.job_forecast import MAX_ASKED, forecasts_of
from farm.app.long_running.farm_place import reach
from farm.cli.jobs.job_options import Wanted, Where, filter_of
from farm.core.errors import InputError
from farm.core.queues.fair_share.listing import Filter
from farm.forecasts.forecast_words import StartForecast, short_start_in_words
from farm.live.store.job_reader import KnownJob, state_of
from farm.results.formatting import readable_span
from farm.terminal.cells import Cell, folding, numbers, texts
from farm.terminal.field_options import with_fields
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note, print_json, remark, warn
from farm.terminal.tables import Listing
from farm.units import format_roughly

if TYPE_CHECKING:
    from farm.app.jobs.waits_by_group import JobWaits

COLUMNS = (
    *texts("job", "state", "platform", "kind", "user", "builder"),
    *numbers("starts in", "response"),
    *folding("reason"),
)
FIRST_TO_GO = ("kind", "reason", "response", "user", "builder", "platform")


#: what is listed of invocations, by the state of jobs
SHOWN: dict[str, Filter] = {"all": "all", "live": "active", "waiting": "queued"}


@with_fields
def jobs(
    *,
    where: Where = None,
    by: Annotated[str | None, typer.Option("--by", metavar="KEY")] = None,
    path: Annotated[str, typer.Argument(hidden=True)] = "",
    snapshot: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    state: Annotated[JobState | None, typer.Option(hidden=True)] = None,
    wanted: Wanted,
    stable: Annotated[bool, typer.Option("--in-order")] = False,
    after: Annotated[str | None, typer.Option(metavar="ID")] = None,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    limit: Annotated[int | None, typer.Option(min=0)] = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List the jobs of a live farm.

    Waiting jobs come first, in dispatch order by platform, then running ones, then ended ones
    (newest first). Of the first 100 that wait it is said in which time eight of ten such jobs
    start. Ended ones only with state=all, ended, succeeded, failed or cancelled. With
    --json: one object per line.

    With --by team, under fair share: for each platform the invocations (teams, or those below
    invocation=TEAM) with their waiting jobs, executing slots and idle builders, the waiting jobs in
    dispatch order, the running jobs, and the idle builders by the invocation that they last served;
    of jobs also the expected run time. Only with state=waiting: invocations with waiting jobs, in
    order of their turn; with state=live: those with waiting or running jobs.

    With --by user, or another key, and with --by team without fair share: how many jobs wait, run
    and have ended, and how long they waited.

    Args:
        by: To whom jobs are charged (team), or what they are put together by: user, kind, matrix,
            platform, pool, invocation (TEAM/USER), or attribute.NAME.
        path: With --by team: the invocation.
        snapshot: With --by team: a file written by farm status --save, instead of the live farm.
        state: Which jobs; live: waiting or running.
        stable: Sort by submission: pages then neither skip nor repeat jobs while the farm runs.
            Implied by state=all.
        after: Only jobs submitted after this one, in that order.
        offset: Skip this many jobs.
        limit: Rows per page, or of a table; 0: no limit. Default: 50; with --by team 20.

    Examples:
        farm jobs                              what waits and runs
        farm jobs --where user=bob,state=all   all jobs of bob, ended ones too
        farm jobs --by user                    whose jobs wait how long; team: whose turn it is
    """
    states = sorted(get_args(JobState), key=lambda one: one != ("all" if by else "live"))
    wanted, _ = filter_of(wanted, where, state, states)
    if by and not (path or snapshot):
        with reach(redis, folder) as client:
            status = client.status()
            if by != "team" or not status.fair_share:
                from farm.app.jobs.waits_by_group import (  # noqa: PLC0415 - slow, most lists are of jobs
                    key_of,
                    waits_by,
                )

                key = key_of("attribute.team" if by == "team" else by, client)
                counted = wanted.found(client, stable=True, warn=warn)
                _show_waits(by, waits_by(counted, key, status.at), limit, as_json=as_json)
                return
    if by:
        if by != "team":
            raise InputError(f"--by: found {by!r} with a path or --snapshot; allowed: team")
        only = JobFilter(state=wanted.state, invocation=wanted.invocation)
        if wanted != only or wanted.state not in SHOWN:
            allowed = f"invocation, and state={'|'.join(SHOWN)}"
            raise InputError(f"--where: found {wanted.words()}; allowed with --by team: {allowed}")
        from farm.cli.jobs import invocations  # noqa: PLC0415 - slow, most lists are of jobs

        farm = (snapshot, redis, folder)
        at, limit = path or wanted.invocation or "", 20 if limit is None else limit
        invocations.show(farm, at, SHOWN[wanted.state], limit, as_json=as_json)
        return
    if path or snapshot is not None:
        what = "--snapshot" if snapshot else repr(path)
        raise InputError(f"found {what} without --by team; allowed: --where, as id={path or 'ID'}")
    state, limit = wanted.state, 50 if limit is None else limit
    stable = stable or after is not None or state == "all"
    with reach(redis, folder) as client:
        client.status()
        found = wanted.found(client, stable=stable, after=after, offset=offset, warn=warn)
        page = islice(found, limit or None)
        if as_json:
            begin = list(islice(page, MAX_ASKED))
            forecasts = forecasts_of(client, begin)
            for one in chain(begin, page):
                print_json(row_of(one) | start_fields(forecasts.get(one.job.id)))
            return
        shown = list(page)
        forecasts = forecasts_of(client, shown)
        more = limit > 0 and next(found, None) is not None
    if not shown:
        note(f"no jobs are listed by {wanted.words()}; ended ones too: farm jobs --where state=all")
        return
    rows = (_cells(one, forecasts.get(one.job.id)) for one in shown)
    note(Listing(COLUMNS, rows, first_to_go=FIRST_TO_GO))
    if more:
        place = f"--after {shown[-1].job.id}" if stable else f"--offset {offset + limit}"
        remark(f"more: farm jobs {wanted.words()} {place}")


def _show_waits(by: str, waits: Sequence[JobWaits], limit: int | None, *, as_json: bool) -> None:
    if as_json:
        print_json(*waits)
        return
    if not waits:
        note("no jobs are like this")
        return
    shown = waits[: (20 if limit is None else limit) or None]
    rows = [
        (
            one.name or "-",
            *(f"{count:,}" for count in (one.waiting, one.running, one.ended)),
            *map(
                readable_span,
                (one.mean_waiting_time, one.p95_waiting_time, one.longest_waiting_time),
            ),
        )
        for one in shown
    ]
    heads = ("waiting", "running", "ended", "mean wait", "p95 wait", "longest now")
    rest = len(waits) - len(shown)
    caption = f"{rest:,} more with shorter waits: --limit 0" if rest else ""
    note(
        Listing(
            (*texts(by.removeprefix("attribute.")), *numbers(*heads)),
            rows,
            caption=caption,
            first_to_go=("ended", "running", "longest now", "waiting"),
        )
    )


def _cells(job: KnownJob, forecast: StartForecast | None) -> list[Cell]:
    from farm.terminal.console import coloured  # noqa: PLC0415 - rich, for what is shown

    row = row_of(job)
    response = row.get("response_time_s")
    return [
        job.job.id,
        coloured(state_of(job)),
        row["platform"],
        job.job.kind,
        row["user"] or "",
        row["builder"] or "",
        "" if forecast is None else short_start_in_words(forecast),
        "" if response is None else format_roughly(response),
        row.get("reason") or "",
    ]
