"""Descriptions of a scenario's keys for the JSON Schema, from the docstrings below them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel


def describe(schema: dict[str, Any], base: type[BaseModel]) -> None:
    """Add descriptions of the fields of all models derived from ``base`` to a schema.

    It reads the sources, which takes a tenth of a second, so only when a schema is requested.
    """
    definitions = {schema["title"]: schema, **schema.get("$defs", {})}
    for model in _derived(base):
        found = definitions.get(model.__name__, {})
        # a section with a short form has its keys one level deeper
        forms = (form.get("properties", {}) for form in (found, *found.get("anyOf", ())))
        properties = {name: one for form in forms for name, one in form.items()}
        parents = (parent for parent in reversed(model.__mro__) if issubclass(parent, base))
        texts = {name: text for one in parents for name, text in _docstrings(one).items()}
        for name in texts.keys() & properties.keys():
            properties[name]["description"] = texts[name]


def _derived(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for one in model.__subclasses__():
        yield from _derived(one)


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field of a class."""
    (node,) = ast.parse(dedent(inspect.getsource(model))).body
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(getattr(node, "body", ()))
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
