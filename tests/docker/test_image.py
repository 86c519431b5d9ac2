"""`make image`: what a published image says of itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.docker_engine import BUNDLE, Engine
from tests.worlds.composed import IMAGE, Composed

INSTALLED = """
import importlib.metadata, json
print(json.dumps({one.name: one.version for one in importlib.metadata.distributions()}))
"""
pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]


def test_an_image_to_publish_says_what_it_is_and_what_is_in_it(
    engine: Engine, composed: Composed, tmp_path: Path
):
    """Tag, labels, and a bill of materials with the versions that are installed in it."""
    clone = shutil.copytree(composed.source, tmp_path / "clone")
    me = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    for words in (["init", "-q"], ["add", "."], [*me, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=clone, check=True)
    name = f"{IMAGE.partition(':')[0]}-{os.getpid()}"
    given = engine.environment | ({"PIP_CERT": str(BUNDLE)} if BUNDLE.exists() else {})
    done = subprocess.run(
        [clone / "deploy/make-image", name], env=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    made, written = (line.split()[0] for line in done.stdout.splitlines())
    try:
        text = engine.docker("inspect", "--format", "{{json .Config.Labels}}", made)
        labels = {key.rpartition(".")[2]: value for key, value in json.loads(text).items()}
        version = made.rpartition(":")[2]
        commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=clone, text=True)
        assert (labels["version"], labels["revision"]) == (version, commit.strip())
        assert (labels["title"], labels["licenses"]) == ("Build farm emulator", "Apache-2.0")
        bill = json.loads((clone / written).read_text())
        ours = bill["metadata"]["component"]
        assert (ours["name"], ours["version"]) == ("build-farm-emulator", version)
        installed = json.loads(engine.docker("run", "--rm", made, "python3", "-c", INSTALLED))
        found = {one["name"]: one["version"] for one in bill["components"]}
        assert found | {ours["name"]: version} == installed
    finally:
        engine.docker("rmi", made)
