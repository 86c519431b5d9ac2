"""Expressions of the kernel, in C."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from farm.sim.fast.compiler.kinds import (
    BOOL,
    FLOAT,
    INT,
    NOTHING,
    Array,
    Kind,
    KindError,
    Named,
    Number,
    Record,
    Tuple,
    Types,
    number_in,
    stored,
)
from farm.sim.fast.compiler.source import UNKNOWN, SourceText

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
"""Operators that are the same in both languages; integers wrap around at 64 bits."""
SHIFTS: dict[type[ast.operator], str] = {ast.LShift: "<<", ast.RShift: ">>"}
BIT_SIGNS: dict[type[ast.operator], str] = {**SHIFTS, ast.BitAnd: "&", ast.BitXor: "^"}
"""Operators of integers alone."""
DIVISIONS: dict[type[ast.operator], tuple[str, str]] = {
    ast.FloorDiv: ("floor_division", "float_floor_division"),
    ast.Mod: ("modulo", "float_modulo"),
}
"""Functions of integers and of floats."""


class Value(NamedTuple):
    """An expression in C.

    C may compute the parts of an expression in any order, so it matters what they do to arrays.
    """

    text: str
    kind: Kind
    #: it reads an array
    reads: bool = False
    #: it calls a function that writes into one
    writes: bool = False
    #: of a tuple that is written out, its items
    items: tuple[Value, ...] = ()
    #: of a number in an array, its type there
    stored: str = ""


class Translated(Protocol):
    """A function that has been translated, for arguments of certain types."""

    name: str
    #: whether it writes into arrays
    writes: bool

    @property
    def parameters(self) -> Sequence[Kind]:
        """The types of its arguments."""

    @property
    def returns(self) -> Kind:
        """The type of its result."""


class Expressions:
    """Translates the expressions of a function.

    Args:
        source: the function.
        types: those of the whole program.
        translate: returns a function that it calls, translated for these types of arguments.
    """

    def __init__(
        self,
        source: SourceText,
        types: Types,
        translate: Callable[[Callable[..., Any], Sequence[Kind]], Translated],
    ) -> None:
        self.source = source
        self.error = source.error
        self.types = types
        self._translate = translate
        #: the types of arguments and variables, as far as they are known
        self.variables: dict[str, Kind] = {}
        #: whether it, or a function that it calls, writes into arrays
        self.writes = False
        self._temporaries = 0

    def temporary(self) -> str:
        """Return a name that is not used yet."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    # --- what is computed --------

    def value(self, node: ast.expr) -> Value:
        """Return an expression that has a value."""
        value = self.part(node)
        if value.kind == NOTHING:
            raise self.error(node, f"found {NOTHING}; allowed: a value")
        return value

    def number(self, node: ast.expr) -> tuple[Value, Number]:
        """Return an expression that is a number, and its type."""
        value = self.value(node)
        if not isinstance(value.kind, Number):
            raise self.error(node, f"found {value.kind}; allowed: a number")
        return value, value.kind

    def integer(self, node: ast.expr) -> Value:
        """Return an expression that is an integer."""
        value = self.value(node)
        if value.kind not in (INT, BOOL):
            raise self.error(node, f"found {value.kind}; allowed: an integer")
        return self.converted(value, INT, node)

    def truth(self, node: ast.expr) -> Value:
        """Return whether an expression counts as true."""
        match node:
            case ast.BoolOp(op=op, values=nodes):
                values = list(map(self.truth, nodes))
                sign = " && " if isinstance(op, ast.And) else " || "
                return self._of(values, f"({sign.join(value.text for value in values)})", BOOL)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                value = self.truth(operand)
                return self._of([value], f"!{value.text}", BOOL)
        value, kind = self.number(node)
        text = value.text if kind == BOOL else f"({value.text} != 0)"
        return self._of([value], text, BOOL)

    def part(self, node: ast.expr) -> Value:
        """Return an expression, which may be the call of a function without a result."""
        meaning = self.source.meaning(node)
        if meaning is not UNKNOWN:
            return self._constant(meaning, node)
        match node:
            case ast.Name(id=name):
                if name not in self.variables:
                    raise self.error(node, f"found {name}, which has no value above")
                return Value(f"{name}_", self.variables[name])
            case ast.Attribute() | ast.Subscript():
                return self._read(node)
            case ast.Tuple(elts=nodes):
                return self._tuple(node, list(map(self.value, nodes)))
            case ast.UnaryOp(op=ast.Not()):
                return self.truth(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value, kind = self.number(operand)
                kind = FLOAT if kind == FLOAT else INT
                return self._of([value], f"(-{self.converted(value, kind, node).text})", kind)
            case ast.BoolOp():
                return self._either(node)
            case ast.IfExp():
                return self._conditional(node)
            case ast.Compare():
                return self._comparison(node)
            case ast.BinOp():
                return self._arithmetic(node)
            case ast.Call(func=function, args=arguments, keywords=[]):
                meaning = self.source.meaning(function)
                if meaning is UNKNOWN or not callable(meaning):
                    raise self.error(node, "allowed: calls of functions of modules")
                return self._call(node, meaning, arguments)
        raise self.error(node, f"found {ast.unparse(node)!r}, an expression that is not known")

    def _constant(self, value: object, node: ast.expr) -> Value:
        if isinstance(value, bool):
            return Value(str(int(value)), BOOL)
        if isinstance(value, int):
            if not -(2**63) < value < 2**63:
                raise self.error(node, f"found {value}; allowed: integers of 64 bits")
            return Value(f"INT64_C({value})", INT)
        if isinstance(value, float):
            if math.isnan(value):
                return Value("(double)NAN", FLOAT)
            if math.isinf(value):
                return Value("(double)INFINITY" if value > 0 else "-(double)INFINITY", FLOAT)
            return Value(value.hex(), FLOAT)
        raise self.error(node, f"found {value!r}; allowed: numbers")

    def _of(self, parts: Sequence[Value], text: str, kind: Kind) -> Value:
        """Return an expression of these parts, which are computed in the order of Python."""
        reads = any(part.reads for part in parts)
        return Value(text, kind, reads, any(part.writes for part in parts))

    def _of_any_order(self, parts: Sequence[Value], text: str, kind: Kind, node: ast.expr) -> Value:
        """Return an expression of these parts, which C may compute in any order."""
        writing = sum(part.writes for part in parts)
        if writing and sum(part.reads or part.writes for part in parts) > 1:
            raise self.error(
                node,
                "found a call that writes beside what reads or writes, the order of which is not "
                "certain in C; allowed: a statement for each",
            )
        return self._of(parts, text, kind)

    def converted(self, value: Value, kind: Kind, node: ast.AST) -> Value:
        """Return a value as another type, which numbers and tuples of numbers can be."""
        if value.kind == kind:
            return value
        if isinstance(value.kind, Number) and isinstance(kind, Number):
            return value._replace(text=f"({kind.c}){value.text}", kind=kind, stored="")
        if isinstance(value.kind, Tuple) and isinstance(kind, Tuple):
            name, items, before = "", value.items, ""
            if not items:
                name = self.temporary()
                before = f"{value.kind.c} {name} = {value.text}; "
                items = tuple(
                    Value(f"{name}.f{place}", item) for place, item in enumerate(value.kind.items)
                )
            if len(items) == len(kind.items):
                texts = [
                    self.converted(item, wanted, node).text
                    for item, wanted in zip(items, kind.items, strict=True)
                ]
                text = f"({kind.c}){{{', '.join(texts)}}}"
                if before:
                    text = f"({{ {before}{text}; }})"
                return value._replace(text=text, kind=kind)
        raise self.error(node, f"found {value.kind}; allowed: {kind}")

    def joined(self, first: Kind | None, second: Kind, node: ast.AST) -> Kind:
        """Return the type of what is the first or the second."""
        try:
            return self.types.joined(first, second)
        except KindError as error:
            raise self.error(node, str(error)) from None

    # --- places in arrays and records --------

    def place(self, node: ast.expr) -> Value:
        """Return what an attribute or index refers to; a number as it is stored."""
        match node:
            case ast.Attribute(value=base, attr=attribute):
                return self._field(node, self.value(base), attribute)
            case ast.Subscript(value=base, slice=ast.Tuple(elts=indices)):
                return self._element(node, self.value(base), indices)
            case ast.Subscript(value=base, slice=index):
                return self._element(node, self.value(base), [index])
        raise self.error(node, f"found {ast.unparse(node)!r}; allowed: an attribute or an index")

    def _read(self, node: ast.expr) -> Value:
        place = self.place(node)
        if place.stored and place.stored != place.kind.c:
            return place._replace(text=f"({place.kind.c}){place.text}", stored="")
        return place._replace(stored="")

    def _field(self, node: ast.expr, base: Value, attribute: str) -> Value:
        kind = base.kind
        if isinstance(kind, Record) and attribute in (kind.dtype.names or ()):
            dtype = kind.dtype[attribute]
            place = self._of([base], f"{base.text}->{attribute}_", number_in(dtype))
            return place._replace(reads=True, stored=stored(dtype))
        if isinstance(kind, Named) and attribute in dict(kind.fields):
            field = dict(kind.fields)[attribute]
            text = f"{base.text}->{attribute}_"
            return self._of([base], f"(&{text})" if isinstance(field, Named) else text, field)
        raise self.error(node, f"found the attribute {attribute} of {kind}, which has none such")

    def _element(self, node: ast.expr, base: Value, indices: Sequence[ast.expr]) -> Value:
        kind = base.kind
        if isinstance(kind, Tuple):
            place = self.source.meaning(indices[0])
            if len(indices) != 1 or place not in range(len(kind.items)):
                raise self.error(node, "allowed as the index of a tuple: a constant within it")
            return self._of([base], f"{base.text}.f{place}", kind.items[place])
        if not isinstance(kind, Array) or len(indices) > kind.dimensions:
            raise self.error(node, f"found {len(indices)} indices of {kind}")
        if base.writes:
            raise self.error(node, "found the result of a call that writes; allowed: a variable")
        values = list(map(self._index, indices))
        flat = f"in_array({values[0].text}, {base.text}.n0)"
        for axis, value in enumerate(values[1:], 1):
            flat = f"({flat}) * {base.text}.n{axis} + in_array({value.text}, {base.text}.n{axis})"
        lengths = [f"{base.text}.n{axis}" for axis in range(len(indices), kind.dimensions)]
        if lengths:
            row = self.types.array(kind.dtype, len(lengths))
            begin = "".join([f"({flat})", *(f" * {length}" for length in lengths)])
            text = f"({row.c}){{{base.text}.at + {begin}, {', '.join(lengths)}}}"
            return self._of_any_order([base, *values], text, row, node)
        if kind.dtype.fields:
            record = self.types.record(kind.dtype)
            return self._of_any_order([base, *values], f"(&{base.text}.at[{flat}])", record, node)
        number = number_in(kind.dtype)
        place = self._of_any_order([base, *values], f"{base.text}.at[{flat}]", number, node)
        return place._replace(reads=True, stored=stored(kind.dtype))

    def _index(self, node: ast.expr) -> Value:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            raise self.error(node, "found an index from the end; allowed: from the beginning")
        return self.integer(node)

    # --- operators --------

    def _tuple(self, node: ast.expr, items: Sequence[Value]) -> Value:
        kind = self.types.tuple_of([item.kind for item in items])
        text = f"({kind.c}){{{', '.join(item.text for item in items)}}}"
        return self._of_any_order(items, text, kind, node)._replace(items=tuple(items))

    def _either(self, node: ast.BoolOp) -> Value:
        """Return ``or`` and ``and``: the first operand that decides, of any type of number."""
        values = [self.number(operand) for operand in node.values]
        if all(kind == BOOL for _, kind in values):
            return self.truth(node)
        kind: Kind = values[0][1]
        for _, other in values[1:]:
            kind = self.joined(kind, other, node)
        texts = [self.converted(value, kind, node).text for value, _ in values]
        text = texts.pop()
        for operand in reversed(texts):
            name = self.temporary()
            choice = f"{name} : {text}" if isinstance(node.op, ast.Or) else f"{text} : {name}"
            text = f"({{ {kind.c} {name} = {operand}; {name} ? {choice}; }})"
        return self._of([value for value, _ in values], text, kind)

    def _conditional(self, node: ast.IfExp) -> Value:
        condition = self.truth(node.test)
        body, other = self.value(node.body), self.value(node.orelse)
        kind = self.joined(body.kind, other.kind, node)
        texts = [self.converted(value, kind, node).text for value in (body, other)]
        text = f"({condition.text} ? {' : '.join(texts)})"
        return self._of([condition, body, other], text, kind)

    def _comparison(self, node: ast.Compare) -> Value:
        nodes = [node.left, *node.comparators]
        numbers = [self.number(operand) for operand in nodes]
        values = [value for value, _ in numbers]
        if any(type(op) not in COMPARISONS for op in node.ops):
            raise self.error(node, f"allowed as comparisons: {' '.join(COMPARISONS.values())}")
        names = [self.temporary() for _ in nodes] if len(nodes) > 2 else []
        compared = []
        for place, op in enumerate(node.ops):
            kind = self.joined(numbers[place][1], numbers[place + 1][1], node)
            if kind == BOOL:
                kind = INT
            pair = values[place : place + 2]
            if names:
                pair = [Value(names[place + step], value.kind) for step, value in enumerate(pair)]
            left, right = (self.converted(value, kind, node).text for value in pair)
            compared.append(f"{left} {COMPARISONS[type(op)]} {right}")
        if not names:
            return self._of_any_order(values, f"({compared[0]})", BOOL, node)
        # each operand is computed once, and only if those before it compare as wanted
        declared = "".join(
            f"{value.kind.c} {name}; " for name, value in zip(names, values, strict=True)
        )
        steps = [
            f"({name} = {value.text}, {test})"
            for name, value, test in zip(names[1:], values[1:], compared, strict=True)
        ]
        text = f"({{ {declared}{names[0]} = {values[0].text}; {' && '.join(steps)}; }})"
        return self._of(values, text, BOOL)

    def _arithmetic(self, node: ast.BinOp) -> Value:
        (left, left_kind), (right, right_kind) = self.number(node.left), self.number(node.right)
        operator = type(node.op)
        kind = self.joined(self.joined(left_kind, right_kind, node), INT, node)
        if operator is ast.Div:
            kind = FLOAT
        a, b = (self.converted(value, kind, node).text for value in (left, right))
        if operator is ast.Div:
            text = f"true_division({a}, {b})"
        elif operator in DIVISIONS:
            text = f"{DIVISIONS[operator][kind == FLOAT]}({a}, {b})"
        elif operator in SIGNS:
            text = f"({a} {SIGNS[operator]} {b})"
        elif operator in BIT_SIGNS and kind == INT:
            bits = self.source.meaning(node.right)
            if operator in SHIFTS and bits not in range(64):
                raise self.error(node, "allowed: shifts by a constant from 0 to 63")
            text = f"({a} {BIT_SIGNS[operator]} {b})"
        else:
            raise self.error(node, f"found {ast.unparse(node)!r}, an operation that is not known")
        return self._of_any_order([left, right], text, kind, node)

    # --- calls --------

    def _call(
        self, node: ast.Call, function: Callable[..., Any], nodes: Sequence[ast.expr]
    ) -> Value:
        given = list(map(self.value, nodes))
        if function is len and len(given) == 1 and isinstance(given[0].kind, Array):
            return self._of(given, f"{given[0].text}.n0", INT)
        if function in (min, max) and len(given) > 1:
            return self._extreme(node, function.__name__, given)
        if function in (abs, int, math.floor, math.ceil, np.isnan) and len(given) == 1:
            return self._of_one_number(node, function, *self.number(nodes[0]))
        if function is math.pow and len(given) == 2:
            base, exponent = (self.converted(value, FLOAT, node).text for value in given)
            return self._of_any_order(given, f"pow({base}, {exponent})", FLOAT, node)
        if not hasattr(function, "__code__"):
            raise self.error(node, f"found {ast.unparse(node)!r}, a call that is not known")
        return self._own(node, function, given)

    def _extreme(self, node: ast.Call, name: str, given: Sequence[Value]) -> Value:
        kind: Kind = INT
        for value in given:
            kind = self.joined(kind, value.kind, node)
        text, *others = [self.converted(value, kind, node).text for value in given]
        for other in others:
            text = f"{name}_{'float' if kind == FLOAT else 'integer'}({text}, {other})"
        return self._of_any_order(given, text, kind, node)

    def _of_one_number(
        self, node: ast.Call, function: Callable[..., Any], value: Value, kind: Number
    ) -> Value:
        if function is np.isnan:
            text = f"isnan({self.converted(value, FLOAT, node).text})"
            return self._of([value], f"({text} != 0)", BOOL)
        if kind != FLOAT:
            whole = self.converted(value, INT, node)
            text = f"absolute({whole.text})" if function is abs else whole.text
            return self._of([value], text, INT)
        if function is abs:
            return self._of([value], f"fabs({value.text})", FLOAT)
        rounded = value.text if function is int else f"{function.__name__}({value.text})"
        return self._of([value], f"integer({rounded})", INT)

    def _own(self, node: ast.Call, function: Callable[..., Any], given: list[Value]) -> Value:
        """Return a call of a function of the kernel, which is translated for these arguments."""
        called = SourceText(function)
        missing = len(called.arguments) - len(given)
        if not 0 <= missing <= len(called.defaults):
            raise self.error(node, f"found {len(given)} arguments of {function.__name__}")
        defaults = called.defaults[len(called.defaults) - missing :]
        given += [self._constant(called.meaning(default), node) for default in defaults]
        made = self._translate(function, [value.kind for value in given])
        self.writes = self.writes or made.writes
        texts = [
            self.converted(value, kind, node).text
            for value, kind in zip(given, made.parameters, strict=True)
        ]
        text = f"{made.name}({', '.join(texts)})"
        value = self._of_any_order(given, text, made.returns, node)
        return value._replace(reads=True, writes=value.writes or made.writes)
