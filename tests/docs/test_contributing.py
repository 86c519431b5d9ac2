"""CONTRIBUTING.md's changes, made in a copy of the farm: each is one file and one entry."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, blocks_of

PAGE = ROOT / "CONTRIBUTING.md"
POLICY = "farm/core/policies/lifo.py"
COPIED = ("farm", "farm_twin", "farm_studies", "farm_chaos", "provisioner", "workers")
BUILDS = [
    {"number": n, "status": "success", "created": n, "started": n + 5, "finished": 2 * n + 9}
    for n in range(60, 540, 60)
]


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout, not installed, with all changes of the page."""
    checkout = tmp_path_factory.mktemp("checkout")
    without_tests = shutil.ignore_patterns("tests", "__pycache__")
    for package in COPIED:
        shutil.copytree(ROOT / package, checkout / package, ignore=without_tests)
    shutil.copy(ROOT / "pyproject.toml", checkout)
    shutil.copytree(ROOT / "examples", checkout / "examples")
    for block in blocks_of(PAGE):
        if block.language == "python":
            (checkout / POLICY).write_text(block.text, encoding="utf-8")
        if block.language == "diff":
            for change in re.split(r"^(?=\+\+\+ |--- )", block.text, flags=re.MULTILINE)[1:]:
                make(change, checkout)
    return checkout


def make(change: str, checkout: Path) -> None:
    """Write a new file (``+++``), or change one (``---``) below the line that is shown before."""
    heading, *lines = change.splitlines()
    path = checkout / heading[4:]
    if heading.startswith("+++"):
        assert not path.exists()
        path.write_text("".join(f"{line[1:]}\n" for line in lines), encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    before = ""
    for line in lines:
        if line.startswith("+"):
            text = text.replace(before, f"{before}{line[1:]}\n" if before else f"{line[1:]}\n", 1)
            continue
        before = f"{line[1:]}\n"
        assert text.count(before) == 1, before
        if line.startswith("-"):
            text, before = text.replace(before, "\0\n"), "\0\n"
    path.write_text(text.replace("\0\n", ""), encoding="utf-8")


def farm(checkout: Path, *words: str) -> str:
    """Return what a command of the changed farm prints."""
    # an installed farm would have its own entry points
    program = (
        "import sys; from importlib import metadata; real = metadata.distribution\n"
        "def lacks(name):\n"
        "    if name == 'build-farm-emulator': raise metadata.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "metadata.distribution = lacks\n"
        "from farm.cli.main import main; sys.argv[0] = 'farm'; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SIMULATE = ("simulate", "quickstart", "--no-save", "--json", "--quiet")


@pytest.mark.slow
def test_a_policy_is_a_file_and_a_line_in_its_registry(changed: Path) -> None:
    """The first thing that a contributor tries works as it is printed."""
    summary = json.loads(farm(changed, *SIMULATE, "--policy", "lifo"))
    assert summary["policy"] == "lifo"
    assert summary["jobs"]["succeeded"] == 655


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_an_algorithm_is_a_file_and_a_line_in_its_registry(changed: Path, engine: str) -> None:
    """The compiled loop needs to know nothing of it: it asks."""
    sizing = "{algorithm: spare, max: 30, share: 0.5}"
    changes = ("pools.0.builders=null", f"pools.0.provisioner={sizing}")
    words = [word for change in changes for word in ("--set", change)]
    summary = json.loads(farm(changed, *SIMULATE, *words, "--engine", engine))
    assert summary["jobs"]["succeeded"] == 655
    assert summary["engine"] == engine


@pytest.mark.slow
def test_a_source_and_a_command_are_a_file_and_an_entry_point(changed: Path) -> None:
    """A new system's records are recognised, and a new command reads them."""
    records = changed / "builds.json"
    records.write_text(json.dumps(BUILDS), encoding="utf-8")
    assert json.loads(farm(changed, "kinds", str(records))) == {"": len(BUILDS)}
    assert "kinds" in farm(changed, "--help")
    assert "drone" in farm(changed, "import", "--help")
