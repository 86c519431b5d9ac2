"""Messages for the errors found by pydantic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from farm.core.errors import allowed_by, not_among
from farm.scenario.file.line_marks import mark_of

Path = tuple[str | int, ...]

MAX_LISTED = 20


def describe(error: ValidationError, data: object, source: str) -> str:
    """Return ``file:line: dotted.key: found …; allowed: …``, one line per error.

    ``data`` is the validated document, from which line numbers are taken if it has them.
    """
    problems = error.errors(include_url=False)
    lines = [_line(problem, data, source) for problem in problems[:MAX_LISTED]]
    more = len(problems) - len(lines)
    return "\n".join([*lines, f"… and {more} more problems"] if more else lines)


def _line(problem: ErrorDetails, data: object, source: str) -> str:
    path = _path(problem)
    place = mark_of(data, path) or source
    dotted = ".".join(_readable(path, data))
    # the place of an override is its key, which is not repeated
    return ": ".join(part for part in dict.fromkeys((place, dotted, _text(problem))) if part)


def _path(problem: ErrorDetails) -> Path:
    path = tuple(problem["loc"])
    if problem["type"] == "unknown_key":
        path = (*path, problem["ctx"]["key"])
    # pydantic adds its own markers: for a mapping's key, and for the form of a memory law
    return tuple(
        step
        for before, step in zip(("", *path), path, strict=False)
        if step != "[key]" and not (before == "memory" and step in ("table", "line"))
    )


def _readable(path: Path, data: object) -> list[str]:
    """Return the steps of the path, with pools by name."""
    steps: list[str] = []
    for index, step in enumerate(path):
        item = _item(data, path[: index + 1]) if isinstance(step, int) else None
        name = item.get("name") if isinstance(item, dict) and path[0] == "pools" else None
        steps.append(name if isinstance(name, str) and index == 1 else str(step))
    return steps


def _item(data: Any, path: Sequence[str | int]) -> object:
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _text(problem: ErrorDetails) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "missing":
        return "this key is required"
    if kind == "unknown_key":
        return str(context["text"])
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'|(\d+)", context["expected"])
        names = [text or number for text, number in words]
        if isinstance(problem["input"], str):
            return not_among(problem["input"], names)
        return f"found {_shown(problem['input'])}; allowed: {', '.join(names)}"
    return f"found {_shown(problem['input'])}; allowed: {allowed_by(problem)}"


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
