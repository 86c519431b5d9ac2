"""No process outlives its keeper, and no orphan is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from farm.processes.child import ORPHANED, end_at_once
from farm.processes.ends_with_keeper import command_with_keeper
from farm.processes.identity import began_at
from tests.fixtures.processes import until

pytestmark = pytest.mark.live


def python_path(folder: Path) -> dict[str, str]:
    """Return an environment in which the modules in the folder can be imported."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}


def written_pid(path: Path) -> int:
    """Wait until a process has written its id, and return it."""
    until(lambda: path.exists() and path.read_text().endswith("\n"), "writing its id")
    return int(path.read_text())


@pytest.mark.parametrize(
    ("while_importing", "code"),
    [("", -15), ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", ORPHANED)],
    ids=["asked", "deaf"],
)
def test_a_process_that_still_imports_ends_with_its_keeper(tmp_path: Path, while_importing, code):
    """Whatever it is doing, and whether or not it obeys SIGTERM."""
    text = f"{while_importing}\nprint('begun', flush=True)\nimport time; time.sleep(600)"
    (tmp_path / "slow.py").write_text(text)
    with subprocess.Popen(
        command_with_keeper("slow"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=python_path(tmp_path),
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"begun\n"
        process.stdin.close()
        assert process.wait(30) == code


KEEPER = """
import os, time
from pathlib import Path
from farm.processes.supervisor import Service, Supervisor
supervisor = Supervisor([Service("service", ("kept",))], Path.cwd(), os.environ)
supervisor.start()
time.sleep(600)
"""
KEPT = """
import os, signal, time
open("pid", "w").write(f"{os.getpid()}\\n")
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(600)
"""


def test_a_stopped_service_ends_with_its_keeper(tmp_path: Path):
    """The kernel wakes it when its keeper is gone; nothing else could."""
    (tmp_path / "keeper.py").write_text(KEEPER)
    (tmp_path / "kept.py").write_text(KEPT)
    # a separate session, as farm up has in the background
    with subprocess.Popen(
        [sys.executable, "keeper.py"],
        cwd=tmp_path,
        env=python_path(tmp_path),
        start_new_session=True,
    ) as keeper:
        pid = written_pid(tmp_path / "pid")
        stat = Path(f"/proc/{pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "stopping")
        try:
            keeper.kill()
            until(lambda: not began_at(pid), "the end of the service", timeout=15)
        finally:
            end_at_once(pid)


REAPER = """
import os, subprocess, sys
from farm.processes.child import become_subreaper
from farm.processes.child import end_at_once, unsupervised
become_subreaper()
START = "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
kept = subprocess.Popen(["sleep", "600"])
orphans = []
for _ in range(2):
    with subprocess.Popen([sys.executable, "-c", START], stdout=subprocess.PIPE) as parent:
        orphans.append(int(parent.stdout.readline()))
known, stray = orphans
assert unsupervised({kept.pid}, {known}) == [stray]
end_at_once(stray)
while unsupervised({kept.pid}, {known}):
    pass
assert not os.path.exists(f"/proc/{stray}"), "it was not waited for"
assert kept.poll() is None
for pid in (kept.pid, known):
    end_at_once(pid)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has subreapers")
def test_unknown_processes_of_a_dead_child_are_found():
    """A host of which a killed provisioner left no record would never end."""
    done = subprocess.run([sys.executable, "-c", REAPER], env=python_path(Path.cwd()), timeout=60)
    assert done.returncode == 0
