"""Builds the compiled kernel: ``python -m farm.sim.fast.kernel.build``, or ``make kernel``.

Numba compiles ``play``, ``play_each`` and the loops of rollouts, for any processor of this kind of
machine. Of its module only the functions themselves are kept, without the wrappers that Python
would call, each behind an entry with a plain signature; a C compiler links them. What results
needs neither Numba nor this version of Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np

from farm.sim.fast.kernel import compiled, native

PASSED, PASSED_NONE = 0, -2
"""Numba's status of a function that returned a number, and of one that returned None."""


def build() -> Path:
    """Build the object, unless it is there, and return its path; older ones are removed.

    Raises ImportError without Numba, OSError or CalledProcessError without a C compiler that works.
    """
    made = native.path()
    if made.exists():
        return made
    if not os.access(made.parent, os.W_OK):
        raise PermissionError(f"{made.parent} cannot be written")
    emitted = _emitted()  # for a minute, in which an end would leave the folder
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        compiled_code, linked = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        compiled_code.write_bytes(emitted)
        # nothing of a C library is needed but fmod, which is in the process
        undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-nostdlib"]
        command = ["cc", "-shared", *undefined, "-o", str(linked), str(compiled_code)]
        subprocess.run(command, check=True)
        linked.replace(made)  # in one step: others may load it
    for other in made.parent.glob("kernel-*.so"):
        if other.name.split("-", 2)[2] == made.name.split("-", 2)[2] and other != made:
            other.unlink(missing_ok=True)
    return made


def _emitted() -> bytes:
    """Compile everything and return the object file."""
    from llvmlite import binding  # noqa: PLC0415 - only to build
    from numba import config, njit  # noqa: PLC0415

    settings: Any = config
    settings.DISABLE_JIT, settings.CPU_NAME, settings.CPU_FEATURES = 0, "generic", ""
    compiler: Any = njit

    def jit(function: Callable[..., Any], **options: bool) -> Any:
        # it makes no array, so references are not counted: that would take ten times the work
        return compiler(nogil=True, _nrt=False, **options)(function)

    compiled.jit = jit  # before the kernel is imported
    from farm.sim.fast.kernel import loop  # noqa: PLC0415
    from farm.sim.rollouts import fair_loops, loops  # noqa: PLC0415

    # play is also in the module of play_each, which calls it
    modules = []
    entries: Any = ((loop.play_each, [loop.play]), (jit(loops.empty), []), (fair_loops.share, []))
    for function, others in entries:
        for one in (*others, function):
            one.compile(_signature(one.py_func))
        modules.append(_module(function, others))
    whole = modules[0]
    for module in modules[1:]:
        whole.link_in(module)
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(cpu="generic", opt=3, reloc="pic", codemodel="default")
    emitted: bytes = machine.emit_object(whole)
    return emitted


def _module(function: Any, others: list[Any]) -> Any:
    """Return the function's module with an entry to it and to the others, and no other symbol."""
    from llvmlite import binding  # noqa: PLC0415

    overload = next(iter(function.overloads.values()))
    module = binding.parse_bitcode(overload.library.serialize_using_bitcode()[2])
    for one in (*module.functions, *module.global_variables):
        if not one.is_declaration:
            one.linkage = "internal"
    entries = []
    for one in (function, *others):
        (made,) = one.overloads.values()
        inner = module.get_function(made.fndesc.llvm_func_name)
        inner.linkage = "external"
        entries.append((one.py_func, inner))
    for python, inner in entries:
        module.link_in(binding.parse_assembly(_entry(python, inner)))
        module.get_function(inner.name).linkage = "internal"
    builder = binding.create_pass_builder(
        binding.Target.from_default_triple().create_target_machine(),
        binding.create_pipeline_tuning_options(speed_level=0),
    )
    passes = binding.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    return module


def _entry(function: Callable[..., Any], inner: Any) -> str:
    """Return an entry that takes the address of all words; and the types behind them."""
    kinds = [str(argument.type) for argument in inner.arguments]
    # the first two are for what it returns, and raises
    words = [
        f"  %p{n} = getelementptr i64, ptr %words, i64 {n}\n  %a{n} = load {kind}, ptr %p{n}\n"
        for n, kind in enumerate(kinds[2:])
    ]
    passed = "".join(f", {kind} %a{n}" for n, kind in enumerate(kinds[2:]))
    takes = " ".join(_types_of(function))
    name = function.__name__
    return f"""
@{name}_takes = constant [{len(takes) + 1} x i8] c"{takes}\\00"
declare i32 @"{inner.name}"({", ".join(kinds)})
define i64 @{name}(ptr %words) {{
  %value = alloca i64
  store i64 0, ptr %value
  %raised = alloca ptr
{"".join(words)}
  %status = call i32 @"{inner.name}"(ptr %value, ptr %raised{passed})
  %returned = icmp eq i32 %status, {PASSED}
  %returned_none = icmp eq i32 %status, {PASSED_NONE}
  %passed = or i1 %returned, %returned_none
  %read = load i64, ptr %value
  %result = select i1 %passed, i64 %read, i64 -1
  ret i64 %result
}}
"""


# --- the types of arguments, by their annotations ------------------------------------------------


def _signature(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the types that Numba compiles a function for."""
    return tuple(map(_type, _annotations(function)))


def _type(annotation: Any) -> Any:
    from numba import from_dtype, types  # noqa: PLC0415

    if get_origin(annotation) is Annotated:
        dtype, dimensions = _array(annotation)
        return types.Array(from_dtype(dtype), dimensions, "C")
    parts = list(map(_type, _parts(annotation)))
    if hasattr(annotation, "_fields"):
        return types.NamedTuple(parts, annotation)
    return types.Tuple(parts)


def _types_of(part: Any) -> Iterator[str]:
    """Yield the types of all arrays, as ``native`` writes them."""
    if get_origin(part) is Annotated:
        dtype, dimensions = _array(part)
        yield f"{dtype.str}/{dimensions}"
        return
    for one in _annotations(part) if callable(part) and hasattr(part, "__code__") else _parts(part):
        yield from _types_of(one)


def _annotations(function: Callable[..., Any]) -> list[Any]:
    hints = get_type_hints(function, include_extras=True)
    return [hint for name, hint in hints.items() if name != "return"]


def _parts(annotation: Any) -> list[Any]:
    """Return the parts of a tuple's type."""
    if hasattr(annotation, "_fields"):
        return list(get_type_hints(annotation, include_extras=True).values())
    return list(get_args(annotation))


def _array(annotation: Any) -> tuple[np.dtype[Any], int]:
    _, dtype, *dimensions = get_args(annotation)
    return np.dtype(dtype), (dimensions or [1])[0]


def main() -> str | None:
    """Build it, and say where it is; return what stands in the way, if something does."""
    os.nice(10)
    if shutil.which("cc") is None and not native.path().exists():
        # said before a minute of compiling
        return "error: found no C compiler (cc), which links the compiled kernel"
    try:
        print(f"the compiled kernel: {build()}")  # noqa: T201 - said by make
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        return f"error: the compiled kernel cannot be built here: {error}"
    return None


if __name__ == "__main__":
    if trouble := main():
        sys.exit(f"{trouble}. Everything works without it, simulations ten times as slowly")
