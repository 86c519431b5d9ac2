"""What distinguishes the scenarios of compared runs, and what the runs are called by it.

The names of runs' directories say nothing about them: ``two`` is better than ``one``. The keys of
the scenarios that differ do: ``sjf and 14 builders`` against ``fifo and 12 builders``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from farm.core.errors import FarmError
from farm.results.recorded_run import FinishedRun
from farm.scenario.file.document import parse_document
from farm.scenario.file.line_marks import MarkedDict

MAX_KEYS_OF_NAME: Final = 3
"""Runs that differ in more keys are not called by them."""
MAX_NAME: Final = 60
"""Characters of a name, which has to fit into a table's head."""
MAX_TOLD: Final = 4
"""As many differing keys are told in the first line."""
MAX_VALUE: Final = 40
"""Characters of a value in it."""
NOT_SET: Final = "not set"
#: they are no setting: the name of the farm, and what is written about it
UNTOLD: Final = ("name", "description", "version")

#: values that say nothing without their key
WORDS: Final = ("true", "false", "null", "none")

Keys = Mapping[str, object]


class Difference(msgspec.Struct, frozen=True):
    """A key of two scenarios with other values, as text."""

    key: str
    base: str
    other: str


def keys_of(run: FinishedRun) -> Keys | None:
    """Return the values of all keys of a run's scenario; None: it cannot be read."""
    try:
        document = parse_document(run.scenario_text, run.label)
    except FarmError:  # of another version
        return None
    keys: dict[str, object] = {}
    _add_keys(keys, "", document)
    for name in UNTOLD:
        keys.pop(name, None)
    return keys


def _add_keys(keys: dict[str, object], path: str, value: object) -> None:
    """Add the keys below a value: of a list of sections each by its name, or else its number."""
    items: list[tuple[str, object]] = []
    if isinstance(value, MarkedDict):
        items = [(str(name), item) for name, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, MarkedDict) for item in value):
        for number, item in enumerate(value):
            name = item.get("name") if isinstance(item, MarkedDict) else None
            items.append((str(name or number), item))
    if not items:
        keys[path] = value
    for name, item in items:
        _add_keys(keys, f"{path}.{name}" if path else name, item)


def differing_keys(runs: Sequence[Keys]) -> list[str]:
    """Return the keys that have not the same value in all runs, in order of the scenarios."""
    everything = dict.fromkeys(key for keys in runs for key in keys)
    return [
        key for key in everything if any(keys.get(key) != runs[0].get(key) for keys in runs[1:])
    ]


def differences_of(base: Keys, other: Keys) -> tuple[Difference, ...]:
    """Return the keys in which two scenarios differ; what only one of them has as a whole."""
    found: dict[str, Difference] = {}
    for key in differing_keys([base, other]):
        shown_key = _whole_of(key, base, other)
        values = [_text(keys.get(key, NOT_SET)) for keys in (base, other)]
        if shown_key != key:
            values = [NOT_SET if key not in keys else "set" for keys in (base, other)]
        found[shown_key] = Difference(shown_key, *values)
    return tuple(found.values())


def _whole_of(key: str, base: Keys, other: Keys) -> str:
    """Return the outermost section of a key that only one of the scenarios has."""
    parts = key.split(".")
    for length in range(1, len(parts)):
        section = ".".join(parts[:length])
        has = [
            any(name == section or name.startswith(f"{section}.") for name in keys)
            for keys in (base, other)
        ]
        if not all(has):
            return section
    return key


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


def names_by_settings(
    runs: Sequence[Keys | None], labels: Sequence[str], seeds: Sequence[int]
) -> list[str]:
    """Return what to call runs: the values of the keys that differ, if these are few and short.

    Else they keep their labels. Seeds that differ are named only where nothing else does.
    """
    readable = [keys for keys in runs if keys is not None]
    if len(readable) < len(runs):
        return list(labels)
    names_of_keys = [key for key in differing_keys(readable) if key != "seed"]
    if not names_of_keys and len(set(seeds)) > 1:
        names_of_keys = ["seed"]
    if not 1 <= len(names_of_keys) <= MAX_KEYS_OF_NAME:
        return list(labels)
    names = [
        setting_name({key: _text(keys.get(key, NOT_SET)) for key in names_of_keys})
        for keys in readable
    ]
    if len(set(names)) < len(names) or max(map(len, names)) > MAX_NAME:
        return list(labels)
    return names


def difference_in_words(
    base: str, other: str, worlds: tuple[str, str], differences: Sequence[Difference] | None
) -> str:
    """Return how a run differs from another, before anything is said of its figures.

    Args:
        base: the label of the base.
        other: the label of the other run.
        worlds: of both.
        differences: of their scenarios; None: they cannot be read.
    """
    texts = [f"{other} is {worlds[1]}, {base} is {worlds[0]}"] if len(set(worlds)) > 1 else []
    if differences is None:
        texts.append("what their scenarios differ in cannot be read")
    elif differences:
        shown = [f"{one.key} is {one.other} instead of {one.base}" for one in differences]
        if len(shown) > MAX_TOLD:
            shown = [*shown[: MAX_TOLD - 1], f"{len(shown) - MAX_TOLD + 1} more keys differ"]
        texts.append(f"{other} differs from {base}: {', '.join(shown)}")
    elif not texts:
        texts.append(f"{other} and {base} are of the same scenario and seed")
    else:
        texts.append("their scenario is the same")
    return "; ".join(texts)


def setting_name(settings: dict[str, str], otherwise: str = "") -> str:
    """Return how a setting is called: ``sjf and 14 builders``; without axes ``otherwise``."""
    names = list(map(_value_name, headings(settings), settings.values()))
    separator = ", " if any("=" in name for name in names) else " and "
    return separator.join(names) or otherwise


def headings(axes: Iterable[str]) -> list[str]:
    """Return the last part of each key, or all of it where two keys end alike."""
    lasts = [axis.rpartition(".")[2] for axis in axes]
    whole = (axis.removeprefix("pools.").replace(".", " ") for axis in axes)
    return [end if lasts.count(end) == 1 else one for end, one in zip(lasts, whole, strict=True)]


def _value_name(heading: str, value: str) -> str:
    """Return a value with its key, if it is no name that says what it is: ``sjf``, ``max=220``.

    A number of things that have a plural is said as such: ``14 builders``.
    """
    words = heading.replace("_", " ")
    if value.isdigit():
        if not heading.endswith("s"):
            return f"{heading}={value}"
        return f"{value} {words.removesuffix('s') if value == '1' else words}"
    plain = value[:1].isalpha() and value not in WORDS and " " not in heading
    return value if plain or value[:1] in "@{[" else f"{words} {value}"
