"""Emits the compiled kernel: ``play``, ``play_each`` and the loops of rollouts, by Numba.

For any processor of this kind of machine. Of Numba's module only the functions themselves are
kept, without the wrappers that Python would call, each behind an entry with a plain signature:
what results needs neither Numba nor this version of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
from llvmlite import binding
from numba import config, from_dtype, njit, types

from farm.core import compiled

PASSED, PASSED_NONE = 0, -2
"""Numba's status of a function that returned a number, and of one that returned None."""


def emitted() -> bytes:
    """Compile everything and return the object file."""
    settings: Any = config
    settings.DISABLE_JIT, settings.CPU_NAME, settings.CPU_FEATURES = 0, "generic", ""
    compiler: Any = njit

    def jit(function: Callable[..., Any], **options: bool) -> Any:
        # it makes no array, so references are not counted: that would take ten times the work
        return compiler(nogil=True, _nrt=False, **options)(function)

    compiled.jit = jit  # before the kernel is imported
    from farm.sim.fast.kernel import loop  # noqa: PLC0415 - as above
    from farm.sim.rollouts import fair_loops, loops  # noqa: PLC0415 - as above

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
    code: bytes = machine.emit_object(whole)
    return code


def _module(function: Any, others: list[Any]) -> Any:
    """Return the function's module with an entry to it and to the others, and no other symbol."""
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


def _entry(function: Callable[..., object], inner: Any) -> str:
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


def _signature(function: Callable[..., object]) -> tuple[object, ...]:
    """Return the types that Numba compiles a function for."""
    return tuple(map(_type, _annotations(function)))


def _type(annotation: object) -> object:
    if get_origin(annotation) is Annotated:
        dtype, dimensions = _array(annotation)
        return types.Array(from_dtype(dtype), dimensions, "C")
    parts = list(map(_type, _parts(annotation)))
    if hasattr(annotation, "_fields"):
        return types.NamedTuple(parts, annotation)
    return types.Tuple(parts)


def _types_of(part: object) -> Iterator[str]:
    """Yield the types of all arrays, as ``native`` writes them."""
    if get_origin(part) is Annotated:
        dtype, dimensions = _array(part)
        yield f"{dtype.str}/{dimensions}"
        return
    for one in _annotations(part) if callable(part) and hasattr(part, "__code__") else _parts(part):
        yield from _types_of(one)


def _annotations(function: Callable[..., object]) -> list[object]:
    hints = get_type_hints(function, include_extras=True)
    return [hint for name, hint in hints.items() if name != "return"]


def _parts(annotation: object) -> list[object]:
    """Return the parts of a tuple's type."""
    if hasattr(annotation, "_fields"):
        return list(get_type_hints(annotation, include_extras=True).values())
    return list(get_args(annotation))


def _array(annotation: object) -> tuple[np.dtype[Any], int]:
    _, dtype, *dimensions = get_args(annotation)
    return np.dtype(dtype), (dimensions or [1])[0]
