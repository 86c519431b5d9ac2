"""Labels that name no kind of runner: those of one run, and other spellings of the same label."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from farm.records.attempt import Attempt

LABELS_OF_RUNS = "with a label that only their own run asks for, which is left out of the platform"
"""What is noted of attempts whose platform is named without it."""


class LabelLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How plainly labels must be those of runs."""

    #: labels of one run each, beside the same other labels, that have the run's id in them
    min_with_id: int = 2
    #: the same of any other kind: random texts
    min_random: int = 5
    #: share of these that have a digit: random texts do, names of platforms hardly
    min_share_with_digit: float = 0.8


LIMITS = LabelLimits()


def without_labels_of_runs(attempts: Sequence[Attempt]) -> int:
    """Leave labels that only one run asks for out of platforms; return of how many attempts.

    Some systems start machines for one run, and tell its jobs apart by a label with the run's id,
    or with a random text. Each run would be a platform of its own, of too few jobs to judge.
    """
    pairs = {(attempt.platform, attempt.matrix) for attempt in attempts if attempt.matrix}
    runs_of_label: dict[str, set[str]] = defaultdict(set)
    for platform, run in pairs:
        for label in platform.split(","):
            runs_of_label[label].add(run)
    own_labels = {
        label: next(iter(runs)) for label, runs in runs_of_label.items() if label and len(runs) == 1
    }
    if len(own_labels) < LIMITS.min_with_id:
        return 0
    renamed = _renamed_platforms({platform for platform, _ in pairs}, own_labels)
    count = 0
    for attempt in attempts:
        if attempt.platform in renamed:
            attempt.platform = renamed[attempt.platform]
            count += 1
    return count


def _renamed_platforms(platforms: set[str], own_labels: Mapping[str, str]) -> dict[str, str]:
    """Return the names of platforms without the labels of one run.

    Args:
        platforms: labels with commas between them.
        own_labels: the labels that one run asks for, and its id.
    """
    with_id: dict[str, list[str]] = defaultdict(list)
    with_random: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for platform in platforms:
        labels = platform.split(",")
        own = [label for label in labels if label in own_labels]
        if not own:
            continue
        has_id = [label for label in own if _names_run(label, own_labels[label])]
        if has_id:
            others = [
                _without_run(label, own_labels[label]) if label in has_id else label
                for label in labels
            ]
            with_id[",".join(filter(None, others))].append(platform)
        else:
            others = [label for label in labels if label not in own]
            with_random[",".join(others)].append((platform, own[0]))
    renamed = {}
    for name, of_runs in with_id.items():
        if len(of_runs) >= LIMITS.min_with_id:
            renamed.update(dict.fromkeys(of_runs, name))
    for name, random in with_random.items():
        runs = {own_labels[label] for _, label in random}
        with_digit = sum(re.search(r"\d", label) is not None for _, label in random)
        are_many = len(random) >= LIMITS.min_random and 2 * len(runs) >= len(random)
        if are_many and with_digit >= LIMITS.min_share_with_digit * len(random):
            renamed.update({platform: name for platform, _ in random})
    return renamed


def _names_run(label: str, run: str) -> bool:
    return re.search(rf"(?<![0-9A-Za-z]){re.escape(run)}(?![0-9A-Za-z])", label) is not None


def _without_run(label: str, run: str) -> str:
    """Return a label without the part that names a run: ``runs-on=7/cpu=2`` is ``cpu=2``."""
    return "/".join(part for part in label.split("/") if not _names_run(part, run))


def by_spelling(platforms: Iterable[str]) -> dict[str, str]:
    """Return the name of each platform: of those that differ by case alone, the most frequent.

    Args:
        platforms: of all attempts, labels with commas between them.
    """
    counts = Counter(platforms)
    by_labels: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for platform in counts:
        by_labels[tuple(sorted(platform.casefold().split(",")))].append(platform)
    return {
        platform: max(spellings, key=lambda name: (counts[name], name))
        for spellings in by_labels.values()
        for platform in spellings
    }
