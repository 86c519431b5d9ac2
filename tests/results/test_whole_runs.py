"""Random runs of the real scheduler: audited, logged, replayed, with the same result everywhere."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from farm.core.commands import CancelJob, Command, RetireBuilder, StartJob
from farm.core.events import (
    AlarmRang,
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    CancelRequested,
    DrainRequested,
    Event,
    JobFinished,
    JobsSubmitted,
    JobStarted,
    PriorityChanged,
    SlotCleaned,
    UndrainRequested,
)
from farm.core.model import Builder, Job, Platform
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime import make_estimator
from farm.results.audit.auditor import Auditor
from farm.results.exports.batsim import MachineStates
from farm.results.log.reader import read_log
from farm.results.log.replay import replay
from farm.results.log.writer import EventLogWriter
from farm.results.summary.summary import RunInfo, summarise
from farm.results.table.records import Recorder

PLATFORMS = (Platform(), Platform("amd64"), Platform("arm64", True), Platform("amd64", False))
INFO = RunInfo(name="random", world="simulated", engine="test", seed=0, policy="fifo")


def new_scheduler() -> Scheduler:
    """Return a scheduler that retries once and runs equal actions in flight together once."""
    rules = SchedulingRules(retries=1, dedup=True, fail_fast=True)
    return Scheduler(rules, make_estimator("declared"))


class RestlessWorld:
    """Builders that come, go and get lost; late and repeated reports; then everything finishes."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.at = 0.0
        self.running: list[StartJob] = []
        self.cleaning: list[tuple[str, int]] = []
        self.retiring: list[str] = []
        self.there: dict[str, Builder] = {}
        self.numbers = iter(range(10**9))
        self.past: list[Event] = []

    def execute(self, command: Command) -> None:
        """Remember the pending commands."""
        if isinstance(command, StartJob):
            self.running.append(command)
        elif isinstance(command, RetireBuilder):
            self.retiring.append(command.builder)
        elif isinstance(command, CancelJob):
            for order in self.running:
                if order.job.id == command.job and self.dice.random() < 0.5:
                    self.past.append(self.report(order, "cancelled"))

    def events(self, steps: int) -> Iterator[Event]:
        """Yield events: at random, then until every job has ended."""
        yield self.join()
        for _ in range(steps):
            self.at += self.dice.choice((0.0, 1.0, 2.5))
            yield self.anything()
        yield UndrainRequested(self.at, "*")
        for processor in ("amd64", "arm64"):
            for virtualized in (True, False):
                yield self.join(processor, virtualized=virtualized)
        while self.running or self.cleaning:
            self.at += 1.0
            yield self.finish() if self.running else self.clean()

    def anything(self) -> Event:
        """Return a random event."""
        kinds = [self.submit] * 4 + [self.finish] * 4 + [self.start, self.late, self.clean]
        kinds += [self.join, self.lose, self.lose_attempt, self.cancel, self.drain, self.idle]
        return self.dice.choice(kinds)()

    def submit(self) -> Event:
        count = self.dice.choice((1, 1, 1, 3))
        jobs = [self.job() for _ in range(count)]
        return JobsSubmitted(self.at, tuple(jobs))

    def job(self) -> Job:
        return Job(
            id=f"j{next(self.numbers)}",
            service_time=self.dice.uniform(1, 9),
            platform=self.dice.choice(PLATFORMS),
            level=self.dice.choice((0, 0, 1)),
            matrix=self.dice.choice((None, "m1", "m2")),
            action=self.dice.choice((None, None, "x", "y")),
        )

    def join(self, processor: str | None = None, *, virtualized: bool | None = None) -> Event:
        number = next(self.numbers)
        builder = Builder(
            id=f"b{number}",
            pool="p",
            index=number,
            processors=(processor or self.dice.choice(("amd64", "arm64")),),
            virtualized=self.dice.random() < 0.7 if virtualized is None else virtualized,
            slots=self.dice.choice((1, 2, 3)),
            cleans=self.dice.random() < 0.3,
        )
        self.there[builder.id] = builder
        return BuilderJoined(self.at, builder)

    def report(self, order: StartJob, outcome: str) -> JobFinished:
        return JobFinished(self.at, order.job.id, order.attempt, order.builder, outcome)  # type: ignore[arg-type]

    def finish(self) -> Event:
        if not self.running:
            return self.submit()
        order = self.running.pop(self.dice.randrange(len(self.running)))
        if self.there[order.builder].cleans:
            self.cleaning.append((order.builder, order.slot))
        event = self.report(order, self.dice.choice(("succeeded", "succeeded", "failed")))
        self.past.append(event)
        return event

    def start(self) -> Event:
        if not self.running:
            return self.join()
        order = self.dice.choice(self.running)
        return JobStarted(self.at, order.job.id, order.attempt, order.builder)

    def late(self) -> Event:
        if not self.past:
            return self.submit()
        event = self.dice.choice(self.past)
        assert isinstance(event, JobFinished)
        order = [o for o in self.running if (o.job.id, o.attempt) == (event.job, event.attempt)]
        for running in order:
            self.running.remove(running)
            if self.there[running.builder].cleans:
                self.cleaning.append((running.builder, running.slot))
        return JobFinished(self.at, event.job, event.attempt, event.builder, event.outcome)

    def clean(self) -> Event:
        if not self.cleaning:
            return self.submit()
        return SlotCleaned(self.at, *self.cleaning.pop())

    def leave(self, builder: str) -> None:
        self.there.pop(builder)
        self.running = [order for order in self.running if order.builder != builder]
        self.cleaning = [(name, slot) for name, slot in self.cleaning if name != builder]

    def lose(self) -> Event:
        if len(self.there) < 2:
            return self.join()
        builder = self.dice.choice(sorted(self.there))
        if builder in self.retiring:
            self.retiring.remove(builder)
        self.leave(builder)
        return BuilderLost(self.at, builder)

    def lose_attempt(self) -> Event:
        if not self.running:
            return self.submit()
        order = self.running.pop()
        if self.there[order.builder].cleans:
            self.cleaning.append((order.builder, order.slot))
        return AttemptLost(self.at, order.job.id, order.attempt, order.builder)

    def cancel(self) -> Event:
        if self.dice.random() < 0.2:
            return CancelRequested(self.at, matrix="m1")
        name = f"j{self.dice.randrange(next(self.numbers))}"
        if self.dice.random() < 0.5:
            return PriorityChanged(self.at, name, level=self.dice.choice((0, 2)))
        return CancelRequested(self.at, (name,))

    def drain(self) -> Event:
        pattern = f"b*{self.dice.randrange(10)}"
        if self.dice.random() < 0.5:
            return UndrainRequested(self.at, pattern)
        return DrainRequested(self.at, pattern, retire=self.dice.random() < 0.3)

    def idle(self) -> Event:
        if self.retiring:
            builder = self.retiring.pop()
            self.leave(builder)
            return BuilderRetired(self.at, builder)
        return AlarmRang(self.at)


