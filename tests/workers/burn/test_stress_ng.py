"""stress-ng as the burner: bounded, killed with all its helpers, replaced or reported if broken."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from farm.core.errors import RunError
from tests.fixtures.processes import await_gone, until
from workers.burn.burning_jobs import Burners
from workers.burn.stress_ng import StressNg, UnusableStressNgError

from .conftest import TINY, processes_under

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")


def test_stress_ng_burns_a_bounded_amount_and_can_be_killed(fire, tool):
    """The work ends by itself; a kill includes its helpers, of which no zombie is left.

    In a container the first process may reap none.
    """
    tool("stress-ng")
    one = fire(burner="stress-ng")
    one.start("stress", 0.5, threads=2)
    assert one.end().error is None
    number, _ = one.burn_beside(threads=2)
    until(lambda: len(processes_under(one.burners.pid)) >= 4, "two programs, one helper each")
    pids = processes_under(one.burners.pid)
    one.burners.kill(number)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), f"the end of {pids}")


def test_more_work_than_stress_ng_accepts_is_done_without_it(fire, tool):
    """It refuses more than 100 million operations, some fifteen hours: the job burns without it."""
    tool("stress-ng")
    one = fire(burner="stress-ng", rates={"stress_ng": 1e9, "cpu": 4.0})
    one.start("stress", 0.5)
    assert one.end().error is None


@pytest.fixture
def fake_stress_ng(tmp_path, monkeypatch):
    """Put a program named stress-ng first in the path."""

    def make(script: str) -> Path:
        path = tmp_path / "stress-ng"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        return path

    return make


@pytest.mark.parametrize("script", ["exit 3", "exit 0", "kill -9 $$"])
def test_a_stress_ng_that_does_not_work_is_not_used(fake_stress_ng, fire, capfd, script):
    """Broken, or of a version with other options: the built-in burner instead, with a warning."""
    program = fake_stress_ng(script)
    one = fire(burner="auto")
    one.start("stress", 0.5, threads=2)
    assert one.end().error is None
    assert f"{program} end" in capfd.readouterr().err
    assert one.burners.rates(["stress"]) == TINY
    assert one.burners._arguments["stress_ng"] is None


def test_a_stress_ng_that_must_work_fails_its_jobs(fake_stress_ng, fire):
    """If selected by name there is no replacement: job and measurement report the problem."""
    program = fake_stress_ng("exit 3")
    one = fire(burner="stress-ng")
    one.start("stress", 0.5)
    assert one.end().error == f"{program} ended with exit code 3"
    with pytest.raises(RunError, match=r"cannot be measured: .* ended with exit code 3"):
        one.burners.rates(["stress"])
    one.start("memory", 0.01)
    assert one.end().error is None


def test_a_stress_ng_that_hangs_is_given_up(fake_stress_ng):
    """And reaped: it does not hang on alone."""
    program = fake_stress_ng("echo $$ > $(dirname $0)/pid; exec sleep 3600")
    with pytest.raises(UnusableStressNgError, match="does not end"):
        StressNg(str(program), patience=0.5)
    await_gone([int((program.parent / "pid").read_text())])


def test_a_measurement_ends_with_its_program(fake_stress_ng, fire):
    """The program is killed while it measures: an error at once, no waiting for an answer."""
    program = fake_stress_ng("echo $$ > $(dirname $0)/pid; exec sleep 3600")
    one = fire(burner="auto")
    one.start("memory", None)
    killer = threading.Thread(target=kill_when_there, args=(program.parent / "pid", one.burners))
    killer.start()
    with pytest.raises(RunError, match="the burner program ended with exit code -9"):
        one.burners.rates(["stress"])
    killer.join()
    await_gone([int((program.parent / "pid").read_text())])


def kill_when_there(path: Path, burners: Burners) -> None:
    """Kill the burner program once the file has been written."""
    until(lambda: path.is_file() and path.read_text().strip(), "the program's start")
    os.kill(burners.pid, signal.SIGKILL)
