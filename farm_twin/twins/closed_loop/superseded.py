"""Runs that a newer push cancelled: which they are, and how they would have gone on.

Many workflows cancel the run of an older push when a newer one comes to the same branch. On a
larger farm such a run comes further before that, and on a smaller one less far: whether a job was
cancelled is the farm's doing, and only the push itself comes from outside. So the jobs of such
workflows are played until their run is cancelled, and for that each needs its whole run time:

- a job that was cancelled, running or waiting, gets a run time drawn from the jobs of its name that
  ended by themselves, longer than it had run already;
- a job that was not created yet, as its needs had not ended, is added with a drawn run time.

Draws depend on the run and the job alone, so that they are the same in every twin.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np

from farm.core.jobs.groups import group_of
from farm.core.jobs.needs import need_of
from farm.records.attempt import Attempt
from farm_twin.twins.closed_loop.run_needs import RIGHT_AFTER, JobNeeds, workflow_of

CUT_SHARE: Final = 0.8
"""Share of the runs on a branch, unfinished at the next push to it, that must have been cancelled
then: fewer were cancelled by hand."""
SPARED_SHARE: Final = 0.3
"""Share of a workflow's branches with unfinished runs on which nothing is cancelled, at most: one
that cancels nowhere else has runs that were cancelled by hand."""
MIN_CUT: Final = 2
"""Runs that must have been: a single one may have been cancelled by hand at that moment."""
CANCELLING: Final = 60.0
"""Seconds that a job may take to end once it is cancelled."""
STARTING: Final = 10.0
"""Seconds that the first job of a run may take to come once the run has cancelled another."""
USUAL_SHARE: Final = 0.5
"""Share of the whole runs of a workflow that have a job, from which one that was cancelled would
have had it."""


class Superseded(NamedTuple):
    """Attempts of workflows in which a newer push cancels, ready to be played."""

    attempts: list[Attempt]
    workflows: tuple[str, ...]
    #: runs that were cancelled by a newer push
    runs: int
    #: attempts whose run time was drawn, and such that were added
    drawn: int
    added: int


class _Run(NamedTuple):
    """The attempts of a run, in order of arrival."""

    #: workflow and run, as builds are numbered by their pipelines
    name: tuple[str, str]
    attempts: list[Attempt]
    #: of the first one
    began_at: float
    #: seconds by which instants may be out of order
    tolerance: float

    @property
    def key(self) -> tuple[str, str]:
        """What a newer run supersedes an older one of: workflow and branch."""
        return _key_of(self.attempts[0])

    @property
    def workflow(self) -> str:
        """Its workflow."""
        return self.name[0]

    @property
    def matrix(self) -> str:
        """Its name or number."""
        return self.name[1]

    @property
    def is_in_group(self) -> bool:
        """Whether its system says that newer runs of its group cancel it."""
        return _cancels(self.attempts[0])

    def is_unfinished(self, at: float) -> bool:
        """Return whether some job of it had not ended, or was cancelled just before."""
        return any(_is_open(attempt, at, self.tolerance) for attempt in self.attempts)

    def was_cut(self, at: float) -> bool:
        """Return whether it was cancelled then: nothing of it came, or went on, after that."""
        cut = [attempt for attempt in self.attempts if _is_open(attempt, at, self.tolerance)]
        return (
            bool(cut)
            and not self.came_after(at)
            and all(
                attempt.result == "cancelled"
                and attempt.finished_at is not None
                and attempt.finished_at <= at + max(CANCELLING, self.tolerance)
                for attempt in cut
            )
        )

    def came_after(self, at: float) -> bool:
        """Return whether a job of it came later."""
        return any(attempt.arrived_at > at for attempt in self.attempts)


def _is_open(attempt: Attempt, at: float, tolerance: float) -> bool:
    ended = attempt.finished_at
    if ended is None:
        return True
    starting = max(STARTING, tolerance)
    return ended >= at or (attempt.result == "cancelled" and ended >= at - starting)


def superseded(
    attempts: Sequence[Attempt], rules: Sequence[JobNeeds], resolution: float = 0.0
) -> Superseded:
    """Return the attempts with a concurrency group where a newer push cancels the older run.

    Where the records name such a group, that holds; elsewhere it is read from what was cancelled,
    unless instants are too coarse to tell what ended after what (``RIGHT_AFTER``).

    Args:
        attempts: of all runs, with their needs.
        rules: the needs of the jobs of each workflow.
        resolution: of the instants, seconds.
    """
    runs = _runs(attempts, resolution)
    followed = list(_pairs(runs))
    cancelling = _cancelling(followed if resolution <= RIGHT_AFTER else ())
    if not cancelling.workflows and not any(map(_cancels, attempts)):
        return Superseded(list(attempts), (), 0, 0, 0)
    cut = {
        older.name: newer.began_at
        for older, newer in followed
        if (older.is_in_group or cancelling.has(older.key)) and _ends_there(older, newer.began_at)
    }
    with_cut_runs = cancelling.workflows | {workflow for workflow, _ in cut}
    templates = {
        workflow: _Template(
            [run for run in runs if run.workflow == workflow and run.name not in cut],
            [rule for rule in rules if rule.workflow == workflow],
        )
        for workflow in with_cut_runs
    }
    succeeded = {attempt.id for attempt in attempts if attempt.result == "succeeded"}
    played: list[Attempt] = []
    drawn = added = 0
    for attempt in attempts:
        key = workflow, branch = _key_of(attempt)
        infers = bool(branch) and cancelling.has(key)
        if infers and attempt.group and not _cancels(attempt):
            played.append(_skipped_with_needs(attempt, succeeded))
            continue
        if not (attempt.matrix and (infers or _cancels(attempt))):
            played.append(attempt)
            continue
        whole = attempt
        if (workflow, attempt.matrix) in cut and attempt.result == "cancelled":
            whole = templates[workflow].gone_on(attempt)
            drawn += 1
        played.append(msgspec.structs.replace(whole, group=_group_of(attempt)))
    starts = _Starts(attempts)
    for run in runs:
        if run.name in cut:
            more = list(templates[run.workflow].missing(run, cut[run.name], starts))
            added += len(more)
            played += more
    played.sort(key=attrgetter("arrived_at"))
    return Superseded(played, tuple(sorted(with_cut_runs)), len(cut), drawn, added)


class _Cancelling(NamedTuple):
    """In which workflows a newer push cancels, and on which of their branches it does not."""

    workflows: set[str]
    spared: set[tuple[str, str]]

    def has(self, key: tuple[str, str]) -> bool:
        """Return whether a newer push cancels in this workflow, on this branch."""
        return key[0] in self.workflows and key not in self.spared


def _cancelling(followed: Sequence[tuple[_Run, _Run]]) -> _Cancelling:
    """Return where newer pushes cancel.

    Many workflows spare a branch: on ``main`` each commit is to be tested.
    """
    unfinished: Counter[tuple[str, str]] = Counter()
    were_cut: Counter[tuple[str, str]] = Counter()
    for older, newer in followed:
        if not older.is_in_group and older.is_unfinished(newer.began_at):
            unfinished[older.key] += 1
            were_cut[older.key] += older.was_cut(newer.began_at)
    spared = {key for key, count in unfinished.items() if were_cut[key] < CUT_SHARE * count}
    cut_by_workflow: Counter[str] = Counter()
    for (workflow, branch), count in were_cut.items():
        if (workflow, branch) not in spared:
            cut_by_workflow[workflow] += count
    spared_by_workflow: Counter[str] = Counter()
    for key in spared:
        spared_by_workflow[key[0]] += 1
    keys_by_workflow: Counter[str] = Counter(workflow for workflow, _ in unfinished)
    workflows = {
        workflow
        for workflow, count in cut_by_workflow.items()
        if count >= MIN_CUT
        and spared_by_workflow[workflow] <= SPARED_SHARE * keys_by_workflow[workflow]
    }
    return _Cancelling(workflows, spared)


def _cancels(attempt: Attempt) -> bool:
    """Return whether a newer run cancels this attempt, by its system's word."""
    return group_of(attempt.group).mode == "cancel"


