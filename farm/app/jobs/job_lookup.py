"""Jobs of a live farm by their ids: looked up, cancelled, tried again as new ones (ID~2, ID~3)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from farm.app.jobs.filter import charges_of, parse_invocation, unknown_invocation
from farm.app.jobs.sources import standard_input
from farm.core.commands import EndJob
from farm.core.errors import InputError, RunError, ServerError
from farm.core.events import CancelRequested
from farm.core.jobs.needs import Ended, needs_first, needs_of, renamed, why_skipped
from farm.core.model import Cause, Job, content_digest
from farm.live.operating.answers import Answer
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import AT_ONCE, Group, KnownJob, state_of
from farm.live.store.saved import Try
from farm.live.wire.messages import UNSTAMPED
from farm.live.wire.report_checks import flaw_of
from farm.units import many

T = TypeVar("T")
LIVE: tuple[Group, ...] = ("blocked", "waiting", "running")
#: times that others may take the next number at the same moment
MAX_ROUNDS = 100
RETRIED = re.compile(r"(.*)~([0-9]+)\Z", re.DOTALL)


def history_of(client: FarmClient, job_id: str) -> tuple[KnownJob, list[Try], Answer | None, str]:
    """Return all that is known of a job, with its tries; raises InputError if nothing is.

    A scheduler that is away, or too busy to answer, leaves what is in Redis: its own answer is None
    then. Last, why it did not answer if it was asked.
    """
    attended = client.is_attended()
    found = _jobs_of(client, [job_id])[job_id]
    answer, warning = None, ""
    if attended:
        try:
            answer = client.ask("job", job_id)
        except ServerError as error:
            warning = str(error)
    return found, client.tries(job_id), answer, warning


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
    found = _jobs_of(client, names)
    for name, one in found.items():
        if not isinstance(one, EndJob):
            raise InputError(f"job {name!r} is {state_of(one)}; allowed: a job that has ended")
    return list(found.values())


def _jobs_of(client: FarmClient, names: list[str]) -> dict[str, KnownJob]:
    return _each(client, names, lambda: {one.job.id: one for one in client.jobs_of(names)})


def _each(client: FarmClient, names: list[str], look: Callable[[], dict[str, T]]) -> dict[str, T]:
    """Return what is looked up by these ids; raises InputError for an unknown one."""
    found = look()
    if len(found) < len(names):
        client.catch_up()  # they may have been submitted just now
        found = look()
    for name in names:
        if name not in found:
            raise InputError(
                f"job {name!r:.300} is not known to the farm (or it ended so long ago that it is "
                "forgotten); farm jobs --where state=all lists those that are"
            )
    return found


def cancel_jobs(client: FarmClient, names: Sequence[str], reason: str) -> None:
    """Ask for the end of these jobs; the reason is stored with each."""
    for first in range(0, len(names), AT_ONCE):
        chunk = tuple(names[first : first + AT_ONCE])
        client.send(CancelRequested(UNSTAMPED, chunk, reason=reason))


def cancel_invocation(client: FarmClient, invocation: str, reason: str) -> int:
    """Ask for the end of all jobs charged to an invocation, such as ``team/user``.

    If all of them have ended nothing is asked, and their number is returned, else 0. Raises
    InputError for a path to which no job that the farm knows was charged, and without fair share.
    """
    path, path_of = parse_invocation(invocation), charges_of(client)
    jobs = (job for group in LIVE for job in client.jobs(group))
    if not any(path_of(job)[: len(path)] == path for job in jobs):
        # each job once, whatever becomes of it in between
        known = [(path_of(job), isinstance(job, EndJob)) for job in client.submitted()]
        ended = [has_ended for found, has_ended in known if found[: len(path)] == path]
        if not ended:
            keys = client.status().fair_share_keys
            raise InputError(unknown_invocation(path, keys, (found for found, _ in known)))
        if all(ended):
            return len(ended)
    client.send(CancelRequested(UNSTAMPED, invocation=path, reason=reason))
    return 0


def try_again(client: FarmClient, ended: list[KnownJob], *, once: bool) -> tuple[list[Job], str]:
    """Submit the jobs that try these again; return those that are ours.

    What was skipped because one of them did not succeed is tried again with it. Others may try the
    same jobs again at this moment, and be faster: then the next numbers are taken; with ``once``,
    for jobs that were not tried again yet, theirs will do. Also returns why it is not known whether
    the scheduler accepts the jobs; empty: it has accepted them. Raises RunError; and InputError for
    one of these jobs that would be skipped again, which with ``once`` is left out.
    """
    accepted: list[Job] = []
    ended = with_skipped(client, ended, once=once)
    for _ in range(MAX_ROUNDS):
        submitted = next_tries(client, ended, once=once)
        new = needs_first(submitted.values())
        client.check_room(len(new))
        client.submit(new)
        if not_read := client.not_read():
            return [*accepted, *new], not_read
        stored = {one.job.id: one.job for one in client.jobs_of([job.id for job in new])}
        taken = {
            job.id
            for job in new
            if job.id in stored and content_digest(stored[job.id]) != job.digest
        }
        if any(letter.reason != "known" for letter in client.refused()):
            client.check_accepted()
        accepted += [job for job in new if job.id not in taken]
        ended = [one for one in ended if one.job.id in submitted]
        ended = [one for one in ended if submitted[one.job.id].id in taken]
        if once or not ended:
            return accepted, ""
    raise RunError(
        f"{many(len(ended), 'job')} could not be tried again: others took the next number "
        f"{MAX_ROUNDS} times"
    )


def with_skipped(client: FarmClient, ended: list[KnownJob], *, once: bool) -> list[KnownJob]:
    """Return these jobs, and those that can run again with them: what was skipped for them.

    What needs another job that failed, too, would be skipped again. It is left out, and comes back
    with the last of those that it needs. Raises InputError if it is one of these jobs, but with
    ``once`` leaves that out as well.
    """
    both = [*ended, *skipped_for(client, ended)]
    if not any(one.job.needs for one in both):
        return both
    skipped = skipped_again(client, next_tries(client, both, once=once))
    for one in () if once else ended:
        if why := skipped.get(one.job.id):
            raise InputError(
                f"job {one.job.id!r} would be {why}; allowed: to retry that first, or together "
                "with it"
            )
    return [one for one in both if one.job.id not in skipped]


def next_tries(client: FarmClient, ended: list[KnownJob], *, once: bool) -> dict[str, Job]:
    """Return the jobs that try these again, by the ids of these.

    ``once``: not of those that were tried again already.
    """
    numbered = [(one.job, *_stem_and_number(one.job.id)) for one in ended]
    taken: set[str] = set()
    again: dict[str, Job] = {}
    while numbered:
        names = [f"{stem}~{number + 1}" for _, stem, number in numbered]
        known = client.known(names)
        further = []
        for (job, stem, number), name in zip(numbered, names, strict=True):
            if name in known or name in taken:
                further.append((job, stem, number + 1))
                continue
            taken.add(name)
            # a job of its own, also if another client makes an equal one at this moment
            new = msgspec.structs.replace(job, id=name, arrived_at=None, digest=uuid.uuid4().hex)
            if (flaw := flaw_of(new)) is not None:
                raise InputError(f"job {job.id!r} cannot be given a new name: {flaw}")
            again[job.id] = new
        numbered = [] if once else further
    newest = {name: job.id for name, job in again.items()}
    needed = {n.job for job in again.values() if job.needs for n in needs_of(job)}
    newest_of_stem = {_stem_and_number(name)[0]: new for name, new in newest.items()}
    for name in needed - newest.keys():
        if (stem := _stem_and_number(name)[0]) in newest_of_stem:
            newest[name] = newest_of_stem[stem]
    newest |= _last_tries(client, [name for name in sorted(needed) if name not in newest])
    for name, job in again.items():
        if job.needs:
            needs = renamed(job.needs, lambda need: newest.get(need, need))
            again[name] = msgspec.structs.replace(job, needs=needs)
    return {one.job.id: again[one.job.id] for one in ended if one.job.id in again}


def skipped_again(client: FarmClient, again: Mapping[str, Job]) -> dict[str, str]:
    """Return which new tries would be skipped at once, as what they need has failed, and why.

    ``again``: the new tries, by the ids of the jobs that they try again.
    """
    new = {job.id for job in again.values()}
    needed = {need.job for job in again.values() for need in needs_of(job)} - new
    ends: dict[str, Ended] = {}
    for one in client.jobs_of(sorted(needed)):
        if isinstance(one, EndJob):
            ends[one.job.id] = Ended.of(one.outcome, skipped=one.cause is Cause.SKIPPED)
    skipped: dict[str, str] = {}
    old_names = {job.id: name for name, job in again.items()}
    for job in needs_first(again.values()):
        needs = needs_of(job)
        unmet = [need.job for need in needs if need.job not in ends]
        hoped = [need.job for need in needs if need.condition == "failed"]
        has_failed = any(ends[need].outcome == "failed" for need in hoped if need in ends)
        if why := why_skipped(needs, ends, unmet, failure_met=has_failed):
            skipped[old_names[job.id]] = why
            ends[job.id] = Ended.of("cancelled", skipped=True)
    return skipped


def skipped_for(client: FarmClient, ended: Sequence[KnownJob]) -> list[EndJob]:
    """Return the jobs that were skipped because these did not succeed, through others or not.

    Of several tries of a job only the last.
    """
    names = {one.job.id for one in ended}
    waited_for = [
        one.job.id for one in ended if isinstance(one, EndJob) and one.outcome != "succeeded"
    ]
    if not waited_for or not client.status().ended.get("cancelled"):
        return []
    dependents: dict[str, list[EndJob]] = {}
    for one in client.jobs("ended"):
        if isinstance(one, EndJob) and one.cause is Cause.SKIPPED:
            for need in needs_of(one.job):
                dependents.setdefault(need.job, []).append(one)
    found: list[EndJob] = []
    while waited_for:
        for one in dependents.get(waited_for.pop(), ()):
            if one.job.id not in names:
                names.add(one.job.id)
                found.append(one)
                waited_for.append(one.job.id)
    given = {_stem_and_number(one.job.id)[0] for one in ended}
    last: dict[str, tuple[int, EndJob]] = {}
    for one in found:
        stem, number = _stem_and_number(one.job.id)
        if stem not in given and (stem not in last or last[stem][0] < number):
            last[stem] = number, one
    return [one for _, one in last.values()]


def _last_tries(client: FarmClient, names: list[str]) -> dict[str, str]:
    """Return the last further try of each of these jobs that has any."""
    last: dict[str, str] = {}
    numbered = [(name, *_stem_and_number(name)) for name in names]
    while numbered:
        known = client.known([f"{stem}~{number + 1}" for _, stem, number in numbered])
        numbered = [
            (name, stem, number + 1)
            for name, stem, number in numbered
            if f"{stem}~{number + 1}" in known
        ]
        last |= {name: f"{stem}~{number}" for name, stem, number in numbered}
    return last


def _stem_and_number(job_id: str) -> tuple[str, int]:
    match = RETRIED.match(job_id)
    return (match[1], int(match[2])) if match else (job_id, 1)
