"""Functions with something that the translator does not know, each in the line that says so."""

# fmt: off
# mypy: ignore-errors
from __future__ import annotations

from typing import Annotated, Any

import numpy as np

Integers = Annotated[Any, np.int64]
THING = np.dtype([("number", np.int64)])
Things = Annotated[Any, THING]
TEXT, BIG = "text", 2**63


def decorated(function):
    return function


def helper(numbers):
    numbers[0] += 1
    return numbers[0]


def nothing(numbers):
    numbers[0] += 1


def a_try(numbers: Integers):
    try:  # found 'try:', a statement that is not known
        numbers[0] = 1
    except ValueError:
        pass


def a_loop_with_else(numbers: Integers):
    while numbers[0]:  # found 'while numbers[0]:', a statement that is not known
        numbers[0] = 0
    else:
        numbers[1] = 0


def an_annotated_variable(numbers: Integers):
    number: int = 3  # found 'number: int = 3', a statement that is not known
    numbers[0] = number


def a_comprehension(numbers: Integers):
    numbers[0] = sum([n for n in numbers])  # found '[n for n in numbers]', an expression that is not known


def a_keyword(numbers: Integers):
    numbers[0] = helper(numbers=numbers)  # found 'helper(numbers=numbers)', an expression that is not known


def a_method(numbers: Integers):
    numbers[0] = numbers.sum()  # allowed: calls of functions of modules


def another_builtin(numbers: Integers):
    numbers[0] = sum(numbers)  # found 'sum(numbers)', a call that is not known


def an_unknown_name(numbers: Integers):
    numbers[0] = missing  # found missing, which is not defined


def a_text(numbers: Integers):
    numbers[0] = TEXT  # found 'text'; allowed: numbers


def a_big_integer(numbers: Integers):
    numbers[0] = BIG  # found 9223372036854775808; allowed: integers of 64 bits


def a_power(numbers: Integers):
    numbers[0] = numbers[1] ** 2  # found 'numbers[1] ** 2', an operation that is not known


def bits_of_a_float(numbers: Integers):
    numbers[0] = 0.5 & 3  # found '0.5 & 3', an operation that is not known


def a_shift_by_a_variable(numbers: Integers):
    numbers[0] = 1 << numbers[1]  # allowed: shifts by a constant from 0 to 63


def an_identity(numbers: Integers):
    numbers[0] = numbers[1] is numbers[0]  # allowed as comparisons: < <= > >= == !=


def an_index_from_the_end(numbers: Integers):
    numbers[0] = numbers[-1]  # found an index from the end; allowed: from the beginning


def a_slice(numbers: Integers):
    numbers[0] = len(numbers[1:])  # found '1:', an expression that is not known


def a_float_as_index(numbers: Integers):
    numbers[0] = numbers[1.5]  # found a float; allowed: an integer


def too_many_indices(numbers: Integers):
    numbers[0] = numbers[1, 2]  # found 2 indices of an array of int64_t in 1 dimensions


def an_unknown_field(things: Things):
    things[0].size = 3  # found the attribute size of a record, which has none such


def a_record_as_a_number(things: Things):
    things[0].number = things[1] + 1  # found a record; allowed: a number


def a_number_as_a_record(things: Things):
    things[0] = 3  # allowed: a number, or a whole record, in an array


def a_variable_of_two_types(things: Things):
    thing = things[0]
    thing = 3  # found a record and an integer in one place


def a_variable_without_a_value(numbers: Integers):
    numbers[0] = number  # found number, which has no value above
    number = 3


def a_tuple_of_another_length(numbers: Integers):
    first, second = helper(numbers), 1, 2  # found a tuple for 2 targets


def an_index_beyond_a_tuple(numbers: Integers):
    both = numbers[0], 1
    numbers[0] = both[2]  # allowed as the index of a tuple: a constant within it


def a_loop_over_a_number(numbers: Integers):
    for number in numbers[0]:  # allowed: loops over a range, array or tuple
        numbers[0] = number


def a_range_with_steps(numbers: Integers):
    for number in range(0, 6, 2):  # found 'range(0, 6, 2)', a call that is not known
        numbers[0] = number


def an_end_without_result(numbers: Integers):
    if numbers[0]:  # found an end without a result; allowed: return
        return 3


def two_kinds_of_return(numbers: Integers):
    if numbers[0]:
        return 3
    return  # found an integer and the result of a function that returns none in one place


def the_result_of_none(numbers: Integers):
    numbers[0] = nothing(numbers)  # found the result of a function that returns none; allowed: a value


def an_order_that_counts(numbers: Integers):
    numbers[0] = (numbers[0] + helper(numbers))  # found a call that writes beside what reads or writes, the order of which is not certain in C; allowed: a statement for each


def two_calls_that_write(numbers: Integers):
    numbers[0] = min(helper(numbers), helper(numbers))  # found a call that writes beside what reads or writes, the order of which is not certain in C; allowed: a statement for each


def a_call_in_a_place(numbers: Integers):
    numbers[helper(numbers)] = 3  # found a call that writes, in the place to write into


def missing_arguments(numbers: Integers):
    numbers[0] = helper()  # found 0 arguments of helper


def itself(numbers: Integers):  # found a function that calls itself
    itself(numbers)


def plain(first, *rest):  # allowed: plain arguments, some of them with a default
    return first


def unusual_arguments(numbers: Integers):
    numbers[0] = plain(1)


@decorated
def kept(first):  # found a decorator; allowed: none
    return first


def a_decorated_function(numbers: Integers):
    numbers[0] = kept(1)


def a_float_as_result(numbers: Integers):  # found a float as the result of an entry
    return 0.5


def a_plain_argument(numbers: int):  # found an argument of type <class 'int'>; allowed: arrays (Annotated), and tuples of such
    return 0


def a_text_array(names: Annotated[Any, "U8"]):  # found the array type <U8; allowed: f8, i8, i4, i2, i1, b1
    return 0
