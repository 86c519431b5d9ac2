"""The history of another farm, as events: what runtime estimators learn from a bundle of records.

A bundle holds what a run's event log holds of run times: which job ran how long, on which runner.
So whatever learns from a run, or is scored on one, takes a bundle as well.

An attempt that started is a job of its own, dispatched when it started. A runner joins with its
first attempt. Instants are seconds from the first arrival.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import msgspec

from farm.core.commands import Command, StartJob
from farm.core.events import (
    AttemptLost,
    BuilderJoined,
    BuilderRetired,
    Event,
    JobFinished,
    JobsSubmitted,
    JobStarted,
)
from farm.core.model import Builder, Job, Outcome, Platform
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle, read_bundle
from farm.records.runners import Runner
from farm.results.log.reader import Entry
from farm.scenario import Scenario, parse_scenario

_OUTCOMES: dict[str, Outcome] = {
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
}


class BundleHistory(msgspec.Struct, frozen=True):
    """The entries that an event log would have of the attempts of a bundle."""

    #: it has the defaults of all options of estimators
    scenario: Scenario
    entries: list[Entry]


def history_of(path: Path) -> BundleHistory:
    """Return the history that a bundle tells. Raises TraceError for one that cannot be read."""
    bundle = read_bundle(path)
    text = {
        "name": path.name or "records",
        "pools": [{"name": "recorded", "platform": {"processor": "any"}, "builders": 1}],
        "workload": [{"trace": {"path": str(path.absolute())}}],
    }
    return BundleHistory(parse_scenario(text), list(_entries(bundle)))


def _entries(bundle: Bundle) -> Iterator[Entry]:
    """Yield what happened, in order."""
    first_arrival = bundle.arrivals[0]
    runners = {runner.runner: runner for runner in bundle.runners()}
    builders = _builders_of(bundle, runners)

    joined: set[str] = set()
    line = 0
    for at, is_start, attempt in _starts_and_ends(bundle.attempts):
        builder = builders[_builder_name(attempt)]
        events: list[tuple[Event, tuple[Command, ...]]] = []
        if is_start:
            if builder.id not in joined:
                joined.add(builder.id)
                events.append((BuilderJoined(at - first_arrival, builder), ()))
            events += _start_of(attempt, at - first_arrival, builder.id)
        else:
            events.append((_end_of(attempt, at - first_arrival, builder.id), ()))
            runner = runners.get(builder.id)
            if runner is not None and runner.jobs == 1:
                # it was there for this job
                joined.discard(builder.id)
                events.append((BuilderRetired(at - first_arrival, builder.id), ()))
        for event, commands in events:
            line += 1
            yield Entry(event, commands, line)


def _starts_and_ends(attempts: list[Attempt]) -> Iterator[tuple[float, bool, Attempt]]:
    """Yield when each attempt started and ended, with whether it is the start, by time.

    At one instant the ends come first, but for those of attempts that took no time.
    """
    happenings: list[tuple[float, int, bool, Attempt]] = []
    for attempt in attempts:
        if attempt.started_at is None:
            continue
        happenings.append((attempt.started_at, 1, True, attempt))
        if attempt.finished_at is not None:
            rank = 0 if attempt.finished_at > attempt.started_at else 2
            happenings.append((attempt.finished_at, rank, False, attempt))
    for at, _, is_start, attempt in sorted(happenings, key=itemgetter(0, 1)):
        yield at, is_start, attempt


def _start_of(
    attempt: Attempt, at: float, builder: str
) -> Iterator[tuple[Event, tuple[Command, ...]]]:
    """Yield a submission that is dispatched at once, and the start."""
    job = Job(
        id=attempt.id,
        service_time=attempt.ran or 0.0,
        platform=_platform_of(attempt.platform),
        kind=attempt.kind or "job",
        matrix=attempt.matrix or None,
        attributes=attempt.traits,
    )
    yield JobsSubmitted(at, (job,)), (StartJob(job, 1, builder, 0),)
    yield JobStarted(at, job.id, 1, builder), ()


def _end_of(attempt: Attempt, at: float, builder: str) -> Event:
    outcome = _OUTCOMES.get(attempt.result)
    if outcome is None:
        return AttemptLost(at, attempt.id, 1, builder)
    return JobFinished(at, attempt.id, 1, builder, outcome)


def _platform_of(label: str) -> Platform:
    """Return the platform of a label, which is a processor unless it is written as a platform."""
    try:
        return Platform.parse(label)
    except ValueError:
        return Platform(label or None)


def _builder_name(attempt: Attempt) -> str:
    """Return who ran an attempt; where no runner is named, all of a platform are one builder."""
    return attempt.runner or attempt.platform or "unnamed"


def _builders_of(bundle: Bundle, runners: dict[str, Runner]) -> dict[str, Builder]:
    """Return the builders by name: each runs what it was seen to run."""
    platforms: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for attempt in bundle.attempts:
        if attempt.started_at is not None:
            platforms[_builder_name(attempt)].setdefault(attempt.platform)
    builders = {}
    for index, (name, labels) in enumerate(platforms.items()):
        runner = runners.get(name)
        builders[name] = Builder(
            id=name,
            pool=next(iter(labels)) or "unlabelled",
            index=index,
            processors=tuple(
                platform.processor for platform in map(_platform_of, labels) if platform.processor
            ),
            virtualized=all(_platform_of(label).needs_virtual for label in labels),
            slots=1 if runner is None else runner.slots,
        )
    return builders
