"""The players of Buildbarn's scenarios: right ones pass, wrong and unreadable ones do not."""

from __future__ import annotations

from typing import Any

import pytest

from .buildbarn_steps import check
from .expressions import number
from .test_buildbarn import Yard
from .test_buildbarn_scheduler import Farm

Step = dict[str, Any]


def arrive(t: Any, op: Any, *keys: str, **more: Any) -> Step:
    """An operation arrives."""
    return {"do": "arrive", "t": t, "op": op, "keys": list(keys), **more}


def sync(t: Any, worker: str, **expect: Any) -> Step:
    """An idle worker asks for an operation."""
    return {"do": "sync_idle", "t": t, "worker": worker, **({"expect": expect} if expect else {})}


def complete(t: Any, worker: str, **expect: Any) -> Step:
    """A worker completes what it runs, and asks for more."""
    return {"do": "complete", "t": t, "worker": worker, **({"expect": expect} if expect else {})}


def placed(t: Any, op: Any, key: str, worker: str) -> Step:
    """An operation arrives and is expected to go to a waiting worker."""
    return arrive(t, op, key, expect={"assigned_directly_to_worker": worker})


@pytest.fixture(params=[Yard, Farm])
def player(request: pytest.FixtureRequest) -> Any:
    """The queue alone, and the whole scheduler."""
    return request.param


def refused(player: Any, *steps: Step, **more: Any) -> str:
    """Return why the scenario fails."""
    with pytest.raises(AssertionError) as error:
        check({"steps": list(steps), **more}, player)
    return str(error.value)


WAITING = [sync(0, "w0"), sync(1, "w1"), sync(2, "w2")]
INNER = [
    arrive(0, "p0", "u1", "i1"),
    arrive(1, "p1", "u1", "i2"),
    arrive(2, "p2", "u2", "k1"),
    sync(10, "w0", starts="p0"),
    sync(11, "w1", starts="p2"),
    sync(12, "w2", starts="p1"),
    complete(13, "w0"),
    complete(14, "w1"),
    placed(20, "q", "u3", "w0"),
]


@pytest.mark.parametrize(
    "steps",
    [
        INNER,
        [*WAITING, arrive(10, "a", "A"), placed(11, "b", "B", "w2")],
        [
            *WAITING,
            {
                "do": "repeat",
                "n": 1,
                "body": [placed(10 + n, f"p{n}", "A", f"w{(0, 2, 1)[n]}") for n in range(3)],
            },
        ],
    ],
    ids=["inner siblings", "the second of three", "in a repeat"],
)
def test_upstreams_choice_of_a_worker_will_do(player: Any, steps: list[Step]) -> None:
    """Protects upstream's rules of placement, however few of its results are expected."""
    check({"steps": steps}, player)
    with pytest.raises(AssertionError, match="assigned_directly_to_worker"):
        check({"steps": steps}, player, exact=True)
    message = refused(player, *steps[:-1], placed(20, "z", "Z", "w9"))
    assert "assigned_directly_to_worker" in message


def unknown(t: Any, worker: str, **expect: Any) -> Step:
    """A worker reports that it runs what it was not given."""
    return {"do": "worker_reports_unknown_action", "t": t, "worker": worker, "expect": expect}


def test_a_worker_gets_what_it_should_be_running_ten_times(player: Any) -> None:
    """Protects the count of attempts, after which the task ends and the next one starts."""
    arrivals = [arrive(0, "a", "A"), arrive(1, "b", "A")]
    again = [sync(10 + n, "w", starts="a", worker_blocks=False) for n in range(10)]
    check({"steps": [*arrivals, *again], "dispatch_order": ["a"]}, player)
    check({"steps": [*arrivals, *again, sync(30, "w", starts="b")]}, player)
    assert "starts is 'b'" in refused(player, *arrivals, *again, sync(30, "w", starts="a"))


