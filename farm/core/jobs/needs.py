"""What a job needs: the rule by which jobs that need others are released, or skipped.

A need is the id of another job, and how that must have ended: ``build`` or ``build:succeeded``,
``build:ended`` (however it ended), ``build:failed``. A suffix that is no condition belongs to the
id.

A job with needs is *blocked* from its submission on. It is *released* once

* all jobs that it needs to succeed have succeeded, and
* all that it needs to end have ended, and
* of those that it needs to fail, if there are any, all have ended and at least one has failed,

then ``needs_delay`` seconds later, but not before its own arrival. From then on it is a job like
any other that arrives at that instant: its estimate, its sort key and its place in line are
determined, it may join the execution of another job with its action, and its waiting time counts.
A job whose needs were met when it was submitted, and that has no delay, is never blocked.

Once a job can never be released (one that it needs to succeed ended otherwise, or all that might
have failed have ended without a failure) it is *skipped*, at that instant: it ends as cancelled,
with the cause ``skipped``. It has ended then, and has neither succeeded nor failed; so what needs
it to succeed is skipped as well, and what only needs it to end is released. Each of them ends once.
What follows from ends of one instant is decided in rounds: first of the jobs that need those which
ended, in the order of their submission, then of those that need the skipped ones, and so on.

A blocked job that is cancelled, by itself or with its matrix or invocation, ends at once.

Needs must be known: jobs of the same submission, or submitted before and not forgotten. A job that
needs itself, directly or through others, can never be released. :func:`flaw_of_needs` says what is
wrong; it is asked before any of the jobs counts as submitted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from farm.core.model import MAX_NEEDS, Job, Outcome

Condition = Literal["succeeded", "ended", "failed"]
_CONDITIONS = frozenset(get_args(Condition))
#: ids of a circle that a message names; the others are left out
SHOWN = 10


class Need(NamedTuple):
    """A job that another needs, and how it must have ended."""

    job: str
    condition: Condition = "succeeded"


def need_of(text: str) -> Need:
    """Return the need that a text names.

    >>> from farm.core.jobs.needs import need_of
    >>> need_of("build:ended"), need_of("//app:test")
    (Need(job='build', condition='ended'), Need(job='//app:test', condition='succeeded'))
    """
    name, _, condition = text.rpartition(":")
    if name and condition in _CONDITIONS:
        return Need(name, condition)  # type: ignore[arg-type]
    return Need(text)


def needs_of(job: Job) -> tuple[Need, ...]:
    """Return the needs of a job."""
    return _needs_of(job.needs)


@lru_cache(maxsize=1024)
def _needs_of(texts: tuple[str, ...]) -> tuple[Need, ...]:
    # asked again whenever one of them ends
    return tuple(map(need_of, texts))


def renamed(needs: Iterable[str], name: Callable[[str], str]) -> tuple[str, ...]:
    """Return needs of jobs that have other names now."""
    pairs = ((text, need_of(text).job) for text in needs)
    return tuple(f"{name(job)}{text[len(job) :]}" for text, job in pairs)


class Ended(NamedTuple):
    """How a job ended that another needs."""

    outcome: Outcome
    #: the same for people: ``failed``, ``was skipped``
    how: str

    @classmethod
    def of(cls, outcome: Outcome, *, skipped: bool = False) -> Ended:
        """Return how a job with this outcome ended."""
        cancelled = "was skipped" if skipped else "was cancelled"
        return cls(outcome, cancelled if outcome == "cancelled" else outcome)

    @classmethod
    def earlier(cls, outcome: Outcome) -> Ended:
        """Return how a job ended before the one that needs it came: its cause is not kept."""
        return cls(outcome, "was cancelled or skipped" if outcome == "cancelled" else outcome)


#: what a need counts as that is not known
UNKNOWN = Ended("cancelled", "is not known")


def why_skipped(
    needs: Iterable[Need], ended: Mapping[str, Ended], unmet: Collection[str], *, failure_met: bool
) -> str:
    """Return why a job can never be released; empty: it can, or can already.

    Args:
        needs: the job's.
        ended: what is new: how jobs that it needs have ended.
        unmet: those that have not ended yet.
        failure_met: one that was to fail has failed.
    """
    hoped: dict[str, None] = {}
    for need in needs:
        end = ended.get(need.job)
        if need.condition == "failed":
            hoped[need.job] = None
        elif need.condition == "succeeded" and end is not None and end.outcome != "succeeded":
            return f"skipped: {need.job} {end.how}"
    if not hoped or failure_met or any(name in unmet for name in hoped):
        return ""
    first = next(iter(hoped))
    if len(hoped) == 1 and (last := ended.get(first)) is not None:
        return f"skipped: {first} {last.how}"
    return f"skipped: none of {', '.join(hoped)} failed"


def failures_awaited(job: Job, unmet: Collection[str]) -> list[str]:
    """Return those of a job's needs of which one has to fail, and that have not ended.

    No forecast knows that a job will fail: until one of them has, the job is not expected to start.
    """
    hoped = (need.job for need in needs_of(job) if need.condition == "failed")
    return [name for name in hoped if name in unmet]


class NeedsFlaw(NamedTuple):
    """What is wrong with the needs of a job."""

    job: Job
    #: ``needs: found …; allowed: …``
    why: str


def flaw_of_needs(
    jobs: Collection[Job], is_known: Callable[[str], bool] = lambda _: False
) -> NeedsFlaw | None:
    """Return what is wrong with the needs of jobs that are submitted together; None: nothing.

    ``is_known``: whether an id is of a job that was submitted before, and is not forgotten. Linear
    in the jobs and their needs.
    """
    needing = {job.id: job for job in jobs if job.needs}
    if not needing:
        return None
    names = {job.id for job in jobs}
    for job in needing.values():
        if len(job.needs) > MAX_NEEDS:
            why = f"needs: found {len(job.needs):,}; allowed: at most {MAX_NEEDS:,}"
            return NeedsFlaw(job, why)
        for need in needs_of(job):
            if need.job == job.id:
                return NeedsFlaw(job, f"needs: found itself ({job.id} → {job.id}); allowed: others")
            if need.job not in names and not is_known(need.job):
                return NeedsFlaw(
                    job,
                    f"needs: found {need.job!r:.60}, which is not known; allowed: jobs submitted "
                    "together with it, or before and not forgotten",
                )
    circle = _circle(needing)
    if not circle:
        return None
    shown = [*circle[:SHOWN], "…", circle[-1]] if len(circle) > SHOWN + 1 else circle
    path = " → ".join(shown)
    return NeedsFlaw(needing[circle[0]], f"needs: found a circle ({path}); allowed: none")


def _circle(needing: Mapping[str, Job]) -> list[str]:
    """Return the ids of a circle, the first again at the end; empty: there is none."""
    is_clear: set[str] = set()
    for start in needing:
        path: dict[str, None] = {}
        branches = [iter([start])]
        while branches:
            name = next(branches[-1], None)
            if name is None:
                branches.pop()
                if path:
                    is_clear.add(path.popitem()[0])
            elif name in path:
                ids = list(path)
                return [*ids[ids.index(name) :], name]
            elif name in needing and name not in is_clear:
                path[name] = None
                branches.append(iter([need.job for need in needs_of(needing[name])]))
    return []


def ended_needs(jobs: Iterable[Job], outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """Return how those ended, of jobs whose outcomes are known, that these jobs need."""
    names = {need.job for job in jobs if job.needs for need in needs_of(job)}
    return {name: outcomes[name] for name in sorted(names) if name in outcomes}


def needs_first(jobs: Iterable[Job]) -> list[Job]:
    """Return jobs without a circle in their order, but each behind those among them it needs."""
    left = {job.id: job for job in jobs}
    ordered: list[Job] = []
    for start in list(left):
        path = [left.pop(start)] if start in left else []
        while path:
            job = path[-1]
            further = next((n.job for n in needs_of(job) if n.job in left), None)
            if further is None:
                ordered.append(path.pop())
            else:
                path.append(left.pop(further))
    return ordered
