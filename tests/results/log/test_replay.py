"""A recorded run, replayed by a scheduler, gives the same commands, or the first difference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from farm.core.commands import IGNORED, NO_COMMANDS, Command, RetireBuilder, SetAlarm
from farm.core.events import BuilderJoined, Event, FarmOpened
from farm.core.model import Builder
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.restore import restore
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.results.log.reader import Entry, read_log
from farm.results.log.replay import replay


class Parrot:
    """Answer each event with the history's commands."""

    def __init__(self, history: Any) -> None:
        self.answers = iter([commands for _, commands in history])

    def handle(self, _: Event) -> Sequence[Command]:
        return next(self.answers)


def test_same_commands_are_no_difference(log: Path, history: Any) -> None:
    """The proof that one scheduler runs both worlds rests on this comparison."""
    assert replay(read_log(log), Parrot(history)) is None


def test_the_first_difference_is_shown(log: Path, history: Any) -> None:
    """A changed scheduler is caught at its first different event, with its line."""
    event, commands = history[3]
    history[3] = (event, list(reversed(commands)))
    difference = replay(read_log(log), Parrot(history))
    assert difference is not None
    assert difference.line == 5
    assert difference.event == event
    assert difference.recorded == tuple(commands)
    assert "recorded" in str(difference)


def test_ignoring_is_part_of_the_answer(log: Path, history: Any) -> None:
    """Handling an event that the recorded run ignored is a difference, with or without commands."""
    index = next(i for i, (_, commands) in enumerate(history) if commands is IGNORED)
    history[index] = (history[index][0], NO_COMMANDS)
    difference = replay(read_log(log), Parrot(history))
    assert difference is not None
    assert difference.recorded_ignored
    assert not difference.replayed_ignored


def test_a_truncated_log_is_compared_as_far_as_it_goes(log: Path, history: Any) -> None:
    """Commands lost with a killed writer are no difference."""
    raw = log.read_bytes()
    last_command = raw.rindex(b'{"at_s":40.0,"event":"builder-drained"')
    log.write_bytes(raw[: last_command + 30])
    assert replay(read_log(log), Parrot(history)) is None


def test_alarms_are_compared_up_to_a_takeover() -> None:
    """A successor does not know which alarms were set; whatever else it commands is compared."""
    pool = PoolSpec(name="p", processors=("amd64",), provisioned=True, idle_timeout=60.0)

    def new() -> Scheduler:
        return Scheduler(SchedulingRules(), make_estimator("oracle"), [pool])

    story: list[tuple[Event, Sequence[Command]]] = []

    def handled(scheduler: Scheduler, event: Event) -> None:
        story.append((event, scheduler.handle(event)))

    first = new()
    handled(first, FarmOpened(0.0))
    handled(first, BuilderJoined(1.0, Builder(id="p-1", pool="p", index=0, processors=("amd64",))))
    second = new()
    restore(second, snapshot_of(first, 2.0))
    handled(second, FarmOpened(2.0))
    entries = [Entry(event, commands, line) for line, (event, commands) in enumerate(story, 1)]
    assert list(entries[-1].commands) == [SetAlarm(61.0)]
    assert replay(entries, new()) is None
    entries[1].commands = NO_COMMANDS
    assert replay(entries, new()) is not None
    entries[1].commands = [SetAlarm(61.0)]
    entries[2].commands = [SetAlarm(61.0), RetireBuilder("p-1")]
    assert replay(entries, new()) is not None
