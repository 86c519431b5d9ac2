"""``farm submit``: submits one job, a file of jobs, a trace, a scenario's, standard input."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer
from typer.models import OptionInfo

from farm.app.jobs.sources import chosen_platform, described, jobs_of, only_platform
from farm.app.jobs.submission import Submission, SubmitOptions
from farm.app.long_running.farm_place import reach
from farm.cli.operating import operating, require_confirmed
from farm.core.errors import FarmError, InputError, TraceError
from farm.core.fields import texts_of
from farm.core.model import MAX_THREADS, Job
from farm.live.wire.pool_report import PoolReport
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
from farm.whole_files import STDIN

Pools = dict[str, PoolReport]

ONE_JOB, FILE, SCENARIO = "one job (--service-time)", "a FILE", "scenario"

#: three systems' words for urgency, for which --urgency stands at the door
URGENCY = ("level", "score", "priority")
#: fields of a job that are options
JOB_FIELDS = (
    "kind",
    "attributes",
    "matrix",
    "group",
    "mode",
    "threads",
    "heavy",
    "memory_heavy",
    *URGENCY,
)


def _flags(*names: str) -> dict[str, OptionInfo]:
    """Return options that can only be switched on."""
    return {name: typer.Option(f"--{name.replace('_', '-')}") for name in names}


class OneJob(msgspec.Struct, frozen=True, kw_only=True):
    """What options say of a single job, besides the fields of a job.

    Attributes:
        service_time: one job: how long it takes alone, such as 90s or 5m.
        job_id: one job: its id. Default: a new one.
        count: submit this many equal jobs (with numbered ids).
        user: one job: its user (attribute user).
        urgency: one job: a higher one goes first, under every policy. Default: 0.
        needs: one job: jobs that must end before it is released, such as build;lint:ended;
            repeatable.
        needs_delay: one job: how long after that it is released, such as 30s.
    """

    service_time: str | None = None
    job_id: Annotated[str | None, typer.Option("--id")] = None
    count: Annotated[int, typer.Option(min=1)] = 1
    user: str | None = None
    urgency: int | None = None
    needs: Annotated[list[str] | None, typer.Option(metavar="ID[;ID]")] = None
    needs_delay: str | None = None


class ScenarioLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How a scenario's jobs are submitted.

    Attributes:
        most_waiting: of a scenario: pause while this many jobs are waiting.
    """

    #: as explained where several commands share it
    sets: Overrides = None
    most_waiting: Annotated[int, typer.Option(min=1)] = 10_000


class Manner(NamedTuple):
    """Which farm the jobs are submitted to, and how the command reports on them."""

    redis: str | None
    folder: Path
    as_json: bool
    quiet: bool


#: options of one job and of a FILE
SHARED = ("platform", "skip_known", "allow_unrunnable", "sync")
#: options that only some kinds of source have; the others have an effect with each
OPTIONS = {
    ONE_JOB: (*OneJob.__struct_fields__, *JOB_FIELDS, *SHARED),
    FILE: ("trace_format", "jobs", "pace", *SHARED),
    SCENARIO: ("trace_format", *ScenarioLoad.__struct_fields__),
}

