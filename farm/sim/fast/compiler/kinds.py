"""The types of values in the kernel, and their C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np

STORED = {
    "f8": "double",
    "i8": "int64_t",
    "i4": "int32_t",
    "i2": "int16_t",
    "i1": "int8_t",
    "b1": "bool",
}
"""The C type of a number in an array, by NumPy's code."""


class KindError(TypeError):
    """Two values do not fit together, or a type is unknown."""


@dataclass(frozen=True)
class Number:
    """A number that is computed with."""

    c: str
    #: of two numbers of different types, the one of lower rank is converted
    rank: int

    def __str__(self) -> str:
        return {"int64_t": "an integer", "double": "a float", "bool": "a truth value"}[self.c]


BOOL = Number("bool", 0)
INT = Number("int64_t", 1)
FLOAT = Number("double", 2)


@dataclass(frozen=True)
class Record:
    """A record in an array, by its address."""

    dtype: np.dtype[Any]
    struct: str

    @property
    def c(self) -> str:
        """Its type in C."""
        return f"struct {self.struct} *"

    def __str__(self) -> str:
        return "a record"


@dataclass(frozen=True)
class Array:
    """An array in C order: the address of its first element, and its lengths."""

    #: the C type of an element
    element: str
    dtype: np.dtype[Any]
    dimensions: int

    @property
    def struct(self) -> str:
        """The name of its struct."""
        return f"array{self.dimensions}_{self.element.removeprefix('struct ')}"

    @property
    def c(self) -> str:
        """Its type in C."""
        return f"struct {self.struct}"

    def __str__(self) -> str:
        return f"an array of {self.element} in {self.dimensions} dimensions"


@dataclass(frozen=True)
class Named:
    """A named tuple of arrays, by its address."""

    struct: str
    fields: tuple[tuple[str, Kind], ...]

    @property
    def c(self) -> str:
        """Its type in C."""
        return f"struct {self.struct} *"

    def __str__(self) -> str:
        return "a named tuple"


@dataclass(frozen=True)
class Tuple:
    """A tuple, by its value."""

    struct: str
    items: tuple[Kind, ...]

    @property
    def c(self) -> str:
        """Its type in C."""
        return f"struct {self.struct}"

    def __str__(self) -> str:
        return "a tuple"


@dataclass(frozen=True)
class Nothing:
    """What a function without a result returns."""

    c: str = "void"

    def __str__(self) -> str:
        return "the result of a function that returns none"


NOTHING = Nothing()

Kind: TypeAlias = Number | Record | Array | Named | Tuple | Nothing


class Types:
    """The types of a program, and the definitions of their structs in an order that C accepts."""

    def __init__(self) -> None:
        self.definitions: dict[str, str] = {}
        self._records: dict[np.dtype[Any], Record] = {}
        self._named: dict[type, Named] = {}
        self._tuples: dict[tuple[Kind, ...], Tuple] = {}

    def annotated(self, annotation: Any) -> Kind:
        """Return the type of an entry's argument: an array, or a tuple of such.

        Raises KindError for any other annotation.
        """
        if get_origin(annotation) is Annotated:
            _, dtype, *dimensions = get_args(annotation)
            return self.array(np.dtype(dtype), *dimensions)
        if hasattr(annotation, "_fields"):
            return self._named_tuple(annotation)
        if get_origin(annotation) is tuple:
            return self.tuple_of([self.annotated(item) for item in get_args(annotation)])
        raise KindError(
            f"found an argument of type {annotation}; allowed: arrays (Annotated), "
            "and tuples of such"
        )

    def array(self, dtype: np.dtype[Any], dimensions: int = 1) -> Array:
        """Return the type of an array; raises KindError for elements that are not known."""
        element = self.record(dtype).struct if dtype.fields else stored(dtype)
        if dtype.fields:
            element = f"struct {element}"
        array = Array(element, dtype, dimensions)
        if array.struct not in self.definitions:
            lengths = "".join(f" int64_t n{axis};" for axis in range(dimensions))
            self.definitions[array.struct] = f"{array.c} {{ {element} *at;{lengths} }};"
        return array

    def record(self, dtype: np.dtype[Any]) -> Record:
        """Return the type of a record; raises KindError for fields that are not known."""
        if dtype in self._records:
            return self._records[dtype]
        record = Record(dtype, f"record_{len(self._records)}")
        self._records[dtype] = record
        lines = []
        checks = [f"sizeof(struct {record.struct}) == {dtype.itemsize}"]
        for name, (kind, offset, *_) in (dtype.fields or {}).items():
            lines.append(f"  {stored(kind)} {name}_;")
            checks.append(f"offsetof(struct {record.struct}, {name}_) == {offset}")
        asserted = [f'_Static_assert({check}, "as in NumPy");' for check in checks]
        self.definitions[record.struct] = "\n".join(
            [f"struct {record.struct} {{", *lines, "};", *asserted]
        )
        return record

    def _named_tuple(self, python: Any) -> Named:
        if python in self._named:
            return self._named[python]
        hints = get_type_hints(python, include_extras=True)
        fields = tuple((name, self.annotated(hints[name])) for name in python._fields)
        named = Named(f"{python.__name__}_{len(self._named)}", fields)
        self._named[python] = named
        lines = [f"  {member(kind)} {name}_;" for name, kind in fields]
        self.definitions[named.struct] = "\n".join([f"struct {named.struct} {{", *lines, "};"])
        return named

    def tuple_of(self, items: Sequence[Kind]) -> Tuple:
        """Return the type of a tuple of these."""
        key = tuple(items)
        if key not in self._tuples:
            made = self._tuples[key] = Tuple(f"tuple_{len(self._tuples)}", key)
            members = "".join(f" {item.c} f{place};" for place, item in enumerate(key))
            self.definitions[made.struct] = f"{made.c} {{{members} }};"
        return self._tuples[key]

    def joined(self, first: Kind | None, second: Kind) -> Kind:
        """Return the type of what is the first or the second; None: not known yet.

        Raises KindError if they have nothing in common.
        """
        if first is None or first == second:
            return second
        if isinstance(first, Number) and isinstance(second, Number):
            return max(first, second, key=lambda number: number.rank)
        if (
            isinstance(first, Tuple)
            and isinstance(second, Tuple)
            and len(first.items) == len(second.items)
        ):
            return self.tuple_of(list(map(self.joined, first.items, second.items)))
        raise KindError(f"found {first} and {second} in one place")


def stored(dtype: np.dtype[Any]) -> str:
    """Return the C type of a number in an array; raises KindError if it is not known."""
    if dtype.str[1:] not in STORED or dtype.str[0] == ">":
        raise KindError(f"found the array type {dtype.str}; allowed: {', '.join(STORED)}")
    return STORED[dtype.str[1:]]


def number_in(dtype: np.dtype[Any]) -> Number:
    """Return the type of a number that was read from an array."""
    return {"f": FLOAT, "i": INT, "b": BOOL}[dtype.kind]


def member(kind: Kind) -> str:
    """Return the C type of a part of a struct: a named tuple lies in it."""
    return f"struct {kind.struct}" if isinstance(kind, Named) else kind.c
