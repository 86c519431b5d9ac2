"""``farm jobs`` and ``farm job``: what became of the work."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import msgspec
import typer

from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach
from farm.cli.job_filter import (
    Attribute,
    JobFilter,
    JobState,
    Kind,
    Match,
    OfMatrix,
    OfPlatform,
    OfPool,
    User,
    builder_of,
)
from farm.cli.options import AsJson
from farm.cli.showing import Column, FarmConsole, coloured, listing, plain, story
from farm.core.dispatching.decisions import Decision
from farm.core.errors import InputError, ServerError
from farm.live.operating.answers import Answer
from farm.live.operating.operator import Operator
from farm.live.store.job_reader import LiveJob
from farm.live.store.saved import Try
from farm.units import format_duration

COLUMNS = (
    Column("job"), Column("state"), Column("platform"), Column("kind"), Column("user"),
    Column("builder"), Column("response", right=True), Column("reason", folds=True),
)  # fmt: skip
FIRST_TO_GO = "kind reason response user builder platform"


def jobs(
    state: Annotated[
        JobState, typer.Option(help="Which jobs; live ones wait or run.")
    ] = JobState.LIVE,
    match: Match = None,
    pool: OfPool = None,
    user: User = None,
    kind: Kind = None,
    matrix: OfMatrix = None,
    platform: OfPlatform = None,
    attribute: Attribute = None,
    stable: Annotated[
        bool,
        typer.Option(
            "--in-order",
            help="In order of submission: its pages neither skip nor repeat a job, whatever the "
            "farm does meanwhile. So they are with --state all.",
        ),
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="In order of submission, those after this job."),
    ] = None,
    offset: Annotated[int, typer.Option(min=0, help="Leave out the first so many.")] = 0,
    limit: Annotated[int, typer.Option(min=0, help="Rows of a page; 0: all.")] = 50,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List jobs: waiting ones in policy order, then running ones, then ended ones (newest first).

    With --json: one object a line, and nothing else.
    """
    wanted = JobFilter(
        state=state, match=match, user=user, kind=kind, matrix=matrix, platform=platform,
        pool=pool, attribute=tuple(attribute or ()),
    )  # fmt: skip
    stable = stable or after is not None or state is JobState.ALL
    with reach(redis, folder) as operator:
        operator.status()
        found = wanted.found(operator, stable=stable, after=after, offset=offset)
        page = islice(found, limit or None)
        if as_json:
            for one in page:
                typer.echo(msgspec.json.encode(row_of(one)).decode())
            return
        shown = list(page)
        more = limit > 0 and next(found, None) is not None
    console = FarmConsole()
    console.print(listing(COLUMNS, map(_cells, shown), console.width, FIRST_TO_GO))
    if more:
        where = f"--after {shown[-1].job.id}" if stable else f"--offset {offset + limit}"
        typer.echo(plain(f"more: farm jobs {wanted.words()} {where}", 1000), err=True)