def test_a_worker_that_runs_the_wrong_action_is_not_made_to_wait(player: Any) -> None:
    """Protects its answer: what it should be running, else the next operation, else nothing."""
    steps = [
        unknown(0, "w", starts=None, worker_blocks=False),
        arrive(1, "a", "A", expect={"queued": True}),
        unknown(2, "w", starts="a"),
        unknown(3, "w", starts="a"),
        complete(4, "w", starts=None, worker_blocks=True),
        unknown(5, "w", starts=None, worker_blocks=False),
        arrive(6, "b", "A", expect={"queued": True}),
    ]
    check({"steps": steps, "dispatch_order": ["a"]}, player)
    assert "worker_blocks is False" in refused(player, unknown(0, "w", worker_blocks=True))


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
    ],
)
def test_times_in_a_repeat(text: Any, at_3: float) -> None:
    """Protects the meaning of ``i``: a factor is no summand."""
    assert number(text, 3) == pytest.approx(at_3, rel=1e-15)


@pytest.mark.parametrize("text", ["1e3", "T+5", "1m", "10 20", "5+", "i*2", "2*(i+1)", ""])
def test_no_time_is_read_in_part(text: str) -> None:
    """Protects against a time of which some terms are left out."""
    with pytest.raises(AssertionError, match="not a sum"):
        number(text, 3)


def test_i_means_nothing_outside_of_a_repeat() -> None:
    """Protects against an index that is taken for 0."""
    with pytest.raises(AssertionError, match="outside of a repeat"):
        number("10+i", None)


@pytest.mark.parametrize("n", [3, "3", "i=0..2", "0..2"])
def test_names_in_a_repeat_are_calculated_too(player: Any, n: Any) -> None:
    """Protects ``{i+1}``, which once stayed as it is, and all forms of the number of turns."""
    body = [
        arrive("10*i", "p{i+1}", "A"),
        arrive("10*i", "q{2*i}", "A"),
        {"do": "list_children", "filter": "QUEUED", "expect": {"A": {"queued_direct": "2+i"}}},
        sync("10*i+1", "w{i}", starts="p1"),
    ]
    repeat: Step = {"do": "repeat", "n": n, "body": [*body[:3], sync("10*i+1", "w{i}")]}
    names = ["p1", "q0", "p2"]
    check({"steps": [repeat], "dispatch_order": names}, player)
    message = refused(player, {"do": "repeat", "n": n, "body": body})
    assert "starts is 'q0'" in message


@pytest.mark.parametrize("n", [0, "i=3..1", "i", "two"])
def test_a_repeat_has_turns(player: Any, n: Any) -> None:
    """Protects against a body that is never played."""
    body = [arrive("i", "p{i}", "A", expect={"queued": True})]
    assert "repeat: n is" in refused(player, {"do": "repeat", "n": n, "body": body})


def leaves(t: Any, op: str) -> Step:
    """The client of an operation goes."""
    return {"do": "client_leaves", "t": t, "op": op}


def joins(t: Any, op: str, *keys: str, **expect: Any) -> Step:
    """A request of the action X arrives."""
    return arrive(t, op, *keys, action="X", **({"expect": expect} if expect else {}))


SHARED = [joins(0, "a", "u", "i1"), joins(1, "b", "u", "i2")]


def test_a_task_is_called_by_the_first_operation_that_is_left(player: Any) -> None:
    """Protects the name of a shared task whose first client leaves, before or while it runs."""
    for waiting in (True, False):
        start = sync(5, "w", starts="b" if waiting else "a")
        steps = [leaves(2, "a"), start] if waiting else [start, leaves(6, "a")]
        complete_b = complete(7, "w", completed="b", worker_last_invocation=["u", "i2"])
        check({"steps": [*SHARED, *steps, complete_b]}, player)
        message = refused(player, *SHARED, *steps, complete(7, "w", completed="a"))
        assert "completed is 'b'" in message


def test_who_comes_back_makes_a_new_operation(player: Any) -> None:
    """Protects the outcome of deduplication where a node's only client has left."""
    steps = [*SHARED, sync(2, "w", starts="a"), leaves(3, "a")]
    check({"steps": [*steps, joins(4, "c", "u", "i1", dedup="OtherInvocation")]}, player)


