"""The process backend: as many hosts as builders need room."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm.live.host_processes import BUILDERS_PER_HOST, MISSING_TIME
from farm.live.settings import LiveSettings
from farm.live.wire.pool_report import HostRecord
from farm.processes.identity import began_at
from provisioner.backends import process
from provisioner.backends.backend import BackendError
from provisioner.backends.process import AdoptedHost, HostFile, ProcessBackend
from tests.provisioner.tended import Tended, report


class FakeHost:
    """A host that lives until the test, or its backend, kills it."""

    def __init__(self, settings: LiveSettings, log: Path, **_: Any) -> None:
        self.name = settings.host
        self.log = log
        self.pid = os.getpid()
        self.exit_code: int | None = None
        self.is_told_to_end = False
        self.broke_down_at_once = False

    def terminate(self) -> None:
        """Take note."""
        self.is_told_to_end = True

    def kill(self) -> None:
        """End."""
        self.exit_code = -9

    def wait(self, timeout: float) -> bool:
        """Return whether it has ended."""
        del timeout
        return self.exit_code is not None

    def close(self) -> None:
        """Refuse to be forgotten while it lives."""
        assert self.exit_code is not None


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[FakeHost]:
    """All hosts that are started, fake ones."""
    hosts: list[FakeHost] = []

    class Recorded(FakeHost):
        def __init__(self, *values: Any, **more: Any) -> None:
            super().__init__(*values, **more)
            hosts.append(self)

    monkeypatch.setattr(process, "HostProcess", Recorded)
    return hosts


@pytest.mark.parametrize(
    ("room", "builders", "hosts"),
    [(0, 0, 1), (0, BUILDERS_PER_HOST, 1), (0, BUILDERS_PER_HOST + 1, 2), (1, 3, 3), (2, 5, 3)],
)
def test_hosts_have_room_for_all_builders(tmp_path: Path, room: int, builders: int, hosts: int):
    """A host is counted on for the room that it was told to announce."""
    backend = ProcessBackend(LiveSettings(room=room), tmp_path, keeper_pipe=True)
    reports = {"p": report("p", builders), "q": report("q", 4, elsewhere=4)}
    assert backend.tend(reports, {}) == {}
    assert len(backend.hosts) == hosts


def test_spare_hosts_are_ended_and_no_others(tmp_path, monkeypatch, started):
    """A host that was told to end is no longer counted, although it takes a while to do so."""
    now = [0.0]
    backend = ProcessBackend(LiveSettings(room=1), tmp_path, keeper_pipe=True, clock=lambda: now[0])
    backend.tend({"p": report("p", 3)}, {})
    idle = {name: HostRecord(name, 0) for name in backend.hosts}
    for at in range(2 * int(process.SPARE_TIME)):
        now[0] = float(at)
        backend.tend({"p": report("p", 1)}, idle)
    assert sum(host.is_told_to_end for host in started) == 2
    # builders that are requested just then find room without waiting for their end
    backend.tend({"p": report("p", 2)}, idle)
    assert [host.is_told_to_end for host in started].count(False) == 2
    for host in started:
        host.exit_code = 0 if host.is_told_to_end else None
    backend.tend({"p": report("p", 2)}, idle)
    assert [host.is_told_to_end for host in backend.hosts.values()] == [False, False]


@pytest.mark.parametrize("is_announced", [True, False], ids=["announced", "lives on"])
def test_failed_starts_are_over_with_a_host_that_comes_up(tmp_path, started, is_announced):
    """Operators see the failure until then, not until some host ends."""
    now = [0.0]
    backend = ProcessBackend(LiveSettings(), tmp_path, keeper_pipe=True, clock=lambda: now[0])
    backend.tend({}, {})
    started[0].exit_code, started[0].broke_down_at_once = 1, True
    assert "fail at their start" in backend.tend({}, {})[""]
    now[0] = 1.0
    assert "fail at their start" in backend.tend({}, {})[""]  # one has been started
    hosts = {started[1].name: HostRecord(started[1].name, 0)} if is_announced else {}
    now[0] += 0.5 if is_announced else process.TOO_SOON
    assert backend.tend({}, hosts) == {}


def test_healthy_hosts_do_not_end_the_pause_after_failed_starts(tmp_path, started):
    """The pause doubles while new hosts fail, whatever becomes of older ones."""
    now = [0.0]
    backend = ProcessBackend(LiveSettings(room=1), tmp_path, keeper_pipe=True, clock=lambda: now[0])
    backend.tend({"p": report("p", 2)}, {})
    hosts = {host.name: HostRecord(host.name, 1) for host in started}
    for now[0] in range(60):
        for host in started[2:]:
            host.exit_code, host.broke_down_at_once = 1, True
        if now[0] == 50.0:
            started[0].exit_code = -9
        troubles = backend.tend({"p": report("p", 3)}, hosts)
    assert "fail at their start" in troubles[""]
    assert len(started) == 2 + 6  # after pauses of 1, 2, 4, 8 and 16 s


def test_a_host_that_cannot_be_recorded_is_ended(tmp_path, monkeypatch, started):
    """On a full disk: a provisioner that starts again could not adopt it; later all is well."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    backend = ProcessBackend(LiveSettings(), tmp_path, keeper_pipe=True)
    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_bytes", full)
        with pytest.raises(BackendError, match="No space left"):
            backend.tend({}, {})
    assert backend.hosts == {}
    assert [host.exit_code for host in started] == [-9]
    assert list(tmp_path.iterdir()) == []
    backend.tend({}, {})
    assert [path.stem for path in tmp_path.iterdir()] == list(backend.hosts) == [started[1].name]


