"""``farm submit``: submits one job, a file of jobs, a trace, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farm.app.jobs.json_lines import parse_platform
from farm.app.jobs.sources import copies, described, jobs_of, only_platform, runnable, sound
from farm.app.jobs.submission import Submission
from farm.app.jobs.submission_estimate import SubmissionEstimate
from farm.cli.operating import operating
from farm.core.errors import FarmError, InputError
from farm.core.model import Job
from farm.records.traces import FORMATS
from farm.terminal.console import FarmConsole, plain
from farm.terminal.field_options import Fields, with_fields
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet, Redis, seconds_of
from farm.terminal.output import counted_progress, print_json
from farm.units import many

FIELDS = (
    "kind",
    "attributes",
    "matrix",
    "level",
    "score",
    "priority",
    "mode",
    "threads",
    "heavy",
    "memory_heavy",
)
#: options that apply to one kind of source only
OF_ONE_JOB = ("job_id", "count", "user", *FIELDS)
OF_A_FILE = ("trace_format", "jobs", "pace")


@with_fields
def submit(
    *,
    context: typer.Context,
    source: Annotated[Path | None, typer.Argument(metavar="[FILE]")] = None,
    service_time: str | None = None,
    job_id: Annotated[str | None, typer.Option("--id")] = None,
    count: Annotated[int, typer.Option(min=1)] = 1,
    platform: str | None = None,
    user: str | None = None,
    like: Annotated[
        Job,
        Fields(
            prefix="One job: ",
            names=FIELDS,
            options={
                "attributes": typer.Option("--attribute"),
                "threads": typer.Option(min=1),
                "heavy": typer.Option("--heavy"),
                "memory_heavy": typer.Option("--memory-heavy"),
            },
            base=Job(id="", service_time=0.0),
        ),
    ],
    trace_format: Annotated[
        str | None, typer.Option("--format", help=f"Format of a trace: {', '.join(FORMATS)}.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1)] = None,
    pace: Annotated[float | None, typer.Option("--speed", metavar="N")] = None,
    prefix: str | None = None,
    skip_known: Annotated[bool, typer.Option("--skip-known")] = False,
    allow_unrunnable: bool = False,
    sync: Annotated[bool, typer.Option("--sync")] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Submit jobs to a live farm.

    Acknowledged jobs are stored on the farm's server, as durably as it stores anything (see
    --sync). An id can be used only once: if any id is known already, nothing is submitted. An
    estimate of when the job (or the last of several) will be dispatched and finished is printed
    on standard error, or with --json as `estimate`.

    Args:
        source: Jobs as JSON lines (.jsonl) or csv, or a trace; - reads JSON lines from stdin (with
            --format: a trace of that format). Default: one job, described by the options.
        service_time: One job: how long it takes alone, such as 90s or 5m.
        job_id: One job: its id. Default: a new one.
        count: Submit this many equal jobs (with numbered ids).
        platform: Platform, such as amd64/virtual or any/native. Default: the only pool's.
        user: One job: its user (attribute user).
        jobs: Only the first N jobs of FILE.
        pace: Submit jobs at their arrival times, N of their seconds per real second. Default: all
            now.
        prefix: Prefix of every id, to submit the same file again.
        skip_known: Skip jobs whose ids are known already.
        allow_unrunnable: Accept jobs that no pool of the farm could run.
        sync: Wait until the jobs are on the server's disk, safe from loss of power.
    """
    if (source is None) == (service_time is None):
        raise InputError(
            "found "
            + ("neither" if source is None else "both FILE and --service-time")
            + "; allowed: a FILE (or -), or --service-time for one job"
        )
    _refuse_stray_options(context, OF_ONE_JOB if source is not None else OF_A_FILE)
    if pace is not None and not 0 < pace < float("inf"):
        raise InputError(f"--speed: found {pace:g}; allowed: a positive number")
    as_they_come = str(source) == "-" and trace_format is None
    where = "stdin" if str(source) == "-" else str(source or "submit")
    submission = Submission(where, skip_known=skip_known, sync=sync)
    estimate: SubmissionEstimate | None = None
    try:
        with operating(redis, folder) as client:
            pools = client.pools()
            wanted = None if platform is None else parse_platform(platform, "--platform", None)
            default = wanted or only_platform(pools)
            if source is None:
                seconds = seconds_of(service_time or "", "--service-time", least=0.0)
                place = parse_platform(None, "--platform", default)
                one = described(like, seconds, job_id, place, user)
                found: Iterable[Job] = copies(one, count)
            else:
                found = jobs_of(source, trace_format, jobs, wanted, default)
            if prefix is not None:
                found = (msgspec.structs.replace(job, id=f"{prefix}{job.id}") for job in found)
            found = sound(found, where)
            if not allow_unrunnable:
                found = runnable(found, pools, where, "--allow-unrunnable")
            submission.begin(client)
            if as_they_come and pace is None:
                submission.stream(found)
            elif as_they_come:
                submission.paced(found, pace or 1.0)
            else:
                _at_once(submission, list(found), pace, silent=quiet or as_json)
            submission.check_accepted()
            if not (as_they_come or quiet or pace):
                estimate = submission.estimate()
    except FarmError as error:
        raise type(error)(f"{error}{_before(submission)}") from None
    except KeyboardInterrupt:
        FarmConsole(stderr=True).print(f"interrupted{_before(submission)}")
        raise
    if as_json:
        print_json({**submission.outcome(), "estimate": estimate})
    elif not quiet:
        typer.echo(submission.in_words())
        if estimate is not None:
            typer.echo(plain(estimate.in_words(), 1000), err=True)


def _at_once(submission: Submission, jobs: list[Job], pace: float | None, *, silent: bool) -> None:
    hidden = silent or sys.stderr is None or not sys.stderr.isatty()
    with counted_progress("submitting", silent=hidden) as show:
        submission.at_once(jobs, pace, show)


def _before(submission: Submission) -> str:
    """Return a note on the jobs that were submitted before an error."""
    count = submission.submitted
    submitted = f"{many(count, 'job')} were submitted before that; --skip-known skips them"
    return f" ({submitted})" if count else ""


def _refuse_stray_options(context: typer.Context, names: tuple[str, ...]) -> None:
    """Refuse options that would have no effect."""
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and given is not None and given.name == "COMMANDLINE":
            what = "one job (--service-time)" if names is OF_ONE_JOB else "a FILE"
            raise InputError(f"{parameter.opts[0]}: says something of {what}; found the other")
