"""Burning processes: they do their work, are killed at once, and leave no orphans."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from farm.app.calibrating.work_rates import rates_text
from farm.core.errors import InputError
from farm.processes.identity import began_at
from tests.fixtures.processes import await_gone
from workers.burn.burn_server import FORKS_AT_ONCE, BurnServer
from workers.burn.burning_jobs import Burners, BurnSettings, parse_rates
from workers.burn.kernels import MIB
from workers.burn.limits import own_cores

from .conftest import PATIENCE, TINY, processes_under

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")


@pytest.mark.parametrize("mode", ["stress", "memory", "mixed"])
def test_a_job_burns_and_ends(fire, mode):
    """Each mode does its work, reports its end once, and leaves no process."""
    one = fire()
    one.start(mode, 0.5, threads=2)
    burnt = one.end()
    assert burnt.error is None
    assert burnt.cpu > 0
    assert burnt.real > 0
    assert processes_under(one.burners.pid) == []


@pytest.mark.slow
def test_twice_the_threads_is_twice_the_work(fire):
    """Every thread does the whole work: processor time grows with both, wide margins."""
    one = fire(rates={"cpu": 900.0, "memory": 1.0})
    spent = []
    for seconds, threads in ((0.05, 1), (0.05, 4), (0.2, 1)):
        one.start("stress", seconds, threads=threads)
        spent.append(one.end().cpu)
    assert spent[1] > 1.8 * spent[0]
    assert spent[2] > 1.8 * spent[0]


def test_one_process_per_thread(fire):
    """``threads`` processes burn, in a new process group, niced, on the given cores."""
    one = fire()
    core = own_cores()[-1]
    pids = one.burn_forever(threads=3, cores=[core])
    assert len(pids) == 3
    assert len({os.getpgid(pid) for pid in pids}) == 1
    assert os.getpgid(pids[0]) not in (os.getpgid(0), os.getpgid(one.burners.pid))
    nicer = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 1)  # 19 is the end of the scale
    for pid in pids:
        assert os.getpriority(os.PRIO_PROCESS, pid) >= nicer
        assert os.sched_getaffinity(pid) == {core}


def test_killed_means_gone_and_the_others_continue(fire):
    """A cancelled job is gone at once, without a report, and its neighbour is not affected."""
    one = fire()
    neighbour = one.burn_forever(threads=1)
    number, doomed = one.burn_beside(threads=2)
    assert len(doomed) == 2
    one.burners.kill(number)
    await_gone(doomed)
    assert all(began_at(pid) for pid in neighbour)
    assert one.told.empty()


def test_an_externally_killed_process_fails_its_job(fire):
    """The kernel's memory killer, for example: the job fails and names the signal."""
    one = fire()
    for pid in one.burn_forever(threads=2):
        os.kill(pid, signal.SIGKILL)
    assert one.end().error == "a burning process was killed by signal 9"


def test_closing_leaves_nothing(fire):
    """A host that ends stops its burning processes."""
    one = fire()
    pids = one.burn_forever(threads=2)
    one.burners.close()
    await_gone(pids)


def test_a_killed_burner_program_leaves_nothing_and_is_replaced(fire):
    """After SIGKILL at the program its processes end, its jobs fail, the next job runs."""
    one = fire()
    pids = one.burn_forever(threads=2)
    os.kill(one.burners.pid, signal.SIGKILL)
    await_gone(pids)
    assert "burner program" in one.end().error
    one.start("stress", 0.1)
    assert one.end().error is None


def test_an_error_in_a_callback_leaves_no_job_without_an_end(fire, monkeypatch):
    """The reader thread ends, and the program with it: all its jobs fail, with a reason."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    one = fire()
    one.burn_forever()
    one.burners.start("stress", 0.001, 1, lambda: None)  # which takes no Burnt
    assert "burner program" in one.end().error


HOST = """
import sys, time
from workers.burn.burning_jobs import Burners, BurnSettings
burners = Burners(BurnSettings(burner=sys.argv[1], rates={"cpu": 900.0, "stress_ng": 2000.0}))
number = burners.start("stress", None, 2, print)
assert burners.await_burning(number, 60)
print(burners.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("burner", "stopped"), [("own", None), ("stress-ng", None), ("own", "program"), ("own", "host")]
)
def test_nothing_outlives_a_host_that_is_killed(burner, stopped, tool):
    """Also if it, or the program, is stopped: all burning processes end within bounded time."""
    if burner == "stress-ng":
        tool("stress-ng")
    host = subprocess.Popen([sys.executable, "-c", HOST, burner], stdout=subprocess.PIPE, text=True)
    program = int(host.stdout.readline())
    pids = processes_under(program)
    assert len(pids) >= 2
    if stopped is not None:
        os.kill(program if stopped == "program" else host.pid, signal.SIGSTOP)
    host.kill()
    host.communicate()
    await_gone([program, *pids])


THREAD = """
import sys, threading, time
from workers.burn.burning_jobs import Burners, BurnSettings
burners = Burners(BurnSettings(burner="own", rates={"cpu": 900.0}))
number = []
start = lambda: number.append(burners.start("stress", None, 1, print))
thread = threading.Thread(target=start)
thread.start()
thread.join()
assert burners.await_burning(number[0], 60)
sys.stdin.readline()
print("burns" if burners.pid else "ended", flush=True)
burners.close()
"""


