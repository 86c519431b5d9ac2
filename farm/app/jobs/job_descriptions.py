"""A job of a live farm as plain values: where it is, why it waits, what became of it."""

from __future__ import annotations

from typing import Any

import msgspec

from farm.app.jobs.job_forecast import forecast_of
from farm.core.commands import EndJob
from farm.core.dispatching.decisions import Decision
from farm.forecasts.dispatch.recent_errors import Lately
from farm.forecasts.forecast_words import StartForecast
from farm.live.operating.answers import Answer, Waiting
from farm.live.store.job_reader import KnownJob, state_of
from farm.live.store.saved import Try
from farm.units import format_roughly, many


def row_of(job: KnownJob) -> dict[str, Any]:
    """Return a job as the listing shows it, with the columns of jobs.csv where they are known."""
    row: dict[str, object] = {
        "job_id": job.job.id,
        "state": state_of(job),
        "platform": str(job.job.platform),
        "kind": job.job.kind,
        "user": job.job.attributes.get("user"),
        "matrix": job.job.matrix,
        "priority": job.job.priority,
        "declared_time_s": job.job.declared_time,
        "estimated_time_s": job.estimated_time,
        "builder": job.builder,
        "attempts": job.attempts,
        "submitted_at_s": (arrived := job.job.arrival(job.submitted_at)),
    }
    if job.job.needs:
        row |= {"needs": list(job.job.needs), "released_at_s": job.released_at}
        if not isinstance(job, EndJob) and job.unmet:
            row["unmet"] = list(job.unmet)
    since = arrived if job.released_at is None else job.released_at
    if job.builder is not None:
        row |= {"dispatched_at_s": job.dispatched_at, "started_at_s": job.started_at}
    if not isinstance(job, EndJob):
        row["invocation"] = "/".join(job.path)
    else:
        began = job.started_at
        row |= {
            "finished_at_s": job.finished_at,
            "waiting_time_s": None if began is None else max(0.0, began - since),
            "response_time_s": job.finished_at - arrived,
            "cause": job.cause.value,
            "reason": job.reason,
        }
    return row


def description_of(job: KnownJob, tries: list[Try], answer: Answer | None) -> dict[str, object]:
    """Return all that is known of a job, with the columns of jobs.csv where they are known."""
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
            "waited_s": answer.at - now.queued_at if now.ahead is not None else None,
            "estimated_time_s": now.estimated_time,
            "jobs_ahead": now.ahead,
            "estimated_dispatch_in_s": now.dispatch_in_time,
            **forecast_fields(now),
            "estimated_by": None,
            "estimated_completion_in_s": now.remaining_time
            if now.dispatch_in_time is None
            else now.dispatch_in_time + now.estimated_time,
            "running_for_s": now.elapsed_time,
            "part_done": now.done,
            "builders_that_could": now.builders,
            "of_them_taking_jobs": now.accepting,
            "of_them_free": now.free,
            "invocation": "/".join(now.path),
            "why_waiting": now.why,
        }
        if now.ahead is not None or now.dispatch_in_time is not None:
            story |= _method_of(now)
    if answer.decision is not None:
        story["dispatched_because"] = f"{reason_of(answer.decision)} (farm job {job.job.id} --why)"
    return story


def start_fields(forecast: StartForecast | None) -> dict[str, object]:
    """Return when a job starts, as a listing has it; none: not known."""
    if forecast is None:
        return {}
    return {
        "estimated_dispatch_in_s": forecast.start,
        "estimated_dispatch_in_p10_s": forecast.start_low,
        "estimated_dispatch_in_p90_s": forecast.start_high,
        "may_wait_very_long": forecast.is_open,
    }


def forecast_fields(job: Waiting) -> dict[str, object]:
    """Return P10 and P90 of a job's estimates, and how many such ranges held."""
    if job.remaining_time is not None:
        rest = job.remaining_range
        return {
            "estimated_completion_in_p10_s": None if rest is None else rest.low,
            "estimated_completion_in_p90_s": None if rest is None else rest.high,
        }
    made = forecast_of(job)
    return {
        "estimated_dispatch_in_p10_s": made.start_low,
        "estimated_dispatch_in_p90_s": made.start_high,
        "estimated_run_time_p10_s": made.run_time_low,
        "estimated_run_time_p90_s": made.run_time_high,
        "estimated_completion_in_p90_s": made.done_high,
        "forecasts_checked": made.checked,
        "forecasts_in_time": made.in_time,
        "may_wait_very_long": made.is_open,
        "declared_time_not_believed": made.declared is not None,
    }


def _method_of(job: Waiting) -> dict[str, object]:
    """Return how a waiting job's dispatch was estimated, and how good that was lately."""
    story: dict[str, object] = {"estimated_by": job.method}
    if job.method == "rollouts":
        story |= {
            "rollouts": job.rollouts,
            "past_run_times": job.past_run_times,
            "run_time_drawn_from": job.drawn_from,
            "formula_dispatch_in_s": job.formula_in_time,
            "why_they_differ": job.differs,
        }
    else:
        story["why_no_rollouts"] = job.no_rollouts
    lately = job.lately
    return story | {"estimates_lately": None if lately is None else msgspec.to_builtins(lately)}


def method_in_full(history: dict[str, Any]) -> str:
    """Say how the description's estimate was made, and how good such ones were lately."""
    if history["estimated_by"] == "formula":
        words = "the run times of the jobs ahead, divided by the builders"
        if reason := history["why_no_rollouts"]:
            words = f"{words} ({reason})"
    else:
        times = many(history["rollouts"], "simulation")
        words = f"{times} of the farm from now on, {_drawn_from(history)}"
    lately = history["estimates_lately"]
    return words if lately is None else f"{words}; {Lately(**lately)}"


def _drawn_from(history: dict[str, Any]) -> str:
    """Say how long a job runs in the simulations."""
    known = history["past_run_times"]
    if history["run_time_drawn_from"] == "kind":
        return f"with run times as of {many(known, 'past job')} of its kind"
    few = f"{many(known, 'past job')} of its kind" if known else "no past job of its kind"
    if history["run_time_drawn_from"] == "all kinds":
        return (
            f"with run times as of past jobs of all kinds, as there is {few}"
            if known < 2
            else (f"with run times as of past jobs of all kinds, as there are only {few}")
        )
    return (
        f"with the run time that is estimated, as there is {few}"
        if known < 2
        else (f"with the run time that is estimated, as there are only {few}")
    )


def reason_of(decision: Decision) -> str:
    """Say in a few words why a job went when it did."""
    if not decision.waiting:
        return "no other job waited for its platform"
    is_first = all(decision.key <= other.key for other in decision.next)
    if decision.path:
        return f"it was the turn of {'/'.join(decision.path)}; {decision.waiting:,} others waited"
    if is_first:
        return f"it was first in line: {_why_first(decision)} of {decision.waiting + 1:,}"
    return f"{decision.waiting:,} others waited, the first of them for another builder"


def _why_first(decision: Decision) -> str:
    """Return by what a job was before the next one: level, the policy's key, or when it came."""
    pairs = list(zip(decision.key, decision.next[0].key, strict=False))
    place = next((number for number, (own, its) in enumerate(pairs) if own != its), len(pairs) - 1)
    if place == len(decision.key) - 1:
        return "same level, earliest"
    if place == 0:
        return "highest level"
    return f"same level, smallest key of the policy ({decision.key[place]:.6g})"


def tried(one: Try) -> str:
    """Describe a void attempt."""
    return f"on {one.builder}, lost at {format_roughly(one.at)}: {one.reason}"
