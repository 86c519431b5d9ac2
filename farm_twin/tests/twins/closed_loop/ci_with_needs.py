"""A farm of a CI system whose load answers back, played by a program of its own.

It shares nothing with the simulator. Pushes come to branches; each begins a run of a workflow whose
jobs need others; a newer push to a branch cancels the older run; a failed run is tried again after
some time for thought. Every draw depends on the run and the job alone, so that a farm with
other runners meets the same pushes, run times and failures. With groups, of one job of each of
``GROUPED`` a number may run or wait for a runner at once; the others wait for a place before.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

BEGINS = datetime(2026, 10, 5, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86_400.0
STARTING, FREEING = 2.0, 1.0
"""Seconds from a free runner to a start, and from an end to a free runner."""
BRANCHES = 25
NIGHT = 0.35
"""Pushes by night, of those by day."""
TRIED_AGAIN, MAX_TRIES, THINKING = 0.5, 3, 600.0
"""Share of the failed runs that are tried again, tries at most, mean seconds until then."""


class Step(NamedTuple):
    """A job of a workflow."""

    mean: float
    #: standard deviation ÷ mean
    spread: float
    fails: float
    needs: tuple[str, ...] = ()


TESTS = tuple(f"test ({number})" for number in range(12))
WORKFLOWS: dict[str, dict[str, Step]] = {
    "ci": {
        "lint": Step(60, 0.3, 0.01),
        "build": Step(240, 0.4, 0.02, ("lint",)),
        **{name: Step(180 + 15 * n, 0.5, 0.006, ("build",)) for n, name in enumerate(TESTS)},
        "package": Step(90, 0.3, 0.005, TESTS),
    },
    "docs": {"check": Step(45, 0.3, 0.01), "render": Step(150, 0.4, 0.01, ("check",))},
}


GROUPED: dict[str, tuple[Step, int]] = {
    "deploy": (Step(480, 0.4, 0.0, ("package",)), 1),
    "load test": (Step(1500, 0.4, 0.0, ("build",)), 3),
}
"""Further jobs of ``ci``, and how many of each there may be at once."""


class Row(msgspec.Struct, eq=False):
    """A job as it went, instants in seconds."""

    run: int
    attempt: int
    name: str
    created: float
    takes: float
    fails: bool
    number: int
    started: float | None = None
    ended: float | None = None
    result: str = ""
    runner: int | None = None

    #: earlier tries of the job itself: one that was skipped had none
    tries: int = 0

    @property
    def waited(self) -> float | None:
        """From its creation to its start."""
        return None if self.started is None else self.started - self.created


class Run(msgspec.Struct, eq=False):
    """A run of a workflow."""

    workflow: str
    branch: int
    attempt: int = 1
    #: nothing newer has cancelled it
    lives: bool = True
    #: the latest try of each job that was created
    rows: dict[str, Row] = {}
    #: jobs whose needs were met
    asked: set[str] = set()
    #: all tries
    made: list[Row] = []
    #: how jobs ended, or that they were skipped
    state: dict[str, str] = {}


class CIFarm:
    """The farm; ``played`` returns its jobs."""

    def __init__(
        self,
        seed: int,
        runners: int,
        days: float = 6.0,
        pushes_per_hour: float = 5.5,
        *,
        needs: bool = True,
        cancels: bool = True,
        tries_again: bool = True,
        shortest_first: bool = False,
        spared: int | None = None,
        runners_later: int | None = None,
        groups: bool = False,
    ) -> None:
        self.seed, self.days, self.pushes_per_hour = seed, days, pushes_per_hour
        self.needs, self.cancels, self.tries_again = needs, cancels, tries_again
        self.shortest_first = shortest_first
        #: a branch on which nothing is cancelled
        self.spared = spared
        self.free = list(range(runners))
        self.runners = runners
        #: in the second half of the days
        self.runners_later = runners_later
        self.steps = dict(WORKFLOWS)
        if groups:
            grouped = {name: step for name, (step, _) in GROUPED.items()}
            self.steps["ci"] = WORKFLOWS["ci"] | grouped
        #: of each group: jobs that have a place, and runs and attempts that wait for one
        self._inside = dict.fromkeys(GROUPED, 0)
        self._outside: dict[str, list[tuple[int, int]]] = {name: [] for name in GROUPED}
        self.rows: list[Row] = []
        self.runs: dict[int, Run] = {}
        self._latest: dict[tuple[str, int], int] = {}
        self._waiting: list[tuple[float, int, Row]] = []
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._events_made = 0

    def played(self) -> list[Row]:
        """Play all pushes to the end."""
        self._plan_pushes()
        if self.runners_later is not None:
            self._at(self.days * DAY / 2, self._change_runners)
        while self._events:
            at, _, act = heapq.heappop(self._events)
            act(at)
        return self.rows

    def _draw(self, *key: object) -> random.Random:
        return random.Random("/".join(map(str, (self.seed, *key))))

    def _at(self, at: float, act: Callable[[float], None]) -> None:
        self._events_made += 1
        heapq.heappush(self._events, (at, self._events_made, act))

    def _plan_pushes(self) -> None:
        rng = self._draw("pushes")
        at, run = 0.0, 0
        while (at := at + rng.expovariate(1.6 * self.pushes_per_hour / HOUR)) < self.days * DAY:
            if rng.random() > (1.0 if 8 <= at / HOUR % 24 < 18 else NIGHT):
                continue
            run += 1
            workflow = "ci" if rng.random() < 0.75 else "docs"
            pushed = Run(workflow, rng.randrange(BRANCHES))
            self._at(at, lambda at, run=run, pushed=pushed: self._push(at, run, pushed))

    def _push(self, at: float, number: int, run: Run) -> None:
        older = self._latest.get((run.workflow, run.branch))
        if self.cancels and older is not None and run.branch != self.spared:
            self._cancel(at, self.runs[older])
        self._latest[run.workflow, run.branch] = number
        self.runs[number] = run
        for name, step in self.steps[run.workflow].items():
            if not (step.needs and self.needs):
                run.asked.add(name)
                self._create_at(
                    at + self._draw("created", number, name).uniform(0, 1.5), number, name
                )

    def _cancel(self, at: float, run: Run) -> None:
        run.lives = False
        for row in run.rows.values():
            if row.ended is None:
                row.ended, row.result = at, "cancelled"
                if row.runner is not None:
                    self._free_at(at + FREEING, row.runner)
                self._leave_group(at, row.name)
        self._waiting = [entry for entry in self._waiting if entry[2].ended is None]
        heapq.heapify(self._waiting)

    def _create_at(self, at: float, run: int, name: str) -> None:
        attempt = self.runs[run].attempt
        self._at(at, lambda at: self._create(at, run, attempt, name))

    def _create(self, at: float, number: int, attempt: int, name: str) -> None:
        run = self.runs[number]
        if not run.lives:
            return
        if name in GROUPED:
            if self._inside[name] >= GROUPED[name][1]:
                self._outside[name].append((number, attempt))
                return
            self._inside[name] += 1
        step, draw = self.steps[run.workflow][name], self._draw("takes", number, attempt, name)
        sigma = math.sqrt(math.log(1 + step.spread**2))
        takes = step.mean * math.exp(draw.gauss(0, sigma) - sigma**2 / 2)
        fails = draw.random() < step.fails
        before = sum(row.name == name for row in run.made)
        row = Row(number, attempt, name, at, takes, fails, len(self.rows), tries=before)
        run.made.append(row)
        self.rows.append(row)
        run.rows[name] = row
        heapq.heappush(self._waiting, (takes if self.shortest_first else at, row.number, row))
        self._start_jobs(at)

    def _leave_group(self, at: float, name: str) -> None:
        """Let the next job that waits for a place in a group have it."""
        if name not in GROUPED:
            return
        self._inside[name] -= 1
        if self._outside[name]:
            number, attempt = self._outside[name].pop(0)
            self._at(at + 0.5, lambda at: self._enter(at, number, attempt, name))

    def _enter(self, at: float, number: int, attempt: int, name: str) -> None:
        if self.runs[number].lives:
            self._create(at, number, attempt, name)
        elif self._outside[name]:
            self._enter(at, *self._outside[name].pop(0), name)

    def _start_jobs(self, at: float) -> None:
        while self.free and self._waiting:
            _, _, row = heapq.heappop(self._waiting)
            row.runner, row.started = self.free.pop(0), at + STARTING
            self._at(row.started + row.takes, lambda at, row=row: self._end(at, row))

    def _change_runners(self, at: float) -> None:
        """Add runners, or let those with the highest numbers go once they are free."""
        later = self.runners_later or self.runners
        self.free += range(self.runners, later)
        self.free = [runner for runner in self.free if runner < later]
        self.runners = later
        self._start_jobs(at)

    def _free_at(self, at: float, runner: int) -> None:
        def act(at: float) -> None:
            if runner < self.runners:
                self.free.append(runner)
            self._start_jobs(at)

        self._at(at, act)

    def _end(self, at: float, row: Row) -> None:
        if row.ended is not None or row.runner is None:
            return
        row.ended, row.result = at, "failure" if row.fails else "success"
        self._free_at(at + FREEING, row.runner)
        self._leave_group(at, row.name)
        self.runs[row.run].state[row.name] = row.result
        self._go_on(at, row.run)

    def _go_on(self, at: float, number: int) -> None:
        """Release and skip what follows; of a run that has failed, plan another try."""
        run = self.runs[number]
        steps = self.steps[run.workflow]
        for name, step in steps.items() if self.needs else ():
            is_new = name not in run.state and name not in run.asked
            ends = [run.state.get(need, "") for need in step.needs]
            if not is_new or not all(ends):
                continue
            if any(end != "success" for end in ends):
                run.state[name] = "skipped"
            else:
                delay = self._draw("released", number, run.attempt, name).uniform(1, 3)
                run.asked.add(name)
                self._create_at(at + delay, number, name)
        draw = self._draw("again", number, run.attempt)
        has_failed = len(run.state) == len(steps) and "failure" in run.state.values()
        may_try = has_failed and self.tries_again and run.attempt < MAX_TRIES
        if may_try and draw.random() < TRIED_AGAIN:
            self._at(at + draw.expovariate(1 / THINKING), lambda at: self._again(at, number))

    def _again(self, at: float, number: int) -> None:
        run = self.runs[number]
        if not run.lives:
            return
        run.attempt += 1
        names = [name for name, state in run.state.items() if state != "success"]
        for name in names:
            del run.state[name]
            run.rows.pop(name, None)
            run.asked.discard(name)
        for name in names:
            needs = self.steps[run.workflow][name].needs
            if not self.needs or all(run.state.get(need) == "success" for need in needs):
                run.asked.add(name)
                self._create_at(at + 1.0, number, name)


def stamp(at: float | None) -> str | None:
    """Return an instant in whole seconds, as GitHub writes it."""
    if at is None:
        return None
    return datetime.fromtimestamp(round(BEGINS + at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def precise(at: float | None) -> str | None:
    """Return an instant in milliseconds, as GitLab and Buildkite write it."""
    if at is None:
        return None
    text = datetime.fromtimestamp(BEGINS + at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def began(row: Row) -> float | None:
    """Return when a job really started; None: it was cancelled before."""
    if row.started is None or (row.ended is not None and row.started > row.ended):
        return None
    return row.started


def as_github(farm: CIFarm) -> Iterator[dict[str, Any]]:
    """Yield the jobs of each run, as GitHub's API has them."""
    for row in farm.rows:
        run, started = farm.runs[row.run], began(row)
        yield {
            "id": 70_000 + row.number, "run_id": row.run, "run_attempt": row.attempt,
            "workflow_name": run.workflow, "head_branch": f"b{run.branch}", "name": row.name,
            "status": "completed", "conclusion": row.result, "labels": ["self-hosted", "linux"],
            "created_at": stamp(row.created), "started_at": stamp(started or row.created),
            "completed_at": stamp(row.ended), "runner_group_name": "Default",
            "runner_id": row.runner + 1 if started and row.runner is not None else 0,
            "runner_name": f"r{row.runner}" if started else "",
        }  # fmt: skip