def _skipped_with_needs(attempt: Attempt, succeeded: Collection[str]) -> Attempt:
    """Return an attempt in a group of another kind, which is skipped if its needs are cancelled.

    Only what is in the group that cancels is cancelled itself.
    """
    needs = [need_of(text).job for text in attempt.needs]
    texts = zip(needs, attempt.needs, strict=True)
    return msgspec.structs.replace(
        attempt,
        needs=tuple(f"{job}:succeeded" if job in succeeded else text for job, text in texts),
    )


def _key_of(attempt: Attempt) -> tuple[str, str]:
    if _cancels(attempt):
        return workflow_of(attempt), group_of(attempt.group).name
    return workflow_of(attempt), attempt.attributes.get("branch", "")


def _group_of(attempt: Attempt) -> str:
    if attempt.group:
        return attempt.group
    return f"{'/'.join(filter(None, _key_of(attempt)))}:cancel"


def _runs(attempts: Sequence[Attempt], tolerance: float) -> list[_Run]:
    """Return the runs that name workflow and branch, or a group, by when they began."""
    by_name: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.matrix and (attempt.attributes.get("branch") or _cancels(attempt)):
            by_name[workflow_of(attempt), attempt.matrix].append(attempt)
    runs = []
    for name, some in by_name.items():
        some.sort(key=attrgetter("arrived_at"))
        runs.append(_Run(name, some, some[0].arrived_at, tolerance))
    return sorted(runs, key=attrgetter("began_at"))


