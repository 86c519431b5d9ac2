"""``--set key.path=value``: overrides of scenario keys.

Pools and workload sources are addressed by name or index (``pools.linux.builders=4``; ``pool.``
works too, and ``policy`` for ``scheduling.policy``, as the option ``--policy``). ``+3`` adds to the
present value, and in pools ``-1`` subtracts from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from farm.core.errors import ScenarioError, did_you_mean, nearest
from farm.scenario.file.document import parse_value
from farm.scenario.file.line_marks import MarkedDict, MarkedList, marked
from farm.units import format_time, parse_time

_SHORT = {"pool": ["pools"], "policy": ["scheduling", "policy"]}
_STEP = re.compile(r"[+-][0-9][0-9a-z. ]*\Z")


def apply_override(document: MarkedDict, text: str) -> str | None:
    """Apply ``key.path=value`` to the document; raises ScenarioError if that is not possible.

    Returns what a step such as ``+3`` or ``-1`` has changed, since its result is not in the text
    (``pools.linux.builders: 12 → 11``); None for other values.
    """
    path, equals, value_text = text.partition("=")
    if not equals or not path:
        raise ScenarioError(f"--set {text}: allowed: key.path=value, as scheduling.policy=sjf")
    source = f"--set {text}"
    value_text = value_text.strip()
    return _put(
        document, path, value_text, source, lambda: parse_value(value_text, source, lines=False)
    )


def apply_change(document: MarkedDict, path: str, value: object) -> None:
    """Set the value at ``key.path``; texts such as ``+3`` are steps, as in ``--set``."""
    _put(document, path, value, path, lambda: marked(value, path))


def _put(
    document: MarkedDict, path: str, given: object, source: str, value_of: Callable[[], object]
) -> str | None:
    """Put a value at a path; return what a step has changed, None for other values."""
    keys = [key.strip() for key in path.split(".")]
    if not all(keys):
        raise ScenarioError(f"{source}: allowed: key.path=value, as scheduling.policy=sjf")
    if path not in document and nearest(path, [*document, *_SHORT]) == "policy" != path:
        raise ScenarioError(f"{source}: found {path}; did you mean policy?")
    keys[:1] = _SHORT.get(keys[0], keys[:1])
    pools = document.get("pools")
    names = map(_name_of, pools) if isinstance(pools, MarkedList) else ()
    if keys[0] not in document and keys[0] in names:
        raise ScenarioError(f"{source}: found {keys[0]}; did you mean pools.{'.'.join(keys)}?")
    place, last = _descend(document, keys, source)
    old = _old(place, last)
    change = None
    if isinstance(given, str) and _is_step(given, keys[0], old):
        value: object = _stepped(place, last, given, source)
        change = f"{'.'.join(keys)}: {old} → {value}"
    else:
        value = value_of()
    place[last] = value
    if isinstance(place, MarkedDict):
        place.marks[str(last)] = source
    else:
        place.marks[int(last)] = source
    return change


def _is_step(value: str, root: str, old: object) -> bool:
    """Return whether the value is a step; in pools, which have no negative values, also ``-1``."""
    return bool(_STEP.match(value)) and (value[0] == "+" or (root == "pools" and old is not None))


def _old(place: Any, last: str | int) -> object:
    return place.get(str(last)) if isinstance(place, MarkedDict) else place[last]


def _descend(document: MarkedDict, keys: list[str], source: str) -> tuple[Any, str | int]:
    """Return the container at the end of the path, and the key or index in it."""
    place: Any = document
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        if isinstance(place, MarkedList):
            step: str | int = _index(place, key, source)
        elif isinstance(place, MarkedDict):
            step = key
            if not last and place.get(key) is None:
                place[key], place.marks[key] = MarkedDict(), source
        else:
            above = ".".join(keys[:depth])
            raise ScenarioError(f"{source}: {above} is {place!r:.60}: it has no key {key}")
        if last:
            return place, step
        place = place[step]
        if isinstance(place, MarkedDict) and "name" not in keys[depth + 1 : depth + 2]:
            place = _inside_source(place, keys[depth + 1], keys[0])
    raise AssertionError("a path has at least one key")


def _inside_source(place: MarkedDict, key: str, root: str) -> MarkedDict:
    """Allow ``workload.0.count`` for ``workload.0.arrivals.count``."""
    if root == "workload" and key not in place and len(place) == 1:
        (inner,) = place.values()
        if isinstance(inner, MarkedDict):
            return inner
    return place


def _index(items: MarkedList, key: str, source: str) -> int:
    names = [_name_of(item) for item in items]
    if key in names:
        return names.index(key)
    if key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(items):
        return int(key)
    known = [name for name in names if name]
    places = "nothing, as the list is empty" if not items else "the index 0"
    if len(items) > 1:
        places = f"an index (0 to {len(items) - 1})"
    raise ScenarioError(
        f"{source}: found {key}; {did_you_mean(key, known)}"
        f"allowed: {', '.join([*known, f'or {places}'])}"
    )


def _name_of(item: object) -> str | None:
    if not isinstance(item, MarkedDict):
        return None
    if "name" not in item and len(item) == 1:
        (item,) = item.values()
    name = item.get("name") if isinstance(item, MarkedDict) else None
    return name if isinstance(name, str) else None


def _stepped(place: object, last: str | int, value: str, source: str) -> object:
    """Return the old value plus the step, in the unit of the old value."""
    old = _old(place, last)
    sign, amount = (1 if value[0] == "+" else -1), value[1:].strip()
    if old is None or isinstance(old, bool):
        raise ScenarioError(f"{source}: there is no number to add to; allowed: a value without +")
    try:
        if isinstance(old, int | float):
            step = parse_value(amount, source, lines=False)
            if isinstance(step, int | float):
                return old + sign * step
        result = parse_time(old) + sign * parse_time(amount)
        return result if result < 0 else format_time(result)
    except ValueError:
        raise ScenarioError(f"{source}: cannot add {value} to {old!r:.60}") from None
