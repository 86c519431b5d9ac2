"""``farm job``: the history of one job, and why it waits or was dispatched as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from farm.app.jobs.job_descriptions import (
    description_of,
    forecast_fields,
    method_in_full,
    tried,
)
from farm.app.jobs.job_forecast import in_words, time_of_day
from farm.app.jobs.job_lookup import history_of
from farm.app.jobs.submission_estimate import with_provisioner
from farm.app.long_running.farm_place import reach
from farm.app.long_running.pool_troubles import hints_for
from farm.core.commands import EndJob
from farm.core.dispatching.decisions import Decision
from farm.core.errors import InputError
from farm.core.queues.fair_share.turn_explanation import Party, Turn
from farm.live.operating.answers import Answer
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import KnownJob, state_of
from farm.live.store.saved import Try
from farm.results.formatting import sentence
from farm.terminal.cells import folding, numbers, texts
from farm.terminal.console import coloured
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note, print_json, progress, warn
from farm.terminal.plain_text import plain
from farm.terminal.tables import Listing, story
from farm.units import format_roughly, many

#: what the sentence above them says in a text, or the line of ``estimated_by``
IN_WORDS = (
    "forecast",
    "rollouts",
    "past_run_times",
    "run_time_drawn_from",
    "estimates_lately",
    "why_no_rollouts",
    "formula_dispatch_in_s",
    "why_they_differ",
    "why_waiting",
    "forecasts_checked",
    "forecasts_in_time",
    "may_wait_very_long",
    "declared_time_not_believed",
    "estimated_dispatch_in_s",
    "estimated_dispatch_in_p10_s",
    "estimated_dispatch_in_p90_s",
    "estimated_run_time_p10_s",
    "estimated_run_time_p90_s",
    "estimated_completion_in_s",
    "estimated_completion_in_p10_s",
    "estimated_completion_in_p90_s",
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
        if answer is not None:
            answer = with_provisioner(client, job_id, answer)
        forecast = _forecast(client, job_id, answer)
    history = description_of(found, tries, answer)
    if forecast:
        history["forecast"] = forecast
    if as_json:
        print_json(history)
        return
    if forecast:
        note(sentence(forecast))
    note(story(history_lines(history, tries)))


def _forecast(client: FarmClient, job_id: str, answer: Answer | None) -> str:
    """Return in a sentence when a job starts or ends; empty: its scheduler does not know it."""
    if answer is None or answer.job is None:
        return ""
    return in_words(job_id, answer.job, client.status().speed, time_of_day())


def history_lines(history: dict[str, Any], tries: list[Try]) -> list[tuple[str, object]]:
    """Return a history as readable values, without empty ones."""
    lines: list[tuple[str, object]] = []
    for name, value in history.items():
        words = name.removesuffix("_s").replace("_", " ")
        if name in IN_WORDS:
            continue
        if name == "estimated_by" and value is not None:
            lines.append(("forecast by", method_in_full(history)))
        elif name == "tries":
            lines += [(f"attempt {attempt.attempt}", tried(attempt)) for attempt in tries]
        elif name == "attributes":
            lines += [(f"attribute {key}", text) for key, text in value.items()]
        elif value in (None, "", []) or (name in ("level", "score") and not value):
            continue
        elif name == "state":
            lines.append((name, coloured(value)))
        elif name.endswith("_s"):
            lines.append((words, format_roughly(value)))
        elif isinstance(value, list):
            lines.append((words, ", ".join(value)))
        else:
            lines.append((words, value))
    return lines


ORDER = "competing jobs, the next to go first: by urgency, smallest policy key, submission"
_TURNS = (
    *texts("level", "invocation"),
    *numbers("executing", "priority", "waiting", "last start"),
    *folding("why"),
)

TURNS_TO_GO = ("last start", "waiting", "priority", "executing")

_WHY = {
    "alone": "no other job waits here",
    "level": "by static level",
    "share": "by share: slots executing",
    "priority": "by priority",
    "share and priority": "by share and priority: (executing + 1) * 2^(priority ÷ 100)",
    "turn": "equal: the least recently started one",
    "stickiness": "equal: the slot stays where it was",
    "directly": "a job queued in the node above precedes it",
}


def explain_in_run(run: Path, job_id: str, *, as_json: bool) -> None:
    """Print the decisions on a job of a recorded run, found by replaying its log."""
    from farm.app.recorded.auditing import decisions_on  # noqa: PLC0415 - slow, a live farm needs none

    with progress("replaying", silent=as_json):
        found = decisions_on(run, job_id)
    if as_json:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    for one in found:
        _show(one)


def explain_live(job_id: str, redis: str | None, folder: Path, *, as_json: bool) -> None:
    """Print the last decision on a job of a live farm, or why it waits."""
    if redis is None and Path(job_id).is_dir():
        raise InputError(f"{job_id} is a run directory; allowed: ID --why --run {job_id}")
    with reach(redis, folder) as client:
        found, tries, answer, warning = history_of(client, job_id)
        warn(warning)
        forecast = _forecast(client, job_id, answer)
        hints = [] if isinstance(found, EndJob) else hints_for(client, found.job.platform)
    decision = None if answer is None else answer.decision
    words = forecast or _in_words(found, answer)
    if as_json:
        document: dict[str, object] = {"job": job_id, "state": state_of(found), "said": words}
        if answer is not None and answer.job is not None:
            document |= forecast_fields(answer.job)
        if decision is not None:
            document |= msgspec.to_builtins(decision)
        elif answer is not None and answer.job is not None and answer.job.turns:
            document["turns"] = msgspec.to_builtins(answer.job.turns)
        print_json([document])
        return
    note(*(f"attempt {one.attempt} {tried(one)}" for one in tries))
    if decision is not None:
        _show(decision)
    elif answer is not None and answer.job is not None:
        _show_turns(answer.job.turns)
    note(words, *(hints if state_of(found) == "waiting" else []))


def _in_words(found: KnownJob, answer: Answer | None) -> str:
    """Describe the state of the job, and why its dispatch cannot be explained, if so."""
    name, now = found.job.id, None if answer is None else answer.job
    if answer is None:
        rest = "only its scheduler could say why, and it is not running"
    elif answer.decision is not None:
        rest = ""
    else:
        rest = (
            "how it was dispatched is not remembered (a scheduler keeps its last decisions, and "
            "none across a restart; a recorded run keeps all: farm job ID --why --run RUN)"
        )
    if now is not None and now.status == "blocked":
        return f"{name} is blocked: {now.why}"
    if now is not None and now.why:
        return f"{name} waits: {now.why}"
    if not isinstance(found, EndJob):
        where = "" if found.builder is None else f" on {found.builder}"
        return f"{name} is {state_of(found)}{where}; {rest}".rstrip("; ")
    if found.builder is None:
        rest = "it was never dispatched"
    if found.served_by is not None:
        rest = f"{found.served_by}, which does the same action, was executed for both"
    when = format_roughly(found.finished_at)
    why = f" ({found.reason})" if found.reason else ""
    return f"{name} {found.outcome} at {when}{why}; {rest}".rstrip("; ")


def _show(decision: Decision) -> None:
    job, builder, platform = map(plain, (decision.job, decision.builder, decision.platform))
    rest = f", slot {decision.slot}, at {format_roughly(decision.at)} ({platform})"
    went = Text.assemble((job, "bold"), " went to ", (builder, "bold"), rest)
    charged = [f"charged to {' / '.join(decision.path)}"] if decision.path else []
    waited = f"{many(decision.waiting, 'other')} waited"
    note(went, *charged, f"its key: {_key(decision.key)}; {waited}")
    _show_turns(decision.turns)
    if decision.next:
        shared = any(other.path for other in decision.next)  # only under fair share
        columns = (*texts("job"), *folding(*["charged to"] * shared, "key, part by part"))
        rows = [
            (other.job, *[" / ".join(other.path)] * shared, _key(other.key))
            for other in decision.next
        ]
        note(Listing(columns, rows, title=ORDER))
    if not decision.free_builders:
        note("no other builder was free: this slot was, just then")
        return
    ranks = [(name, f"{rank:g}") for name, rank in decision.free_builders]
    free = (*texts("builder"), *numbers("rank"))
    note(Listing(free, ranks, title="free builders, best first: smallest rank by the balancer"))


def _show_turns(turns: Sequence[Turn]) -> None:
    """Print, for each level, the job's own invocation and the competing ones."""
    if turns:
        title = "whose turn, level by level"
        note(Listing(_TURNS, _turn_rows(turns), title=title, first_to_go=TURNS_TO_GO))


def _turn_rows(turns: Sequence[Turn]) -> Iterator[tuple[str, ...]]:
    for depth, turn in enumerate(turns, 1):
        why = f"{'goes' if turn.first else 'waits'}, {_WHY[turn.why]}"
        yield (str(depth), *_party(turn.party), why)
        for rival in turn.rivals:
            yield ("", *_party(rival), "")


def _party(party: Party) -> tuple[str, ...]:
    last = format_roughly(party.started_at)
    counts = (party.executing, party.priority, party.waiting)
    return (party.name, *map(str, counts), last)


def _key(key: Sequence[float]) -> str:
    """Return a sort key with the names of its parts: (-level, the policy's own, serial)."""
    level, *own, serial = key
    numbers = ", ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in own)
    return f"urgency {-level:g}, policy {numbers}, submission {serial}"
