"""A sweep run by Celery workers: the tables are those of a local sweep, whatever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import farm
from farm.app.sweeps.execution import SeededRun, SentRuns, play_all
from farm.core.errors import RunError
from farm.live import remote_calls
from farm.live.redis.server import Server
from farm.live.settings import environment_of_another

VARY = {"scheduling.policy": ["fifo", "sjf"]}


def test_a_worker_refuses_a_run_that_it_would_run_differently() -> None:
    """Another version, or another trace of the same name, would give another result."""
    run = SeededRun(farm.load_scenario("mm1", workload__0__count=5), 7)
    sent = SentRuns(run.scenario.to_yaml(), ((7, run.key),))
    assert sent.play() == play_all([run], lambda _: None)
    with pytest.raises(RunError, match="another version"):
        SentRuns(sent.scenario, ((8, run.key),)).play()


@contextmanager
def worker(server: Server, prefix: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in its own process group."""
    celery = [sys.executable, "-m", "celery", "-A", "farm.app.sweeps.worker", "worker", "-c", "1"]
    process = subprocess.Popen(
        [*celery, "-n", f"{name}@here", "-l", "error"],
        env=environment_of_another(FARM_REDIS_URL=server.url, FARM_PREFIX=prefix),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)


@pytest.mark.slow
@pytest.mark.live
def test_a_killed_worker_loses_no_run_and_the_bytes_stay_the_same(
    server: Server, tmp_path: Path
) -> None:
    """Another worker runs what a killed one held; the tables are those of one machine."""
    prefix = f"sweep{os.getpid()}:"
    small = {"replications": 12, "workload__0__count": 3000}
    farm.sweep("mm1", VARY, out=tmp_path / "local", **small)
    command = (
        f"{sys.executable} -m farm sweep mm1 --vary scheduling.policy=fifo,sjf -n 12 "
        f"--set workload.0.count=3000 --redis {server.url} --out {tmp_path / 'remote'}"
    ).split()
    with ExitStack() as stack:
        first = stack.enter_context(worker(server, prefix, "first"))
        stack.enter_context(worker(server, prefix, "second"))
        environment = environment_of_another(FARM_PREFIX=prefix)
        sweep = stack.enter_context(subprocess.Popen(command, env=environment))
        stack.callback(sweep.kill)
        deadline = time.monotonic() + 120
        while len(list((tmp_path / "remote" / "finished").glob("*.json"))) < 3:
            assert sweep.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGKILL)
        assert sweep.wait(timeout=240) == 0
    for name in ("table.csv", "runs.csv", "sweep.json"):
        local, remote = (tmp_path / where / name for where in ("local", "remote"))
        assert local.read_bytes() == remote.read_bytes()


@pytest.mark.live
def test_a_sweep_without_workers_names_the_command_to_start_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting is bounded, and the message names the command."""
    monkeypatch.setattr(remote_calls, "PATIENCE", 0.0)
    monkeypatch.setenv("FARM_PREFIX", f"unused{os.getpid()}:")
    with pytest.raises(RunError, match=r"celery -A farm\.app\.sweeps\.worker"):
        farm.sweep("mm1", replications=1, redis=server.url, workload__0__count=5)
