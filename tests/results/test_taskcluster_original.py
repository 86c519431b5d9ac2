"""The output of `farm admin export --format taskcluster`, compared with the original simulator."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import farm
from farm.results.exports.taskcluster import METRICS
from farm.testing import small_scenario

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
    scheduling={"retries": 1},
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


@pytest.fixture
def exported(result: farm.Result, farm: Callable[..., Any], tmp_path: Path) -> Path:
    """The file that the command writes of it."""
    result.save(tmp_path / "run")
    out = tmp_path / "datastore.json"
    done = farm("admin", "export", tmp_path / "run", "--format", "taskcluster", "-o", out)
    assert done.code == 0, done.err
    return out


@pytest.fixture
def original() -> Path:
    """Return a checkout of the simulator; its licence forbids keeping it here."""
    folder = CHECKOUT.absolute()
    if not (folder / "src/datastore.js").is_file():
        pytest.skip(f"needs `git clone {SOURCE}`, with FARM_TASKCLUSTER=<that folder>")
    return folder


def test_the_original_reads_it(
    original: Path, exported: Path, result: farm.Result, tool: Callable[[str], str]
) -> None:
    """`fromSerializable` and `asSerializable` lose nothing, and its samples are the farm's."""
    words = [tool("node"), "-e", READ, str(original), str(exported), *METRICS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["store"] == json.loads(exported.read_text())
    assert len(found["samples"]) > 30
    assert found["samples"] == result.analyze(60_000, METRICS).metrics


def test_its_form_is_the_originals(exported: Path) -> None:
    """Two keys; events in order of time, each with what the original expects of it, and no more."""
    document = json.loads(exported.read_text())
    assert document.keys() == {"duration", "events"}
    assert document["duration"] == 3_600_000
    events = document["events"]
    assert [time for time, *_ in events] == sorted(time for time, *_ in events)
    found = {(name, *map(type, rest)) for _, name, *rest in events}
    assert found == {(name, *form) for name, form in FORMS.items()}
    sizes = [rest[1] for _, name, *rest in events if name == "worker-requested"]
    assert all(size == {"capacity": 3, "utility": 1.5} for size in sizes)
