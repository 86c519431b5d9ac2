"""Adds the traits given by the scenario to each job of a source."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from farm.core.model import Job
from farm.scenario.traits import CHOSEN, Action, Declared, Fails, Heavy, Traits, WorkSize
from farm.workload.streams import chooser, stream

Fields = dict[str, Any]
"""Keyword arguments of a Job; ``id`` and ``service_time`` are always among them."""

Draw = Callable[[Fields], Any]
"""From the fields that a job has so far to the value of one more."""

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
    time is the service time unless the scenario has another.
    """
    steps = trait_steps(traits, streams)

    def make(fields: Fields) -> Job:
        for name, draw in steps:
            fields[name] = draw(fields)
        if "declared_time" not in fields:
            fields["declared_time"] = fields["service_time"]
        return Job(**fields)

    return make


def trait_steps(traits: Traits, streams: Streams) -> list[tuple[str, Draw]]:
    """Return the traits that are given, in an order in which they may build on others."""
    steps = [
        (name, _choice(weights, streams(name)))
        for name in CHOSEN
        if (weights := getattr(traits, name)) is not None
    ]
    if traits.attributes is not None or traits.invocation is not None:
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


def _choice(weights: dict[Any, float], rng: random.Random) -> Draw:
    draw = chooser(weights, rng)
    return lambda _: draw()


def _attributes(traits: Traits, streams: Streams) -> Draw:
    """Draw the attributes; jobs with the same ones share one dict, so that they cost little."""
    draws = {
        name: chooser(weights, streams(f"attribute {name}"))
        for name, weights in (traits.attributes or {}).items()
    }
    parts = traits.invocation
    shared: dict[tuple[str, ...], dict[str, str]] = {}

    def draw_all(fields: Fields) -> dict[str, str]:
        drawn = tuple([draw() for draw in draws.values()])
        own = fields.get("attributes")
        attributes = None if own else shared.get(drawn)
        if attributes is None:
            attributes = {**(own or {}), **dict(zip(draws, drawn, strict=True))}
            if parts is not None:
                attributes["invocation"] = "/".join(attributes.get(part, part) for part in parts)
            if not own:
                shared[drawn] = attributes
        return attributes

    return draw_all


def _fails(rule: Fails, rng: random.Random) -> Draw:
    by_kind, always = rule.by_kind, rule.probability or 0.0
    if by_kind is None:
        return lambda _: rng.random() < always
    return lambda fields: rng.random() < by_kind.get(fields.get("kind", "job"), 0.0)


def _heavy(rule: Heavy, rng: random.Random) -> Draw:
    kinds, threshold, share = rule.kind, rule.threshold, rule.probability or 0.0
    if rule.declared is not None:
        return lambda _: rule.declared
    if kinds is not None:
        return lambda fields: fields.get("kind", "job") in kinds
    if threshold is not None:
        return lambda fields: fields["service_time"] >= threshold
    return lambda _: rng.random() < share


def _work_size(rule: WorkSize, rng: random.Random) -> Draw:
    rate, factor = rule.per_second, rule.factor
    if factor is None:
        return lambda fields: fields["service_time"] * rate
    scale = factor.quantile_function()
    return lambda fields: fields["service_time"] * rate * scale(rng.random())


def _declared(rule: Declared, rng: random.Random) -> Draw:
    factor = rule.factor.quantile_function()
    return lambda fields: fields["service_time"] * factor(rng.random())


def _action(rule: Action, rng: random.Random) -> Draw:
    """With the given probability a job repeats a recent action: the same work, once more."""
    recent: deque[Fields] = deque(maxlen=rule.window)

    def repeat_or_begin(fields: Fields) -> str:
        reuse, place = rng.random(), rng.random()
        if recent and reuse < rule.reuse:
            work = recent[int(place * len(recent))]
            fields.update(work)
        else:
            work = {name: fields[name] for name in SAME_WORK if name in fields}
            work["action"] = f"action-{fields['id']}"
            recent.append(work)
        return str(work["action"])

    return repeat_or_begin


def longest(service_times: Sequence[float], share: float) -> set[int]:
    """Return the positions of the longest ``share`` of the jobs (rounded; ties: earlier first)."""
    most = round(share * len(service_times))
    order = sorted(range(len(service_times)), key=lambda place: (-service_times[place], place))
    return set(order[:most])


def longest_rules(traits: Traits) -> dict[str, Heavy]:
    """Return the rules for ``heavy`` and ``memory_heavy`` that are by ``longest``."""
    rules = {"heavy": traits.heavy, "memory_heavy": traits.memory_heavy}
    return {name: rule for name, rule in rules.items() if rule and rule.longest is not None}


def mark_longest(jobs: list[Job], traits: Traits, among: str) -> list[Job]:
    """Return the jobs with ``heavy`` and ``memory_heavy`` set where ``longest`` decides them."""
    rules = {name: rule for name, rule in longest_rules(traits).items() if rule.among == among}
    if not rules:
        return jobs
    times = [job.service_time for job in jobs]
    chosen = {name: longest(times, rule.longest or 0.0) for name, rule in rules.items()}
    return [
        msgspec.structs.replace(job, **{name: place in chosen[name] for name in chosen})
        for place, job in enumerate(jobs)
    ]
