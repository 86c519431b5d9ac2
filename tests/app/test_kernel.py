"""A clone builds its compiled loop once, when a command has missed it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from farm.app import kernel
from farm.app.kernel import build_in_background
from farm.sim.fast.kernel import build, native
from farm.terminal.settings import may_build_kernel


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A clone without the object; returns the commands that are started."""
    made: list[list[str]] = []
    (tmp_path / "Makefile").touch()
    monkeypatch.setattr(kernel, "CLONE", tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr(native, "is_there", cache(lambda: False))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: made.append(command))
    return made


def test_it_is_started_once(started: list[list[str]]):
    """Each further command would start another, while the first is still compiling."""
    native.is_there()
    assert build_in_background(5.0) is not None
    assert build_in_background(5.0) is None
    assert [command[-1] for command in started] == ["timeout 1800 make --silent kernel &"]


def test_only_a_command_that_missed_it_starts_it(started: list[list[str]]):
    """Not one that simulates nothing, or only what the loop does not cover; nor a short one."""
    assert build_in_background(5.0) is None
    native.is_there()
    assert build_in_background(0.5) is None
    assert started == []


def test_an_installed_farm_starts_nothing(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Nor one that runs in an environment of the user's, or whose user does not want it."""
    native.is_there()
    assert may_build_kernel()
    monkeypatch.setenv("FARM_BUILD_KERNEL", "0")
    assert not may_build_kernel()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "other"))
    assert build_in_background(5.0) is None
    assert started == []


def test_without_a_c_compiler_nothing_is_compiled(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """It is said at once, not after a minute; and so is a folder that cannot be written."""
    monkeypatch.setattr(native, "path", lambda: tmp_path / "none" / "kernel.so")
    monkeypatch.setattr(os, "nice", lambda _: 0)
    assert "cannot be built here" in (build.main() or "")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "no C compiler (cc)" in (build.main() or "")
    assert started == []