def machine_states_of(scheduler: Scheduler) -> Counter[str]:
    """Count the scheduler's builders by their Batsim state."""
    found: Counter[str] = Counter()
    for builder in scheduler.builders.values():
        running = any(slot.running is not None for slot in builder.slots)
        closed = builder.draining or builder.retiring
        found["nb_switching_off" if closed else "nb_computing" if running else "nb_idle"] += 1
    for pool in scheduler.pools.values():
        found["nb_switching_on"] += len(pool.requested)
    return +found


@pytest.mark.parametrize("seed", range(60))
def test_all_observers_agree(seed: int) -> None:
    """Auditor, log, machine states, records and replay agree on any run of the real scheduler."""
    world, scheduler = RestlessWorld(seed), new_scheduler()
    auditor, machines = Auditor(), MachineStates()
    recorder, again = Recorder(), Recorder()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        with EventLogWriter(path, 7) as log:
            for event in world.events(steps=120):
                commands: Sequence[Command] = scheduler.handle(event)
                for observer in (auditor, log, machines, recorder):
                    observer(event, commands)
                assert +machines.counts == machine_states_of(scheduler)
                for command in commands:
                    world.execute(command)
        auditor.close()
        assert replay(path, new_scheduler()) is None
        for entry in read_log(path):
            again(entry.event, entry.commands)
    records = again.records()
    summary = summarise(recorder.records(), INFO, 0.0)
    assert summarise(records, INFO, 0.0) == summary
    outcomes = Counter(end.outcome for end in again.ends)
    jobs = summary.jobs
    assert (jobs.succeeded, jobs.failed, jobs.cancelled, jobs.lost) == (
        outcomes["succeeded"],
        outcomes["failed"],
        outcomes["cancelled"],
        0,
    )
    assert not machines.counts["nb_computing"]
    assert summary.utilization is None or 0 <= summary.utilization <= 1
