"""Jobs of a live farm, looked up by their ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from farm.app.jobs.sources import standard_input
from farm.core.commands import EndJob
from farm.core.errors import InputError, ServerError
from farm.live.operating.answers import Answer
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import KnownJob, state_of
from farm.live.store.saved import Try

T = TypeVar("T")


def history_of(client: FarmClient, job_id: str) -> tuple[KnownJob, list[Try], Answer | None, str]:
    """Return all that is known of a job, with its tries; raises InputError if nothing is.

    A scheduler that is away, or too busy to answer, leaves what is in Redis: its own answer is None
    then. Last, why it did not answer if it was asked.
    """
    attended = client.is_attended()
    found = client.job(job_id)
    if found is None:
        client.catch_up()  # it may have been submitted just now
        found = client.job(job_id)
    if found is None:
        raise unknown(job_id)
    answer, warning = None, ""
    if attended:
        try:
            answer = client.ask("job", job_id)
        except ServerError as error:
            warning = str(error)
    return found, client.tries(job_id), answer, warning


def unknown(job_id: str) -> InputError:
    """Return the error for an id that is not known."""
    return InputError(
        f"job {job_id!r:.300} is not known to the farm (or it ended so long ago that it is "
        "forgotten); farm jobs --where state=all lists those that are"
    )


def ids_given(given: Sequence[str]) -> list[str]:
    """Return the ids that are given, each once."""
    if list(given) == ["-"]:
        given = [line.strip() for line in standard_input()]
    return [name for name in dict.fromkeys(given) if name]


def live_of(client: FarmClient, names: list[str]) -> tuple[list[str], int]:
    """Return which of these have not ended, and how many have; InputError for an unknown one."""
    over = _each(client, names, lambda: client.known(names))
    live = [name for name in names if not over[name]]
    return live, len(names) - len(live)


def ended_of(client: FarmClient, names: list[str]) -> list[KnownJob]:
    """Return these jobs; raises InputError for one that is unknown or has not ended."""
    found = _each(client, names, lambda: {one.job.id: one for one in client.jobs_of(names)})
    for name, one in found.items():
        if not isinstance(one, EndJob):
            raise InputError(f"job {name!r} is {state_of(one)}; allowed: a job that has ended")
    return list(found.values())


def _each(client: FarmClient, names: list[str], look: Callable[[], dict[str, T]]) -> dict[str, T]:
    """Return what is looked up by these ids; raises InputError for an unknown one."""
    found = look()
    if len(found) < len(names):
        client.catch_up()  # they may have been submitted just now
        found = look()
    for name in names:
        if name not in found:
            raise unknown(name)
    return found
