"""The package installs, and works without a clone of the project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from farm.sim.fast.compiler.building import SYSTEMS
from farm.sim.fast.kernel import native, object_file
from tests.fixtures import plain_kernel
from tests.sim.fast.compiler.objects import needs_of

ROOT = Path(__file__).parents[1]
PACKAGES = ("farm", "workers", "provisioner", "farm_twin", "farm_studies", "farm_chaos")
SOURCES = (*PACKAGES, "examples")
FILES = (
    "pyproject.toml", "setup.py", "build_backend.py", "README.md", "constraints.txt", "LICENSE",
    "MANIFEST.in",
)  # fmt: skip
#: what an object may need of its system, and the oldest one that has it
LIMITS = {
    "linux": ({"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, (2, 17)),
    "linux-musl": ({"libc.so"}, ()),
    "darwin": ({"/usr/lib/libSystem.B.dylib"}, (11, 0)),
}
C_FUNCTIONS = {"ceil", "floor", "fmod", "pow", "memcpy", "memmove", "memset", "_setjmp", "_longjmp"}
#: functions of loaders, for variables of threads and for symbols
LINKED = {"__tls_get_addr", "__tlv_bootstrap", "dyld_stub_binder"}
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
    """A wheel and an sdist, built from a copy: building leaves files behind.

    With objects for all systems, if what compiles them is installed.
    """
    copy = tmp_path_factory.mktemp("source")
    for folder in SOURCES:
        leftovers = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, ignore=leftovers)
    for file in FILES:
        shutil.copy(ROOT / file, copy)
    if find_spec("ziglang"):
        run(sys.executable, "-m", "farm.sim.fast.compiler", "--all", cwd=copy)
    else:
        assert not os.environ.get("FARM_CI"), "pip install ziglang"
    run(sys.executable, "-m", "build", "--quiet", "--sdist", "--wheel", cwd=copy)
    return copy / "dist"


@pytest.fixture
def wheel(built: Path) -> Path:
    """The wheel."""
    (found,) = built.glob("*.whl")
    return found


def objects_of(built: Path) -> set[str]:
    """Return the compiled loops that a wheel and an sdist must carry."""
    if find_spec("ziglang"):
        return {object_file.path(system).relative_to(ROOT).as_posix() for system in SYSTEMS}
    return {object_file.path().relative_to(ROOT).as_posix()} if native.is_there() else set()


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_object_loads_on_its_system(wheel: Path, tmp_path: Path, system: str):
    """It is of that processor, has all entries, and needs nothing of a newer or another system."""
    if not find_spec("ziglang"):
        pytest.skip("needs ziglang")
    name = object_file.path(system).relative_to(ROOT).as_posix()
    needs = needs_of(Path(zipfile.ZipFile(wheel).extract(name, tmp_path)))

    assert system.endswith(f"-{needs.machine}")
    prefix = "_" if system.startswith("darwin") else ""
    entries = {f"{prefix}{entry}" for entry in plain_kernel.FUNCTIONS}
    assert entries | {f"{entry}_takes" for entry in entries} <= needs.exports
    libraries, oldest = LIMITS[system.rpartition("-")[0]]
    assert needs.libraries <= libraries
    assert needs.oldest <= oldest
    assert needs.imports <= {f"{prefix}{function}" for function in C_FUNCTIONS} | LINKED
    assert needs.signed or needs.machine != "arm64"  # macOS loads no other there


def test_the_sdist_contains_no_tests(built: Path):
    """It has what builds the wheel, the licence and the examples."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "examples/quickstart.yaml"} <= names
    assert not [name for name in names if "tests" in Path(name).parts]
    assert {"build_backend.py", "farm/sim/fast/compiler/python_in_c.h"} <= names
    assert objects_of(built) <= names


def test_the_wheel_contains_what_is_needed(wheel: Path, built: Path):
    """All packages with their typing markers, the examples; and no tests."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    for package in PACKAGES:
        assert f"{package}/py.typed" in names
    examples = {path.name for path in (ROOT / "examples").glob("*.yaml")}
    assert examples == {n.removeprefix("farm/examples/") for n in names if "/examples/" in n}
    assert objects_of(built) <= set(names)
    assert wheel.name.endswith("-py3-none-any.whl")
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