JobLike = Annotated[
    Job,
    Fields(
        names=JOB_FIELDS,
        options={
            "attributes": typer.Option("--attribute"),
            "threads": typer.Option(min=1, max=MAX_THREADS),
            **_flags("heavy", "memory_heavy"),
            **{name: typer.Option(hidden=True) for name in URGENCY},
        },
        base=Job(id="", service_time=0.0),
    ),
]
Options = Annotated[
    SubmitOptions,
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
    one_job: Annotated[OneJob, Fields()],
    like: JobLike,
    platform: str | None = None,
    trace_format: Annotated[
        str | None,
        typer.Option(
            "--format", help=f"Format of FILE: {SCENARIO}, or of a trace: {', '.join(FORMATS)}."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1)] = None,
    options: Options,
    load: Annotated[ScenarioLoad, Fields(names=ScenarioLoad.__struct_fields__)],
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
        kind: One job: the kind of work; runtime estimators keep one history per kind.
        attributes: One job: user, team, project, build, image, …: the source of fair-share keys;
            repeatable.
        matrix: One job: the jobs released together by one commit share this name.
        group: One job: its concurrency group, such as deploy, deploy:3, main:latest, main:cancel.
        mode: One job: how a live builder spends the service time: timed, stress, memory or mixed.
        threads: One job: processes that a stress job keeps busy.
        heavy: One job: counts as CPU-heavy on its builder (contention).
        level: One job: static priority level, as --urgency.
        score: One job: Launchpad's score, as --urgency.
        priority: One job: a priority of REv2, where less is more urgent.
        memory_heavy: One job: counts as memory-bus-heavy on its builder (contention).
        platform: Platform, such as amd64/virtual or any/native. Default: the only pool's.
        jobs: Only the first N jobs of FILE.

    Examples:
        farm submit --service-time 90s --count 20     twenty equal jobs
        farm submit jobs.csv --speed 60               a table's jobs, a minute a second
        farm submit quickstart                        a scenario's jobs, at their times
    """
    kind = _kind_of(source, trace_format, one_job.service_time)
    _refuse_stray_options(context, kind)
    manner = Manner(redis, folder, as_json, quiet)
    if source is None:
        _submit_one_job(one_job, like, platform, options, manner)
    elif kind == SCENARIO:
        _submit_scenario(source, load, options.prefix, manner)
    else:
        _submit_file(JobFile(source, trace_format, jobs), platform, options, manner)


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
    from farm.scenario.packaged_examples import example_files  # noqa: PLC0415 - slow, as scenarios are

    return SCENARIO if str(source) in example_files() else FILE


def _refuse_stray_options(context: typer.Context, kind: str) -> None:
    """Refuse options that would have no effect with this kind of source."""
    for parameter in context.command.params:
        if not is_typed(context, parameter.name or ""):
            continue
        kinds = [having for having, names in OPTIONS.items() if parameter.name in names]
        if kinds and kind not in kinds:
            its = " or ".join(kinds).replace(SCENARIO, "a scenario")
            hint = "; of one job: --attribute KEY=VALUE" if parameter.name == "sets" else ""
            raise InputError(f"{parameter.opts[0]}: belongs to {its}; found {kind}{hint}")


def _submit_one_job(
    wanted: OneJob, like: Job, platform: str | None, options: SubmitOptions, manner: Manner
) -> None:
    """Submit a job that is described by options, or several like it."""
    seconds = seconds_of(wanted.service_time or "", "--service-time", least=0.0)
    if wanted.urgency is not None:
        like = msgspec.structs.replace(like, level=wanted.urgency)
    delay = seconds_of(wanted.needs_delay or "0s", "--needs-delay", least=0.0)
    needs = texts_of(";".join(wanted.needs or ()))
    like = msgspec.structs.replace(like, needs=needs, needs_delay=delay)

    def described_job(pools: Pools) -> Iterable[Job]:
        chosen = chosen_platform(platform, pools)
        return [described(like, seconds, wanted.job_id, chosen, wanted.user)]

    _submit(Submission("submit", options), described_job, wanted.count, manner)


class JobFile(NamedTuple):
    """A file of jobs, or standard input."""

    path: Path
    #: None: guessed from the name; JSON lines on standard input
    trace_format: str | None
    #: how many of its jobs, from the first on; None: all
    jobs: int | None


def _submit_file(
    file: JobFile, platform: str | None, options: SubmitOptions, manner: Manner
) -> None:
    """Submit the jobs of a file: all together, but those of a pipe as they come."""
    is_piped = file.path == STDIN
    if not is_piped and not file.path.exists():
        raise TraceError(f"{file.path}: no such file")
    name = "stdin" if is_piped else str(file.path)
    streaming = is_piped and file.trace_format is None
    submission = Submission(name, options, streaming=streaming)

    def jobs_in_file(pools: Pools) -> Iterable[Job]:
        if platform is None:
            return jobs_of(*file, forced=None, default=only_platform(pools))
        chosen = chosen_platform(platform, pools)
        return jobs_of(*file, forced=chosen, default=chosen)

    _submit(submission, jobs_in_file, 1, manner)


def _submit(
    submission: Submission, jobs: Callable[[Pools], Iterable[Job]], count: int, manner: Manner
) -> None:
    """Submit jobs, and report on it; ``jobs`` makes them for the pools that the farm has.

    Raises Exit if it is not known whether the scheduler accepts them. An error, and Ctrl-C, tells
    how many were submitted before.
    """
    is_seen = sys.stderr is not None and sys.stderr.isatty()
    silent = submission.streaming or manner.quiet or manner.as_json or not is_seen
    try:
        with operating(manner.redis, manner.folder) as client:
            made = jobs(client.pools())
            with counted_progress("submitting", silent=silent) as show:
                submission.submit(made, client, count, show)
            estimate = None if manner.quiet else submission.estimate()
    except FarmError as error:
        raise type(error)(f"{error}{_before(submission)}") from None
    except KeyboardInterrupt:
        remark(f"interrupted{_before(submission)}")
        raise
    if manner.as_json:
        print_json({**submission.outcome(), "estimate": estimate})
    elif not manner.quiet:
        typer.echo(submission.in_words())
        if estimate is not None:
            remark(estimate.in_words())
    require_confirmed(submission.not_confirmed)


def _before(submission: Submission) -> str:
    """Return a note on the jobs that were submitted before an error."""
    count = submission.submitted
    if not count:
        return ""
    were = "was" if count == 1 else "were"
    return f" ({many(count, 'job')} {were} submitted before that; --skip-known skips them)"


def _submit_scenario(path: Path, load: ScenarioLoad, prefix: str | None, manner: Manner) -> None:
    """Submit a scenario's jobs at their arrival times, until the end or Ctrl-C."""
    from farm.app.jobs.scenario_submission import play  # noqa: PLC0415 - slow, most submit no scenario
    from farm.scenario import load_scenario  # noqa: PLC0415 - as above

    scenario = load_scenario(path, load.sets or ())
    stop = stop_on_signals()
    prefix = prefix or uuid.uuid4().hex[:6]
    silent = manner.quiet or manner.as_json
    with (
        reach(manner.redis, manner.folder) as client,
        progress("submitting", silent=silent) as update,
    ):

        def show(count: int, waiting: int) -> None:
            update(description=f"{many(count, 'job')} submitted, {waiting:,} waiting")

        count, known = play(scenario, client, prefix, load.most_waiting, stop, show)
        not_confirmed = client.check_accepted()
    if manner.as_json:
        print_json({"submitted": count, "known": known, "confirmed": not not_confirmed})
    elif not manner.quiet:
        besides = f", {known:,} known already" if known else ""
        remark(f"submitted {many(count, 'job')}{besides}")
    require_confirmed(not_confirmed)
