"""``jenkins``: builds of a job's API, with the times in queue of the Metrics plugin.

A freestyle build waits for an executor from when it was buildable, after its quiet period and
after what it was blocked by. A pipeline has only sums over its parts: it is one job, with their
mean wait, and is counted as an aggregate.

A multi-configuration project's build takes no executor itself: what it starts are the builds of its
configurations, one for each combination of its axes. These are the jobs of a matrix, which is named
after the build that started them (``app#7``).

A build that another one started says so in its causes: it needs that build, whose end released it.
Some steps start others before they end (``build job`` in a pipeline): then it came before that end,
and needs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from operator import attrgetter
from urllib.parse import unquote

import msgspec

from farm.records.attempt import Attempt, Result, by_word, grouped
from farm.records.reading import Reading, members
from farm.records.source import Source

_RESULTS: dict[str, Result] = by_word(
    {"succeeded": "SUCCESS UNSTABLE", "cancelled": "ABORTED NOT_BUILT"}
)
BUILT_IN = "built-in"
#: they take no executor, but what they start does
_MATRIX, _PIPELINE = "hudson.matrix.MatrixBuild", "WorkflowRun"
#: the build of one combination of a multi-configuration project's axes
_MATRIX_RUN = "hudson.matrix.MatrixRun"


class _Cause(msgspec.Struct, rename="camel"):
    user_id: str | None = None
    upstream_project: str | None = None
    upstream_build: int | None = None


class _Action(msgspec.Struct, rename="camel"):
    """The parts of an action that matter; most actions have none of them."""

    queuing_duration_millis: float | None = None
    buildable_duration_millis: float | None = None
    queuing_time_millis: float | None = None
    executing_time_millis: float | None = None
    sub_task_count: int = 0
    causes: list[_Cause] = []


class _Build(msgspec.Struct, rename="camel"):
    number: int
    timestamp: float
    kind: str = msgspec.field(default="", name="_class")
    duration: float = 0.0
    built_on: str | None = None
    result: str | None = None
    building: bool = False
    actions: list[_Action | None] = []
    #: where it lies on the server: ``…/job/app/os=linux/7/``
    url: str = ""


def knows(value: dict[str, object]) -> bool:
    """Return whether this is what Jenkins writes."""
    inner = members(value, "jobs")[:1]
    in_folder = bool(inner) and isinstance(inner[0], dict) and knows(inner[0])
    has_builds = not {"allBuilds", "builds", "lastBuild"}.isdisjoint(value)
    return has_builds or in_folder or _is_build(value)


def _is_build(value: dict[str, object]) -> bool:
    """Return whether this is a build alone, as ``lastBuild/api/json`` has it."""
    return {"number", "timestamp", "duration", "building"} <= value.keys()


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield the builds of each job."""
    for value in reading.objects():
        if not knows(value):
            reading.refuse_other(value, "a job with its builds (allBuilds)")
        yield from _in_job(value, reading)


def _in_job(value: dict[str, object], reading: Reading, project: str = "") -> Iterator[Attempt]:
    """Yield the builds of a job and its configurations, or of the jobs in a folder.

    Args:
        value: the job.
        project: the full name of the multi-configuration project that the job belongs to.
    """
    name = _name_of(value, project)
    builds = members(value, "allBuilds") or members(value, "builds")
    if _is_build(value):
        builds = [value]
        name = str(value.get("fullDisplayName", "")).partition(" #")[0]
    elif not builds and isinstance(value.get("lastBuild"), dict):
        builds = [value["lastBuild"]]
    yield from reading.attempts(builds, partial(_attempt, name))
    for build in builds:
        if isinstance(build, dict) and members(build, "runs"):
            yield from _runs_of(build, name, reading)
    for configuration in members(value, "activeConfigurations"):
        if isinstance(configuration, dict):
            yield from _in_job(configuration, reading, name)
    for inner in members(value, "jobs"):
        if isinstance(inner, dict):
            yield from _in_job(inner, reading)


def _name_of(job: dict[str, object], project: str) -> str:
    """Return a job's full name; that of a configuration may be given below its project's."""
    full_name = job.get("fullName")
    if isinstance(full_name, str) and full_name:
        return full_name
    name = job.get("name")
    if not isinstance(name, str):
        return ""
    return f"{project}/{name}" if project else name


def _runs_of(build: dict[str, object], project: str, reading: Reading) -> Iterator[Attempt]:
    """Yield the builds that a multi-configuration project's build started.

    Its list also has those of earlier builds, for the configurations that were not built again.
    """
    number = build.get("number")
    for run in members(build, "runs"):
        # without its times, such a run only says that there is one
        if not isinstance(run, dict) or run.get("number") != number or "timestamp" not in run:
            continue
        yield from reading.attempts([run], partial(_attempt, _configuration_of(run, project)))


def _configuration_of(run: dict[str, object], project: str) -> str:
    """Return the full name of the configuration that was built: its address ends in it."""
    url = run.get("url")
    parts = unquote(url).rstrip("/").split("/") if isinstance(url, str) else []
    return f"{project}/{parts[-2]}" if len(parts) > 1 else project