def test_the_end_of_a_thread_ends_nothing():
    """Linux kills a child with the *thread* that started it, not with the one that requested it."""
    host = subprocess.Popen(
        [sys.executable, "-c", THREAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert host.communicate("go\n")[0] == "burns\n"


def test_the_memory_killer_takes_burning_processes_first(fire):
    """Never the host, which has the reports of all the others."""
    (pid,) = fire().burn_forever()
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"


@pytest.mark.slow
def test_two_hundred_jobs_at_once(fire):
    """All of them burn soon, though they crowd the processors, and all end when killed."""
    one = fire()
    numbers = [one.start("stress", None) for _ in range(200)]
    assert all(one.burners.await_burning(number, PATIENCE) for number in numbers)
    pids = processes_under(one.burners.pid)
    assert len(pids) == 200
    for number in numbers:
        one.burners.kill(number)
    await_gone(pids)


def test_a_job_of_many_threads_is_started_in_steps_that_a_cancel_ends(monkeypatch, capfd):
    """All were forked before the next request was read: nothing could stop a thousand."""
    server, forked = BurnServer({"rates": TINY}), iter(range(100_000, 200_000))
    monkeypatch.setattr(os, "fork", lambda: next(forked))
    monkeypatch.setattr(os, "setpgid", lambda *_: None)
    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _: killed.append(group))
    for number in (1, 2):
        server.handle({"job": number, "mode": "stress", "threads": 100, "seconds": 0.1})
    assert server._start_some()
    assert [len(group.alive) for group in server._groups.values()] == [FORKS_AT_ONCE] * 2
    server.handle({"kill": 1})
    while server._start_some():
        pass
    assert [len(group.alive) for group in server._groups.values()] == [FORKS_AT_ONCE, 100]
    assert killed == [100_000]
    server.handle({"job": 3, "mode": "stress", "threads": 100, "seconds": 0.1})
    server.handle({"kill": 3})
    assert json.loads(capfd.readouterr().out)["job"] == 3


def test_a_job_whose_first_processes_have_ended_starts_the_others_all_the_same(fire):
    """They were to join a process group that was gone."""
    one = fire()
    one.start("stress", 0.001, threads=3 * FORKS_AT_ONCE)
    assert one.end().error is None


def test_a_job_that_cannot_start_fails_with_a_reason(monkeypatch, capfd):
    """Out of processes, for example: one job fails with the system's message, the next is tried."""
    server = BurnServer({"rates": TINY})
    monkeypatch.setattr(os, "fork", lambda: os.close(4095))
    for number in (1, 2):
        server.handle({"job": number, "mode": "stress", "threads": 2, "seconds": 0.1})
    assert not server._start_some()
    answers = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(told["job"], told["error"]) for told in answers] == [
        (number, "cannot start a burning process: Bad file descriptor") for number in (1, 2)
    ]


def test_missing_processors_fail_the_job(fire):
    """The reason is the processors, not an exit code."""
    one = fire()
    one.start("stress", 0.1, cores=[4095])
    assert one.end().error == "a burning process may not run on its builder's processors"


def test_a_walk_without_memory_fails_its_job(fire):
    """The buffer cannot be allocated: the reason is reported, and the program continues."""
    one = fire()
    neighbour = one.burn_forever()
    # the smallest buffer is larger than what is left
    limit = psutil.Process(one.burners.pid).memory_info().vms + MIB
    resource.prlimit(one.burners.pid, resource.RLIMIT_AS, (limit, limit))
    one.start("memory", 0.1)
    assert one.end().error == "a burning process found no memory for its buffer"
    assert all(began_at(pid) for pid in neighbour)


@pytest.mark.slow
def test_filling_the_buffer_is_part_of_the_work(fire):
    """A walk without length still fills its buffer; a longer one walks that much less."""
    one = fire(rates={"cpu": 900.0, "memory": 1000.0})
    spent: dict[float, list[float]] = {0.001: [], 0.05: []}
    for seconds, costs in [*spent.items()] * 3:
        one.start("memory", seconds)
        costs.append(one.end().cpu)
    # what runs beside it makes some walks dearer
    assert min(spent[0.05]) < 3 * min(spent[0.001])


def test_a_program_that_cannot_be_started_fails_its_jobs(fire, monkeypatch):
    """Out of processes, for example: the job fails, and no caller waits forever."""

    def refuse(*_: object, **__: Any):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    one = fire()
    monkeypatch.setattr(subprocess, "Popen", refuse)
    one.start("stress", 0.1)
    assert one.end().error == (
        "the burner program cannot be started: Resource temporarily unavailable"
    )


def test_rates_are_measured_by_default(fire):
    """An idle core's units of work in a second, for each built-in kernel."""
    rates = fire(rates={}).burners.rates(turns=1)
    assert set(rates) == {"cpu", "memory"}
    assert all(rate > 0 for rate in rates.values())


def test_rates_as_text():
    """The environment's text is read back exactly."""
    assert parse_rates(rates_text(TINY)) == TINY
    assert parse_rates("") == {}


@pytest.mark.parametrize(
    "text", ["cpu", "cpu=0", "cpu=inf", "cpu=nan", "gpu=3", "cpu=-1", "cpu=1e300", "memory=1e-9"]
)
def test_bad_rates_are_one_message(text):
    """The variable, what was found, what is allowed; given twice, it is unclear what was meant."""
    with pytest.raises(InputError, match=f"FARM_WORK_RATES: found '{text}'; allowed"):
        parse_rates(text)
    with pytest.raises(InputError, match="FARM_WORK_RATES: found cpu twice; allowed: once"):
        parse_rates("cpu=900, cpu=800")


def test_a_missing_burner_is_one_message(monkeypatch):
    """If selected by name it must be installed; any other name is refused."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(InputError, match="stress-ng is not installed"):
        Burners(BurnSettings(burner="stress-ng"))
    with pytest.raises(InputError, match="FARM_BURNER: found 'gpu'"):
        Burners(BurnSettings(burner="gpu"))
