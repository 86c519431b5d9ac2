"""Adds the traits given by the scenario to the jobs of a source, a block of them at a time."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from farm.columns import Array, Coded, Floats, combined
from farm.scenario.traits import CHOSEN, Action, Declared, Fails, Heavy, Traits, WorkSize
from farm.workload.blocks import DEFAULTS, Block, Column
from farm.workload.streams import Bits, chooser, drawn, stream, uniforms

Columns = dict[str, Any]
"""Columns by field of a Job; ``id`` and ``service_time`` are always among them.

``msgspec.UNSET`` stands for what a trace does not say of a job.
"""

Draw = Callable[[Columns], Column]
"""From the columns that jobs have so far to one more."""

Streams = Callable[[str], random.Random]
"""From the name of a draw to its stream."""

Draws = Callable[[str], Bits]
"""The same, also of several runs at once."""

SAME_WORK = ("service_time", "kind", "platform", "fails", "size", "heavy", "memory_heavy")
"""What two jobs of the same action share."""


def source_streams(seed: int, source: str | int) -> Streams:
    """Return the maker of one source's streams: ``streams("kind")`` and so on."""
    return lambda draw: stream(seed, "workload", source, draw)


def traits_adder(traits: Traits, streams: Draws) -> Callable[[Columns], Block]:
    """Return a function that adds a source's traits to columns and makes a block of them.

    Traits that the scenario does not mention stay as they are, and cost nothing. The declared
    time is the service time unless the scenario has another.
    """
    steps = _steps(traits, streams)

    def add(columns: Columns) -> Block:
        for name, draw in steps:
            columns[name] = draw(columns)
        return Block({name: _filled(name, columns) for name in columns})

    return add


def _filled(name: str, columns: Columns) -> Column:
    """Return a column, with what a job has where a trace says nothing of it."""
    column: Column = columns[name]
    if not isinstance(column, Coded) or all(one is not msgspec.UNSET for one in column.values):
        return column
    if name == "declared_time":
        own = np.array([np.nan if one is msgspec.UNSET else one for one in column.values])
        given: Array = own[column.codes]
        return np.where(np.isnan(given), columns["service_time"], given)
    return column.replaced(DEFAULTS[name])


def _steps(traits: Traits, streams: Draws) -> list[tuple[str, Draw]]:
    """Return the traits that are given, in an order in which they may build on others."""
    steps = [
        (name, _choice(weights, streams, name))
        for name in CHOSEN
        if (weights := getattr(traits, name)) is not None
    ]
    if any((traits.attributes, traits.attribute_sets, traits.invocation)):
        steps.append(("attributes", _attributes(traits, streams)))
    if traits.fails is not None:
        steps.append(("fails", _fails(traits.fails, streams("fails"))))
    for name in ("heavy", "memory_heavy"):
        rule = getattr(traits, name)
        if rule is not None and rule.longest is None:
            steps.append((name, _heavy(rule, streams(name))))
    if traits.work_size is not None:
        steps.append(("size", _work_size(traits.work_size, streams("work_size"))))
    if traits.action is not None:
        steps.append(("action", _action(traits.action, streams("action"))))
    if traits.declared is not None:
        steps.append(("declared_time", _declared(traits.declared, streams("declared"))))
    return steps


def _count(columns: Columns) -> int:
    return len(columns["service_time"])


def _by_kind(columns: Columns, made: Callable[[str], object]) -> Array:
    """Return the array of what is made of each job's kind."""
    usual = str(DEFAULTS["kind"])
    kinds = columns.get("kind", Coded.same(usual, _count(columns)))
    found: Array = kinds.mapped(lambda one: made(usual if one is msgspec.UNSET else one))
    return found


def _choice(weights: dict[object, float], streams: Draws, name: str) -> Draw:
    draw = chooser(weights, streams, name)
    return lambda columns: draw(_count(columns))