def _matrix_of(name: str, build: _Build) -> str:
    """Return the build whose combination of axes this one is; empty: it is of no such project."""
    if not build.kind.endswith(_MATRIX_RUN):
        return ""
    for action in build.actions:
        for cause in action.causes if action is not None else ():
            if cause.upstream_project and cause.upstream_build is not None:
                return f"{cause.upstream_project}#{cause.upstream_build}"
    # it has the number of the build that started it
    return f"{name.rpartition('/')[0]}#{build.number}"


def _upstream_of(build: _Build) -> tuple[str, ...]:
    """Return the builds that started this one; those that started a combination of axes are none.

    It starts once they have ended, however that was: Jenkins' default is a success, but a trigger
    may have others.
    """
    if build.kind.endswith(_MATRIX_RUN):
        return ()
    causes = (cause for action in build.actions if action is not None for cause in action.causes)
    named = (
        f"{cause.upstream_project}#{cause.upstream_build}:ended"
        for cause in causes
        if cause.upstream_project and cause.upstream_build is not None
    )
    return tuple(dict.fromkeys(named))


def _attempt(name: str, value: object, reading: Reading) -> Attempt:
    if isinstance(value, dict) and "timestamp" not in value:
        reading.count()
        reading.refuse(
            "found a build without its times; allowed: those of api/json?tree=fullName,"
            "allBuilds[number,timestamp,duration,builtOn,result,actions[*]]{0,1000}"
        )
    build = reading.record(value, _Build)
    actions = [one for one in build.actions if one is not None]
    times = next((one for one in actions if one.queuing_duration_millis is not None), None)
    started_at = build.timestamp / 1000
    if times is None:
        reading.leave_out("without times in queue (is the Metrics plugin there?)")
    if build.kind == _MATRIX or (build.kind.endswith(_PIPELINE) and not times.sub_task_count):
        reading.leave_out("no work (builds without parts on an executor)")
    queued_ms = times.queuing_duration_millis or 0.0
    submitted_at = started_at - queued_ms / 1000
    wait: float | None = None
    eligible_at = None
    run_time = build.duration / 1000
    if times.sub_task_count and times.queuing_time_millis is not None:
        # its parts waited after its start, each as long; what they took is no time of the build
        wait = max(0.0, times.queuing_time_millis - queued_ms) / times.sub_task_count / 1000
        eligible_at = started_at
        started_at += wait
        run_time = max(0.0, run_time - wait)
        if times.executing_time_millis is not None:
            run_time = times.executing_time_millis / 1000
        reading.noted["pipelines, with the mean wait of their parts"] += 1
    elif times.buildable_duration_millis is not None:
        wait = times.buildable_duration_millis / 1000
        eligible_at = started_at - wait
    else:
        reading.noted["without buildableDurationMillis, their waits not known"] += 1
    upstream = _upstream_of(build)
    user = next((c.user_id for one in actions for c in one.causes if c.user_id), "")
    # a build has its result before its last steps are done
    is_over = build.result is not None and not build.building
    return Attempt(
        # without the job's name, numbers are of several
        id=f"{name}#{build.number}" if name else f"#{build.number}@{started_at:.3f}",
        submitted_at=min(submitted_at, started_at - (wait or 0.0)),
        eligible_at=eligible_at,
        started_at=started_at,
        finished_at=started_at + run_time if is_over else None,
        result=_RESULTS.get(build.result or "", "failed") if is_over else "open",
        # a pipeline names no node
        runner="" if build.built_on is None else build.built_on or BUILT_IN,
        kind=name,
        matrix=_matrix_of(name, build),
        user=user,
        needs=upstream,
        needs_known=bool(upstream),
    )


def write(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    """Yield jobs with their builds, of those that started."""
    words = {"succeeded": "SUCCESS", "cancelled": "ABORTED", "open": None}
    started = (one for one in attempts if one.started_at is not None)
    for name, some in grouped(started, attrgetter("kind")).items():
        builds = [
            {
                "number": number,
                "timestamp": round((one.started_at or 0.0) * 1000),
                "duration": round((one.ran or 0.0) * 1000),
                "builtOn": one.runner,
                "result": words.get(one.result, "FAILURE"),
                "actions": [
                    {
                        "queuingDurationMillis": round((one.waited or 0.0) * 1000),
                        "buildableDurationMillis": round((one.waited or 0.0) * 1000),
                    },
                    {"causes": [{"userId": one.user}, *_upstream_causes(one.matrix)]},
                ],
                **({"_class": _MATRIX_RUN} if one.matrix else {}),
            }
            for number, one in enumerate(some, 1)
        ]
        yield {"fullName": name, "allBuilds": builds}


def _upstream_causes(matrix: str) -> Iterator[dict[str, object]]:
    """Yield the cause of the builds of a matrix, which is the first build of its project."""
    if matrix:
        yield {"upstreamProject": matrix, "upstreamBuild": 1}


SOURCE = Source(read, knows, write, unique_ids=False)
