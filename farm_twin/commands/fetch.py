"""``farm fetch``: what a CI system recorded, from its API into a folder."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from farm.core.errors import InputError, not_among
from farm.terminal.error_messages import on_interrupt
from farm.terminal.options import AsJson, Quiet
from farm.terminal.output import print_json, progress, remark, this_command
from farm_twin.fetching.api import Api
from farm_twin.fetching.fetch import fetch as fetch_days
from farm_twin.fetching.fetch import manifest_in, next_command
from farm_twin.fetching.settings import token_of
from farm_twin.fetching.systems import SYSTEMS, checked_target
from farm_twin.fetching.window import days_until

#: a year: more days are of another farm
MAX_DAYS = 366


def fetch(
    source: Annotated[str, typer.Argument(metavar="|".join(SYSTEMS))],
    target: Annotated[str, typer.Argument(metavar="OWNER|OWNER/NAME")],
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=MAX_DAYS)] = 14,
    until: Annotated[str, typer.Option("--until", metavar="DATE")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR")] = None,
    api: Annotated[str, typer.Option("--api", metavar="URL")] = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fetch what a CI system recorded of its jobs, for farm doctor and farm twin.

    The days are read one by one, within the API's limits; what was read stays,
    and the same command continues. The token is read from GITHUB_TOKEN, GITLAB_TOKEN
    or BUILDKITE_API_TOKEN.

    Args:
        source: The system.
        target: An organization, user or group, or a repository or project of it
            (of Buildkite: an organization, or a pipeline of it).
        days: The number of days, of UTC.
        until: The last day, as 2026-11-14; the default is today.
        out: The folder for the records; the default is the target's name.
        api: The address of the API of your own installation, such as https://git.example.com/api/v4.

    Examples:
        farm fetch github ORG --days 14         all repositories of an organization
        farm fetch github ORG/REPO --days 3     one repository
        farm fetch gitlab GROUP/PROJECT -o mine --api https://git.example.com/api/v4
    """
    if source not in SYSTEMS:
        raise InputError(f"source: {not_among(source, SYSTEMS)}")
    system = SYSTEMS[source]()
    name = checked_target(target)
    end = _end_of(until)
    folder = out or Path(name.rpartition("/")[2])
    token_name, token = token_of(system.token_names)
    manifest = manifest_in(folder, source, name)
    note_wait = partial(remark, quiet=quiet)
    client = Api(api or system.api, system.headers(token), token_name, note_wait)
    kept = f"{folder} keeps what was read; the same command continues"
    with on_interrupt(lambda: kept), progress("asking", silent=quiet) as update:

        def show(day: str, done: int, total: int) -> None:
            update(description=day or "read", completed=done, total=total)

        windows = list(days_until(end, days))
        fetch_days(system, client, manifest, windows, folder, lambda: datetime.now(UTC), show)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "files": manifest.files,
                "refused": manifest.refused,
                **_figures(manifest.tally),
            }
        )
    else:
        typer.echo(f"{folder}: {manifest.words}")
        if manifest.files:
            asked = next_command(this_command(), folder)
            remark(f"why do they wait? {asked}", quiet=quiet)
    if not manifest.is_complete:
        remark("some that were announced are missing: the same command reads these days again")
        raise typer.Exit(1)


def _end_of(until: str) -> datetime:
    """Return the end of the last day, at most the present; raises InputError."""
    now = datetime.now(UTC)
    if not until:
        return now
    try:
        day = date.fromisoformat(until)
    except ValueError:
        raise InputError(
            f"--until: found {until!r:.60}; allowed: a date such as 2026-11-14"
        ) from None
    return min(now, datetime.combine(day, time.min, UTC) + timedelta(days=1))


def _figures(tally: object) -> dict[str, object]:
    fields = ("runs", "runs_announced", "jobs", "jobs_announced", "unfinished")
    return {name: getattr(tally, name) for name in fields}
