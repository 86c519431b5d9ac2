"""The kernel's entries in C, with all functions that they call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from farm.sim.fast.compiler.functions import FunctionInC
from farm.sim.fast.compiler.kinds import (
    INT,
    NOTHING,
    Array,
    Kind,
    KindError,
    Named,
    Tuple,
    Types,
    member,
)
from farm.sim.fast.compiler.source import SourceText

PRELUDE = Path(__file__).with_name("python_in_c.h")
WORDS_OF_ARRAY = 5
"""Words before an array's lengths; the last of them is its address (``native``)."""


class Program:
    """Functions of C: one for each function of Python and each types of arguments.

    Raises TranslationError for what is not known.
    """

    def __init__(self) -> None:
        self._types = Types()
        self._functions: dict[tuple[Callable[..., Any], tuple[Kind, ...]], FunctionInC] = {}
        #: in the order of their definitions: a function comes after those that it calls
        self._texts: list[str] = []
        self._begun: list[Callable[..., Any]] = []

    def text(self, entries: Iterable[Callable[..., Any]]) -> str:
        """Return a program with these entries.

        Each takes the address of all words of its arrays, and returns what the function does, or
        -1 where Python would raise. Beside it are the types of these arrays.
        """
        made = [self._entry(function) for function in entries]
        definitions = self._types.definitions.values()
        return "\n".join([PRELUDE.read_text("utf-8"), *definitions, *self._texts, *made])

    def _function(self, function: Callable[..., Any], kinds: Sequence[Kind]) -> FunctionInC:
        key = (function, tuple(kinds))
        if key not in self._functions:
            if function in self._begun:
                source = SourceText(function)
                raise source.error(source.tree, "found a function that calls itself")
            self._begun.append(function)
            name = f"{function.__name__}_{len(self._functions) + len(self._begun)}"
            made = FunctionInC(function, name, kinds, self._types, self._function)
            self._begun.remove(function)
            self._functions[key] = made
            self._texts.append(made.text)
        return self._functions[key]

    def _entry(self, function: Callable[..., Any]) -> str:
        source = SourceText(function)
        hints = get_type_hints(function, include_extras=True)
        try:
            kinds = [self._types.annotated(hints[name]) for name in source.arguments]
        except (KindError, KeyError) as error:
            raise source.error(source.tree, str(error)) from None
        made = self._function(function, kinds)
        if made.returns not in (INT, NOTHING):
            raise source.error(source.tree, f"found {made.returns} as the result of an entry")
        unpacking = _Unpacking()
        arguments = []
        for place, kind in enumerate(kinds):
            unpacking.add(f"a{place}", kind)
            arguments.append(f"&a{place}" if isinstance(kind, Named) else f"a{place}")
        call = f"{made.name}({', '.join(arguments)});"
        declared = [f"  {member(kind)} a{place};" for place, kind in enumerate(kinds)]
        return "\n".join(
            [
                f'const char {function.__name__}_takes[] = "{" ".join(unpacking.types)}";',
                f"int64_t {function.__name__}(const int64_t *words) {{",
                *declared,
                *unpacking.lines,
                "  if (_setjmp(entry_point)) return -1;",
                *(
                    [f"  {call}", "  return 0;"]
                    if made.returns == NOTHING
                    else [f"  return {call}"]
                ),
                "}",
            ]
        )


class _Unpacking:
    """Fills the arguments of an entry with the words that it is given."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        #: the types of the arrays, as ``native`` writes them
        self.types: list[str] = []
        self._word = 0

    def add(self, place: str, kind: Kind) -> None:
        """Fill an argument, or a part of one."""
        if isinstance(kind, Array):
            at = self._word + WORDS_OF_ARRAY
            self.lines.append(f"  {place}.at = (void *)words[{at - 1}];")
            for axis in range(kind.dimensions):
                self.lines.append(f"  {place}.n{axis} = words[{at + axis}];")
            self._word = at + 2 * kind.dimensions  # lengths, then strides
            self.types.append(f"{kind.dtype.str}/{kind.dimensions}")
        elif isinstance(kind, Named):
            for name, field in kind.fields:
                self.add(f"{place}.{name}_", field)
        elif isinstance(kind, Tuple):
            for number, item in enumerate(kind.items):
                self.add(f"{place}.f{number}", item)


def kernel() -> str:
    """Return the C of the compiled loop."""
    # only here: what calls the object needs none of it
    from farm.sim.fast.kernel import generators, loop, text  # noqa: PLC0415
    from farm.sim.rollouts import fair_loops, loops  # noqa: PLC0415

    return Program().text(
        [
            loop.play,
            loop.play_each,
            loops.empty,
            fair_loops.share,
            text.put_together,
            generators.first_numbers,
        ]
    )
