"""Random runs of the real scheduler: audited, logged, replayed, with the same result everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from farm.core.commands import Command
from farm.core.events import Event
from farm.core.scheduler import Scheduler
from farm.results.exports.batsim_export import MachineStates
from farm.results.log.reader import read_log
from farm.results.log.replay import replay
from farm.results.log.writer import EventLogWriter
from farm.results.summary.figures import RunInfo
from farm.results.summary.summary import summarise
from farm.results.table.recorder import Recorder
from tests.fixtures.player import KINDS, OFTEN, POOLS, Player
from tests.worlds.virtual import Ledger

INFO = RunInfo(name="random", world="simulated", engine="test", seed=0, policy="fifo")


def new_farm() -> Ledger:
    """Return a farm that retries once and runs equal actions in flight together once."""
    return Ledger(pools=POOLS, retries=1, dedup=True, fail_fast=True)


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


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 60))]
)
def test_all_observers_agree(seed: int, tmp_path: Path) -> None:
    """Auditor, log, machine states, records and replay agree on any run of the real scheduler."""
    farm, dice = new_farm(), Random(seed)
    machines, recorder, again = MachineStates(), Recorder(), Recorder()

    def compare(_event: Event, _commands: Sequence[Command]) -> None:
        # one that has been used up is on its way out, but no event says so before its last job ends
        if not any(builder.used_up for builder in farm.scheduler.builders.values()):
            assert +machines.counts == machine_states_of(farm.scheduler)

    with EventLogWriter(tmp_path / "log", 7) as log:
        farm.observers += [log, machines, recorder, compare]
        player = Player(farm)
        player.play((dice.choice(KINDS + OFTEN), dice.randrange(2**32)) for _ in range(150))
        player.run_out()
    assert replay(read_log(tmp_path / "log"), new_farm().scheduler) is None
    for entry in read_log(tmp_path / "log"):
        again(entry.event, entry.commands)
    records = again.records()
    summary = summarise(recorder.records(), INFO, 0.0)
    assert summarise(records, INFO, 0.0) == summary
    jobs = summary.jobs
    counted = {"succeeded": jobs.succeeded, "failed": jobs.failed, "cancelled": jobs.cancelled}
    assert Counter(counted) == Counter(end.outcome for end in again.ends)
    assert jobs.lost == 0
    assert not machines.counts["nb_computing"]
    assert summary.utilization is None or 0 <= summary.utilization <= 1
