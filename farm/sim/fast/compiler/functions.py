"""Functions of the kernel, in C: their statements, and the types of their variables."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from farm.sim.fast.compiler.expressions import Expressions, Translated, Value
from farm.sim.fast.compiler.kinds import INT, NOTHING, Array, Kind, Record, Tuple, Types, number_in
from farm.sim.fast.compiler.source import SourceText

DISCARDED = "_"
"""The variable whose value is not used."""


class FunctionInC(Expressions):
    """A function, translated for arguments of certain types.

    The type of a variable is that of all values that it is given. Some of them depend on it, so the
    statements are translated again until no type changes.

    Raises TranslationError for what is not known.

    Args:
        function: in Python.
        name: in C.
        kinds: the types of its arguments.
        types: those of the whole program.
        translate: returns a function that it calls, translated for these types of arguments.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        kinds: Sequence[Kind],
        types: Types,
        translate: Callable[[Callable[..., Any], Sequence[Kind]], Translated],
    ) -> None:
        super().__init__(SourceText(function), types, translate)
        self.name = name
        self.variables = dict(zip(self.source.arguments, kinds, strict=True))
        self._returned: Kind | None = None
        body = self.source.tree.body
        while True:
            known = (dict(self.variables), self._returned)
            self._lines: list[str] = []
            self._temporaries = 0
            self._block(body, 1)
            if known == (self.variables, self._returned):
                break
        if self.returns != NOTHING and not _always_returns(body):
            raise self.error(body[-1], "found an end without a result; allowed: return")
        self.text = "\n".join([f"{self.declaration} {{", *self._declared(), *self._lines, "}"])

    @property
    def returns(self) -> Kind:
        """The type of its result."""
        return self._returned or NOTHING

    @property
    def parameters(self) -> list[Kind]:
        """The types of its arguments: wider than given, if it puts something wider there."""
        return [self.variables[name] for name in self.source.arguments]

    @property
    def declaration(self) -> str:
        """Its first line in C; the compiler decides what is inlined."""
        arguments = [f"{self.variables[name].c} {name}_" for name in self.source.arguments]
        return f"static inline {self.returns.c} {self.name}({', '.join(arguments) or 'void'})"

    def _declared(self) -> list[str]:
        return [
            f"  {kind.c} {name}_ = {{0}};"
            for name, kind in self.variables.items()
            if name not in self.source.arguments
        ]

    # --- statements --------

    def _block(self, body: Sequence[ast.stmt], depth: int) -> None:
        for statement in body:
            self._statement(statement, depth)

    def _put(self, depth: int, text: str) -> None:
        self._lines.append("  " * depth + text)

    def _statement(self, statement: ast.stmt, depth: int) -> None:
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case ast.Expr(value=ast.Call() as call):
                self._put(depth, f"{self.part(call).text};")
            case ast.Return(value=None):
                self._return(statement, None, depth)
            case ast.Return(value=value):
                self._return(statement, value, depth)
            case ast.Assign(targets=targets, value=value):
                self._assign(targets, value, depth)
            case ast.AugAssign(target=target, op=op, value=value):
                self._change(target, op, value, depth)
            case ast.If(test=test, body=body, orelse=other):
                self._put(depth, f"if ({self.truth(test).text}) {{")
                self._block(body, depth + 1)
                if other:
                    self._put(depth, "} else {")
                    self._block(other, depth + 1)
                self._put(depth, "}")
            case ast.While(test=test, body=body, orelse=[]):
                self._put(depth, f"while ({self.truth(test).text}) {{")
                self._block(body, depth + 1)
                self._put(depth, "}")
            case ast.For(target=ast.Name(id=name), iter=iterated, body=body, orelse=[]):
                self._loop(name, iterated, body, depth)
            case ast.For(
                target=ast.Tuple() as target, iter=ast.Tuple() as rows, body=body, orelse=[]
            ):
                self._loop_over_rows(target, rows, body, depth)
            case ast.Continue():
                self._put(depth, "continue;")
            case ast.Break():
                self._put(depth, "break;")
            case _:
                line = ast.unparse(statement).partition("\n")[0]
                raise self.error(statement, f"found {line!r}, a statement that is not known")

    def _return(self, statement: ast.stmt, value: ast.expr | None, depth: int) -> None:
        if value is None:
            self._returned = self.joined(self._returned, NOTHING, statement)
            self._put(depth, "return;")
            return
        result = self.value(value)
        self._returned = self.joined(self._returned, result.kind, statement)
        self._put(depth, f"return {self.converted(result, self._returned, statement).text};")

    def _loop(self, name: str, iterated: ast.expr, body: Sequence[ast.stmt], depth: int) -> None:
        """Translate a loop over a range, an array, or values that are written out."""
        step, end = self.temporary(), self.temporary()
        match iterated:
            case ast.Call(func=function, args=[*bounds], keywords=[]) if self.source.meaning(
                function
            ) is range and len(bounds) in (1, 2):
                texts = [self.integer(bound).text for bound in bounds]
                begin, last = texts if len(texts) == 2 else ("0", texts[0])
                item = Value(step, INT)
            case ast.Tuple():
                items = self.value(iterated)
                begin, last = "0", str(len(items.items))
                item = self._put_in_array(iterated, items.items, step, depth)
            case _:
                array = self._kept(self.value(iterated), depth)
                if not isinstance(array.kind, Array):
                    raise self.error(iterated, "allowed: loops over a range, array or tuple")
                begin, last = "0", f"{array.text}.n0"
                item = self._item(array.text, array.kind, step)
        loop = f"int64_t {step} = {begin}, {end} = {last}; {step} < {end}; {step}++"
        self._put(depth, f"for ({loop}) {{")
        if name != DISCARDED:
            self._store(ast.Name(id=name), item, depth + 1)
        self._block(body, depth + 1)
        self._put(depth, "}")

    def _loop_over_rows(
        self, target: ast.Tuple, rows: ast.Tuple, body: Sequence[ast.stmt], depth: int
    ) -> None:
        """Translate a loop over tuples that are written out."""
        step = self.temporary()
        item = self._put_in_array(rows, self.value(rows).items, step, depth)
        loop = f"int64_t {step} = 0; {step} < {len(rows.elts)}; {step}++"
        self._put(depth, f"for ({loop}) {{")
        self._unpack(target, item, depth + 1)
        self._block(body, depth + 1)
        self._put(depth, "}")

    def _put_in_array(self, node: ast.expr, items: Sequence[Value], step: str, depth: int) -> Value:
        kind: Kind | None = None
        for value in items:
            kind = self.joined(kind, value.kind, node)
        if kind is None:
            raise self.error(node, "found an empty tuple")
        name = self.temporary()
        texts = [self.converted(value, kind, node).text for value in items]
        self._put(depth, f"{kind.c} {name}[] = {{{', '.join(texts)}}};")
        return Value(f"{name}[{step}]", kind)

    def _item(self, array: str, kind: Array, step: str) -> Value:
        if kind.dimensions > 1:
            row = self.types.array(kind.dtype, kind.dimensions - 1)
            lengths = [f"{array}.n{axis}" for axis in range(1, kind.dimensions)]
            begin = " * ".join([step, *lengths])
            return Value(f"({row.c}){{{array}.at + {begin}, {', '.join(lengths)}}}", row)
        if kind.dtype.fields:
            return Value(f"(&{array}.at[{step}])", self.types.record(kind.dtype))
        number = number_in(kind.dtype)
        return Value(f"({number.c}){array}.at[{step}]", number)

    # --- assignments --------

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr, depth: int) -> None:
        """Translate an assignment: first the value, then the targets from left to right."""
        if len(targets) == 1 and isinstance(targets[0], ast.Tuple):
            self._unpack(targets[0], self._values_of(value, depth), depth)
            return
        result = self.value(value)
        if len(targets) > 1:
            result = self._kept(result, depth)
        for target in targets:
            self._store(target, result, depth)

    def _values_of(self, node: ast.expr, depth: int) -> Value:
        """Return what is unpacked: the items of a tuple are computed before any is stored."""
        if not isinstance(node, ast.Tuple):
            return self._kept(self.value(node), depth)
        items = []
        for part in node.elts:
            item = self.value(part)
            items.append(item if isinstance(part, ast.Constant) else self._kept(item, depth))
        return Value("", self.types.tuple_of([item.kind for item in items]), items=tuple(items))

    def _unpack(self, target: ast.Tuple, value: Value, depth: int) -> None:
        kind = value.kind
        if not isinstance(kind, Tuple) or len(kind.items) != len(target.elts):
            raise self.error(target, f"found {kind} for {len(target.elts)} targets")
        items = value.items
        if not items:
            items = tuple(
                Value(f"{value.text}.f{place}", item) for place, item in enumerate(kind.items)
            )
        for part, item in zip(target.elts, items, strict=True):
            self._store(part, item, depth)

    def _kept(self, value: Value, depth: int) -> Value:
        """Compute a value now; return the variable that holds it."""
        name = self.temporary()
        self._put(depth, f"{value.kind.c} {name} = {value.text};")
        return Value(name, value.kind)

    def _store(self, target: ast.expr, value: Value, depth: int) -> None:
        if isinstance(target, ast.Name):
            if target.id == DISCARDED:
                self._put(depth, f"(void){value.text};")
                return
            kind = self.joined(self.variables.get(target.id), value.kind, target)
            self.variables[target.id] = kind
            self._put(depth, f"{target.id}_ = {self.converted(value, kind, target).text};")
            return
        if value.writes:
            value = self._kept(value, depth)
        place = self.place(target)
        if place.writes:
            raise self.error(target, "found a call that writes, in the place to write into")
        self.writes = True
        if isinstance(place.kind, Record) and place.kind == value.kind:
            self._put(depth, f"*{place.text} = *{value.text};")
            return
        if not place.stored:
            raise self.error(target, "allowed: a number, or a whole record, in an array")
        self._put(depth, f"{place.text} = {self.converted(value, place.kind, target).text};")

    def _change(
        self, target: ast.expr, operator: ast.operator, value: ast.expr, depth: int
    ) -> None:
        """Translate an augmented assignment."""
        before = ast.parse(ast.unparse(target), mode="eval").body
        changed = ast.BinOp(left=before, op=operator, right=value)
        for node in ast.walk(changed):
            ast.copy_location(node, target)
        self._store(target, self.value(changed), depth)


def _always_returns(body: Sequence[ast.stmt]) -> bool:
    """Return whether the end of these statements is never reached."""
    match body[-1]:
        case ast.Return():
            return True
        case ast.If(body=taken, orelse=[*other]) if other:
            return _always_returns(taken) and _always_returns(other)
        case ast.While(test=ast.Constant(value=True), body=repeated):
            return not any(
                isinstance(node, ast.Break) for part in repeated for node in ast.walk(part)
            )
    return False
