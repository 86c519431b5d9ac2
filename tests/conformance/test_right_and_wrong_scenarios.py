"""Scenarios in Buildbarn's form: right ones pass, wrong and unreadable ones do not."""

from __future__ import annotations

from typing import Any

import pytest

from .buildbarn_steps import check, number
from .conftest import Case, judge
from .test_buildbarn import Farm


def arrive(t: Any, op: Any, *keys: str, **more: Any) -> Case:
    """An operation arrives."""
    return {"do": "arrive", "t": t, "op": op, "keys": list(keys), **more}


def step(do: str, t: Any, worker: str, **expect: Any) -> Case:
    """A worker does something."""
    return {"do": do, "t": t, "worker": worker, **({"expect": expect} if expect else {})}


def sync(t: Any, worker: str = "w", **expect: Any) -> Case:
    """An idle worker asks for an operation."""
    return step("sync_idle", t, worker, **expect)


def unknown(t: Any, **expect: Any) -> Case:
    """A worker reports that it runs what it was not given."""
    return step("worker_reports_unknown_action", t, "w", **expect)


def placed(t: Any, op: Any, key: str, worker: str) -> Case:
    """An operation arrives and is expected to go to a waiting worker."""
    return arrive(t, op, key, expect={"assigned_directly_to_worker": worker})


def repeat(n: Any, *body: Case, **more: Any) -> Case:
    """Steps are repeated."""
    return {"do": "repeat", "n": n, "body": list(body), **more}


def listing(expect: Any, **more: Any) -> Case:
    """The root's children are listed."""
    return {"do": "list_children", "t": 2, "filter": "ALL", "expect": expect, **more}


def queue(expect: Any) -> Case:
    """The queue of A is listed."""
    return {"do": "list_queued", "t": 2, "keys": ["A"], "expect": expect}


def joins(t: Any, op: str, *keys: str, **more: Any) -> Case:
    """A request of the action X arrives."""
    return arrive(t, op, *keys, action="X", **more)


def leaves(t: Any, op: str) -> Case:
    """The client of an operation goes."""
    return {"do": "client_leaves", "t": t, "op": op}


def done(name: str) -> Case:
    """The worker completes an operation."""
    return step("complete", 7, "w", completed=name)


QUEUED = [arrive(0, "a", "A"), arrive(1, "b", "A")]
TEN_TIMES = [*QUEUED, *(sync(10 + n, starts="a", worker_blocks=False) for n in range(10))]
SHARED = [joins(0, "a", "u", "i1"), joins(1, "b", "u", "i2")]
BOTH = [joins(0, "a", "u"), joins(1, "b", "u", expect={"dedup": "SameInvocation"}), leaves(2, "a")]
WAITING = [sync(0, "w0"), sync(1, "w1"), sync(2, "w2")]
THREE = [placed(10 + n, f"p{n}", "A", f"w{place}") for n, place in enumerate((0, 2, 1))]
IN_A_REPEAT = [
    arrive("10*i", "p{i+1}", "A"),
    arrive("10*i", "q{2*i}", "A"),
    {"do": "list_children", "filter": "QUEUED", "expect": {"A": {"queued_direct": "2+i"}}},
    sync("10*i+1", "w{i}"),
]
STARTED = sync(2, starts="a")
ANEW = {"dedup": "OtherInvocation"}

