"""The supervisor: it sleeps until a service ends, restarts it, and keeps logs small."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from farm.core.errors import RunError, ServerError
from farm.live.redis.connection import connect
from farm.live.redis.server import EmbeddedServer, GivenServer
from farm.processes import log_files
from farm.processes.identity import began_at, is_alive
from farm.processes.signals import Wakeups
from farm.processes.supervisor import (
    EARLY_END_TIME,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MAX_EARLY_ENDS,
    Restarts,
    Service,
    Supervisor,
)

pytestmark = pytest.mark.live
#: longer than a test may take: a wait that ends by time fails
FOREVER = 600.0


@pytest.fixture
def keep(tmp_path: Path):
    """Make a supervisor of one service, a module with this text; stopped at the end."""
    made: list[Supervisor] = []

    def make(text: str) -> Supervisor:
        (tmp_path / "kept.py").write_text(text)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        made.append(Supervisor([Service("service", ("kept",))], tmp_path, environment))
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.stop()


STAYS = "import time; time.sleep(600)"


def ends_with(code: int) -> str:
    """Return a service that ends at once."""
    return f"print('what it said', flush=True); raise SystemExit({code})"


def raises(error: Exception) -> Callable[..., None]:
    """Return a function that raises this error."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def until_gone(supervisor: Supervisor, wakeups: Wakeups) -> None:
    """Wait for the end of the service."""
    while (process := supervisor.process("service")) is None or process.poll() is None:
        wakeups.wait(FOREVER)


@pytest.fixture
def requests() -> list[int]:
    """The received stop requests."""
    return []


@pytest.fixture
def wakeups(requests: list[int]):
    """Signals to wait for."""
    with Wakeups(requests.append) as caught:
        yield caught


def test_a_wait_ends_with_a_signal_also_one_that_came_before_it(wakeups, requests):
    """There is no polling: the end of a child and a stop request wake the keeper."""
    os.kill(os.getpid(), signal.SIGTERM)
    wakeups.wait(FOREVER)
    assert requests == [signal.SIGTERM]
    with subprocess.Popen(["sleep", "0.05"]) as child:
        while child.poll() is None:
            wakeups.wait(FOREVER)
    os.kill(os.getpid(), signal.SIGINT)
    wakeups.wait(FOREVER)
    assert requests == [signal.SIGTERM, signal.SIGINT]


def test_a_service_that_ends_is_restarted_after_a_pause_that_doubles(keep, wakeups, monkeypatch):
    """And given up when that has happened too often in a row, with its last words."""
    monkeypatch.setattr("farm.processes.supervisor.FIRST_PAUSE", 0.01)
    supervisor = keep(ends_with(1))
    pauses = []
    supervisor.start()
    for _ in range(MAX_EARLY_ENDS - 1):
        until_gone(supervisor, wakeups)
        pauses.append(supervisor.check())
        while supervisor.process("service") is None:
            wakeups.wait(supervisor.check())
    assert all(after > 1.5 * before for before, after in itertools.pairwise(pauses))
    until_gone(supervisor, wakeups)
    with pytest.raises(RunError, match=r"exit code 1 .6 times in a row.*what it said"):
        supervisor.check()


def test_a_service_that_worked_for_a_while_is_restarted_at_once():
    """However often that happens; only a service that ends soon after its start has to wait."""
    restarts = Restarts()
    begin = time.monotonic()
    pauses = [restarts.pause(begin + EARLY_END_TIME * 1.5 * number) for number in range(1, 9)]
    assert pauses == [FIRST_PAUSE] * 8
    assert restarts.pause(begin + EARLY_END_TIME * 12.1) == 2 * FIRST_PAUSE


def test_pauses_stay_bounded_however_often_it_ends():
    """A disk may be full for a day: a service that ends repeatedly is restarted after a pause."""
    restarts, at = Restarts(), time.monotonic()
    for _ in range(2000):
        at += restarts.pause(at)
    assert restarts.pause(at) == LONGEST_PAUSE


def test_a_permanent_error_ends_a_farm_that_never_was_up(keep, wakeups):
    """Once it was up, its server may just be away temporarily."""
    for settled in (False, True):
        supervisor = keep(ends_with(2))
        supervisor.settled = settled
        supervisor.start()
        until_gone(supervisor, wakeups)
        if settled:
            assert supervisor.check() < FOREVER
        else:
            with pytest.raises(ServerError, match="exit code 2"):
                supervisor.check()


@pytest.mark.parametrize(
    ("code", "settled"),
    [(1, True), *(pytest.param(code, False, marks=pytest.mark.slow) for code in (1, 2))],
)
def test_a_service_is_not_given_up_while_the_disk_is_full(
    keep, wakeups, monkeypatch, code: int, settled: bool
):
    """It cannot work, also while the farm comes up; with space the next try succeeds."""
    monkeypatch.setattr("farm.processes.supervisor.FIRST_PAUSE", 0.0)
    monkeypatch.setattr("farm.processes.supervisor.takes_writes", lambda _: False)
    supervisor = keep(ends_with(code))
    supervisor.settled = settled
    supervisor.start()
    for _ in range(MAX_EARLY_ENDS + 1):
        until_gone(supervisor, wakeups)
        supervisor.check()


