"""A waiting job's sort key as bytes that sort the same way.

Redis orders the members of equal score in a sorted set by their bytes. So the member of a
waiting job is its key (``farm.core.rules.sort_key``) in fixed width and big-endian
hex, then a colon and the job's id: the head of the queue is the set's first member.
"""

from __future__ import annotations

import math
import struct
from typing import Any

_SIGN = 1 << 63
_ALL = (1 << 64) - 1


def encode_float(value: float) -> str:
    """Return 16 hex digits that sort as the numbers do; raises ValueError for NaN."""
    if math.isnan(value):
        raise ValueError("NaN has no place in an order")
    bits: int = struct.unpack(">Q", struct.pack(">d", value + 0.0))[0]
    # positive: above all negatives; negative: the larger the magnitude the lower
    return f"{bits ^ _ALL if bits & _SIGN else bits | _SIGN:016x}"


def encode_member(key: tuple[Any, ...], job_id: str) -> str:
    """Return the sorted-set member of a waiting job; keys of one policy have one length."""
    *front, serial = key
    return f"{''.join(encode_float(float(part)) for part in front)}{serial:012x}:{job_id}"


def job_of_member(member: str) -> str:
    """Return the id of the job that a sorted-set member stands for."""
    return member.partition(":")[2]
