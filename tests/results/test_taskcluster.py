"""The Taskcluster simulator's event store: the phase's events, one pass of analysis, its file.

The file is compared with what the original simulator reads and writes.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import farm
from farm.core.commands import IGNORED
from farm.core.errors import InputError
from farm.core.events import BuilderLost
from farm.results.exports.taskcluster_export import METRICS, EventStore, event_store, within_phase
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


SOURCE = "https://github.com/taskcluster/taskcluster-provisioning-simulator"
#: read here, because the fixture `farm` hides such names
CHECKOUT = Path(os.environ.get("FARM_TASKCLUSTER", ""))
#: builders that come, go and are lost; jobs that are repeated, and some that fail permanently
SCENARIO = small_scenario(
    {
        "boot_time": "20s",
        "idle_timeout": "3m",
        "slots": 3,
        "speed": 1.5,
        "losses": {"rate": "4/h"},
        "provisioner": {"algorithm": "taskcluster", "max": 6},
    },
    {"poisson": {"rate": "6/m"}, "service_time": {"uniform": {"min": 10, "max": 300}}},
    phases={"ramp_up": "10m", "run": "1h", "ramp_down": "20m"},
    scheduling={"retries": 1, "compatibility": "taskcluster"},
)
#: what follows the time and the name of each event
FORMS: dict[str, list[type]] = {
    "task-created": [str],
    "task-started": [str, str],
    "task-resolved": [str],
    "worker-requested": [str, dict],
    "worker-started": [str],
    "worker-shutdown": [str],
}
#: read by the original's own code, written again, and sampled every minute
READ = """
const {DataStore} = require(process.argv[1] + '/src/datastore');
const text = require('fs').readFileSync(process.argv[2], 'utf8');
const store = DataStore.fromSerializable(JSON.parse(text));
const metrics = Object.fromEntries(process.argv.slice(3).map(name => [name, DataStore[name]]));
const samples = store.analyze({interval: 60000, metrics}).metrics;
console.log(JSON.stringify({store: store.asSerializable(), samples}));
"""


@pytest.fixture(scope="module")
def result() -> farm.Result:
    """A run with everything that the six events describe."""
    result = farm.simulate(SCENARIO, keep_events=True)
    assert result.summary["jobs"]["failed"] > 0
    assert result.summary["builders"]["lost"] > 0
    return result


def test_a_run_has_its_store():
    """Its fifteen statistics are those of the run's own summary, as Taskcluster counts."""
    result = farm.simulate(SCENARIO, pools__p__losses=None)
    found, summary = result.event_store.statistics(), result.summary
    assert len(found) == 15
    assert found["Simulation Duration"] == 3_600_000
    assert found["Overprovisioned Workers"] == summary["builders"]["over_provisioned"]
    assert found["Mean wait time"] == pytest.approx(summary["waiting_time_s"]["mean"] * 1000)
    assert found["Maximum wait time"] == pytest.approx(summary["waiting_time_s"]["max"] * 1000)
    started = [s["runningWorkers"] for s in result.analyze(60_000).metrics]
    assert max(started) <= 6


@pytest.fixture
def export(farm: Callable[..., Any], tmp_path: Path) -> Callable[[farm.Result], Path]:
    """Return the file that the command writes of a run."""

    def exported(result: Any) -> Path:
        out = tmp_path / "datastore.json"
        run = result.save(tmp_path / "run")
        done = farm("admin", "export", run, "--format", "taskcluster", "-o", out)
        assert done.code == 0, done.err
        return out

    return exported


#: two jobs of 10 s in the run phase; nothing happens after the first 70 s of it
QUIET = small_scenario(
    load={"every": "1m", "start": "1m", "count": 2, "service_time": "10s"},
    phases={"ramp_up": "1m", "run": "20m", "ramp_down": "1m"},
)


def test_the_phase_lasts_though_nothing_happens_at_its_end(export: Callable[[Any], Path]):
    """Its length was the last event's time: the charts of a farm at rest ended there."""
    result = farm.simulate(QUIET, keep_events=True)
    store = EventStore.from_json(export(result).read_bytes())
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


def test_the_file_round_trips(
    result: farm.Result, farm: Callable[..., Any], export: Callable[[Any], Path], tmp_path: Path
):
    """Exported, read again, and used as a load: nothing is lost."""
    out = export(result)
    again = EventStore.from_json(out.read_bytes())
    assert again == EventStore.from_json(result.event_store.to_json())
    assert again.statistics() == result.event_store.statistics()
    table = tmp_path / "tasks.csv"
    done = farm("import", "taskcluster", out, "-o", table)
    assert done.code == 0, done.err
    resolved = sum(event[1] == "task-resolved" for event in again.events)
    assert len(table.read_text().splitlines()) == 1 + resolved


@pytest.fixture
def original() -> Path:
    """Return a checkout of the simulator; its licence forbids keeping it here."""
    folder = CHECKOUT.absolute()
    if not (folder / "src/datastore.js").is_file():
        pytest.skip(f"needs `git clone {SOURCE}`, with FARM_TASKCLUSTER=<that folder>")
    return folder


def test_the_original_reads_it(
    original: Path, export: Callable[[Any], Path], result: farm.Result, tool: Callable[[str], str]
):
    """`fromSerializable` and `asSerializable` lose nothing, and its samples are the farm's."""
    exported = export(result)
    words = [tool("node"), "-e", READ, str(original), str(exported), *METRICS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["store"] == json.loads(exported.read_text())
    assert len(found["samples"]) > 30
    assert found["samples"] == result.analyze(60_000, METRICS).metrics


def test_its_form_is_the_originals(result: farm.Result):
    """Two keys; events in order of time, each with what the original expects of it, and no more."""
    document = json.loads(result.event_store.to_json())
    assert document.keys() == {"duration", "events"}
    assert document["duration"] == 3_600_000
    events = document["events"]
    assert [time for time, *_ in events] == sorted(time for time, *_ in events)
    found = {(name, *map(type, rest)) for _, name, *rest in events}
    assert found == {(name, *form) for name, form in FORMS.items()}
    sizes = [rest[1] for _, name, *rest in events if name == "worker-requested"]
    assert all(size == {"capacity": 3, "utility": 1.5} for size in sizes)
