"""The kernel keeps to its arrays."""

from __future__ import annotations

import ctypes
from functools import cache

import pytest

import farm
from farm.sim.fast.compiler.building import Compiler, compile_c
from farm.sim.fast.compiler.program import kernel
from farm.sim.fast.kernel import native, object_file
from farm.sim.fast.kernel.native import Loading
from tests.sim.test_drawn_scenarios import scenario


@pytest.mark.slow
def test_every_index_is_in_its_array(tmp_path, monkeypatch):
    """Drawn scenarios, by an object that checks each: others would read or write elsewhere."""
    compiler = object_file.c_compiler()
    if compiler is None:
        pytest.skip("needs a C compiler")
    target = tmp_path / "kernel.so"
    compile_c(kernel(), target, Compiler((compiler, "-DCHECK_INDICES")))
    loading = Loading(ctypes.CDLL(str(target)))
    monkeypatch.setattr(native, "loading", lambda: loading)
    monkeypatch.setattr(native, "_function", cache(native._function.__wrapped__))

    engines = {farm.simulate(scenario(seed)).summary["engine"] for seed in range(300)}

    assert "fast" in engines