def _pairs(runs: Sequence[_Run]) -> Iterator[tuple[_Run, _Run]]:
    """Yield each run with the next one of its workflow and branch."""
    latest: dict[tuple[str, str], _Run] = {}
    for run in runs:
        if (older := latest.get(run.key)) is not None:
            yield older, run
        latest[run.key] = run


def _ends_there(run: _Run, at: float) -> bool:
    """Return whether a run was cancelled then, perhaps between two of its jobs.

    Then nothing shows it but that it ended just before, and that jobs are missing.
    """
    if run.was_cut(at):
        return True
    last_end = max(attempt.finished_at or 0.0 for attempt in run.attempts)
    is_open = run.is_unfinished(at) or run.came_after(at)
    return not is_open and last_end >= at - max(CANCELLING, run.tolerance)


class _Starts:
    """Up to which arrivals the jobs of each platform had started."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        arrivals: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for attempt in attempts:
            if attempt.started_at is not None:
                arrivals[attempt.platform].append((attempt.started_at, attempt.arrived_at))
        self._started: dict[str, list[float]] = {}
        self._reached: dict[str, list[float]] = {}
        for platform, pairs in arrivals.items():
            pairs.sort()
            self._started[platform] = [started for started, _ in pairs]
            self._reached[platform] = list(accumulate((arrived for _, arrived in pairs), max))

    def reached(self, platform: str, at: float) -> float:
        """Return the latest arrival of the jobs that had started by then."""
        count = bisect_right(self._started.get(platform, []), at)
        return self._reached[platform][count - 1] if count else -np.inf


class _Template:
    """What the runs of a workflow consist of."""

    def __init__(self, runs: Sequence[_Run], rules: Sequence[JobNeeds]) -> None:
        self.rules = {rule.kind: rule for rule in rules}
        seen: Counter[str] = Counter()
        times: dict[str, list[float]] = defaultdict(list)
        self.platforms: dict[str, Attempt] = {}
        for run in runs:
            first = [attempt for attempt in run.attempts if attempt.attempt == 1]
            seen.update({attempt.kind for attempt in first})
            for attempt in run.attempts:
                if attempt.ran is not None and attempt.result == "succeeded":
                    times[attempt.kind].append(attempt.ran)
                    self.platforms[attempt.kind] = attempt
        self.times = {kind: np.sort(np.array(some)) for kind, some in times.items()}
        usual = USUAL_SHARE * max(1, len(runs))
        #: jobs that a whole run has
        self.kinds = [kind for kind in self.times if seen[kind] >= usual]

    def run_time(self, kind: str, run: str, longer_than: float = 0.0) -> float:
        """Return a run time of a job in a run that ends by itself, drawn from those recorded."""
        times = self.times.get(kind)
        if times is None:
            return longer_than
        first = bisect_right(times, longer_than)
        if first == len(times):
            return longer_than
        digest = blake2b(f"{run}/{kind}".encode(), digest_size=8).digest()
        place = int.from_bytes(digest, "big") % (len(times) - first)
        return float(times[first + place])

    def gone_on(self, attempt: Attempt) -> Attempt:
        """Return a cancelled attempt as if it had run to its end."""
        started_at = attempt.started_at
        had_run = 0.0
        if started_at is None:
            started_at = attempt.arrived_at
        elif attempt.finished_at is not None:
            had_run = attempt.finished_at - started_at
        ends_at = started_at + self.run_time(attempt.kind, attempt.matrix, had_run)
        return msgspec.structs.replace(
            attempt, started_at=started_at, finished_at=ends_at, result="succeeded"
        )

    def missing(self, run: _Run, cut_at: float, starts: _Starts) -> Iterator[Attempt]:
        """Yield the jobs that a run which was cancelled then would have had, too.

        Runs differ: one that should have started before, as jobs that came later did, is none of
        this run's. One that waited may be: not all systems tell of what was cancelled so.
        """
        known: dict[str, str] = {}
        failed: set[str] = set()
        ends: dict[str, float] = {}
        for attempt in run.attempts:
            known[attempt.kind] = attempt.id
            ends[attempt.kind] = np.inf if attempt.finished_at is None else attempt.finished_at
            if attempt.result == "failed":
                failed.add(attempt.kind)
        waiting = [kind for kind in self.kinds if kind not in known]
        while waiting:
            ready = [
                kind
                for kind in waiting
                if all(need in known or need not in self.times for need in self._needs(kind))
            ]
            if not ready:
                return
            for kind in ready:
                waiting.remove(kind)
                if failed.intersection(self._needs(kind)):
                    failed.add(kind)
                    known[kind] = ""
                    continue
                needs = [need for need in self._needs(kind) if known.get(need)]
                released_at = max((ends.get(need, np.inf) for need in needs), default=run.began_at)
                due_at = released_at + self._delay(kind) + max(STARTING, run.tolerance)
                like = self.platforms[kind]
                if due_at < starts.reached(like.platform, cut_at) and not like.group:
                    known[kind] = ""
                    continue
                known[kind] = _added_id(run, kind)
                yield self._added(run, kind, [known[need] for need in needs])

    def _needs(self, kind: str) -> Sequence[str]:
        return self.rules[kind].needs if kind in self.rules else ()

    def _delay(self, kind: str) -> float:
        return self.rules[kind].delay if kind in self.rules else 0.0

    def _added(self, run: _Run, kind: str, needs: Sequence[str]) -> Attempt:
        like = self.platforms[kind]
        began_at = run.began_at
        return msgspec.structs.replace(
            like,
            id=_added_id(run, kind),
            job=_added_id(run, kind),
            attempt=1,
            matrix=run.matrix,
            runner="",
            submitted_at=began_at,
            eligible_at=began_at,
            started_at=began_at,
            finished_at=began_at + self.run_time(kind, run.matrix),
            needs=tuple(f"{need}:ended" for need in needs),
            needs_delay=self._delay(kind),
            group=_group_of(run.attempts[0]),
            group_wait=0.0,
            attributes=run.attempts[0].attributes,
            user=run.attempts[0].user,
        )


def _added_id(run: _Run, kind: str) -> str:
    return "/".join(filter(None, (*run.name, kind)))
