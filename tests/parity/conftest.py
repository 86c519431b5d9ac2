"""Two worlds, one test: run a scenario, simulated or live, and check the audited records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from farm.assembly import make_scheduler
from farm.core.commands import Command, EndJob, StartJob
from farm.core.events import Event
from farm.results.audit.auditor import Auditor
from farm.results.log.reader import read_log
from farm.results.log.replay import LogDifference, replay
from farm.results.log.writer import EventLogWriter
from farm.scenario import Scenario, parse_scenario
from tests.worlds.both import WORLDS, play


class Outcome:
    """The results of a run in either world."""

    def __init__(self, scenario: Scenario, log: Path) -> None:
        self.scenario = scenario
        self.log = log
        self.starts: list[str] = []
        self.ends: dict[str, EndJob] = {}
        self.told: dict[str, int] = {}

    def observe(self, _: Event, commands: Sequence[Command]) -> None:
        """Note which jobs go, and how they end."""
        for command in commands:
            if isinstance(command, StartJob):
                self.starts.append(command.job.id)
            if isinstance(command, EndJob):
                self.ends[command.job.id] = command
                self.told[command.job.id] = self.told.get(command.job.id, 0) + 1

    @property
    def outcomes(self) -> dict[str, int]:
        """Return how many jobs ended with each outcome."""
        found = [end.outcome for end in self.ends.values()]
        return {outcome: found.count(outcome) for outcome in sorted(set(found))}

    def response_times(self) -> dict[str, float]:
        """Return finish less intended arrival, by job."""
        return {n: e.finished_at - (e.job.arrived_at or 0.0) for n, e in self.ends.items()}

    def replayed(self) -> LogDifference | None:
        """Replay the log through a fresh scheduler; None: the same commands."""
        return replay(read_log(self.log), make_scheduler(self.scenario))


def run_in(world: str, document: dict[str, Any], log: Path) -> Outcome:
    """Run a scenario in one of the worlds, with the auditor as an observer."""
    scenario = parse_scenario(document)
    outcome, auditor = Outcome(scenario, log), Auditor()
    with EventLogWriter(log) as writer:
        observers = outcome.observe, auditor, writer
        play(world, scenario, *observers, hosts=1, beat_interval=0.25)
    auditor.close()
    return outcome


@pytest.fixture(params=WORLDS)
def world(request, tmp_path):
    """Run scenarios in one world; every test here is run in both."""
    return lambda document: run_in(request.param, document, tmp_path / "events.jsonl")


@pytest.fixture
def both(tmp_path):
    """Run a scenario in both worlds; return the simulated outcome and the live one."""
    return lambda document: tuple(
        run_in(name, document, tmp_path / f"{name}.jsonl") for name in ("simulated", "live")
    )
