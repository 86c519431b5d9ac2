"""The forecast of a live job as plain values, and the clock time by which it is done."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from msgspec.structs import replace

from farm.core.commands import EndJob
from farm.core.errors import ServerError
from farm.core.state.working_state import JobStatus
from farm.forecasts.forecast_words import (
    StartForecast,
    at_once_in_words,
    is_open_ended,
    running_in_words,
    sentence_of,
)
from farm.live.operating.answers import Waiting
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import KnownJob, state_of

UNSTARTED = (JobStatus.WAITING.value, JobStatus.BLOCKED.value)
#: jobs of a listing of which it is asked when they start
MAX_ASKED = 100
#: real seconds after which a busy scheduler is not waited for
ANSWERED_WITHIN = 4.0
#: real seconds for which a job has just started
JUST_NOW = 1.0
#: the past jobs that a share is of, at most, as ranges are remembered
MAX_CHECKED = 100


def forecast_of(job: Waiting) -> StartForecast:
    """Return when a job that has not started will start, and how long it runs."""
    start = 0.0 if goes_at_once(job) else job.dispatch_in_time
    run_times = job.run_time_range
    plain = StartForecast(
        start=start,
        run_time=job.estimated_time,
        run_time_low=None if run_times is None else run_times.low,
        run_time_high=None if run_times is None else run_times.high,
        declared=job.unlike_declared,
        kind_time=job.kind_time,
        is_open=job.may_starve and bool(start),
    )
    found = job.dispatch_range
    if found is None:
        # rollouts without a range: in some of them others always go first
        is_open = job.method == "rollouts" and bool(start)
        return replace(plain, is_open=plain.is_open or is_open)
    checked = 0 if found.coverage is None else min(found.errors, MAX_CHECKED)
    return replace(
        plain,
        start_low=found.p10_time,
        start_high=found.p90_time,
        checked=checked,
        in_time=round((found.coverage or 0.0) * checked),
        is_proven=found.is_proven,
        is_open=plain.is_open or is_open_ended(start, found.p90_time),
    )


def forecasts_of(client: FarmClient, jobs: Iterable[KnownJob]) -> dict[str, StartForecast]:
    """Return when those of the jobs start that wait or are blocked, as far as it is known.

    A scheduler that is away or too busy is not waited for: the jobs are known without it.
    """
    names = [
        one.job.id for one in jobs if not isinstance(one, EndJob) and state_of(one) in UNSTARTED
    ]
    if not names or not client.is_attended():
        return {}
    try:
        answer = client.forecasts(names[:MAX_ASKED], ANSWERED_WITHIN)
    except ServerError:
        return {}
    return {name: forecast_of(one) for name, one in answer.jobs.items()}


def goes_at_once(job: Waiting) -> bool:
    """Return whether a job does not wait: it was dispatched, or is just about to be."""
    return job.ahead is None and job.status != JobStatus.BLOCKED.value and job.leader is None


def in_words(name: str, job: Waiting, speed: float, now: dt.datetime) -> str:
    """Return in one sentence when a live job starts or ends, how sure that is, and why.

    Args:
        name: its id.
        job: what its scheduler knows.
        speed: farm seconds per real second: only at 1 does a clock show farm time.
        now: the time of day.
    """
    elapsed = job.elapsed_time
    if elapsed is not None and elapsed > JUST_NOW * speed and job.remaining_time is not None:
        rest = job.remaining_range
        low, high = (None, None) if rest is None else rest
        done_at = clock_time(high, speed, now)
        return running_in_words(name, elapsed, job.remaining_time, low, high, done_at)
    forecast = forecast_of(job)
    done_at = clock_time(forecast.done_high, speed, now)
    if goes_at_once(job):
        return at_once_in_words(name, forecast, done_at)
    why = job.why
    if job.may_grow:
        why = f"{why}; sooner if more builders come"
    return sentence_of(name, forecast, why, done_at)


def time_of_day() -> dt.datetime:
    """Return the local time."""
    return dt.datetime.now().astimezone()


def clock_time(span: float | None, speed: float, now: dt.datetime) -> str:
    """Return what a clock shows after a span: ``14:50``, ``Mon 14:50``; empty: it is not known."""
    if span is None or speed != 1.0 or span > 300 * 86400:
        return ""
    # up to the next minute: what is said is kept
    at = now + dt.timedelta(seconds=span + 59)
    if at.date() == now.date():
        return f"{at:%H:%M}"
    if at - now < dt.timedelta(days=6):
        return f"{at:%a %H:%M}"
    return f"{at:%Y-%m-%d %H:%M}"
