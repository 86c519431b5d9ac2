"""A function that is translated: its tree, what its names mean, and where its lines are."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

UNKNOWN = object()
"""The meaning of an expression that is known only when it is computed."""


class TranslationError(Exception):
    """A part of the kernel that is not understood; the message names the file and the line."""


class SourceText:
    """A function's Python.

    Raises TranslationError for a function that is decorated or has unusual arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        lines, self._first_line = inspect.getsourcelines(function)
        self._file = Path(inspect.getsourcefile(function) or "")
        self._globals: dict[str, Any] = function.__globals__
        (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
        if not isinstance(tree, ast.FunctionDef):
            raise self.error(tree, "allowed: functions that begin with def")
        self.tree = tree
        arguments = tree.args
        if tree.decorator_list:
            raise self.error(tree, "found a decorator; allowed: none")
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
            raise self.error(tree, "allowed: plain arguments, some of them with a default")
        self.arguments = [argument.arg for argument in arguments.args]
        self.defaults = arguments.defaults
        stored = [
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        self._local = {*self.arguments, *stored}

    def error(self, node: ast.AST, reason: str) -> TranslationError:
        """Return an error that names the file and line of a part of the function."""
        line = self._first_line + getattr(node, "lineno", 1) - 1
        return TranslationError(f"{self._file}:{line}: {reason}")

    def meaning(self, node: ast.expr) -> Any:
        """Return the module, function or constant that an expression is; else ``UNKNOWN``."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case ast.Name(id=name) if name not in self._local:
                if name in self._globals:
                    return self._globals[name]
                if hasattr(builtins, name):
                    return getattr(builtins, name)
                raise self.error(node, f"found {name}, which is not defined")
            case ast.Attribute(value=value, attr=attribute):
                module = self.meaning(value)
                if isinstance(module, ModuleType):
                    return getattr(module, attribute)
        return UNKNOWN