#: scenarios that hold
RIGHT: list[list[Case]] = [
    [*TEN_TIMES, sync(30, starts="b")],
    [
        unknown(0, starts=None, worker_blocks=False),
        arrive(1, "a", "A", expect={"queued": True}),
        unknown(2, starts="a"),
        step("complete", 4, "w", starts=None, worker_blocks=True),
        unknown(5, starts=None, worker_blocks=False),
    ],
    *([repeat(n, *IN_A_REPEAT)] for n in (3, "3", "i=0..2", "0..2")),
    [*SHARED, leaves(2, "a"), sync(5, starts="b"), done("b")],
    [*SHARED, sync(5, starts="a"), leaves(6, "a"), done("b")],
    [*SHARED, STARTED, leaves(3, "a"), joins(4, "c", "u", "i1", expect=ANEW)],
    [*BOTH, sync(4, starts="a"), done("a")],
    [*BOTH, leaves(3, "b"), sync(4, starts=None)],
    [*QUEUED, queue(["a", "b"]), queue({"order": ["a", "b"], "count": 2})],
    [*QUEUED, listing(["A"]), listing(1), listing({"count": 1})],
    [arrive(10, "a", "A", queued_timestamp=20), arrive(10, "b", "A"), sync(30, starts="b")],
    [
        joins(10, "a", "B", queued_timestamp=20),
        joins(10, "c", "A"),
        arrive(11, "b", "A"),
        queue(["b", "c"]),
    ],
]  # fmt: skip
#: what would make of two queued operations a scenario that fails, and why
WRONG: list[tuple[list[Case], str]] = [
    ([*TEN_TIMES[2:], sync(30, starts="a")], "starts is 'b'"),
    ([unknown(2, worker_blocks=True)], "worker_blocks is False"),
    ([repeat(2, sync("2+i", "w{i}", starts="a"))], "starts is 'b'"),
    *(([repeat(n, sync(2, starts="a"))], "repeat: n is") for n in (0, "i=3..1", "i", "two")),
    ([repeat(2)], "there are no steps"),
    ([repeat(1, STARTED, t=7)], "key t"),
    ([STARTED, done("b")], "completed is 'a'"),
    ([queue(["zzz", "a"])], "order is ['a', 'b']"),
    ([sync(2) | {"expect": "zzz"}], "'zzz' is not compared"),
    ([STARTED, sync(3, "v") | {"expect": "zzz"}], "'zzz' is not compared"),
    ([sync(2) | {"expect": None}], "None is not compared"),
    ([sync(2) | {"expect": ["a"]}], "['a'] is not compared"),
    ([sync(2) | {"expect": "it works"}], "nothing is expected"),
    ([queue("zzz")], "'zzz' is not compared"),
    ([arrive(2, "c", "A", expect={})], "nothing is expected"),
    ([arrive(2, "c", "A", expect={"why": "it is so"})], "nothing is expected"),
    ([listing("no children")], "not a sum"),
    ([listing(None)], "None is not compared"),
    ([listing(["B"])], "list_children"),
    ([listing({"order": "in scheduling order: B, A"})], "list_children"),
    ([listing({"each": {"queued_direct": 2}}, keys=["B"])], "there are none"),
    ([listing(1) | {"filter": "SOME"}], "allowed filters"),
    ([STARTED, arrive(3, "c", "A", priorty="10 points")], "step arrive: unknown key priorty"),
    ([STARTED | {"do": "dance"}], "unknown step dance"),
    ([STARTED, {"t": 7}], "unknown key t"),
]


@pytest.mark.parametrize("steps", RIGHT, ids=range(len(RIGHT)))
def test_right_scenarios(steps: list[Case]) -> None:
    """The meaning of the steps that cases of others may have."""
    check({"steps": steps, "stickiness_limits_s": None}, Farm)


@pytest.mark.parametrize(("steps", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_scenarios(steps: list[Case], message: str) -> None:
    """No expectation, step or key passes unread, and what is read is compared."""
    judge(check, message, {"steps": [*QUEUED, *steps]}, Farm)


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ({"steps": [*QUEUED, STARTED], "dispatch_order": ["a"]}, None),
        ({"steps": [*QUEUED, STARTED], "dispatch_order": ["b"]}, ""),
        ({"steps": [*QUEUED, STARTED], "stickiness": "3 s"}, "scenario: unknown key stickiness"),
        ({"steps": []}, "there are no steps"),
        ({}, "there are no steps"),
        ({"steps": [{"expect": "peace"}]}, "no step does anything"),
    ],
)
def test_whole_scenarios(scenario: Case, message: str | None) -> None:
    """The order of dispatch is compared, unknown keys are refused."""
    judge(check, message, scenario, Farm)


@pytest.mark.parametrize("steps", [[*WAITING, THREE[0], placed(11, "b", "B", "w2")],
                                   [*WAITING, repeat(1, *THREE)]])  # fmt: skip
def test_upstreams_choice_of_a_worker_will_do(steps: list[Case]) -> None:
    """Upstream's rules of placement, unless exactly ours are wanted; no third worker."""
    check({"steps": steps}, Farm)
    with pytest.raises(AssertionError, match="assigned_directly_to_worker"):
        check({"steps": steps}, Farm, exact=True)
    judge(check, "assigned_directly", {"steps": [*steps, placed(20, "z", "Z", "w9")]}, Farm)


@pytest.mark.parametrize(
    ("text", "at_3"),
    [
        ("1010+i +2ns", 1013.000000002),
        ("1010+2*i", 1016),
        ("1000+10i", 1030),
        ("10-i", 7),
        ("-2 * i", -6),
        ("i", 3),
        (12.5, 12.5),
        *((wrong, None) for wrong in ("1e3", "T+5", "1m", "10 20", "5+", "i*2", "2*(i+1)", "")),
    ],
)
def test_times_in_a_repeat(text: Any, at_3: float | None) -> None:
    """``i`` is a factor or a summand, means nothing elsewhere, and no time is read in part."""
    if at_3 is None:
        judge(number, "not a sum", text, 3)
        return
    assert number(text, 3) == pytest.approx(at_3, rel=1e-15)
    if isinstance(text, str):
        judge(number, "outside of a repeat", text, None)