def test_a_service_that_the_system_does_not_start_is_tried_again(
    keep, wakeups, monkeypatch, caplog
):
    """A keeper without file descriptors ended, and with it the farm's server and all hosts."""
    monkeypatch.setattr("farm.processes.supervisor.FIRST_PAUSE", 0.0)
    supervisor = keep(ends_with(1))
    supervisor.start()
    until_gone(supervisor, wakeups)
    with monkeypatch.context() as shortage:
        error = OSError(errno.EMFILE, "too many open files")
        shortage.setattr(supervisor, "_start", raises(error))
        for _ in range(2 * MAX_EARLY_ENDS):
            assert 0 < supervisor.check() < 10
            supervisor._running["service"].restarts.not_before = 0.0
    supervisor.check()
    assert supervisor.process("service") is not None
    assert len([line for line in caplog.messages if "cannot be started" in line]) == 1


def test_a_process_that_cannot_be_looked_at_is_not_taken_for_dead(monkeypatch):
    """Without file descriptors every process had ended: a standby took a healthy farm over."""
    pid, began = os.getpid(), began_at(os.getpid())
    assert is_alive(pid, began)
    assert not is_alive(pid, "another one")
    with monkeypatch.context() as shortage:
        shortage.setattr("builtins.open", raises(OSError(errno.EMFILE, "too many open files")))
        assert is_alive(pid, began)
        assert began_at(pid) == ""


def test_a_paused_service_is_woken_to_end(keep, wakeups):
    """It kept what others wait for, such as the lock of the event log, until it was killed."""
    supervisor = keep(STAYS)
    supervisor.start()
    process = supervisor.process("service")
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    supervisor.terminate()
    assert process.wait(10) == -signal.SIGTERM


def test_nothing_is_due_while_all_is_well(keep, wakeups):
    """So its keeper may sleep."""
    supervisor = keep(STAYS)
    supervisor.start()
    assert supervisor.check() == float("inf")


def test_a_large_log_is_truncated_while_its_writer_keeps_it_open(tmp_path: Path):
    """Two of each are kept; the writer continues at the beginning."""
    path = tmp_path / "hosts" / "host-1.log"
    path.parent.mkdir()
    with path.open("ab", buffering=0) as writer:
        writer.write(b"old line\n" * 100)
        log_files.tidy(tmp_path, max_bytes=2000)
        assert path.stat().st_size == 900  # not yet
        writer.write(b"newer line\n" * 200)
        log_files.tidy(tmp_path, max_bytes=2000)
        writer.write(b"the newest\n")
    assert path.read_text() == "the newest\n"
    assert path.with_name("host-1.log.1").read_text().startswith("old line\nold line\n")
    assert log_files.last_line(path) == "the newest"


def test_logs_of_former_hosts_are_deleted_eventually(tmp_path: Path):
    """The oldest first; those of live hosts stay."""
    hosts = tmp_path / "hosts"
    hosts.mkdir()
    for number in range(6):
        path = hosts / f"host-{number}.log"
        path.write_text("said something")
        os.utime(path, (number, number))
    (hosts / "host-0.log.1").write_text("long ago")
    (hosts / "host-1.json").write_text("{}")
    log_files.tidy(tmp_path, max_old=2)
    left = sorted(path.name for path in hosts.glob("*.log*"))
    assert left == ["host-1.log", "host-4.log", "host-5.log"]


def test_last_words_are_those_of_this_life(tmp_path: Path):
    """A process without output does not show the words of its predecessor."""
    path = tmp_path / "farm.log"
    path.write_bytes(b"error: of the last life\n")
    before = path.stat().st_size
    assert log_files.last_line(path, before) == "nothing"
    with path.open("ab") as file:
        file.write(b"x" * 200_000 + b"\nerror: of this one\n\n")
    assert log_files.last_line(path, before) == "error: of this one"
    assert log_files.last_line(tmp_path / "absent.log") == "nothing"


def test_a_killed_server_comes_back_at_its_address_with_its_data(server, tmp_path):
    """Its clients need not notice."""
    with EmbeddedServer(server.binary, data=tmp_path / "data") as ours:
        assert not ours.revive()
        with closing(connect(ours.url, "test")) as client:
            client.set("key", "value")
        url, pid = ours.url, ours.pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ours.revive()
        assert (ours.url, ours.pid != pid) == (url, True)
        with closing(connect(url, "test")) as client:
            assert client.get("key") == b"value"
    assert not ours.revive()
    with GivenServer(server.url) as given:
        assert not given.revive()
