"""What the tests on a Docker Engine share: an Engine, both generations of Compose, farms."""

from __future__ import annotations

import itertools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.docker_engine import Compose, Engine, OwnEngine, composes
from tests.worlds.composed import IMAGE, Composed

ROOT = Path(__file__).parents[2]
IN_CI = bool(os.environ.get("CI") or os.environ.get("FARM_CI"))

#: farms of tests; the image has them beside the examples
SCENARIOS = Path(__file__).parent / "scenarios"
#: stands for the other project's recording, which may not be distributed: six tasks
RECORDING = "gecko-t-t-linux-large.dat"
TASKS = b"".join(struct.pack(">II", 1000 * number, 8000) for number in range(6))

Farms = Callable[..., Composed]
#: no two farms share a name, so that one's leftovers cannot affect the next
NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The Engine that answers; in CI, as root, a new one if there is none."""
    found = Engine()
    if found.answers():
        yield found
        return
    can_start = os.geteuid() == 0 and all(map(shutil.which, ("dockerd", "debootstrap")))
    if not (IN_CI or os.environ.get("FARM_OWN_ENGINE")):
        pytest.skip("needs a Docker Engine (FARM_OWN_ENGINE=1 starts one, as root)")
    if not can_start:
        pytest.fail("needs a Docker Engine, or dockerd and debootstrap as root")
    folder = Path(tempfile.mkdtemp(prefix="farm-docker-"))
    own = OwnEngine(folder)
    try:
        yield own.start()
    finally:
        own.stop()
        # very many files: Python takes nearly twice as long
        subprocess.run(["rm", "-rf", folder], capture_output=True)


@pytest.fixture(scope="session")
def oldest(pytestconfig: pytest.Config) -> Compose:
    """The old Compose; the new one if it is the only one."""
    return _composes(pytestconfig)[0]


@pytest.fixture(scope="session")
def newest(pytestconfig: pytest.Config) -> Compose:
    """The new Compose; the old one if it is the only one."""
    return _composes(pytestconfig)[-1]


def _composes(pytestconfig: pytest.Config) -> list[Compose]:
    assert pytestconfig.cache is not None
    found = composes(pytestconfig.cache.mkdir("compose"))
    if not found:
        (pytest.fail if IN_CI else pytest.skip)("needs docker-compose, or docker compose")
    return found


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as a clone would have it, only files known to git; and the tests' scenarios."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(SCENARIOS, folder / "examples")
    (folder / "examples" / RECORDING).write_bytes(TASKS)
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        made = shutil.ignore_patterns(".venv", "build")
        shutil.copytree(ROOT, folder, dirs_exist_ok=True, ignore=made)
        return folder
    listed = subprocess.run(
        ["git", "-C", ROOT, "-c", "safe.directory=*", "ls-files", "-z"],
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def image(engine: Engine, newest: Compose, source: Path) -> str:
    """The image of this source: of all farms but those that must build their own."""
    Composed(engine, newest, source, f"farmimage{os.getpid()}").compose("build", timeout=800)
    return IMAGE


@pytest.fixture
def farms(engine: Engine, source: Path, image: str) -> Iterator[Farms]:
    """Make farms that are not up yet; they are removed afterwards."""
    made: list[Composed] = []

    def make(cli: Compose, clone: Path = source, **settings: str) -> Composed:
        name = f"farmtest{os.getpid()}-{next(NUMBERS)}"
        made.append(Composed(engine, cli, clone, name, **settings))
        return made[-1]

    yield make
    for farm in made:
        farm.end()


@pytest.fixture
def composed(farms: Farms, newest: Compose) -> Composed:
    """A farm with its own settings that is not up yet."""
    return farms(newest)
