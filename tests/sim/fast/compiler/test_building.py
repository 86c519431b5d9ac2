"""The loop of simulations is compiled where it can be, and is missed nowhere else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import farm
from farm.cli import main as command_line
from farm.sim.fast.compiler import __main__ as make_kernel
from farm.sim.fast.compiler import building
from farm.sim.fast.compiler.building import BuildError, Compiler, build, compile_c
from farm.sim.fast.kernel import native, object_file
from farm.sim.fast.kernel.native import Loading

ROOT = Path(__file__).parents[4]
SMALL = {
    "pools": [{"name": "pool", "platform": {"processor": "amd64"}, "builders": 1}],
    "workload": [{"arrivals": {"every": "10s", "count": 2, "service_time": "5s"}}],
}
LOADS = """
from farm.sim.fast.kernel import native, object_file
print(native.loading().build_time > 0, native.loading().reason)
"""

needs_compiler = pytest.mark.skipif(object_file.c_compiler() is None, reason="needs a C compiler")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone without the object, whose builds fail; each is noted in ``builds``."""

    def fail() -> str:
        with (tmp_path / "builds").open("a") as builds:
            builds.write("built\n")
        return "cc failed: no header"

    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(object_file, "CLONE", tmp_path)
    monkeypatch.setattr(object_file, "path", lambda: tmp_path / "kernel-0.so")
    monkeypatch.setattr(native, "loading", cache(native.loading.__wrapped__))
    monkeypatch.setattr(native, "_build", fail)
    monkeypatch.setattr(object_file, "c_compiler", lambda: "/usr/bin/cc")
    return tmp_path


def test_a_failed_build_is_not_tried_again(clone: Path):
    """Each command would compile for seconds, in vain."""
    assert native.loading() == Loading(reason="cc failed: no header")
    native.loading.cache_clear()

    log = clone / "build/kernel-0.log"
    assert native.loading().reason == f"compiling it failed: {log}"
    assert (clone / "builds").read_text() == "built\n"
    assert log.read_text() == "cc failed: no header"
    assert not native.is_there()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("c_compiler", lambda: None), native.WITHOUT_COMPILER),
        (("CLONE", Path("/nowhere")), f"this installation has none for {object_file.system()}"),
        (("HERE", Path("/nowhere")), "/nowhere cannot be written"),
    ],
)
def test_where_it_cannot_be_compiled_there_is_a_reason(
    clone: Path, monkeypatch: pytest.MonkeyPatch, change, reason: str
):
    """Nothing is tried, and simulations are played by the scheduler."""
    monkeypatch.setattr(object_file, *change)

    assert native.loading() == Loading(reason=reason)
    assert not (clone / "builds").exists()
    assert farm.simulate(SMALL).summary["engine"] == "reference"


def test_an_object_that_cannot_be_loaded_is_a_reason(clone: Path):
    """A file that was cut short, or is of another system, must not end a simulation."""
    (clone / "kernel-0.so").write_bytes(b"\x7fELF")

    assert native.loading().reason.startswith("it cannot be loaded: ")


@pytest.mark.parametrize(
    ("loading", "spent", "options", "said"),
    [
        (Loading(build_time=2.91), 0.1, [], ""),
        (Loading(reason="no compiler"), 0.1, [], ""),
        (Loading(reason="no compiler"), 3.0, [], "ten times as fast: no compiler\n"),
        (Loading(reason="no compiler"), 3.0, ["--json"], ""),
        (Loading(library=object(), build_time=2.91), 0.1, [], "2.9s: its sources are new\n"),
        (Loading(library=object(), build_time=2.91), 0.1, ["-q"], ""),
        (Loading(library=object()), 9.0, [], ""),
    ],
)
def test_a_command_says_so_once(monkeypatch, capsys, loading: Loading, spent, options, said):
    """That it has compiled the loop, or has taken long without; on standard error."""
    monkeypatch.setattr(native, "loading", cache(lambda: loading))
    monkeypatch.setattr(sys, "argv", ["farm", "simulate", "mmc", *options])
    native.loading()

    command_line.tell_of_compiled_loop(spent)

    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.endswith(said)
    assert output.err.count("\n") == said.count("\n")


