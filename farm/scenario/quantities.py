"""The small types of scenario values: durations, rates, counts, shares, weighted choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from farm.units import (
    DURATION_PATTERN,
    RATE_PATTERN,
    format_duration,
    format_rate,
    parse_duration,
    parse_rate,
)


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("found 0; allowed: more than 0")
    return value


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": DURATION_PATTERN},
            ]
        }
    ),
]
"""Seconds; written ``90s 5m 1h30m 2d`` or as a number."""

PositiveDuration = Annotated[Duration, AfterValidator(_positive)]

Rate = Annotated[
    float,
    BeforeValidator(parse_rate),
    AfterValidator(_positive),
    PlainSerializer(format_rate, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": RATE_PATTERN},
            ]
        }
    ),
]
"""Per second, more than 0; written ``0.5/s 30/m 2/h`` or as a number."""

Whole = Annotated[int, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)]
PositiveNumber = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0)]
Share = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=1)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(strict=True, min_length=1, max_length=500)]
Name = Annotated[str, Field(strict=True, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")]
"""Letters, digits, dots, dashes and underscores: it becomes part of ids, keys and file names."""

MODES = ("timed", "stress", "memory", "mixed")
"""How a live builder carries a job out: by letting time pass, or by burning what the job burns."""

T = TypeVar("T")


def _choice_of(convert: Callable[[object], T], what: str) -> Callable[[object], dict[T, Any]]:
    """Return what makes ``{value: weight}`` of one value, a list of them, or such a mapping."""

    def value_of(found: object) -> T:
        try:
            return convert(found)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"found {found!r:.60}; allowed: {what}") from None

    def choice(found: object) -> dict[T, Any]:
        if isinstance(found, Mapping):
            return {value_of(key): weight for key, weight in found.items()}
        several = found if isinstance(found, list | tuple) else [found]
        weights: dict[T, Any] = {}
        for one in several:
            weights[value_of(one)] = weights.get(value_of(one), 0.0) + 1.0
        return weights

    return choice


def _text(found: object) -> str:
    if isinstance(found, bool) or not isinstance(found, str | int | float) or found == "":
        raise ValueError
    return str(found)


def _whole(found: object) -> int:
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise TypeError
    return int(found)


def _number(found: object) -> float:
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise TypeError
    number = float(found)
    if not math.isfinite(number):
        raise ValueError
    return number


def _some_weight(weights: dict[T, float]) -> dict[T, float]:
    if not weights or sum(weights.values()) <= 0:
        raise ValueError("found no value with a weight above 0; allowed: at least one")
    return weights


def _mode(found: object) -> str:
    if found not in MODES:
        raise ValueError
    return str(found)


def _thread_count(found: object) -> int:
    count = _whole(found)
    if count < 1:
        raise ValueError
    return count


_ANY_CHOICE = (str | int | float) | list[str | int | float] | dict[str, float]

TextChoice = Annotated[
    dict[str, NonNegative],
    BeforeValidator(_choice_of(_text, "text"), json_schema_input_type=_ANY_CHOICE),
    AfterValidator(_some_weight),
]
"""One text, a list of equally likely ones, or ``{text: weight}``."""

WholeChoice = Annotated[
    dict[int, NonNegative],
    BeforeValidator(_choice_of(_whole, "a whole number"), json_schema_input_type=_ANY_CHOICE),
    AfterValidator(_some_weight),
]
"""One whole number, a list of equally likely ones, or ``{number: weight}``."""

NumberChoice = Annotated[
    dict[float, NonNegative],
    BeforeValidator(_choice_of(_number, "a finite number"), json_schema_input_type=_ANY_CHOICE),
    AfterValidator(_some_weight),
]
"""One number, a list of equally likely ones, or ``{number: weight}``."""

ModeChoice = Annotated[
    dict[str, NonNegative],
    BeforeValidator(_choice_of(_mode, ", ".join(MODES)), json_schema_input_type=_ANY_CHOICE),
    AfterValidator(_some_weight),
]
"""One mode, a list of equally likely ones, or ``{mode: weight}``."""

ThreadChoice = Annotated[
    dict[int, NonNegative],
    BeforeValidator(
        _choice_of(_thread_count, "a whole number from 1"), json_schema_input_type=_ANY_CHOICE
    ),
    AfterValidator(_some_weight),
]
"""One count, a list of equally likely ones, or ``{count: weight}``."""
