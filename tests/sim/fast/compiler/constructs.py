"""Functions with each construct that the translator knows; in Python and in C they do the same."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

Integers = Annotated[Any, np.int64]
Floats = Annotated[Any, np.float64]
Table = Annotated[Any, np.int64, 2]
Cube = Annotated[Any, np.float64, 3]
THING = np.dtype(
    [
        ("large", np.float64),
        ("number", np.int64),
        ("medium", np.int32),
        ("small", np.int16),
        ("tiny", np.int8),
        ("true", np.bool_),
    ],
    align=True,
)
Things = Annotated[Any, THING]
SEVEN, HALF, YES, NEVER, UNKNOWN = 7, 0.5, True, math.inf, math.nan
LARGE = 2**62


class Inner(NamedTuple):
    """A part of a named tuple."""

    things: Things
    numbers: Integers


class Outer(NamedTuple):
    """Arrays, some of them in a part."""

    first: Inner
    second: Inner
    table: Table


def loops(numbers: Integers, results: Integers) -> int:
    """Ranges, arrays and values that are written out; with ``break`` and ``continue``."""
    total, last = 0, -1
    for place in range(len(numbers)):
        if numbers[place] < 0:
            continue
        if numbers[place] > 100:
            break
        total += numbers[place]
        last = place
    results[0], results[1] = total, last
    for number in range(2, 5):
        results[2] += number
        number += 10
    results[3] = number
    for _ in range(3, 1):
        results[4] = 1
    for number in numbers:
        results[5] = results[5] * 3 + number
    for number in (numbers[0], 20, numbers[1]):
        if number == 20:
            continue
        results[6] += number
        if number < 0:
            break
    for weight, number in ((1, numbers[0]), (10, 4)):
        results[7] += weight * number
    count = 5
    while True:
        count -= 1
        if not count:
            break
    while count < 4:
        count += 1
        if count == 2:
            continue
        results[8] += count
    return total


def values_before_the_loop(numbers: Integers, results: Integers) -> None:
    """What a loop goes over is computed before its first round."""
    for number in (numbers[0], numbers[1]):
        numbers[1] = 50
        results[0] += number
    end = 3
    for step in range(end):
        end = 10
        results[1] += 1


def choices(numbers: Integers, results: Floats) -> int:
    """Conditions, and operators that return one of their operands."""
    a, b = numbers[0], numbers[1]
    if a > b:
        results[0] = 1
    elif a == b and b:
        results[0] = 2
    elif not a or b < 0:
        results[0] = 3
    else:
        results[0] = 4
    results[1] = a or b
    results[2] = a and b
    results[3] = a or b or 7
    results[4] = a and b and 0.5
    results[5] = a if a > b else b / 4
    results[6] = (a > 1 or b > 1) and not a == b
    results[7] -= a == b
    results[8] = 1 - (a > b)
    results[9] = (a > b) + (b > a) * 2
    here = a != b
    results[10] = here
    if results[11]:
        results[11] = 1
    return a or 3


def counted(results: Floats, value: int) -> int:
    """Return the value; count that it was asked for."""
    results[0] += 1
    return value


def each_operand_once(numbers: Integers, results: Floats) -> None:
    """An operand is computed once, and only if those before it have not decided."""
    a, b = numbers[0], numbers[1]
    results[1] = 0 < counted(results, a) <= b
    results[2] = a < b and counted(results, 0)
    results[3] = a == b or counted(results, a) or counted(results, b)
    results[4] = counted(results, a) if a < b else 8
    results[5] = a <= b < 5 > a != 3


def pair(a, b):
    """Return two numbers, of types that differ by case."""
    if a > b:
        return a, 0.5
    return b * 0.25, 1


def tuples(numbers: Integers, results: Floats) -> None:
    """Tuples are returned, unpacked, swapped and indexed."""
    a, b = numbers[0], numbers[1]
    a, b = b, a
    results[0], results[1] = a, b
    results[2], results[3] = pair(a, b)
    both = pair(b, a)
    results[4], results[5] = both[0], both[1]
    _, results[6] = pair(a, b)
    results[7] = results[8] = c = a + b
    results[9] = c
    numbers[0], numbers[1] = numbers[1], numbers[0]
    place, numbers[place] = 1, 5


def widened(value, by):
    """Return a sum; the argument becomes what it is added to."""
    value = value + by
    value += by
    return value


def with_defaults(a, b=SEVEN, c=-1):
    """Return a number that shows each argument."""
    return a * 100 + b * 10 + c


def calls(numbers: Integers, results: Floats) -> None:
    """Functions are translated for each types of arguments, with their defaults."""
    a = numbers[0]
    results[0] = widened(a, 1) // 2
    results[1] = widened(a, 0.25)
    results[2] = widened(0.5, 1)
    results[3] = with_defaults(a)
    results[4] = with_defaults(a, 2)
    results[5] = with_defaults(a, 2, 3)
    store(results, 6, a)


def store(results, place, value):
    """Return nothing, early or late."""
    if place == 5:
        return
    results[place] = value


def constants(results: Floats, whole: Integers) -> None:
    """Constants of modules, and those that are no plain numbers."""
    results[0], results[1], results[2] = SEVEN, HALF, YES
    results[3], results[4], results[5] = NEVER, -NEVER, UNKNOWN
    results[6], results[7] = np.inf, math.pi
    results[8], results[9] = 0.1, 1e300
    whole[0] = LARGE
    whole[1] = -9223372036854775807
    whole[2] = True
    pass


def records(things: Things, others: Things, results: Floats) -> None:
    """Fields of all types; a variable refers to the record in its array."""
    first, second = things[0], things[1]
    results[0] = first.large + first.number + first.medium + first.small + first.tiny + first.true
    first.number += 1
    first.medium = first.number
    first.true = first.number > 3
    if first.true:
        second = others[1]
    second.large = -1.5
    others[0] = things[0]
    for thing in others:
        thing.small += 1
        results[4] += thing.small


def narrow_numbers(things: Things, results: Integers) -> None:
    """Numbers of fewer bits are computed with as integers of 64; stored, they wrap around."""
    first, second = things[0], things[1]
    results[0] = first.medium * first.medium
    results[1] = first.small * first.small * first.tiny
    results[2] = first.tiny - second.tiny << 40
    results[3] = -second.medium
    second.small = first.medium + 5
    first.medium += 1


def larger(things, a, b):
    """Return the record that has the larger number."""
    return things[a] if things[a].number > things[b].number else things[b]


def named(outer: Outer, pieces: tuple[Integers, Table]) -> int:
    """Named tuples of arrays, one in the other; and tuples."""
    first, table = outer.first, outer.table
    for part in (first, outer.second):
        part.numbers[0] += 1
        part.things[0].number = len(part.numbers)
    larger(outer.first.things, 0, 1).large = 9.0
    numbers, rows = pieces
    numbers[0] = rows[1, 0] + pieces[1][0, 1] + table[0][1]
    fill(table[1], 5)
    fill(numbers, numbers[0])
    return len(table) * 10 + len(table[0])


def fill(row, value):
    """Write a value into the whole of a row."""
    for place in range(len(row)):
        row[place] = value


def dimensions(table: Table, cube: Cube, results: Floats) -> None:
    """Elements, rows and planes of arrays; loops over their rows."""
    for row in table:
        results[0] += row[0] * len(row)
    for plane in cube:
        for line in plane:
            for number in line:
                results[1] = results[1] * 2 + number
    cube[1, 0, 1] = 7
    cube[0][1][0] = 8
    cube[1, 1][0] = 9
    plane = cube[1]
    results[2] = plane[0, 1] + plane[1][0]


FUNCTIONS = {
    loops: 2,
    values_before_the_loop: 2,
    choices: 2,
    each_operand_once: 2,
    tuples: 2,
    calls: 2,
}
"""Entries that take two numbers or more, and as many results."""


# --- arithmetic, which is compared with Python's own numbers --------


def integer_arithmetic(given: Integers, results: Integers) -> None:
    """Operations of integers."""
    a, b = given[0], given[1]
    results[0] = a + b
    results[1] = a - b
    results[2] = a * b
    results[3] = a // b
    results[4] = a % b
    results[5] = min(a, b)
    results[6] = max(a, b, 3)
    results[7] = abs(a)
    results[8] = -a
    results[9] = a & b
    results[10] = a >> 3
    results[11] = a << 5
    results[12] = int(a) + math.floor(b)
    results[13] = a ^ b


def integer_operations(a: int, b: int) -> list[int]:
    """Return what Python computes."""
    return [
        a + b, a - b, a * b, a // b, a % b, min(a, b), max(a, b, 3), abs(a), -a, a & b, a >> 3,
        a << 5, a + b, a ^ b,
    ]  # fmt: skip


def float_arithmetic(given: Floats, results: Floats) -> None:
    """Operations of floats."""
    a, b = given[0], given[1]
    results[0] = a + b
    results[1] = a - b
    results[2] = a * b
    results[3] = a / b
    results[4] = a // b
    results[5] = a % b
    results[6] = min(a, b)
    results[7] = max(a, b, 1)
    results[8] = abs(a)
    results[9] = -a
    results[10] = np.isnan(a)
    results[11] = a < b
    results[12] = a <= b <= a
    results[13] = a != b
    results[14] = a * b + a  # rounded twice


def float_operations(a: float, b: float) -> list[float]:
    """Return what Python computes."""
    return [
        a + b, a - b, a * b, a / b, a // b, a % b, min(a, b), max(a, b, 1), abs(a), -a,
        math.isnan(a), a < b, a <= b <= a, a != b, a * b + a,
    ]  # fmt: skip


def mixed_arithmetic(whole: Integers, floats: Floats, results: Floats) -> None:
    """Operations of an integer and a float, and the division of integers."""
    a, b, x = whole[0], whole[1], floats[0]
    results[0] = a / b
    results[1] = a * x
    results[2] = x // b
    results[3] = b % x
    results[4] = min(a, x)
    results[5] = max(x, a)
    results[6] = a < x < b


def mixed_operations(a: int, b: int, x: float) -> list[float]:
    """Return what Python computes."""
    return [a / b, a * x, x // b, b % x, min(a, x), max(x, a), a < x < b]


def rounding(floats: Floats, results: Integers) -> None:
    """Integers of floats."""
    results[0] = int(floats[0])
    results[1] = math.floor(floats[0])
    results[2] = math.ceil(floats[0])


def power(floats: Floats) -> None:
    """Powers, by the C library as in Python."""
    floats[2] = math.pow(floats[0], floats[1])


# --- where Python raises --------


def whole_quotient(given: Floats) -> int:
    """Divide integers."""
    return 1 // int(given[0])


def whole_rest(given: Floats) -> int:
    """Return the rest of a division of integers."""
    return 1 % int(given[0])


def quotient(given: Floats) -> int:
    """Divide floats."""
    given[1] = 1.0 / given[0]
    return 0


def floor_quotient(given: Floats) -> int:
    """Divide floats, and round down."""
    given[1] = 1.0 // given[0]
    return 0


def rest(given: Floats) -> int:
    """Return the rest of a division of floats."""
    given[1] = 1.0 % given[0]
    return 0


def integer_of(given: Floats) -> int:
    """Return an integer."""
    return int(given[0])


def element(given: Floats) -> int:
    """Return an element of a row of four."""
    return int(given[int(given[0])])
