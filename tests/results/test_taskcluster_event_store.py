"""The Taskcluster simulator's event store: the phase's events, one pass of analysis, its file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import farm
from farm.cli.main import app
from farm.core.commands import IGNORED
from farm.core.errors import InputError
from farm.core.events import BuilderLost
from farm.results.exports.taskcluster import METRICS, EventStore, event_store, within_phase
from farm.results.log.reader import Entry
from farm.testing import small_scenario

#: requested, started, shut down, in ms; a phase from 500 to 800
WORKERS = {
    "w1": (0, 130, 430, 1), "w2": (10, 150, None, 1), "w3": (460, 505, 550, 1),
    "w5": (560, 570, 829, 8), "w6": (580, 840, 890, 1), "w7": (860, 900, 910, 1),
}  # fmt: skip
#: created, started, resolved, on
TASKS = {
    "t1": (100, 190, 400, "w1"), "t2": (140, 200, 510, "w2"), "t3": (440, 530, 540, "w3"),
    "t4": (590, 600, 610, "w5"), "t5": (620, 630, 810, "w5"), "t6": (640, 850, 860, "w6"),
    "t7": (870, 880, 920, "w7"),
}  # fmt: skip


@pytest.fixture
def store() -> EventStore:
    """The store that the original's own test suite examines."""
    events: list[tuple[float, str, str, list[Any]]] = []
    for name, (requested, started, shut, capacity) in WORKERS.items():
        size = {"capacity": capacity, "utility": 1}
        events.append((requested / 1000, "worker-requested", name, [size]))
        events.append((started / 1000, "worker-started", name, []))
        if shut is not None:
            events.append((shut / 1000, "worker-shutdown", name, []))
    for name, (created, began, resolved, worker) in TASKS.items():
        events.append((created / 1000, "task-created", name, []))
        events.append((began / 1000, "task-started", name, [worker]))
        events.append((resolved / 1000, "task-resolved", name, []))
    return within_phase(events, 0.5, 0.8)


def samples(store: EventStore, interval: float, metric: str) -> list[Any]:
    """Return one metric's samples."""
    found = store.analyze(interval, {metric: METRICS[metric]}).metrics
    return [sample[metric] for sample in found]


def test_the_phase_is_cut_out(store: EventStore):
    """Earlier and later events are removed; the rest is shifted."""
    assert store.duration == 300
    assert {event[2] for event in store.events}.isdisjoint({"t1", "w1", "t7", "w7"})
    assert (store.events[0][0], store.events[-1][0], len(store.events)) == (-490, 390, 26)


def test_the_built_in_metrics(store: EventStore):
    """The original's samples: at 0, then every interval, each with all events up to its time."""
    assert samples(store, 100, "pendingTasks") == [1, 0, 1, 1]
    assert samples(store, 50, "pendingTasks") == [1, 0, 0, 1, 1, 1, 1]
    assert samples(store, 100, "resolvedTasks") == [0, 2, 3, 3]
    assert samples(store, 100, "runningTasks") == [1, 1, 1, 1]
    assert samples(store, 25, "requestedWorkers") == [1, 0, 0, 0, *[1] * 9]
    assert samples(store, 100, "runningWorkers") == [1, 2, 2, 2]
    assert samples(store, 100, "shutdownWorkers") == [0, 1, 1, 1]


def test_custom_metrics(store: EventStore):
    """Any function of the state; a worker has its capacity and its tasks."""

    def capacity(state: dict[str, Any]) -> int:
        return sum(worker["capacity"] for worker in state["runningWorkers"].values())

    found = store.analyze(100, {"capacity": capacity}).metrics
    assert [sample["capacity"] for sample in found] == [1, 9, 9, 9]
    assert [sample["time"] for sample in found] == [0, 100, 200, 300]


def test_custom_state(store: EventStore):
    """Workers that started and never claimed a task, kept by an update after each event."""

    def update(state: dict[str, Any], event: list[Any]) -> None:
        _, name, *rest = event
        if name == "worker-started":
            state["waiting"].add(rest[0])
        elif name == "task-started":
            state["waiting"].discard(rest[1])

    metrics = {"waiting": lambda state: len(state["waiting"])}
    found = store.analyze(10, metrics, {"waiting": set()}, update).metrics
    waiting = [sample["waiting"] for sample in found]
    assert waiting == [0, 1, 1, 0, 0, 0, 0, 1, 1, 1, *[0] * 21]


