"""The translator: what it knows does in C what it does in Python; what it does not is refused."""

from __future__ import annotations

import copy
import inspect
import math
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.sim.fast.compiler.program import Program
from farm.sim.fast.compiler.source import TranslationError
from farm.sim.fast.kernel import native, object_file
from tests.fixtures.compiled import Compiled
from tests.fixtures.plain_kernel import by_attribute
from tests.sim.fast.compiler import constructs, refused

ENTRIES = [
    *constructs.FUNCTIONS,
    constructs.constants,
    constructs.records,
    constructs.narrow_numbers,
    constructs.named,
    constructs.dimensions,
    constructs.integer_arithmetic,
    constructs.float_arithmetic,
    constructs.mixed_arithmetic,
    constructs.rounding,
    constructs.power,
]
RAISING = [
    (constructs.whole_quotient, 0.0),
    (constructs.whole_rest, 0.0),
    (constructs.quotient, 0.0),
    (constructs.quotient, -0.0),
    (constructs.floor_quotient, 0.0),
    (constructs.rest, 0.0),
    (constructs.integer_of, math.nan),
    (constructs.integer_of, math.inf),
    (constructs.integer_of, 2.0**63),
    (constructs.integer_of, -(2.0**64)),
]
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

integers = st.integers(INT_MIN, INT_MAX) | st.integers(-20, 20)
floats = st.floats() | st.integers(-20, 20).map(lambda number: number / 4)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """All constructs in one object."""
    if object_file.c_compiler() is None:
        pytest.skip("needs a C compiler")
    functions = [*ENTRIES, *dict(RAISING)]
    return Compiled(functions, tmp_path_factory.mktemp("compiled"))


def same_in_both(compiled: Compiled, function: Callable[..., Any], *arguments: Any) -> None:
    """Check that a function does the same to its arrays, and returns the same."""
    for_python, for_c = copy.deepcopy(arguments), copy.deepcopy(arguments)
    returned = function(*map(by_attribute, for_python))
    assert compiled.call(function, *for_c) == (returned or 0)
    pairs = zip(native._flat(for_python), native._flat(for_c), strict=True)
    for array_of_python, array_of_c in pairs:
        np.testing.assert_array_equal(array_of_c, array_of_python)


def bits(numbers: list[float]) -> list[bytes]:
    """Return numbers so that those that count as equal differ; all that are none are the same."""
    return [b"nan" if math.isnan(number) else struct.pack("d", number) for number in numbers]


def wrapped(number: int) -> int:
    """Return an integer of 64 bits."""
    return (number - INT_MIN) % 2**64 + INT_MIN


@pytest.mark.parametrize("function", constructs.FUNCTIONS, ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    "numbers", [(3, 5, -2, 7, 200, 1), (5, 3), (4, 4), (0, 0), (0, -2), (-3, 0, 8)]
)
def test_control_flow_is_the_same(compiled: Compiled, function, numbers):
    """Loops, choices, tuples and calls; on numbers that take each of their ways."""
    hints = inspect.get_annotations(function, eval_str=True)
    (type_of_results,) = hints["results"].__metadata__
    same_in_both(compiled, function, np.array(numbers), np.zeros(16, type_of_results))


def test_constants_are_the_same(compiled: Compiled):
    """Infinity, what is no number, and integers of more than 32 bits."""
    same_in_both(compiled, constructs.constants, np.zeros(10), np.zeros(3, np.int64))


def test_records_are_the_same(compiled: Compiled):
    """A variable refers to a record; only an assignment to a place copies it."""
    things = np.zeros(2, constructs.THING)
    things[0] = (1.5, 3, 20, 30, 40, True)
    things[1] = (2.5, -3, -20, -30, -40, False)
    others = np.zeros(3, constructs.THING)
    same_in_both(compiled, constructs.records, things, others, np.zeros(5))


def test_narrow_numbers_do_not_overflow_early(compiled: Compiled):
    """C would compute with 32 bits, NumPy with those of the field."""
    medium, small, tiny = 2**31 - 1, 2**15 - 1, 127
    things = np.zeros(2, constructs.THING)
    things[0] = (0.0, 0, medium, small, tiny, True)
    things[1] = (0.0, 0, -medium - 1, 0, -tiny - 1, False)
    results = np.zeros(4, np.int64)

    assert compiled.call(constructs.narrow_numbers, things, results) == 0

    wide = [medium**2, small**2 * tiny, (2 * tiny + 1) << 40, medium + 1]
    assert results.tolist() == wide
    assert things["medium"][0] == -medium - 1
    assert things["small"][1] == 4


