"""The longest share of a group of jobs is heavy."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farm.core.model import Job
from farm.scenario.traits import Heavy, Traits


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
