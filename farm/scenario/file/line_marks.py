"""Mappings and lists that remember where each key and item was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class MarkedDict(dict[str, Any]):
    """A mapping that stores where each key was written (``file:line``)."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: dict[str, str] = {}


class MarkedList(list[Any]):
    """A list that stores where each item was written."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[str] = []


def marked(value: object, source: str) -> Any:
    """Return plain data as if it had been read from ``source``; NumPy values count as plain."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        made = MarkedDict()
        for key, one in value.items():
            made[str(key)] = marked(one, source)
            made.marks[str(key)] = source
        return made
    if isinstance(value, list | tuple):
        items = MarkedList()
        items.extend(marked(one, source) for one in value)
        items.marks.extend([source] * len(value))
        return items
    return str(value) if isinstance(value, Path) else value


def merge(base: MarkedDict, over: MarkedDict) -> MarkedDict:
    """Return ``base`` merged with ``over``, whose keys take precedence; mappings are merged.

    The pools of both are merged by name; any other list replaces the base's.
    """
    merged = MarkedDict()
    for document in (base, over):
        for key, value in document.items():
            merged[key] = _merged_value(key, merged.get(key), value)
            merged.marks[key] = document.marks.get(key, "")
    return merged


def _merged_value(key: str, old: object, new: object) -> object:
    if isinstance(old, MarkedDict) and isinstance(new, MarkedDict):
        return merge(old, new)
    if key == "pools" and isinstance(old, MarkedList) and isinstance(new, MarkedList):
        return _merge_pools(old, new)
    return new


def _merge_pools(base: MarkedList, over: MarkedList) -> MarkedList:
    merged = MarkedList()
    merged.extend(base)
    merged.marks.extend(base.marks)
    names = [pool.get("name") if isinstance(pool, dict) else None for pool in base]
    for pool, mark in zip(over, over.marks, strict=True):
        name = pool.get("name") if isinstance(pool, MarkedDict) else None
        if name is not None and name in names:
            index = names.index(name)
            merged[index] = merge(merged[index], pool)
        else:
            merged.append(pool)
            merged.marks.append(mark)
    return merged


def mark_of(data: Any, path: Sequence[str | int]) -> str | None:
    """Return ``file:line`` of the innermost key on the path with a known line."""
    found = None
    for step in path:
        if isinstance(data, MarkedDict) and step in data:
            found = data.marks.get(str(step)) or found
        elif isinstance(data, MarkedList) and isinstance(step, int) and step < len(data):
            found = data.marks[step] or found
        elif not isinstance(data, dict | list):
            return found
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return found
    return found
