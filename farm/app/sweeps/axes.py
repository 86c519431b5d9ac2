"""The axes of a sweep: ``KEY=V1,V2``, pools by pattern, sections from files."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote
from typing import NamedTuple, cast

import msgspec
import numpy as np

from farm.app.runs.own_parts import NONE, OwnEstimator, OwnParts
from farm.core.errors import InputError, ScenarioError, not_among
from farm.core.model import Job
from farm.plugins.lookup import is_importable, name_of_part
from farm.results.comparison.sweep_judgement import Settings
from farm.scenario import Scenario
from farm.scenario.file.document import parse_document, parse_value, read_document
from farm.scenario.file.line_marks import MarkedDict, MarkedList
from farm.scenario.file.overrides import apply_change
from farm.scenario.load import parse_scenario
from farm.scenario.presets import pool_without_preset

ESTIMATES = "scheduling.runtime_estimates"
ALGORITHM, PRESET = ".provisioner.algorithm", ".provisioner.preset"
_STEP = re.compile(r"[+-][0-9][0-9a-z. ]*\Z")


class Axis(NamedTuple):
    """A key of the scenario, perhaps with ``*`` in it, and its values by how they are written."""

    key: str
    values: dict[str, object]
    #: those of its values that are functions
    functions: Mapping[str, Callable[..., object]] = {}


def parse_axis(text: str) -> Axis:
    """Return the axis of ``--vary KEY=V1,V2``; raises InputError."""
    key, equals, values = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--vary {text}: allowed: KEY=V1,V2, such as scheduling.policy=fifo,sjf")
    written = _split(values)
    return _axis(key.strip(), {one: _value(one, f"--vary {key}={one}", key) for one in written})


def axis_of(key: str, values: Sequence[object]) -> Axis:
    """Return the axis of a key in the form of Python code; ``__`` stands for a dot."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InputError(f"vary: {key}: found {values!r:.60}; allowed: a list of values")
    named: dict[str, object] = {}
    functions: dict[str, Callable[..., object]] = {}
    for one in values:
        name = name_of(one)
        if callable(one):
            if functions.setdefault(name, one) is not one:
                raise InputError(
                    f"vary: {key}: found two functions {name}; allowed: functions of other names"
                )
            named[name] = name
        elif isinstance(one, str) and one.startswith("@"):
            named[name] = _section(one[1:], key)
        else:
            named[name] = one
    return _axis(key.replace("__", "."), named)._replace(functions=functions)


def name_of(value: object) -> str:
    """Return a value as an axis names it: text as it is, a file without its ``@``, else JSON.

    A function is named by its module and its own name.
    """
    if callable(value):
        return name_of_part(value)
    text = value if isinstance(value, str) else json.dumps(value, default=_plain)
    return text.removeprefix("@")


def _plain(value: object) -> object:
    """Return a number of NumPy as Python's, and what JSON does not know as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def _axis(key: str, values: dict[str, object]) -> Axis:
    if not values:
        raise InputError(f"vary: {key}: found no value; allowed: one or more")
    return Axis(key, {name.removeprefix("@"): value for name, value in values.items()})


def _split(text: str) -> list[str]:
    """Return the parts between commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "[{(":
            depth += 1
        elif character in ")}]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _value(text: str, source: str, key: str) -> object:
    if text.startswith("@"):
        return _section(text[1:], key)
    if _STEP.match(text) and (text[0] == "+" or key.startswith("pool")):
        return text  # a step, as in --set
    return parse_value(text, source, lines=False)


def _section(path: str, key: str) -> MarkedDict:
    """Return a section from a file: its keys, or the section's name above them."""
    document = read_document(Path(path))
    last = key.replace("__", ".").rpartition(".")[2]
    inner = document.get(last)
    return inner if list(document) == [last] and isinstance(inner, MarkedDict) else document