def test_a_contradiction_is_reported():
    """One message with the event, as the original asserts."""
    for event in ([0, "task-started", "t", "w"], [0, "task-lost", "t"]):
        with pytest.raises(InputError, match="datastore: "):
            EventStore(10, [event]).analyze(1)
    with pytest.raises(InputError, match="interval"):
        EventStore(10, []).analyze(0)
    with pytest.raises(InputError, match="datastore: "):
        EventStore.from_json("[1]")


@pytest.fixture(scope="module")
def result() -> farm.Result:
    """A run with builders that come and go, and phases."""
    sized = {"algorithm": "taskcluster", "max": 5}
    return farm.simulate(
        small_scenario(
            {"boot_time": "20s", "idle_timeout": "1m", "provisioner": sized},
            {"poisson": {"rate": "1/m"}, "service_time": {"uniform": {"min": 10, "max": 90}}},
            phases={"ramp_up": "1m", "run": "1h", "ramp_down": "5m"},
            scheduling={"compatibility": "taskcluster"},
        )
    )


def test_a_run_has_its_store(result: farm.Result):
    """Its fifteen statistics are those of the run's own summary, as Taskcluster counts."""
    found, summary = result.event_store.statistics(), result.summary
    assert len(found) == 15
    assert found["Simulation Duration"] == 3_600_000
    assert found["Overprovisioned Workers"] == summary["builders"]["over_provisioned"]
    assert found["Mean wait time"] == pytest.approx(summary["waiting_time_s"]["mean"] * 1000)
    assert found["Maximum wait time"] == pytest.approx(summary["waiting_time_s"]["max"] * 1000)
    started = [s["runningWorkers"] for s in result.analyze(60_000).metrics]
    assert max(started) <= 5


def exported(result: farm.Result, tmp_path: Path) -> Path:
    """Return the file that the command writes of a run."""
    result.save(tmp_path / "run")
    out = tmp_path / "datastore.json"
    words = ["admin", "export", str(tmp_path / "run"), "--format", "taskcluster", "-o", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exception is None, done.exception
    return out


#: two jobs of 10 s in the run phase; nothing happens after the first 70 s of it
QUIET = small_scenario(
    load={"every": "1m", "start": "1m", "count": 2, "service_time": "10s"},
    phases={"ramp_up": "1m", "run": "20m", "ramp_down": "1m"},
)


def test_the_phase_lasts_though_nothing_happens_at_its_end(tmp_path: Path):
    """Its length was the last event's time: the charts of a farm at rest ended there."""
    result = farm.simulate(QUIET, keep_events=True)
    store = EventStore.from_json(exported(result, tmp_path).read_bytes())
    assert store.duration == result.event_store.duration == 1_200_000
    assert store.statistics()["Simulation Duration"] == 1_200_000
    samples = result.analyze(60_000, {"done": METRICS["resolvedTasks"]}).metrics
    assert [sample["time"] for sample in samples] == [60_000 * n for n in range(21)]
    assert [sample["done"] for sample in samples] == [0, 1, *[2] * 19]


def test_a_run_cut_short_ends_with_its_last_event(history: Any):
    """An interrupted run did not last as long as its run phase."""
    entries = [Entry(event, commands, 0) for event, commands in history]
    last_at = entries[-1].event.at
    assert event_store(entries, 0.0, 1e6, cut_short=True).duration == last_at * 1000
    assert event_store(entries, 0.0, 1e6).duration == 1e9


def test_a_builder_that_was_lost_twice_is_one_worker(history: Any):
    """The second report is stale: the scheduler ignored it, and the analysis failed on it."""
    entries = [Entry(event, commands, 0) for event, commands in history]
    lost = next(n for n, (event, _) in enumerate(history) if isinstance(event, BuilderLost))
    entries.insert(lost + 1, Entry(entries[lost].event, IGNORED, 0))
    store = event_store(entries, 0.0, math.inf)
    assert [event for event in store.events if event[1:] == ["worker-shutdown", "b2"]] == [
        [6000.0, "worker-shutdown", "b2"]
    ]
    assert store.statistics()["Shutdown Workers"] >= 1


def test_the_file_round_trips(result: farm.Result, tmp_path: Path):
    """Exported, read again, and used as a load: nothing is lost."""
    out = exported(result, tmp_path)
    again = EventStore.from_json(out.read_bytes())
    assert again == EventStore.from_json(result.event_store.to_json())
    assert again.statistics() == result.event_store.statistics()
    assert set(json.loads(out.read_text())) == {"duration", "events"}
    table = tmp_path / "tasks.csv"
    done = CliRunner().invoke(app, ["import", "taskcluster", str(out), "-o", str(table)])
    assert done.exception is None, done.exception
    resolved = sum(event[1] == "task-resolved" for event in again.events)
    assert len(table.read_text().splitlines()) == 1 + resolved
