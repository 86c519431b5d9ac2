"""The object is that of the present sources, or it is not seen."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from farm.sim.fast.kernel import native, object_file
from tests.fixtures import plain_kernel
from tests.fixtures.kernel import built

FARM = Path(native.__file__).parents[3]


def test_every_source_voids_the_object():
    """A constant or function that the kernel imports is compiled into it, so its file counts."""
    kernel = [
        path for path in object_file.HERE.glob("*.py") if path.name not in object_file.CALLERS
    ]
    imported = set()
    rollouts = {"sim/rollouts/loops.py", "sim/rollouts/fair_loops.py"}
    formulas = {name for name in object_file.SOURCES if "/formulas/" in name}
    compiler = {name for name in object_file.SOURCES if "/compiler/" in name}
    for path in [*kernel, *(FARM / name for name in rollouts | formulas)]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("farm."):
                module = FARM / node.module.removeprefix("farm.").replace(".", "/")
                if module.is_dir():  # a package, of which modules are imported
                    imported |= {module / one.name for one in node.names}
                else:
                    imported.add(module)
    names = {f"{one.relative_to(FARM)}.py" for one in imported}
    outside = {name for name in names if not name.startswith("sim/fast/kernel")}
    assert outside | rollouts | compiler == set(object_file.SOURCES)
    files = {path.name for path in (FARM / "sim/fast/compiler").iterdir() if path.is_file()}
    assert {Path(name).name for name in compiler} == files


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