class Missing(Tended):
    """A backend for two builders, some of whose hosts the scheduler does not know."""

    def __init__(self, folder: Path, started: list[FakeHost]) -> None:
        super().__init__()
        self.need = {"p": 2}
        self.started = started
        settings = LiveSettings(room=1)
        self.backend = ProcessBackend(settings, folder, keeper_pipe=True, clock=lambda: self.now)
        #: numbers of the hosts that the scheduler does not know
        self.unknown: set[int] = set()

    def tend(self, seconds: float) -> str:
        """Return the trouble of the last second."""
        return self.look(int(seconds)).get("", "")

    def hosts(self) -> dict[str, HostRecord]:
        numbered = enumerate(self.started)
        names = [one.name for number, one in numbered if number not in self.unknown]
        return {name: HostRecord(name, 1) for name in names}

    @property
    def killed(self) -> list[int]:
        return [n for n, host in enumerate(self.started) if host.exit_code == -9]


def test_a_host_that_lives_but_is_missing_is_replaced(tmp_path, started):
    """Lost, and out of reach of the command to begin a new life, it would be counted for good."""
    farm = Missing(tmp_path, started)
    farm.unknown = {1}
    assert farm.tend(MISSING_TIME) == ""
    assert farm.killed == []
    farm.unknown.add(2)  # its successor takes a while
    assert f"{started[1].name} lived, but was missing for {MISSING_TIME:g}s" in farm.tend(20)
    assert farm.killed == [1]
    assert len(started) == 3
    farm.unknown.clear()
    assert farm.tend(2 * MISSING_TIME) == ""
    assert len(started) == 3


def test_missing_hosts_are_replaced_one_at_a_time(tmp_path, started):
    """All of them may be slow to come up, on a slow machine: ending them would not help."""
    farm = Missing(tmp_path, started)
    farm.unknown = {0, 1}
    farm.tend(MISSING_TIME + 5)
    assert farm.killed == [0]
    farm.tend(MISSING_TIME + 5)
    assert farm.killed == [0, 1]


def test_no_host_is_missing_while_the_scheduler_says_nothing(tmp_path, started):
    """Without a scheduler its old list of hosts stands; one that took over knows none at first."""
    farm = Missing(tmp_path, started)
    farm.tend(2)
    farm.unknown = {0, 1}
    old = {"p": report("p", 2, at=farm.now)}
    for _ in range(int(3 * MISSING_TIME)):
        farm.now += 1.0
        farm.backend.tend(old, farm.hosts())
    farm.tend(MISSING_TIME - 5)
    assert farm.killed == []
    farm.tend(10)
    assert farm.killed == [0]


def test_an_adopted_host_can_be_killed(tmp_path):
    """A stopped process takes no other signal."""
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            child.send_signal(signal.SIGSTOP)
            AdoptedHost("a", HostFile(child.pid, began_at(child.pid))).kill()
            assert child.wait(30) == -signal.SIGKILL
        finally:
            child.kill()


def test_hosts_are_adopted_by_name_and_end_with_this_process_only_without_a_keeper(
    tmp_path, monkeypatch, started
):
    """A provisioner that restarts would start others beside them, and leave files behind."""
    keeper = ProcessBackend(LiveSettings(), tmp_path, keeper_pipe=True)
    keeper.tend({}, {})
    [name] = keeper.hosts
    keeper.close()
    assert started[0].is_told_to_end is False
    (tmp_path / f"{name}.json").write_bytes(
        msgspec.json.encode(HostFile(os.getpid(), began_at(os.getpid())))
    )

    alone = ProcessBackend(LiveSettings(), tmp_path)
    [adopted] = alone.hosts.values()
    assert (adopted.name, adopted.pid) == (name, os.getpid())
    fake = FakeHost(LiveSettings(host=name), tmp_path)
    monkeypatch.setattr(fake, "terminate", lambda: setattr(fake, "exit_code", 0))
    alone.hosts[name] = fake
    alone.close()
    assert alone.hosts == {}
    assert list(tmp_path.iterdir()) == []


def test_what_one_pool_reports_late_is_no_news(tmp_path, started):
    """Hosts are compared once for each report of the scheduler, the latest of all pools."""
    farm = Missing(tmp_path, started)
    farm.tend(2)
    farm.unknown = {0}
    for _ in range(int(2 * MISSING_TIME)):
        farm.now += 1.0
        reports = {"p": report("p", 2, at=farm.now), "old": report("old", 0, at=1.0)}
        farm.backend.tend(reports, farm.hosts())
    assert farm.killed == [0]
