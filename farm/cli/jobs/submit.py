"""``farm submit``: submits one job, a file of jobs, a trace, a scenario's, standard input."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from typer.models import OptionInfo

from farm.app.jobs.sources import chosen_platform, described, jobs_of, only_platform
from farm.app.jobs.submission import Manner, Submission
from farm.app.long_running.farm_place import reach
from farm.cli.operating import operating, require_confirmed
from farm.core.errors import FarmError, InputError, TraceError
from farm.core.model import MAX_THREADS, Job
from farm.processes.signals import stop_on_signals
from farm.records.traces import FORMATS
from farm.terminal.field_options import Fields, with_fields
from farm.terminal.options import (
    DEFAULT_DIR,
    AsJson,
    Dir,
    Overrides,
    Quiet,
    Redis,
    is_typed,
    seconds_of,
)
from farm.terminal.output import counted_progress, print_json, progress, remark
from farm.units import many

#: three systems' words for urgency, for which --urgency stands at the door
URGENCY = ("level", "score", "priority")
FIELDS = ("kind", "attributes", "matrix", "mode", "threads", "heavy", "memory_heavy", *URGENCY)
#: options that apply to some kinds of source only
OF_ONE_JOB = ("job_id", "count", "user", "urgency", *FIELDS)
ONE_JOB, FILE, SCENARIO = "one job (--service-time)", "a FILE", "scenario"
OF_BOTH = ("platform", "skip_known", "allow_unrunnable", "sync")
#: options that only some kinds of source have
OPTIONS = {
    ONE_JOB: (*OF_ONE_JOB, *OF_BOTH),
    FILE: ("trace_format", "jobs", "pace", *OF_BOTH),
    SCENARIO: ("trace_format", "sets", "most_waiting"),
}


def _flags(*names: str) -> dict[str, OptionInfo]:
    """Return options that can only be switched on."""
    return {name: typer.Option(f"--{name.replace('_', '-')}") for name in names}


Like = Annotated[
    Job,
    Fields(
        names=FIELDS,
        options={
            "attributes": typer.Option("--attribute"),
            "threads": typer.Option(min=1, max=MAX_THREADS),
            **_flags("heavy", "memory_heavy"),
            **{name: typer.Option(hidden=True) for name in URGENCY},
        },
        base=Job(id="", service_time=0.0),
    ),
]
How = Annotated[
    Manner,
    Fields(
        options={
            "pace": typer.Option("--speed", metavar="N"),
            **_flags("skip_known", "allow_unrunnable", "sync"),
        }
    ),
]


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
    urgency: int | None = None,
    like: Like,
    trace_format: Annotated[
        str | None,
        typer.Option(
            "--format", help=f"Format of FILE: {SCENARIO}, or of a trace: {', '.join(FORMATS)}."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1)] = None,
    how: How,
    sets: Overrides = None,
    most_waiting: Annotated[int, typer.Option(min=1)] = 10_000,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Submit jobs to a live farm.

    Acknowledged jobs are stored on the farm's server, as durably as it stores anything (see
    --sync). An id can be used only once: if any id is known already, nothing is submitted. If the
    scheduler refuses a job, as another client has submitted another one of its id, the exit code
    is 2; if it does not say so in time, the submission is not confirmed, and the exit code is 1. An
    estimate of when the job (or the last of several) will be dispatched and finished is printed
    on standard error, or with --json as `estimate`.

    A scenario's jobs are submitted at their arrival times, until the end or Ctrl-C (sources without
    count and duration never end). Only its workload and seed count; pools and scheduling are the
    farm's own.

    Args:
        source: Jobs as JSON lines (.jsonl) or csv, a trace, or a scenario; - reads JSON lines from
            stdin (with --format: a trace of that format). Default: one job, described by the
            options.
        service_time: One job: how long it takes alone, such as 90s or 5m.
        job_id: One job: its id. Default: a new one.
        count: Submit this many equal jobs (with numbered ids).
        platform: Platform, such as amd64/virtual or any/native. Default: the only pool's.
        user: One job: its user (attribute user).
        urgency: One job: a higher one goes first, under every policy. Default: 0.
        kind: One job: the kind of work; runtime estimators keep one history per kind.
        attributes: One job: user, team, project, build, image, …: the source of fair-share keys;
            repeatable.
        matrix: One job: the jobs released together by one commit share this name.
        mode: One job: how a live builder spends the service time: timed, stress, memory or mixed.
        threads: One job: processes that a stress job keeps busy.
        heavy: One job: counts as CPU-heavy on its builder (contention).
        level: One job: static priority level, as --urgency.
        score: One job: Launchpad's score, as --urgency.
        priority: One job: a priority of REv2, where less is more urgent.
        memory_heavy: One job: counts as memory-bus-heavy on its builder (contention).
        jobs: Only the first N jobs of FILE.
        most_waiting: Of a scenario: pause while this many jobs are waiting.

    Examples:
        farm submit --service-time 90s --count 20     twenty equal jobs
        farm submit jobs.csv --speed 60               a table's jobs, a minute a second
        farm submit quickstart                        a scenario's jobs, at their times
    """
    kind = _kind_of(source, trace_format, service_time)
    _refuse_stray_options(context, kind)
    if kind == SCENARIO and source is not None:
        place = (redis, folder)
        _play(source, sets or (), place, how.prefix, most_waiting, as_json=as_json, quiet=quiet)
        return
    seconds = 0.0 if source else seconds_of(service_time or "", "--service-time", least=0.0)
    as_they_come = str(source) == "-" and trace_format is None
    where = "stdin" if str(source) == "-" else str(source or "submit")
    if source is not None and where != "stdin" and not source.exists():
        raise TraceError(f"{source}: no such file")
    submission = Submission(where, how, as_they_come=as_they_come)
    hidden = as_they_come or quiet or as_json or sys.stderr is None or not sys.stderr.isatty()
    try:
        with operating(redis, folder) as client:
            pools = client.pools()
            wanted = None if platform is None else chosen_platform(platform, pools)
            if source is None:
                at = wanted or chosen_platform(None, pools)
                if urgency is not None:
                    like = msgspec.structs.replace(like, level=urgency)
                found: Iterable[Job] = [described(like, seconds, job_id, at, user)]
            else:
                default = wanted or only_platform(pools)
                found = jobs_of(source, trace_format, jobs, wanted, default)
            with counted_progress("submitting", silent=hidden) as show:
                submission.submit(found, client, count, show)
            estimate = None if quiet else submission.estimate()
    except FarmError as error:
        raise type(error)(f"{error}{_before(submission)}") from None
    except KeyboardInterrupt:
        remark(f"interrupted{_before(submission)}")
        raise
    if as_json:
        print_json({**submission.outcome(), "estimate": estimate})
    elif not quiet:
        typer.echo(submission.in_words())
        if estimate is not None:
            remark(estimate.in_words())
    require_confirmed(submission.not_confirmed)


