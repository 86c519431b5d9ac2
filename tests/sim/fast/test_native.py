"""The object is that of the present sources, or it is not seen."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import numpy as np
import pytest

from farm.sim.fast.kernel import native, object_file
from farm.sim.fast.play import first_numbers
from farm.workload.streams import ByNumber, stream
from tests.fixtures import plain_kernel
from tests.fixtures.kernel import built

CLONE = object_file.CLONE


def test_every_source_voids_the_object():
    """A constant or function that the kernel imports is compiled into it, so its file counts."""
    kernel = [
        path for path in object_file.HERE.glob("*.py") if path.name not in object_file.CALLERS
    ]
    imported = set()
    rollouts = {"farm/sim/rollouts/loops.py", "farm/sim/rollouts/fair_loops.py"}
    algorithms = {
        name for name in object_file.SOURCES if name.startswith("provisioner/algorithms/")
    }
    compiler = {name for name in object_file.SOURCES if "/compiler/" in name}
    for path in [*kernel, *(CLONE / name for name in rollouts | algorithms)]:
        imported |= imported_modules(path)
    names = {f"{module.relative_to(CLONE)}.py" for module in imported}
    outside = {name for name in names if not name.startswith("farm/sim/fast/kernel")}
    assert outside | rollouts | algorithms | compiler == set(object_file.SOURCES)
    files = {path.name for path in (CLONE / "farm/sim/fast/compiler").iterdir() if path.is_file()}
    assert {Path(name).name for name in compiler} == files


def imported_modules(source: Path) -> set[Path]:
    """Return what a file imports of this project, as paths without a suffix."""
    modules = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            ("farm.", "provisioner.")
        ):
            module = CLONE / node.module.replace(".", "/")
            if module.is_dir():  # a package, of which modules are imported
                modules |= {module / alias.name for alias in node.names}
            else:
                modules.add(module)
    return modules


def test_a_changed_source_has_another_object(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Protects against an object of yesterday's loop."""
    before = object_file.path()
    (tmp_path / "changed.py").write_text("SAME = 0.0")
    changed = (*object_file.SOURCES[1:], str(tmp_path / "changed.py"))
    monkeypatch.setattr(object_file, "SOURCES", changed)
    assert object_file.path().name != before.name


@built
def test_arrays_of_other_types_are_refused():
    """The object would read beyond them."""
    with pytest.raises(TypeError, match=r"empty: found <f4/1; allowed: <i8/1"):
        native.Call("empty", np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="in pieces"):
        native.Call("empty", np.zeros(3)[::2])


@built
def test_python_has_the_same_functions():
    """Protects the tests that Python plays for."""
    for name in plain_kernel.FUNCTIONS:
        assert native._function(name)[1]


@pytest.mark.usefixtures("kernel")
def test_streams_that_are_begun_together_are_those_that_are_begun_alone():
    """The fates of a pool's builders stay as they were, however many are drawn at a time."""
    alone = [stream(3, "boot", "linux", number).random() for number in range(1, 23)]
    together = ByNumber(lambda drawn: drawn, 3, "boot", "linux")
    for most in (1, 20):
        together.know(most, first_numbers)
    assert [together(number) for number in range(1, 23)] == alone


@pytest.mark.usefixtures("kernel")
def test_generators_of_short_keys_are_begun_as_pythons():
    """One key in four billion begins with a word of zeros, and Python leaves such a word out."""
    keys = np.array([[0, 0, 1, 2, 3, 4, 5, 6], [0] * 8, [1, 0, 0, 0, 0, 0, 0, 2**32 - 1]], ">u4")
    seeds = [int.from_bytes(key.tobytes(), "big") for key in keys]
    assert first_numbers(keys.tobytes()).tolist() == [random.Random(key).random() for key in seeds]