def test_an_operation_lives_until_the_last_client_of_its_node_leaves(player: Any) -> None:
    """Protects the name of an operation that two clients of one node wait for."""
    both = [joins(0, "a", "u"), joins(1, "b", "u", dedup="SameInvocation"), leaves(2, "a")]
    queue = {"do": "list_queued", "t": 3, "keys": ["u"], "expect": {"order": ["a"]}}
    rest = [queue, sync(4, "w", starts="a"), complete(5, "w", completed="a")]
    check({"steps": [*both, *rest], "dispatch_order": ["a"]}, player)
    check({"steps": [*both, leaves(3, "b"), sync(4, "w", starts=None)]}, player)


QUEUED = [arrive(0, "a", "A"), arrive(1, "b", "A")]


def queue(expect: Any) -> Step:
    """The queue of A is listed."""
    return {"do": "list_queued", "t": 2, "keys": ["A"], "expect": expect}


def children(expect: Any) -> Step:
    """The root's children are listed."""
    return {"do": "list_children", "t": 2, "filter": "ALL", "expect": expect}


def test_listings_are_compared(player: Any) -> None:
    """Protects all forms of what is expected of queues and children."""
    check({"steps": [*QUEUED, queue(["a", "b"])]}, player)
    check({"steps": [*QUEUED, queue({"order": ["a", "b"], "count": 2})]}, player)
    check({"steps": [*QUEUED, children(["A"]), children(1), children({"count": 1})]}, player)
    assert "order is ['a', 'b']" in refused(player, *QUEUED, queue(["zzz", "a"]))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([sync(2, "w") | {"expect": "zzz"}], "'zzz' is not compared"),
        ([sync(2, "w", starts="a"), sync(3, "v") | {"expect": "zzz"}], "'zzz' is not compared"),
        ([sync(2, "w") | {"expect": None}], "None is not compared"),
        ([sync(2, "w") | {"expect": ["a"]}], "['a'] is not compared"),
        ([queue("zzz")], "'zzz' is not compared"),
        ([arrive(2, "c", "A", expect={})], "nothing is expected"),
        ([arrive(2, "c", "A", expect={"why": "it is so"})], "nothing is expected"),
        ([sync(2, "w") | {"expect": "it works"}], "nothing is expected"),
        ([children("no children")], "not a sum"),
        ([children(None)], "None is not compared"),
        ([children(["B"])], "list_children"),
        ([children({"order": "in scheduling order: B, A"})], "list_children"),
        ([children({"each": {"queued_direct": 2}}) | {"keys": ["B"]}], "there are none"),
        ([sync(2, "w", starts="a"), arrive(3, "c", "A", priorty="10 points")], "key priorty"),
        ([{"do": "repeat", "n": 1, "t": 7, "body": [sync(2, "w", starts="a")]}], "key t"),
    ],
)
def test_no_expectation_passes_unread(player: Any, steps: list[Step], message: str) -> None:
    """Protects against scenarios that test less than they say, or nothing."""
    assert message in refused(player, *QUEUED, *steps)


def test_no_key_of_a_scenario_passes_unread(player: Any) -> None:
    """Protects against a misspelt key, whatever its value looks like."""
    assert "key stickiness" in refused(player, *QUEUED, sync(2, "w", starts="a"), stickiness="3 s")


def test_an_age_is_of_one_operation_of_an_instant(player: Any) -> None:
    """Protects the age of an operation that arrives together with others, and that of its task."""
    old, young = arrive(10, "a", "A", queued_timestamp=20), arrive(10, "b", "A")
    check({"steps": [old, young, sync(30, "w", starts="b")]}, player)
    shared = [joins(10, "a", "B") | {"queued_timestamp": 20}, joins(10, "c", "A")]
    check({"steps": [*shared, arrive(11, "b", "A"), queue(["b", "c"])]}, player)


def test_what_a_scenario_may_leave_out(player: Any) -> None:
    """Protects defaults: no stickiness, and all children."""
    listing = {"do": "list_children", "t": 1, "expect": {"count": 1}}
    check({"steps": [arrive(0, "a", "A"), listing], "stickiness_limits_s": None}, player)
    assert "allowed filters" in refused(player, arrive(0, "a", "A"), listing | {"filter": "SOME"})