def as_gitlab(farm: CIFarm) -> Iterator[dict[str, Any]]:
    """Yield the jobs of each pipeline, as GitLab's API has them."""
    words = {"failure": "failed", "cancelled": "canceled"}
    for row in farm.rows:
        run, started = farm.runs[row.run], began(row)
        yield {
            "id": 70_000 + row.number, "status": words.get(row.result, row.result),
            "name": row.name, "stage": "test", "tag_list": ["linux"],
            "created_at": precise(row.created), "started_at": precise(started),
            "finished_at": precise(row.ended),
            "queued_duration": None if started is None else started - row.created,
            "runner": {"id": 1, "description": f"r{row.runner}"} if started else None,
            "pipeline": {"id": row.run, "project_id": 1 + (run.workflow == "docs"),
                         "ref": f"b{run.branch}"},
            "resource_group": row.name if row.name in GROUPED else None,
            "retries_count": row.tries,
        }  # fmt: skip


def as_buildkite(farm: CIFarm) -> Iterator[dict[str, Any]]:
    """Yield the builds with their jobs, as Buildkite's API has them."""
    words = {"success": "passed", "failure": "failed", "cancelled": "canceled"}
    by_run: dict[int, list[Row]] = {}
    for row in farm.rows:
        by_run.setdefault(row.run, []).append(row)
    for number, rows in by_run.items():
        run = farm.runs[number]
        before: dict[str, str] = {}
        yield {
            "id": str(number), "number": number, "branch": f"b{run.branch}",
            "pipeline": {"slug": run.workflow},
            "jobs": [
                {
                    "id": f"{number}-{row.number}", "type": "script", "name": row.name,
                    "step_key": row.name, "state": words[row.result],
                    "concurrency_group": row.name if row.name in GROUPED else None,
                    "concurrency": GROUPED[row.name][1] if row.name in GROUPED else None,
                    "created_at": precise(row.created), "runnable_at": precise(row.created),
                    "started_at": precise(began(row)), "finished_at": precise(row.ended),
                    "agent_query_rules": ["queue=linux"], "retries_count": row.tries or None,
                    "retry_source": _retried(row, number, before),
                    "agent": {"name": f"r{row.runner}"} if began(row) else None,
                }
                for row in rows
            ],
        }  # fmt: skip


def _retried(row: Row, build: int, before: dict[str, str]) -> dict[str, str] | None:
    """Return the job that this one tries again, and remember it for the next try."""
    source = before.get(row.name)
    before[row.name] = f"{build}-{row.number}"
    return None if source is None else {"job_id": source}


SHAPES = {"github": as_github, "gitlab": as_gitlab, "buildkite": as_buildkite}


def with_needs_said(farm: CIFarm, pages: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield jobs of GitLab, or builds of Buildkite, that say what each job needs."""
    for page in pages:
        steps = farm.steps[farm.runs[page.get("number") or page["pipeline"]["id"]].workflow]
        for job in page.get("jobs", [page]):
            job["depends_on" if "jobs" in page else "needs"] = list(steps[job["name"]].needs)
        yield page


def write(farm: CIFarm, shape: str, path: Path, *, says_needs: bool = False) -> Path:
    """Write what a source's API says of a farm that was played, as JSON lines."""
    pages = SHAPES[shape](farm)
    lines = map(json.dumps, with_needs_said(farm, pages) if says_needs else pages)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
