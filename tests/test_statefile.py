"""State files: what is accepted, and the one clear message for what is not."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core.errors import StateError
from farm.forecasts.dispatch.state_file import parse_state

GOOD = {
    "builders": [
        {"name": "b1", "processors": ["i386"], "virtualized": True, "ok": True, "manual": False},
        {"name": "b2", "processors": ["i386", "amd64"], "virtualized": False, "slots": 4},
    ],
    "jobs": [
        {"id": 1, "name": "one", "processor": "i386", "virtualized": None, "score": 5,
         "duration_s": 60, "status": "waiting"},
        {"id": 2, "name": "two", "processor": None, "virtualized": True, "score": 5.5,
         "duration_s": 60, "status": "running", "builder": "b1", "elapsed_s": None},
    ],
}  # fmt: skip


def changed(path, value):
    """Return the good state with one place changed (an absent key: added)."""
    state = copy.deepcopy(GOOD)
    place = state
    *steps, last = path
    for step in steps:
        place = place[step]
    place[last] = value
    return json.dumps(state)


def test_good_state():
    """Every key is read; optional ones have a default."""
    view = parse_state(json.dumps(GOOD | {"order": ["one"], "at_s": 5}), "x")
    assert [b.slots for b in view.builders] == [1, 4]
    assert view.builders[1].usable
    assert view.jobs[1].builder == "b1"
    assert view.jobs[1].elapsed_s is None
    assert view.order == (1,)


def test_unknown_keys_are_ignored():
    """A key that resembles a known one is accepted if the known one is there too."""
    state = json.dumps(GOOD)
    assert parse_state(changed(("jobs", 0, "processor_id"), 7), "x") == parse_state(state, "x")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("builders",), {}, r"state.builders: found {}; allowed: a list"),
        (("jobs", 0), 7, r"jobs\[0\]: found 7; allowed: an object"),
        (("builders", 0, "processors"), "i386", r"builders\[0\].processors: found \"i386\""),
        (
            ("builders", 0, "processors"),
            [386],
            r"processors: found \[386\]; allowed: a list of pro",
        ),
        (("builders", 0, "virtualized"), None, r"virtualized: found null; allowed: true or false"),
        (("builders", 0, "ok"), 1, r"ok: found 1; allowed: true or false"),
        (("builders", 0, "slots"), 0, r"slots: found 0; allowed: a whole number from 1"),
        (("builders", 1, "name"), "b1", r"builders\[1\].name: 'b1' is taken by builders\[0\]"),
        (("jobs", 0, "processor"), 386, r"processor: found 386; allowed: a processor name"),
        (("jobs", 0, "processor"), "", r"processor: found \"\"; allowed: a processor name"),
        (("jobs", 0, "virtualized"), "yes", r"virtualized: found \"yes\"; allowed: true, false"),
        (("jobs", 0, "score"), None, r"score: found null; allowed: a finite number"),
        (("jobs", 0, "score"), float("inf"), r"score: found Infinity"),
        (("jobs", 0, "score"), 10**400, r"score: found 1000"),
        (("jobs", 0, "duration_s"), -1, r"jobs\[0\].duration_s: found -1; allowed: a number"),
        (("jobs", 0, "duration_s"), float("nan"), r"duration_s: found NaN"),
        (("jobs", 0, "duration_s"), "60", r"duration_s: found \"60\""),
        (("jobs", 1, "elapsed_s"), -5, r"jobs\[1\].elapsed_s: found -5"),
        (("jobs", 0, "status"), "queued", r"status: found \"queued\"; allowed: waiting, running"),
        (("jobs", 0, "status"), ["waiting"], r"status: found \[\"waiting\"\]"),
        (("jobs", 1, "builder"), "b9", r"builder: found \"b9\"; allowed: one of .* \(b1, b2\)"),
        (("jobs", 1, "builder"), None, r"builder: found null; allowed: .* the job is running"),
        (("jobs", 1, "name"), "one", r"jobs\[1\].name: 'one' is taken by jobs\[0\]"),
        (("jobs", 1, "name"), "\ud800", r"jobs\[1\].name: found .*ud800\"; allowed: a name"),
        (("jobs", 1, "id"), 1, r"jobs\[1\].id: 1 is taken by jobs\[0\]"),
        (("jobs", 0, "id"), "1", r"id: found \"1\"; allowed: a whole number"),
        (("jobs", 0, "id"), True, r"id: found true"),
        (("jobs", 0, "id"), 2**70, r"id: found 1180591620717411303424"),
        (("jobs", 0, "elapsed"), 5, r"unknown key 'elapsed'; did you mean 'elapsed_s'"),
        (("order",), ["one", "one"], r"order: names job 'one' twice"),
        (("order",), ["two"], r"order: found 'two'; allowed: names of waiting jobs"),
        (("order",), [], r"order: waiting job 'one' is missing"),
    ],
)
def test_bad_state(path, value, message):
    """The message names the place, what was found and what is allowed."""
    with pytest.raises(StateError, match=message) as caught:
        parse_state(changed(path, value), "farm.json")
    assert str(caught.value).startswith("farm.json: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x: line 1, column 1: not JSON"),
        ('{"builders": [}', r"x: line 1, column 15: not JSON"),
        ("[]", r"x: state: found \[\]; allowed: an object"),
        ("{}", r"x: state: key 'builders' is missing"),
        ('{"builders": [], "builders": []}', r"x: not JSON: key 'builders' twice"),
        ("[" * 100_000, r"x: not JSON"),
    ],
)
def test_not_a_state(text, message):
    """Other text is refused with the place of the problem."""
    with pytest.raises(StateError, match=message):
        parse_state(text, "x")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
places = st.sampled_from(
    [(top, i, key) for top in ("builders", "jobs") for i in (0, 1) for key in GOOD[top][i]]
    + [("builders",), ("jobs",), ("order",), ("jobs", 0), ("builders", 0)]
)


@settings(deadline=None)
@given(path=places, value=anything)
def test_nothing_but_state_errors(path, value):
    """Whatever stands at any place, the result is a farm or a StateError."""
    try:
        view = parse_state(changed(path, value), "x")
    except StateError:
        return
    assert view.waiting() is not None
