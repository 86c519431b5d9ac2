"""Adds the traits given by the scenario to each job of a source."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from farm.core.model import Job
from farm.scenario.traits import Action, Declared, Fails, Heavy, Traits, WorkSize
from farm.workload.distributions import quantile_function
from farm.workload.streams import chooser, stream

Fields = dict[str, Any]
"""Keyword arguments of a Job; ``id`` and ``service_time`` are always among them."""

Step = Callable[[Fields], None]
"""Sets one trait in one job's fields."""

Streams = Callable[[str], random.Random]
"""From the name of a draw to its stream."""

SAME_WORK = ("service_time", "kind", "platform", "fails", "size", "heavy", "memory_heavy")
"""What two jobs of the same action share."""


def source_streams(seed: int, source: str | int) -> Streams:
    """Return the maker of one source's streams: ``streams("kind")`` and so on."""
    return lambda draw: stream(seed, "workload", source, draw)


def job_maker(traits: Traits, streams: Streams) -> Callable[[Fields], Job]:
    """Return a function that adds a source's traits to a job's fields and makes the job.

    Traits that the scenario does not mention stay as they are, and cost nothing. The declared
    time is the service time unless something else is said.
    """
    steps = trait_steps(traits, streams)

    def make(fields: Fields) -> Job:
        for step in steps:
            step(fields)
        if "declared_time" not in fields:
            fields["declared_time"] = fields["service_time"]
        return Job(**fields)

    return make


def trait_steps(traits: Traits, streams: Streams) -> list[Step]:
    """Return what sets each trait that is given, in an order in which they may build on others."""
    steps: list[Step] = []
    for name in ("kind", "level", "score", "priority", "mode", "threads"):
        weights = getattr(traits, name)
        if weights is not None:
            steps.append(_choice(name, weights, streams(name)))
    if traits.attributes is not None or traits.invocation is not None:
        steps.append(_attributes(traits, streams))
    if traits.fails is not None:
        steps.append(_fails(traits.fails, streams("fails")))
    for name in ("heavy", "memory_heavy"):
        rule = getattr(traits, name)
        if rule is not None and rule.longest is None:
            steps.append(_heavy(name, rule, streams(name)))
    if traits.work_size is not None:
        steps.append(_work_size(traits.work_size, streams("work_size")))
    if traits.action is not None:
        steps.append(_action(traits.action, streams("action")))
    if traits.declared is not None:
        steps.append(_declared(traits.declared, streams("declared")))
    return steps


def _constant(name: str, value: object) -> Step:
    def step(fields: Fields) -> None:
        fields[name] = value

    return step


def _choice(name: str, weights: dict[Any, float], rng: random.Random) -> Step:
    draw = chooser(weights, rng)

    def step(fields: Fields) -> None:
        fields[name] = draw()

    return step


def _attributes(traits: Traits, streams: Streams) -> Step:
    """Draw the attributes; jobs with the same ones share one dict, so that they cost little."""
    draws = {
        name: chooser(weights, streams(f"attribute {name}"))
        for name, weights in (traits.attributes or {}).items()
    }
    parts = traits.invocation
    shared: dict[tuple[str, ...], dict[str, str]] = {}

    def step(fields: Fields) -> None:
        drawn = tuple([draw() for draw in draws.values()])
        own = fields.get("attributes")
        attributes = None if own else shared.get(drawn)
        if attributes is None:
            attributes = {**(own or {}), **dict(zip(draws, drawn, strict=True))}
            if parts is not None:
                attributes["invocation"] = "/".join(attributes.get(part, part) for part in parts)
            if not own:
                shared[drawn] = attributes
        fields["attributes"] = attributes

    return step


def _fails(rule: Fails, rng: random.Random) -> Step:
    by_kind, always = rule.by_kind, rule.probability or 0.0

    def step(fields: Fields) -> None:
        share = always if by_kind is None else by_kind.get(fields.get("kind", "job"), 0.0)
        fields["fails"] = rng.random() < share

    return step


def _heavy(name: str, rule: Heavy, rng: random.Random) -> Step:
    kinds, threshold, share = rule.kind, rule.threshold, rule.probability
    if rule.declared is not None:
        return _constant(name, rule.declared)

    def step(fields: Fields) -> None:
        if kinds is not None:
            fields[name] = fields.get("kind", "job") in kinds
        elif threshold is not None:
            fields[name] = fields["service_time"] >= threshold
        else:
            fields[name] = rng.random() < (share or 0.0)

    return step


def _work_size(rule: WorkSize, rng: random.Random) -> Step:
    factor = None if rule.factor is None else quantile_function(rule.factor)

    def step(fields: Fields) -> None:
        scale = 1.0 if factor is None else factor(rng.random())
        fields["size"] = fields["service_time"] * rule.per_second * scale

    return step


def _declared(rule: Declared, rng: random.Random) -> Step:
    factor = quantile_function(rule.factor)

    def step(fields: Fields) -> None:
        fields["declared_time"] = fields["service_time"] * factor(rng.random())

    return step


def _action(rule: Action, rng: random.Random) -> Step:
    """With the given probability a job repeats a recent action: the same work, once more."""
    recent: deque[Fields] = deque(maxlen=rule.window)

    def step(fields: Fields) -> None:
        reuse, place = rng.random(), rng.random()
        if recent and reuse < rule.reuse:
            fields.update(recent[int(place * len(recent))])
            return
        fields["action"] = f"action-{fields['id']}"
        same = {name: fields[name] for name in SAME_WORK if name in fields}
        recent.append({**same, "action": fields["action"]})

    return step
