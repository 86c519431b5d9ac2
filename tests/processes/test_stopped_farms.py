"""A live farm as a process: Ctrl-C, and what is left when it is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from tests.fixtures.processes import await_gone

pytestmark = pytest.mark.live

FARM = """
import sys
from farm.core.commands import log_name
from farm.core.model import Job, Platform
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.pools.spec import PoolSpec
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.live.live_options import LiveOptions
from farm.live.run import Watchers, run_live

# submitted together: no process is stopped between two of them
jobs = [(0.0, tuple(
    Job(id=str(n), service_time=float(sys.argv[1]), platform=Platform("x", True)) for n in range(6)
))]
started = []

def observe(event, commands):
    if log_name(type(event)) == "job-started":
        started.append(event.job)
        if len(started) == 2:
            print("started", flush=True)

pools = [PoolSpec(name="p", processors=("x",), builders=2)]
run = run_live(
    Scheduler(SchedulingRules(), make_estimator("oracle"), pools),
    pools,
    jobs,
    LiveOptions(speed=1.0, hosts=int(sys.argv[2])),
    Watchers(observe=observe,
    on_up=lambda world, hosts: print("pids", *(h.pid for h in hosts.alive), flush=True)))
print("interrupted" if run.interrupted else "done", sorted(run.status.ended.items()), flush=True)
"""


class Running:
    """The farm above, as a separate process, with two running jobs."""

    def __init__(self, service_time: float, hosts: int = 2) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", FARM, str(service_time), str(hosts)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert re.fullmatch(rf"pids( \d+){{{hosts}}}\n", self.process.stdout.readline())
        assert self.process.stdout.readline() == "started\n"
        self.children = {p.pid for p in psutil.Process(self.process.pid).children()}
        assert len(self.children) == hosts + 1  # and the server


@pytest.mark.parametrize(
    "kind", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_one_signal_lets_running_jobs_end(kind):
    """Waiting jobs are cancelled, the two running ones succeed, nothing is left or printed."""
    running = Running(service_time=2.0, hosts=1)
    running.process.send_signal(kind)
    out, errors = running.process.communicate(timeout=240)
    assert out == "interrupted [('cancelled', 4), ('succeeded', 2)]\n"
    assert errors == ""
    assert running.process.returncode == 0
    await_gone(running.children)


@pytest.mark.slow
def test_two_signals_end_it_at_once():
    """Running jobs are cancelled too."""
    running = Running(service_time=1e6)
    running.process.send_signal(signal.SIGINT)
    running.process.send_signal(signal.SIGTERM)  # two of one kind at once may arrive as one
    out, errors = running.process.communicate(timeout=240)
    assert out == "interrupted [('cancelled', 6)]\n"
    assert errors == ""
    await_gone(running.children)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_a_killed_farm_leaves_no_process():
    """After SIGKILL at the farm, its hosts and its server end."""
    running = Running(service_time=1e6)
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.communicate(timeout=240)
    await_gone(running.children)
