"""Every scenario of examples/ can be simulated, and is listed in its README."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from farm.cli.main import app
from farm.core.errors import TraceError
from farm.scenario import load_scenario
from farm.scenario.packaged_examples import examples
from farm.workload import build_jobs

from .documents import ROOT

EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))

#: the span that is simulated of an endless example
PORTIONS = {"demo": ["--set", "phases.run=6h"]}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_simulates(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It loads, every job ends, and none is lost."""
    words = ["simulate", str(path), "--json", "--no-save", *PORTIONS.get(path.stem, ())]
    if "firefox" in path.stem:
        words += ["--set", f"workload.0.path={recording(tmp_path)}"]
    assert app(words, standalone_mode=False) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["jobs"]["submitted"] > 0
    assert summary["jobs"]["lost"] == 0


def recording(folder: Path) -> Path:
    """Write forty tasks, one an hour, in the format of Firefox CI's recordings."""
    trace = folder / "pool.dat"
    trace.write_bytes(b"".join(struct.pack(">II", n * 3_600_000, 90_000) for n in range(40)))
    return trace


def test_a_missing_recording():
    """The message says where to get it, and how to name one."""
    with pytest.raises(TraceError, match=r"get it from https://github\.com/taskcluster.*--set"):
        build_jobs(load_scenario("taskcluster-firefox"))


def test_what_an_example_needs_is_in_the_list():
    """Beside what it is about, before it is tried."""
    listed = examples()
    assert listed["taskcluster-firefox"].endswith("; needs a recording: the message of the first "
                                                  "try says where to get it")  # fmt: skip
    assert "; needs an idle machine, live" in listed["burning"]
    assert {"demo", "taskcluster-firefox-manual"} <= {
        n for n, it in listed.items() if "; need" in it
    }
    assert "need" not in listed["quickstart"]


def test_every_example_is_listed():
    """examples/README.md says of each what to expect."""
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    names = [path.relative_to(ROOT / "examples").as_posix() for path in EXAMPLES]
    assert [name for name in names if name not in index] == []