class Grid:
    """The settings of a sweep, each with its scenario.

    Raises ScenarioError for a key that does not exist, a pattern that matches nothing, and values
    that are not allowed: everything is checked before the first run.
    """

    def __init__(self, base: Scenario, axes: Sequence[Axis]) -> None:
        keys = [axis.key for axis in axes]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise InputError(f"vary: found {twice[0]} twice; allowed: each key once")
        if "seed" in keys:
            raise InputError(
                "vary: found seed; allowed: other keys, because every setting runs with the same "
                "seeds (--replications of them, starting at the scenario's seed)"
            )
        self.base = base
        self._axes = axes
        if axes:  # it takes as long as some tens of runs
            self._document = parse_document(base.to_yaml(), base.name)
        self._places = {key: list(_expanded(self._document, key)) for key in keys}
        self.axes = {axis.key: list(axis.values) for axis in axes}
        self.scenarios: dict[Settings, Scenario] = {
            settings: self._scenario(settings)
            for settings in itertools.product(*(axis.values for axis in axes))
        }

    def own_parts(self, settings: Settings, own: OwnParts) -> OwnParts:
        """Return the caller's parts with these settings: what no other process can import.

        ``own``: those that are in all runs, in the place of which an axis has its values.
        """
        functions = dict(own.functions)
        estimator = own.estimator
        for axis, name in zip(self._axes, settings, strict=True):
            functions.pop(axis.key, None)
            part = axis.functions.get(name)
            if axis.key == ESTIMATES:
                estimator = (
                    None
                    if part is None
                    else OwnEstimator(cast("Callable[[Job], float]", part), name)
                )
            elif part is not None:
                functions[axis.key] = part
        functions = {key: part for key, part in functions.items() if not is_importable(part)}
        if not (functions or estimator or own.algorithms or own.jobs is not None):
            return NONE
        return msgspec.structs.replace(own, functions=functions, estimator=estimator)

    def as_options(self, settings: Settings) -> list[str]:
        """Return the settings as options of a command on the swept scenario, quoted for a shell."""
        options = []
        for key, value in self._changes(settings).items():
            text = value if isinstance(value, str) else json.dumps(value, default=_plain)
            options += ["--set", quote(f"{key}={text}")]
        return options

    def _scenario(self, settings: Settings) -> Scenario:
        changes = self._changes(settings)
        if not changes:
            return self.base
        document = deepcopy(self._document)
        for key, value in changes.items():
            apply_change(document, key, value)
        return parse_scenario(document, source=self.base.name)

    def _changes(self, settings: Settings) -> dict[str, object]:
        """Return what the settings put in which place of the scenario."""
        changes: dict[str, object] = {}
        # an algorithm first: its options may be an axis, too
        chosen = sorted(
            zip(self._axes, settings, strict=True),
            key=lambda one: not one[0].key.endswith((ALGORITHM, PRESET)),
        )
        for axis, name in chosen:
            for place in self._places[axis.key]:
                changes.update(self._change(place, axis.values[name]))
        return changes

    def _change(self, place: str, value: object) -> Mapping[str, object]:
        """Return the change; another algorithm takes over the limits, not the other's options.

        Another preset takes over all but what the old one gave.
        """
        if not place.endswith((ALGORITHM, PRESET)):
            return {place: value}
        name = place.removeprefix("pools.").removesuffix(ALGORITHM).removesuffix(PRESET)
        pool = next((p for n, p in enumerate(self.base.pools) if name in (p.name, str(n))), None)
        old = None if pool is None else pool.provisioner
        if pool is None or old is None or value == getattr(old, place.rpartition(".")[2]):
            return {place: value}
        if place.endswith(ALGORITHM):
            return {place.removesuffix(".algorithm"): {**old.limits(), "algorithm": value}}
        if old.preset is None:
            return {place: value}
        kept = pool_without_preset(pool.model_dump(mode="json", exclude_none=True))
        kept["provisioner"]["preset"] = value
        return {f"pools.{name}": kept}

    def baseline(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return by axis the value that others are compared with; default: its first value."""
        for key, value in given.items():
            if key not in self.axes:
                allowed = self.axes or ["none, as nothing varies"]
                raise InputError(f"baseline: {not_among(key, allowed)}")
            if value not in self.axes[key]:
                raise InputError(f"baseline: {key}: {not_among(value, self.axes[key])}")
        return dict(given) or {key: values[0] for key, values in self.axes.items()}


def _expanded(document: MarkedDict, key: str) -> Iterator[str]:
    """Yield the keys that a pattern stands for; a key without ``*`` as it is."""
    steps = key.split(".")
    if steps[0] == "pool":
        steps[0] = "pools"
    if not any(map(_is_pattern, steps)):
        yield ".".join(steps)
        return
    found = list(_matches(document, steps))
    if not found:
        pools = ", ".join(pool["name"] for pool in document["pools"])
        raise ScenarioError(f"{key}: matches nothing in the scenario; its pools: {pools}")
    yield from (".".join(place) for place in found)


def _is_pattern(step: str) -> bool:
    return any(mark in step for mark in "*?[")


def _matches(place: MarkedDict | MarkedList, steps: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the paths that match and whose last container exists."""
    children = _children(place)
    step, *rest = steps
    if not rest:
        names = [name for name in children if fnmatchcase(name, step)]
        yield from ((name,) for name in (names if _is_pattern(step) else [step]))
        return
    for name, child in children.items():
        if fnmatchcase(name, step) and isinstance(child, MarkedDict | MarkedList):
            yield from ((name, *tail) for tail in _matches(child, rest))


def _children(place: MarkedDict | MarkedList) -> dict[str, object]:
    if isinstance(place, dict):
        return dict(place)
    named = (one.get("name") if isinstance(one, dict) else None for one in place)
    return {
        name or str(number): one
        for number, (name, one) in enumerate(zip(named, place, strict=True))
    }
