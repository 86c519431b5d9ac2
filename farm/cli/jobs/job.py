"""``farm job``: the history of one job, and why it waits or was dispatched as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from farm.app.jobs.job_descriptions import description_of, method_in_full, tried
from farm.app.jobs.lookup import history_of
from farm.app.jobs.submission_estimate import with_provisioner
from farm.app.long_running.farm_place import reach
from farm.cli.jobs.decisions import explain_in_run, explain_live
from farm.live.store.saved import Try
from farm.terminal.console import coloured
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note, print_json, warn
from farm.terminal.tables import story
from farm.units import format_roughly

#: what is told in one line, with ``estimated_by``
OF_THE_METHOD = (
    "rollouts",
    "past_run_times",
    "run_time_drawn_from",
    "estimates_lately",
    "why_no_rollouts",
)


def job(
    job_id: Annotated[str, typer.Argument(metavar="ID")],
    why: Annotated[bool, typer.Option("--why")] = False,
    run: Annotated[Path | None, typer.Option("--run", metavar="RUN")] = None,
    job_of_run: Annotated[str | None, typer.Option("--job", hidden=True)] = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Show a job's history and state: where it is, why it waits, or how it ended.

    With --why also the competing jobs, whose turn it was, and the free builders; the decisions of a
    recorded run are reconstructed by replaying its log.

    Args:
        job_id: The id of a job.
        why: Explain its dispatch, or its waiting.
        run: The job is of this recorded run, not of a live farm: its dispatch is explained.
        job_of_run: The job, where ID is a run.

    Examples:
        farm job build-17                      where it is, and when it will start
        farm job build-17 --why                who goes before it, and why
        farm job build-17 --run day            the same in a recorded run
    """
    if job_of_run is not None:
        run, job_id = Path(job_id), job_of_run
    if run is not None:
        explain_in_run(run, job_id, as_json=as_json)
        return
    if why:
        explain_live(job_id, redis, folder, as_json=as_json)
        return
    with reach(redis, folder) as client:
        found, tries, answer, warning = history_of(client, job_id)
        warn(warning)
        if answer is not None and answer.job is not None:
            now = with_provisioner(client, job_id, answer.job)
            answer = msgspec.structs.replace(answer, job=now)
    history = description_of(found, tries, answer)
    if as_json:
        print_json(history)
        return
    note(story(_lines(history, tries)))


def _lines(history: dict[str, Any], tries: list[Try]) -> list[tuple[str, object]]:
    """Return a history as readable values, without empty ones."""
    lines: list[tuple[str, object]] = []
    for name, value in history.items():
        if name in OF_THE_METHOD:
            continue
        if name == "estimated_by" and value is not None:
            lines.append((_words(name), method_in_full(history)))
        elif name == "tries":
            lines += [(f"attempt {one.attempt}", tried(one)) for one in tries]
        elif name == "attributes":
            lines += [(f"attribute {key}", text) for key, text in value.items()]
        elif value in (None, "") or (name in ("level", "score") and not value):
            continue
        elif name == "state":
            lines.append((name, coloured(value)))
        elif name.endswith("_s"):
            lines.append((_words(name[:-2]), format_roughly(value)))
        else:
            lines.append((_words(name), value))
    return lines


def _words(name: str) -> str:
    return name.replace("_", " ")
