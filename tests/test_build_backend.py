"""An installation from the sources compiles the loop of simulations, or does without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that a build runs, all of which fail; setuptools is left out."""
    from setuptools import build_meta

    run: list[list[str]] = []

    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        run.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(build_meta, "get_requires_for_build_wheel", lambda _: ["setuptools"])
    monkeypatch.setattr(build_meta, "build_wheel", lambda *_: "farm.whl")
    return run


def test_a_release_compiles_nothing(commands: list[list[str]], monkeypatch):
    """Its sdist carries the object: nothing more is needed to install it."""
    import build_backend

    monkeypatch.setattr(build_backend, "_is_there", lambda: True)

    assert build_backend.get_requires_for_build_wheel() == ["setuptools"]
    assert build_backend.build_wheel("dist") == "farm.whl"
    assert commands == []


def test_sources_are_compiled_or_built_without(commands: list[list[str]], monkeypatch):
    """The loop's sources import NumPy and msgspec; a failure is no failed installation."""
    import build_backend

    monkeypatch.setattr(build_backend, "_is_there", lambda: False)

    names = [one.partition(">")[0] for one in build_backend.get_requires_for_build_wheel()]
    assert sorted(names) == ["msgspec", "numpy", "setuptools"]
    assert build_backend.build_wheel("dist") == "farm.whl"
    assert [command[1:] for command in commands] == [["-m", "farm.sim.fast.compiler", "--fetch"]]


def test_windows_is_refused_in_a_sentence():
    """By the command, and before anything is built."""
    script = "import sys; sys.platform = 'win32'; from {} import {} as refused; refused()"
    for module, function in (
        ("farm.__main__", "main"),
        ("build_backend", "get_requires_for_build_wheel"),
    ):
        command = [sys.executable, "-c", script.format(module, function)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.stderr == "error: the farm runs on Linux and macOS; on Windows use WSL\n"
        assert done.returncode == 2
