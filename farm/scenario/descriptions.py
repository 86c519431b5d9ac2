"""What each key of a scenario means: the docstring below it, for the JSON Schema."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent

from pydantic import BaseModel


def describe(model: type[BaseModel]) -> None:
    """Give the fields of a model, and of those derived from it, their docstrings.

    It reads the sources, which takes a tenth of a second: only who asks for a schema waits for it.
    """
    for name, text in _docstrings(model).items():
        if name in model.model_fields:
            model.model_fields[name].description = text
    for derived in model.__subclasses__():
        for name in derived.model_fields.keys() & model.model_fields.keys():
            inherited = model.model_fields[name].description
            derived.model_fields[name].description = inherited
        describe(derived)
    model.model_rebuild(force=True)


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the text below each field of a class."""
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
