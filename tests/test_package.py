"""The package installs, and works without a clone of the project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from farm.sim.fast.kernel import native

ROOT = Path(__file__).parents[1]
PACKAGES = ("farm", "workers", "provisioner", "studies", "chaos")
SOURCES = (*PACKAGES, "examples")
FILES = ("pyproject.toml", "setup.py", "README.md", "constraints.txt", "LICENSE", "MANIFEST.in")
SCRIPT = """
import farm

jobs = farm.simulate("quickstart", policy="sjf").jobs
print(len(jobs), jobs["waiting_time_s"].dtype, "site-packages" in farm.__file__)
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("package")]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside the clone; return its output."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("FARM_", "PYTHON"))}
    done = subprocess.run(command, cwd=cwd, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def newest_python() -> str:
    """Return the newest installed interpreter: the project is installed in this one anyway."""
    found = {sys.version_info.minor: sys.executable}
    managed = Path.home() / ".pyenv" / "versions"
    for minor in range(11, 16):
        # a manager's own first: its command on the PATH may be a shim that leads nowhere
        named = shutil.which(f"python3.{minor}")
        path = next(managed.glob(f"3.{minor}.*/bin/python3"), named)
        if path is not None:
            found.setdefault(minor, str(path))
    return found[max(found)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and an sdist, built from a copy: building leaves files behind."""
    copy = tmp_path_factory.mktemp("source")
    for folder in SOURCES:
        leftovers = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, ignore=leftovers)
    for file in FILES:
        shutil.copy(ROOT / file, copy)
    run(sys.executable, "-m", "build", "--quiet", "--sdist", "--wheel", cwd=copy)
    return copy / "dist"


@pytest.fixture
def wheel(built: Path) -> Path:
    """The wheel."""
    (found,) = built.glob("*.whl")
    return found


def test_the_sdist_contains_no_tests(built: Path):
    """It has what builds the wheel, the licence and the examples."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "examples/quickstart.yaml"} <= names
    assert not [name for name in names if "tests" in Path(name).parts or name.endswith(".so")]


def test_the_wheel_contains_what_is_needed(wheel: Path):
    """All packages with their typing markers, the examples; and no tests."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    for package in PACKAGES:
        assert f"{package}/py.typed" in names
    examples = {path.name for path in (ROOT / "examples").glob("*.yaml")}
    assert examples == {n.removeprefix("farm/examples/") for n in names if "/examples/" in n}
    objects = {native.path().relative_to(ROOT).as_posix()} if native.is_there() else set()
    assert objects <= set(names)
    assert ("none-any" in wheel.name) == (not objects)
    modules = {p.relative_to(ROOT).as_posix() for s in PACKAGES for p in (ROOT / s).rglob("*.py")}
    assert {one for one in modules if "/tests/" not in one} == {
        one for one in names if one.endswith(".py")
    }


@pytest.mark.live
def test_an_installed_farm_works_anywhere(wheel: Path, tmp_path: Path):
    """By its command, as a module, and in a user's script; on the newest installed Python."""
    # with a pip of its own: an older Python's may not run on a newer one
    run(newest_python(), "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    bin_ = tmp_path / "venv" / "bin"
    # what is imported is compiled then: the rest of the dependencies is never used
    install = ("pip", "install", "-q", "--no-compile", "-c", ROOT / "constraints.txt", wheel)
    run(bin_ / "python", "-m", *install, cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    version = run(bin_ / "python", "-m", "farm", "--version", cwd=elsewhere)
    assert version.startswith("farm ")
    assert "quickstart" in run(bin_ / "farm", "examples", cwd=elsewhere)
    listed = run(bin_ / "farm", "admin", "--help", cwd=elsewhere)
    assert {"study", "chaos"} <= set(listed.split())
    (elsewhere / "mine.py").write_text(SCRIPT)
    assert run(bin_ / "python", "mine.py", cwd=elsewhere) == "655 float64 True\n"
    options = ("--duration", "30m", "--quiet", "--out", "kept")
    run(bin_ / "farm", "run", "quickstart", *options, cwd=elsewhere)
    assert (elsewhere / "kept" / "summary.json").exists()
    assert "live" in run(bin_ / "farm", "compare", "kept", "kept", "--json", cwd=elsewhere)