def _attributes(traits: Traits, streams: Draws) -> Draw:
    """Draw the attributes; jobs with the same ones share one dict, so that they cost little."""
    draws = {
        name: chooser(weights, streams, f"attribute {name}")
        for name, weights in (traits.attributes or {}).items()
    }
    sets = [one.attributes for one in traits.attribute_sets or ()]
    weights = {n: one.weight for n, one in enumerate(traits.attribute_sets or ())}
    chosen = chooser(weights, streams, "attribute set") if sets else None
    parts = traits.invocation
    values: list[dict[str, str]] = []
    shared: dict[tuple[object, ...], int] = {}

    def made(own: Any, *given: Any) -> dict[str, str]:
        found = {**({} if own is msgspec.UNSET else own), **dict(zip(draws, given, strict=False))}
        if chosen is not None:
            found |= sets[given[-1]]
        if parts is not None:
            found["invocation"] = "/".join(found.get(part, part) for part in parts)
        return found

    def draw_all(columns: Columns) -> Coded:
        count = _count(columns)
        own = columns.get("attributes", Coded.same(msgspec.UNSET, count))
        given = [own, *(draw(count) for draw in draws.values())]
        if chosen is not None:
            given.append(chosen(count))
        firsts, places = combined(given, count)
        known = []
        for first in firsts.tolist():
            row = [one.values[one.codes[first]] for one in given]
            key = (tuple(row[0].items()) if isinstance(row[0], dict) else None, *row[1:])
            if key not in shared:
                shared[key] = len(values)
                values.append(made(*row))
            known.append(shared[key])
        return Coded(np.array(known)[places], values)

    return draw_all


def _fails(rule: Fails, rng: Bits) -> Draw:
    by_kind, always = rule.by_kind, rule.probability or 0.0
    if by_kind is None:
        return lambda columns: uniforms(rng, _count(columns)) < always

    def fails(columns: Columns) -> Array:
        share = _by_kind(columns, lambda kind: by_kind.get(kind, 0.0))
        failing: Array = uniforms(rng, _count(columns)) < share
        return failing

    return fails


def _heavy(rule: Heavy, rng: Bits) -> Draw:
    kinds, threshold, share = rule.kind, rule.threshold, rule.probability or 0.0
    if rule.declared is not None:
        return lambda columns: Coded.same(rule.declared, _count(columns))
    if kinds is not None:
        return lambda columns: _by_kind(columns, lambda kind: kind in kinds)
    if threshold is not None:
        return lambda columns: columns["service_time"] >= threshold
    return lambda columns: uniforms(rng, _count(columns)) < share


def _work_size(rule: WorkSize, rng: Bits) -> Draw:
    rate, factor = rule.per_second, rule.factor
    if factor is None:
        return lambda columns: columns["service_time"] * rate
    scale = factor.quantile_function()
    return lambda columns: (
        columns["service_time"] * rate * drawn(scale, uniforms(rng, _count(columns)))
    )


def _declared(rule: Declared, rng: Bits) -> Draw:
    factor = rule.factor.quantile_function()
    return lambda columns: columns["service_time"] * drawn(factor, uniforms(rng, _count(columns)))


def _action(rule: Action, rng: Bits) -> Draw:
    """With the given probability a job repeats a recent action: the same work, once more."""
    recent: deque[tuple[str, dict[str, Any]]] = deque(maxlen=rule.window)

    def repeat_or_begin(columns: Columns) -> Coded:
        numbers = uniforms(rng, 2 * _count(columns)).reshape(-1, 2).tolist()
        work = {name: columns[name].tolist() for name in SAME_WORK if name in columns}
        actions = []
        for row, (job, (reuse, place)) in enumerate(
            zip(columns["id"].tolist(), numbers, strict=True)
        ):
            if recent and reuse < rule.reuse:
                action, same = recent[int(place * len(recent))]
                for name, value in same.items():
                    work[name][row] = value
            else:
                action = f"action-{job}"
                own = {name: each[row] for name, each in work.items()}
                recent.append((action, {n: v for n, v in own.items() if v is not msgspec.UNSET}))
            actions.append(action)
        for name, each in work.items():
            coded = isinstance(columns[name], Coded)
            columns[name] = Coded.of(each) if coded else np.array(each)
        return Coded.of(actions)

    return repeat_or_begin


# --- the longest jobs of a group ----------------------------------------------------------------


def longest_rules(traits: Traits) -> dict[str, Heavy]:
    """Return the rules for ``heavy`` and ``memory_heavy`` that are by ``longest``."""
    rules = {"heavy": traits.heavy, "memory_heavy": traits.memory_heavy}
    return {name: rule for name, rule in rules.items() if rule and rule.longest is not None}


def longest(service_times: Floats, share: float, begins: Sequence[int] = (0,)) -> Array:
    """Return which jobs are the longest ``share`` of their group (rounded; ties: earlier first).

    ``begins``: the place of the first job of each group.
    """
    ends = [*begins[1:], len(service_times)]
    flags = np.zeros(len(service_times), np.bool_)
    for begin, end in zip(begins, ends, strict=True):
        most = round(share * (end - begin))
        flags[begin + np.argsort(-service_times[begin:end], kind="stable")[:most]] = True
    return flags
