"""Burning processes: they do their work, are killed at once, and outlive nobody."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from farm.core.errors import InputError
from workers.limits import own_cores
from workers.stress import Burners, BurnSettings, parse_rates, rates_text

from .conftest import TINY, await_gone, is_alive, processes_under

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")


@pytest.mark.parametrize("mode", ["stress", "memory", "mixed"])
def test_a_job_burns_and_ends(fire, mode):
    """Each mode does its work, tells once that it is done, and leaves no process."""
    one = fire()
    one.start(mode, 0.5, threads=2)
    error, cpu = one.end()
    assert error is None
    assert cpu > 0
    assert processes_under(one.burners.pid) == []


def test_twice_the_threads_is_twice_the_work(fire):
    """Every thread does the whole work: processor time grows with both, wide margins."""
    one = fire(rates={"cpu": 900.0, "memory": 1.0})
    spent = []
    for seconds, threads in ((0.05, 1), (0.05, 4), (0.2, 1)):
        one.start("stress", seconds, threads=threads)
        spent.append(one.end()[1])
    assert spent[1] > 1.8 * spent[0]
    assert spent[2] > 1.8 * spent[0]


def test_so_many_threads_so_many_processes(fire):
    """``threads`` processes burn, in a process group of their own, niced, on the cores given."""
    one = fire()
    core = own_cores()[-1]
    pids = one.burn_for_ever(threads=3, cores=[core])
    assert len(pids) == 3
    assert len({os.getpgid(pid) for pid in pids}) == 1
    assert os.getpgid(pids[0]) not in (os.getpgid(0), os.getpgid(one.burners.pid))
    for pid in pids:
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
        assert os.sched_getaffinity(pid) == {core}


def test_killed_means_gone_and_the_others_burn_on(fire):
    """A cancelled job is gone at once, nobody is told, its neighbour does not notice."""
    one = fire()
    neighbour = one.burn_for_ever(threads=1)
    number = one.start("stress", None, 2)
    assert one.burners.await_burning(number, 60)
    doomed = [pid for pid in processes_under(one.burners.pid) if pid not in neighbour]
    assert len(doomed) == 2
    one.burners.kill(number)
    await_gone(doomed)
    assert all(is_alive(pid) for pid in neighbour)
    assert one.told.empty()


def test_a_process_that_is_killed_by_somebody_fails_its_job(fire):
    """The kernel's memory killer, say: the job fails and says by what."""
    one = fire()
    for pid in one.burn_for_ever(threads=2):
        os.kill(pid, signal.SIGKILL)
    assert one.end()[0] == "a burning process was killed by signal 9"


def test_closing_leaves_nothing(fire):
    """A host that goes takes what burns with it."""
    one = fire()
    pids = one.burn_for_ever(threads=2)
    one.burners.close()
    await_gone(pids)


def test_a_killed_burner_program_leaves_nothing_and_is_replaced(fire):
    """SIGKILL at the program in the middle: its processes go, its jobs fail, the next job runs."""
    one = fire()
    pids = one.burn_for_ever(threads=2)
    os.kill(one.burners.pid, signal.SIGKILL)
    await_gone(pids)
    assert "burner program" in one.end()[0]
    one.start("stress", 0.1)
    assert one.end()[0] is None


HOST = """
import sys, time
from workers.stress import Burners, BurnSettings
burners = Burners(BurnSettings(burner=sys.argv[1], rates={"cpu": 900.0, "stress_ng": 2000.0}))
number = burners.start("stress", None, 2, print)
assert burners.await_burning(number, 60)
print(burners.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("burner", ["own", "stress-ng"])
def test_nothing_outlives_a_host_that_is_killed(burner, tool):
    """SIGKILL at the host: program and burning processes are gone within bounded time."""
    if burner == "stress-ng":
        tool("stress-ng")
    host = subprocess.Popen([sys.executable, "-c", HOST, burner], stdout=subprocess.PIPE, text=True)
    program = int(host.stdout.readline())
    pids = processes_under(program)
    assert len(pids) >= 2
    host.kill()
    host.communicate()
    await_gone([program, *pids])


def test_stress_ng_burns_a_bounded_amount_and_can_be_killed(fire, tool):
    """With stress-ng: the work ends of itself; a kill takes its helpers too."""
    tool("stress-ng")
    one = fire(burner="stress-ng")
    one.start("stress", 0.5, threads=2)
    assert one.end()[0] is None
    number = one.start("stress", None, 2)
    assert one.burners.await_burning(number, 60)
    pids = processes_under(one.burners.pid)
    one.burners.kill(number)
    await_gone(pids)


def test_rates_are_measured_when_nobody_gives_them(fire):
    """An idle core's units of work in a second, for each kernel of our own."""
    rates = fire(rates={}).burners.rates()
    assert set(rates) == {"cpu", "memory"}
    assert all(rate > 0 for rate in rates.values())


def test_rates_as_text():
    """What the environment says is what was written there."""
    assert parse_rates(rates_text(TINY)) == TINY
    assert parse_rates("") == {}


@pytest.mark.parametrize("text", ["cpu", "cpu=0", "cpu=inf", "cpu=nan", "gpu=3", "cpu=-1"])
def test_bad_rates_are_one_message(text):
    """The variable, what was found, what is allowed."""
    with pytest.raises(InputError, match=f"FARM_WORK_RATES: found '{text}'; allowed"):
        parse_rates(text)


def test_a_burner_that_is_not_there_is_one_message(monkeypatch):
    """Asked for by name it must be installed; any other name is refused."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(InputError, match="stress-ng is not installed"):
        Burners(BurnSettings(burner="stress-ng"))
    with pytest.raises(InputError, match="FARM_BURNER: found 'gpu'"):
        Burners(BurnSettings(burner="gpu"))
