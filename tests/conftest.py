"""What all tests share: commands, tools (an error in CI if missing), recorded traces."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from farm.core.pools import unrunnable_jobs
from farm.sim.fast.kernel import native, noting
from tests.fixtures import plain_kernel
from tests.fixtures.examples import register_profiles

if TYPE_CHECKING:
    from farm.live.redis.server import EmbeddedServer

register_profiles()


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C reach what the tests start, also when they run behind a script's ``&``.

    Such a script ignores SIGINT, and its children inherit that. The loop of simulations is compiled
    before there are several processes, each of which would do so. Modules and tests stay, so no
    garbage is looked for while they are collected.
    """
    gc.disable()
    if not hasattr(config, "workerinput"):
        native.loading()
        if config.getini("tmp_path_retention_policy") == "failed":
            write_into_memory(config)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


#: bytes, of which tests that run at once use a tenth; the folders of many containers are smaller
ROOM_IN_MEMORY = 1 << 30
#: where the temporary files of a session are, if they are in memory
IN_MEMORY = pytest.StashKey[str]()


def write_into_memory(config: pytest.Config, folder: str = "/dev/shm") -> None:
    """Have temporary files in memory, where there is such a folder, unless TMPDIR chooses another.

    A disk that is told of each deleted block needs milliseconds to delete a file, and a run of the
    tests deletes ten thousand. Where they are kept after the run, memory is no place for them.
    """
    if "TMPDIR" in os.environ or not os.access(folder, os.W_OK):
        return
    system = os.statvfs(folder)
    if system.f_bavail * system.f_frsize >= ROOM_IN_MEMORY and not system.f_flag & os.ST_NOEXEC:
        own = tempfile.mkdtemp(prefix="farm-tests-", dir=folder)
        os.environ["TMPDIR"] = tempfile.tempdir = own
        config.stash[IN_MEMORY] = own


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Delete what processes that were killed left in memory, unless a test failed."""
    own = session.config.stash.get(IN_MEMORY, None)
    if own is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(own, ignore_errors=True)


class PartFirst(pytest.Dir):
    """A folder of tests that each worker begins to read at another place.

    In a fresh checkout each file is so compiled by one worker, and the others have it from there.
    """

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        """Return what is in the folder, the worker's own share first."""
        children = [*super().collect()]
        worker = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        begin = len(children) * worker // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        return children[begin:] + children[:begin]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Let workers begin to read at different places."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return None
    return PartFirst.from_parent(parent, path=path)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Let the tests that are given more time than others begin first, on all workers alike.

    A worker begins with a share of the list as it stands, and takes from the others' when it has
    done that (``--dist worksteal``). Half of the workers go on with live tests, which mostly wait:
    beside them the other half computes. Tests of one ``xdist_group`` share what they set up.
    """
    items.sort(key=lambda item: item.path.parts)
    yield
    usual = float(config.getini("timeout"))
    long: dict[str, list[pytest.Item]] = {}
    live, others = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        limit, group = map(item.get_closest_marker, ("timeout", "xdist_group"))
        if limit is not None and limit.args[0] > usual:
            long.setdefault(item.nodeid if group is None else group.args[0], []).append(item)
        elif item.get_closest_marker("live") is not None:
            live.append(item)
        else:
            others.append(item)
    workers, groups = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), [*long.values()]
    waiting = (workers + 1) // 2
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        first = [*chain(*groups[worker::workers])]
        if worker < waiting:
            count = len(live) // (waiting - worker)
            first += live[:count]
            del live[:count]
        room = (len(items) - len(ordered)) // (workers - worker) - len(first)
        ordered += [*first, *others[: max(room, 0)]]
        del others[: max(room, 0)]
    items[:] = ordered


def pytest_collection_finish() -> None:
    """Leave the tests themselves out of every garbage collection: they stay, and are many."""
    gc.freeze()
    gc.enable()


class Said(NamedTuple):
    """What a command ended with, and what it wrote."""

    code: int
    out: str
    err: str


@pytest.fixture
def farm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Said]:
    """Run ``farm`` with these words in an empty folder, in this process, as its entry point does.

    ``command``: run this command line instead.
    """
    from farm.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in [name for name in os.environ if name.startswith(("FARM_", "DOCKER_"))]:
        monkeypatch.delenv(name)

    def run(*words: object, command: Callable[[], None] = main) -> Said:
        monkeypatch.setattr(sys, "argv", ["farm", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            command()
        code = ended.value.code
        assert isinstance(code, int)
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def kernel() -> Iterator[None]:
    """The compiled engine: by its object if that is built, as in CI, else by the same Python."""
    with pytest.MonkeyPatch.context() as patch:
        if not native.is_there():
            assert not os.environ.get("FARM_CI"), "make kernel"
            patch.setattr(native, "is_there", cache(lambda: True))
            patch.setattr(native, "Call", plain_kernel.Call)
            for module in (noting, unrunnable_jobs):
                # a week of a provisioner that plans each second is ten minutes of Python
                patch.setattr(module, "PATIENCE", 600.0)
        yield


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Find a program that a test needs: without it the test is skipped, or fails in CI."""

    def find(name: str) -> str:
        found = shutil.which(name)
        if found is not None:
            return found
        reason = f"needs {name} on PATH"
        if os.environ.get("FARM_CI") or os.environ.get("CI"):
            pytest.fail(f"{reason}; .ci/run installs it")
        pytest.skip(reason)

    return find


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """A real Redis server, shared by the tests of one process; each test uses its own keys."""
    from farm.live.redis.server import EmbeddedServer as Server
    from farm.live.redis.server import choose_server

    with choose_server(None) as running:
        assert isinstance(running, Server)
        yield running


@pytest.fixture(scope="session")
def traces() -> Path:
    """Return the folder of recorded traces; skip if there is none."""
    beside = Path(__file__).parents[2] / "shared" / "traces"
    folder = Path(os.environ.get("FARM_TRACES", beside))
    if not folder.is_dir():
        pytest.skip("no folder of recorded traces (FARM_TRACES)")
    return folder