def job(
    job_id: Annotated[str, typer.Argument(metavar="ID")],
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Tell a job's story: where it is, why it waits, what became of it."""
    with reach(redis, folder) as operator:
        found, tries, answer = known_of(operator, job_id)
    told = _story_of(found, tries, answer)
    if as_json:
        typer.echo(msgspec.json.encode(told).decode())
        return
    FarmConsole().print(story(_lines(told, tries)))


def known_of(operator: Operator, job_id: str) -> tuple[LiveJob, list[Try], Answer | None]:
    """Return all that is known of a job; raises InputError if nothing is.

    A scheduler that is away, or too busy to answer, leaves what lies in Redis.
    """
    attended = operator.is_attended()
    found = operator.job(job_id)
    if found is None:
        operator.catch_up()  # it may have been submitted just now
        found = operator.job(job_id)
    if found is None:
        raise unknown(job_id)
    answer = None
    if attended:
        try:
            answer = operator.ask("job", job_id)
        except ServerError as error:
            FarmConsole(stderr=True).print(f"warning: {error}")
    return found, operator.tries(job_id), answer


def unknown(job_id: str) -> InputError:
    """Return what is said of an id that nobody knows."""
    return InputError(
        f"job {job_id!r:.300} is not known to the farm (or it ended so long ago that it is "
        "forgotten); farm jobs --state all lists those that are"
    )


def row_of(job: LiveJob) -> dict[str, Any]:
    """Return a job as the listing shows it, with the columns of jobs.csv where they are known."""
    row: dict[str, Any] = {
        "job_id": job.job.id,
        "state": job.state,
        "platform": str(job.job.platform),
        "kind": job.job.kind,
        "user": job.job.attributes.get("user"),
        "matrix": job.job.matrix,
        "declared_time_s": job.job.declared_time,
        "builder": builder_of(job),
    }
    if job.attempt is not None:
        row["attempts"] = job.attempt.attempt
        row["dispatched_at_s"] = job.attempt.dispatched_at
        row["started_at_s"] = job.attempt.started_at
    if (end := job.end) is not None:
        began = end.started_at
        arrived = end.job.arrived_at if end.job.arrived_at is not None else end.submitted_at
        row |= {
            "attempts": end.attempts,
            "submitted_at_s": arrived,
            "dispatched_at_s": end.dispatched_at,
            "started_at_s": began,
            "finished_at_s": end.finished_at,
            "waiting_time_s": None if began is None else began - arrived,
            "response_time_s": end.finished_at - arrived,
            "reason": end.reason,
        }
    return row


def _story_of(job: LiveJob, tries: list[Try], answer: Answer | None) -> dict[str, Any]:
    story = row_of(job)
    story |= {"attributes": job.job.attributes, "level": job.job.level, "score": job.job.score}
    story["tries"] = [
        {"attempt": t.attempt, "builder": t.builder, "at_s": t.at, "reason": t.reason}
        for t in tries
    ]
    if answer is None:
        return story
    if answer.job is not None:
        now = answer.job
        story |= {
            "state": now.status,
            "attempts": now.attempts,
            "submitted_at_s": now.submitted_at,
            "waited_s": answer.at - now.submitted_at if now.ahead is not None else None,
            "estimated_time_s": now.estimated_time,
            "jobs_ahead": now.ahead,
            "estimated_dispatch_in_s": now.dispatch_in_time,
            "builders_that_could": now.builders,
            "of_them_taking_jobs": now.accepting,
            "of_them_free": now.free,
            "invocation": "/".join(now.path),
            "why_waiting": now.why,
        }
    if answer.decision is not None:
        story["dispatched_because"] = f"{reason_of(answer.decision)} (farm explain {job.job.id})"
    return story


def reason_of(decision: Decision) -> str:
    """Say in a few words why a job went when it did."""
    if not decision.waiting:
        return "no other job waited for its platform"
    first = all(decision.key <= other.key for other in decision.next)
    if decision.path:
        return f"it was the turn of {'/'.join(decision.path)}; {decision.waiting:,} others waited"
    if first:
        return f"its key {list(decision.key)} was the smallest of {decision.waiting + 1:,}"
    return f"{decision.waiting:,} others waited, the first of them for another builder"


def _lines(told: dict[str, Any], tries: list[Try]) -> list[tuple[str, object]]:
    """Return a story for people: spans and instants as they are written, nothing empty."""
    lines: list[tuple[str, object]] = []
    for name, value in told.items():
        if name == "tries":
            lines += [(f"attempt {one.attempt}", tried(one)) for one in tries]
        elif name == "attributes":
            lines += [(plain(f"attribute {key}"), text) for key, text in value.items()]
        elif value in (None, "") or (name in ("level", "score") and not value):
            continue
        elif name == "state":
            lines.append((name, coloured(value)))
        elif name.endswith("_s"):
            lines.append((_words(name[:-2]), format_duration(round(value, 2))))
        else:
            lines.append((_words(name), value))
    return lines


def _words(name: str) -> str:
    return name.replace("_", " ")


def tried(one: Try) -> str:
    """Say what became of an attempt that came to nothing."""
    return f"on {one.builder}, came to nothing at {format_duration(round(one.at))}: {one.reason}"


def _cells(job: LiveJob) -> list[Any]:
    row = row_of(job)
    response = row.get("response_time_s")
    return [
        job.job.id,
        coloured(job.state),
        row["platform"],
        job.job.kind,
        row["user"] or "",
        row["builder"] or "",
        "" if response is None else format_duration(round(response, 1)),
        row.get("reason") or "",
    ]