def _kind_of(source: Path | None, trace_format: str | None, service_time: str | None) -> str:
    """Return of what kind the source is, as the messages call it; raises InputError."""
    if (source is None) == (service_time is None):
        found = "no jobs" if source is None else "both FILE and --service-time"
        raise InputError(f"found {found}; allowed: a FILE (or -), or --service-time for one job")
    if source is None:
        return ONE_JOB
    if trace_format is not None:
        return SCENARIO if trace_format == SCENARIO else FILE
    if source.suffix in (".yaml", ".yml"):
        return SCENARIO
    if source.exists() or source.suffix:
        return FILE
    from farm.scenario.examples import example_files  # noqa: PLC0415 - slow, as scenarios are

    return SCENARIO if str(source) in example_files() else FILE


def _before(submission: Submission) -> str:
    """Return a note on the jobs that were submitted before an error."""
    count = submission.submitted
    were = "was" if count == 1 else "were"
    submitted = f"{many(count, 'job')} {were} submitted before that; --skip-known skips them"
    return f" ({submitted})" if count else ""


def _refuse_stray_options(context: typer.Context, kind: str) -> None:
    """Refuse options that would have no effect with this kind of source."""
    for parameter in context.command.params:
        if not is_typed(context, parameter.name or ""):
            continue
        kinds = [one for one, names in OPTIONS.items() if parameter.name in names]
        if kinds and kind not in kinds:
            its = " or ".join(kinds).replace(SCENARIO, "a scenario")
            hint = "; of one job: --attribute KEY=VALUE" if parameter.name == "sets" else ""
            raise InputError(f"{parameter.opts[0]}: belongs to {its}; found {kind}{hint}")


def _play(
    scenario: Path,
    sets: Sequence[str],
    place: tuple[str | None, Path],
    prefix: str | None,
    most_waiting: int,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Submit a scenario's jobs at their arrival times, until the end or Ctrl-C."""
    from farm.app.jobs.scenario_submission import play  # noqa: PLC0415 - slow, most submit no scenario
    from farm.scenario import load_scenario  # noqa: PLC0415 - as above

    wanted = load_scenario(scenario, sets)
    stop = stop_on_signals()
    prefix = prefix or uuid.uuid4().hex[:6]
    with reach(*place) as client, progress("submitting", silent=quiet or as_json) as update:

        def show(count: int, waiting: int) -> None:
            update(description=f"{many(count, 'job')} submitted, {waiting:,} waiting")

        count, known = play(wanted, client, prefix, most_waiting, stop, show)
        not_confirmed = client.check_accepted()
    if as_json:
        print_json({"submitted": count, "known": known, "confirmed": not not_confirmed})
    elif not quiet:
        besides = f", {known:,} known already" if known else ""
        remark(f"submitted {many(count, 'job')}{besides}")
    require_confirmed(not_confirmed)
