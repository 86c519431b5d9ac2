"""The bytes by which Redis sorts waiting jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.live.redis.keys import encode_float, encode_member, job_of_member

numbers = st.floats(allow_nan=False)
keys = st.tuples(st.integers(-(2**31), 2**31), numbers, st.integers(0, 2**40))
long_keys = st.tuples(st.integers(-(2**31), 2**31), numbers, numbers, st.integers(0, 2**40))


@given(numbers, numbers)
def test_encoded_floats_sort_as_the_numbers_do(a: float, b: float):
    """Order-preserving for every pair, infinities and both zeros included."""
    x, y = encode_float(a), encode_float(b)
    assert (x < y, x == y) == (a < b, a == b)


@given(st.one_of(st.tuples(keys, keys), st.tuples(long_keys, long_keys)))
def test_members_sort_as_the_keys_do(pair):
    """A pending set in Redis is in exactly the order of the scheduler's queue."""
    a, b = pair
    x, y = encode_member(a, "a").encode(), encode_member(b, "a").encode()
    assert (x < y, x == y) == (a < b, a == b)


@given(keys, st.text(min_size=1))
def test_the_job_is_read_off_its_member(key, job_id: str):
    """Whatever the id contains, including a colon."""
    assert job_of_member(encode_member(key, job_id)) == job_id


def test_nan_is_refused():
    """A policy that computes NaN is a mistake that must not silently sort somewhere."""
    with pytest.raises(ValueError, match="NaN"):
        encode_float(float("nan"))
