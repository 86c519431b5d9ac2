"""Buildbarn's dispatch scenarios: what a step may say, and what is compared.

Not interpreted, because they say nothing of dispatch: what a client or worker is answered (next
synchronisation, first update, stages) and size class learners. A scenario with any other step or
key is refused; one with an expectation that this file does not know is checked as far as it goes
and then fails, naming it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .conftest import refuse_unknown

#: expectations that are not about dispatch
PROSE = {
    "next_sync_at",
    "worker_next_sync_at",
    "first_update_to_client",
    "operation_name",
    "why",
    "note",
}
#: expectations that are names of operations, which may be numbers
NAMES = {"starts", "completed", "order"}
#: how children are sorted
BY_KEY = "by key text, ascending"
COUNTS = {
    "queued_direct": "own_waiting",
    "executing_workers": "executing",
    "idle_workers": "idle",
    "idle_synchronizing": "own_free",
    "children": "children",
    "queued_children": "waiting_children",
    "active_children": "active_children",
}

#: what a scenario may have besides what explains it
SCENARIO = {"steps", "stickiness_limits_s", "dispatch_order", "predeclared", "unresolved_ties"}
EVERY_STEP = {"do", "t", "expect"}
#: what a step may have besides, by what it does
STEPS = {
    "arrive": {
        "op", "keys", "priority", "expected_s", "do_not_cache", "action", "queued_timestamp",
    },
    "client_leaves": {"op"},
    "complete": {"worker", "then_request_more"},
    "idle_timer_fires": {"worker"},
    "kill": {"op", "worker"},
    "list_children": {"keys", "path", "filter"},
    "list_queued": {"keys", "path"},
    "lose": {"worker"},
    "repeat": {"n", "body"},
    "sync_idle": {"worker"},
    "worker_reports_unknown_action": {"worker"},
}  # fmt: skip


class StepComparison:
    """What happens, held against what the steps expect; AssertionError where it differs."""

    def __init__(self) -> None:
        #: expectations that are not understood
        self.unknown: set[str] = set()

    def compare(
        self, step: dict[str, Any], happened: dict[str, Any], expect: Any, index: int | None
    ) -> None:
        if isinstance(expect, list):
            expect = {"order": expect}
        if "rows" in happened:
            if expect is not None:
                self.compare_children(happened["rows"], expect, index, step)
            return
        for key, value in expect.items() if isinstance(expect, dict) else ():
            if key in happened:
                wanted = _texts(value) if key in NAMES else value
                assert happened[key] == wanted, f"{step}: {key} is {happened[key]!r}"
            elif key not in PROSE:
                self.unknown.add(f"expectation {key} of {step['do']}")

    def compare_children(
        self, rows: list[Any], expect: Any, index: int | None, step: dict[str, Any]
    ) -> None:
        names = [row.path[-1] for row in rows]
        if not isinstance(expect, dict):
            assert len(rows) == number(expect, index), step
            return
        for key, value in expect.items():
            if key == "count":
                assert len(rows) == number(value, index), step
            elif key == "order":
                assert names == (sorted(names) if value == BY_KEY else value), step
            elif key == "each":
                assert rows, f"{step}: there are none"
                for row in rows:
                    self.compare_counts(row, value, step, index)
            elif key not in PROSE:
                assert key in names, f"{step}: {key} not among {names}"
                self.compare_counts(rows[names.index(key)], value, step, index)

    def compare_counts(
        self, row: Any, counts: dict[str, Any], step: dict[str, Any], index: int | None
    ) -> None:
        found = {name: getattr(row, field) for name, field in COUNTS.items()}
        found["queued_indirect"] = row.waiting - row.own_waiting
        for name, value in counts.items():
            if name in found:
                assert found[name] == number(value, index), f"{step}: {row}"
            else:
                self.unknown.add(f"count {name}")


ALIASES = {
    **dict.fromkeys(("cancel", "fail", "abort", "kill_operation", "kill_task", "killed"), "kill"),
    **dict.fromkeys(
        ("worker_disappears", "worker_lost", "worker_vanishes", "worker_gone", "lose_worker"),
        "lose",
    ),
    "client_cancels": "client_leaves",
    "list_queued_operations": "list_queued",
}


def _texts(names: Any) -> Any:
    if isinstance(names, list):
        return [_texts(name) for name in names]
    return str(names) if type(names) is int else names


def refuse(scenario: dict[str, Any]) -> None:
    """Raise AssertionError for a scenario that tests nothing, or with unknown keys."""
    refuse_unknown("scenario", scenario, SCENARIO)
    _refuse_steps(scenario.get("steps"))
    expected = [_expects(step) for step in _every(scenario["steps"])]
    assert any(expected) or scenario.get("dispatch_order"), "nothing is expected"


def _expects(step: dict[str, Any]) -> bool:
    """Say whether a step can fail, and refuse an expectation that is neither prose nor compared."""
    if "do" not in step or "expect" not in step:
        return False
    expect, verb = step["expect"], ALIASES.get(step["do"], step["do"])
    if isinstance(expect, dict):
        return bool(expect.keys() - PROSE)
    if verb in {"list_children", "list_queued"} and isinstance(expect, list):
        return True
    if verb == "list_children" and isinstance(expect, int | str):
        return True
    prose = isinstance(expect, str) and " " in expect
    assert prose, f"{step}: {expect!r} is not compared"
    return False


def _every(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for step in steps:
        yield step
        yield from _every(step.get("body", []))


def _refuse_steps(steps: Any) -> None:
    assert steps, "there are no steps"
    assert any("do" in step for step in steps), "no step does anything"
    for step in steps:
        verb = step.get("do")
        if verb is None:  # prose about the whole scenario
            assert isinstance(step.get("expect", ""), str), f"{step}: says not what to do"
            refuse_unknown(f"{step}", step, {"expect"})
            continue
        verb = ALIASES.get(verb, verb)
        assert verb in STEPS, f"unknown step {verb}; known: {', '.join(sorted({*STEPS, *ALIASES}))}"
        others = {"do"} if verb == "repeat" else EVERY_STEP
        refuse_unknown(f"step {verb}", step, others | STEPS[verb])
        if verb == "repeat":
            _refuse_steps(step["body"])


def limits_of(scenario: dict[str, Any]) -> list[float]:
    """Return the limits of stickiness by level; none if it names none."""
    return scenario.get("stickiness_limits_s") or []


# --- numbers and names that contain ``i``, the turn of a repeat ---

#: a term of a sum, such as ``+2*i`` or ``-3ns``
TERM = re.compile(r"([+-]?)\s*(?:(\d+(?:\.\d+)?)(?:\s*\*?\s*(i))?|(i))\s*(ns)?")
IN_BRACES = re.compile(r"\{([\d\s.*+-]*i[^{}a-z]*)\}")


def filled(value: Any, index: int | None) -> Any:
    """Replace ``{i}``, ``{i+1}`` and the like in all texts."""
    if isinstance(value, str) and index is not None:
        return IN_BRACES.sub(lambda found: f"{number(found[1], index):.15g}", value)
    if isinstance(value, list):
        return [filled(item, index) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, index) for key, item in value.items()}
    return value


def number(value: Any, index: int | None) -> float:
    """Evaluate ``1010+2*i +2ns`` and the like: a sum of numbers and multiples of ``i``."""
    if not isinstance(value, str):
        return float(value)
    terms = [term.strip() for term in re.split(r"(?=[+-])", value)]
    if len(terms) > 1 and not terms[0]:
        del terms[0]  # before the first sign
    return sum(_term(term, value, index) for term in terms)


def _term(term: str, whole: str, index: int | None) -> float:
    found = TERM.fullmatch(term)
    assert found, f"{whole!r}: not a sum of numbers and multiples of i"
    sign, number, times_i, i, ns = found.groups()
    value = float(number or 1) * (-1 if sign == "-" else 1) * (1e-9 if ns else 1)
    if times_i or i:
        assert index is not None, f"{whole!r}: i outside of a repeat"
        value *= index
    return value


def turns(count: int | str) -> range:
    """Return the values of ``i``, at least one, for a number of turns or ``i=0..9``."""
    said = re.fullmatch(r"(?:(?:i\s*=\s*)?(\d+)\s*\.\.\s*)?(\d+)", str(count))
    assert said, f"repeat: n is {count!r}; allowed: 10, 0..9, i=0..9"
    found = range(int(said[2])) if said[1] is None else range(int(said[1]), int(said[2]) + 1)
    assert found, f"repeat: n is {count!r}, so nothing is played"
    return found