def test_named_tuples_are_the_same(compiled: Compiled):
    """They are passed on by their address, with the arrays in them."""
    table = np.arange(6).reshape(2, 3)
    first = constructs.Inner(np.zeros(2, constructs.THING), np.arange(4))
    second = constructs.Inner(np.zeros(1, constructs.THING), np.arange(2))
    outer = constructs.Outer(first, second, table)
    same_in_both(compiled, constructs.named, outer, (np.arange(3), table + 10))


def test_dimensions_are_the_same(compiled: Compiled):
    """Rows are found by the lengths of all dimensions behind the first."""
    table = np.arange(6).reshape(3, 2)
    cube = np.arange(8.0).reshape(2, 2, 2)
    same_in_both(compiled, constructs.dimensions, table, cube, np.zeros(3))


@given(a=integers, b=integers.filter(bool))
def test_integers_are_pythons(compiled: Compiled, a, b):
    """Of all signs: quotients are rounded down, and 64 bits wrap around."""
    results = np.zeros(14, np.int64)

    assert compiled.call(constructs.integer_arithmetic, np.array([a, b]), results) == 0

    assert results.tolist() == list(map(wrapped, constructs.integer_operations(a, b)))


@given(a=floats, b=floats.filter(bool))
def test_floats_are_pythons(compiled: Compiled, a, b):
    """To the last bit, signs of zeros included."""
    results = np.zeros(15)

    assert compiled.call(constructs.float_arithmetic, np.array([a, b]), results) == 0

    assert bits(results.tolist()) == bits(list(map(float, constructs.float_operations(a, b))))


small = st.integers(-(2**53), 2**53) | st.integers(-20, 20)


@given(a=small, b=small.filter(bool), x=floats.filter(bool))
def test_integers_become_floats_beside_floats(compiled: Compiled, a, b, x):
    """As in Python, for integers that a float can hold."""
    results = np.zeros(7)

    assert compiled.call(constructs.mixed_arithmetic, np.array([a, b]), np.array([x]), results) == 0

    assert bits(results.tolist()) == bits(list(map(float, constructs.mixed_operations(a, b, x))))


@given(x=st.floats(-(2.0**62), 2.0**62) | st.integers(-9, 9).map(lambda number: number / 2))
def test_rounding_is_pythons(compiled: Compiled, x):
    """Towards zero, down and up."""
    results = np.zeros(3, np.int64)

    assert compiled.call(constructs.rounding, np.array([x]), results) == 0

    assert results.tolist() == [int(x), math.floor(x), math.ceil(x)]


@given(x=st.floats(0, 2), y=st.floats(0, 1000))
def test_powers_are_pythons(compiled: Compiled, x, y):
    """Both come from the same library."""
    floats = np.array([x, y, 0.0])

    assert compiled.call(constructs.power, floats) == 0

    assert floats[2] == math.pow(x, y)


@pytest.mark.parametrize(("function", "value"), RAISING)
def test_what_raises_in_python_is_a_failed_call(compiled: Compiled, function, value):
    """A division by zero must not end the process, and what has no result must not have one."""
    given = np.array([value, 0.0])
    with pytest.raises((ZeroDivisionError, ValueError, OverflowError)):
        # a value that does not fit is stored in an array of Python's
        np.int64(function(given.tolist()))

    assert compiled.call(function, given) == -1

    again = np.array([3.0, 0.0])
    assert compiled.call(function, again) == function([3.0, 0.0])


@pytest.mark.parametrize("index", [-1.0, 4.0, 1e15])
def test_indices_can_be_checked(tmp_path, index):
    """The kernel is played so: it reads and writes nothing beside its arrays."""
    if object_file.c_compiler() is None:
        pytest.skip("needs a C compiler")
    checked = Compiled([constructs.element], tmp_path, ["-DCHECK_INDICES"])

    assert checked.call(constructs.element, np.array([3.0, 0.0, 0.0, 8.0])) == 8
    assert checked.call(constructs.element, np.array([index, 0.0, 0.0, 8.0])) == -1


def refused_functions() -> list[Callable[..., Any]]:
    """Return the entries with something that is not known."""
    helpers = {"decorated", "helper", "nothing", "plain", "kept"}
    return [
        function
        for name, function in vars(refused).items()
        if getattr(function, "__module__", "") == refused.__name__
        and inspect.isfunction(function)
        and name not in helpers
    ]


@pytest.mark.parametrize("function", refused_functions(), ids=lambda one: one.__name__)
def test_what_is_not_known_is_an_error_with_its_line(function):
    """Otherwise it would be translated into something else."""
    with pytest.raises(TranslationError) as raised:
        Program().text([function])

    place, _, reason = str(raised.value).partition(": ")
    file, _, line = place.rpartition(":")
    assert file == refused.__file__
    text = inspect.getsource(refused).splitlines()[int(line) - 1]
    assert re.fullmatch(r".*?  # (.*)", text)[1] == reason