def test_a_command_that_simulates_nothing_says_nothing(monkeypatch, capsys):
    """It has not missed the loop."""
    monkeypatch.setattr(native, "loading", cache(lambda: Loading(reason="no compiler")))

    command_line.tell_of_compiled_loop(9.0)

    assert capsys.readouterr() == ("", "")


def test_make_kernel_says_what_stands_in_its_way(monkeypatch, tmp_path: Path):
    """In a sentence: no compiler, or a folder that cannot be written."""
    monkeypatch.setattr(object_file, "path", lambda: tmp_path / "none" / "kernel-0.so")
    monkeypatch.setattr(building, "kernel", lambda: "")
    monkeypatch.setattr(object_file, "c_compiler", lambda: "cc")
    said = make_kernel.main([]) or ""
    assert said.startswith("warning: the loop of simulations cannot be compiled: ")
    assert "none cannot be written\nEverything works without it" in said

    monkeypatch.setattr(object_file, "c_compiler", lambda: None)
    with pytest.raises(BuildError, match=r"no C compiler was found \(cc, gcc, clang\)"):
        build()


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """No compiler is here that works; returns the commands that are run, which fail."""
    commands: list[list[str]] = []

    def run(command: list[str], *_: object) -> None:
        commands.append(command)
        raise BuildError(f"{command[0]} failed: it is not here")

    monkeypatch.setattr(object_file, "path", lambda _="": tmp_path / "kernel-0.so")
    monkeypatch.setattr(object_file, "c_compiler", lambda: None)
    monkeypatch.setattr(building, "kernel", lambda: "")
    monkeypatch.setattr(building, "find_spec", lambda _: None)
    monkeypatch.setattr(building, "_run", run)
    return commands


def test_a_compiler_is_fetched_where_none_is(fetched: list[list[str]], monkeypatch, capsys):
    """By pip, or uv, after saying how much it is; without either there is no object."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")

    with pytest.raises(BuildError, match=r"/bin/uv failed: it is not here"):
        build(fetch=True)

    pip, uv = fetched
    assert pip[1:3] == ["-m", "pip"]
    assert uv[:3] == ["/bin/uv", "pip", "install"]
    assert pip[-1] == uv[-1] == building.ZIG
    assert capsys.readouterr().err == (
        "no C compiler was found (cc, gcc, clang): fetching 101 MB, to compile the loop of "
        "simulations\n"
    )


def test_a_compiler_that_fails_is_replaced(fetched: list[list[str]], monkeypatch):
    """One may be there without the headers of the C library."""
    monkeypatch.setattr(object_file, "c_compiler", lambda: "cc")

    with pytest.raises(BuildError):
        build(fetch=True)

    assert [command[0] for command in fetched][:2] == ["cc", sys.executable]


def test_nothing_is_fetched_unasked(fetched: list[list[str]]):
    """At first use there is no one who has asked for a download."""
    with pytest.raises(BuildError, match="no C compiler was found"):
        build()

    assert fetched == []


@needs_compiler
def test_an_object_comes_whole_or_not_at_all(tmp_path: Path):
    """Another process may load it at any moment; and nothing is left of a failure."""
    compiler = Compiler((object_file.c_compiler() or "",))
    with pytest.raises(BuildError, match=r"cc failed: (?s:.*)error"):
        compile_c("nonsense", tmp_path / "kernel.so", compiler)
    with pytest.raises(BuildError, match=r"failed: .*No such file"):
        compile_c("", tmp_path / "kernel.so", Compiler((str(tmp_path / "no-compiler"),)))
    assert list(tmp_path.iterdir()) == []

    compile_c("int nothing(void) { return 0; }", tmp_path / "kernel.so", compiler)

    assert [path.name for path in tmp_path.iterdir()] == ["kernel.so"]


@needs_compiler
@pytest.mark.slow
def test_a_clone_compiles_its_sources_at_first_use(tmp_path: Path):
    """Also if several processes need the object at once; objects of other sources are removed."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for package in ("farm", "provisioner"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    kernel = tmp_path / "farm/sim/fast/kernel"
    older = kernel / f"kernel-0123456789abcdef-{object_file.system()}.so"
    older.touch()

    command = [sys.executable, "-c", LOADS]
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    both = [
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=200)[0] for process in both]
    assert outputs == [b"True \n", b"True \n"]
    assert [path.name for path in kernel.glob("kernel-*")] == [object_file.path().name]

    third = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
    assert third.stdout == b"False \n"
