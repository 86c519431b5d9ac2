"""Jobs of a live farm, looked up by their ids; ended ones are tried again as ID~2, ID~3."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from farm.app.jobs.json_lines import standard_input
from farm.core.commands import EndJob
from farm.core.errors import InputError, ServerError
from farm.core.model import Job
from farm.live.operating.answers import Answer
from farm.live.operating.operator import Operator
from farm.live.store.job_reader import KnownJob, state_of
from farm.live.store.saved import Try
from farm.live.wire.report_checks import flaw_of
from farm.terminal.console import FarmConsole

RETRIED = re.compile(r"(.*)~([0-9]+)\Z", re.DOTALL)


def known_of(operator: Operator, job_id: str) -> tuple[KnownJob, list[Try], Answer | None]:
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
    """Return the error for an id that is not known."""
    return InputError(
        f"job {job_id!r:.300} is not known to the farm (or it ended so long ago that it is "
        "forgotten); farm jobs --state all lists those that are"
    )


def ids_given(given: Sequence[str]) -> list[str]:
    """Return the ids that are given, each once."""
    if list(given) == ["-"]:
        given = [line.strip() for line in standard_input()]
    return [name for name in dict.fromkeys(given) if name]


def live_of(operator: Operator, names: list[str]) -> tuple[list[str], int]:
    """Return which of these have not ended, and how many have; InputError for an unknown one."""
    over = operator.known(names)
    if len(over) < len(names):
        operator.catch_up()  # they may have been submitted just now
        over = operator.known(names)
    for name in names:
        if name not in over:
            raise unknown(name)
    live = [name for name in names if not over[name]]
    return live, len(names) - len(live)


def ended_of(operator: Operator, names: list[str]) -> list[KnownJob]:
    """Return these jobs; raises InputError for one that is unknown or has not ended."""
    found = {one.job.id: one for one in operator.jobs_of(names)}
    if len(found) < len(names):
        operator.catch_up()
        found = {one.job.id: one for one in operator.jobs_of(names)}
    for name in names:
        if name not in found:
            raise unknown(name)
        if not isinstance(one := found[name], EndJob):
            raise InputError(f"job {name!r} is {state_of(one)}; allowed: a job that has ended")
    return list(found.values())


def next_tries(operator: Operator, ended: list[KnownJob], *, once: bool) -> list[Job]:
    """Return the jobs that try these again; ``once``: not those that were tried again already."""
    numbered = [(one.job, *_stem_and_number(one.job.id)) for one in ended]
    taken: set[str] = set()
    again: dict[str, Job] = {}
    while numbered:
        names = [f"{stem}~{number + 1}" for _, stem, number in numbered]
        known = operator.known(names)
        further = []
        for (job, stem, number), name in zip(numbered, names, strict=True):
            if name in known or name in taken:
                further.append((job, stem, number + 1))
                continue
            taken.add(name)
            new = msgspec.structs.replace(job, id=name, arrived_at=None)
            if (flaw := flaw_of(new)) is not None:
                raise InputError(f"job {job.id!r} cannot be given a new name: {flaw}")
            again[job.id] = new
        numbered = [] if once else further
    return [again[one.job.id] for one in ended if one.job.id in again]


def _stem_and_number(job_id: str) -> tuple[str, int]:
    match = RETRIED.match(job_id)
    return (match[1], int(match[2])) if match else (job_id, 1)
