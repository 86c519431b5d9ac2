"""Types of scenario values: times, rates, counts, shares, weighted choices."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import GenericAlias
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from farm.core.model import JOB_FIELDS
from farm.scenario.times_of_week import format_time_of_week, parse_time_of_week
from farm.units import (
    RATE_PATTERN,
    TIME_PATTERN,
    format_rate,
    format_time,
    parse_rate,
    parse_time,
)


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("found 0; allowed: more than 0")
    return value


def _no_null(value: str) -> str:
    if "\0" in value:
        raise ValueError(f"found {value!r:.60}; allowed: a name without null characters")
    return value


def _written(
    parse: Callable[[object], float], write: Callable[[float], str], pattern: str, bound: str
) -> tuple[object, ...]:
    """Return a validator for numbers with units; ``bound``: the constraint relative to 0."""
    schema = [{"type": "number", bound: 0}, {"type": "string", "pattern": pattern}]
    return (
        BeforeValidator(parse),
        PlainSerializer(write, return_type=str, when_used="json"),
        WithJsonSchema({"anyOf": schema}),
    )


Duration = Annotated[float, *_written(parse_time, format_time, TIME_PATTERN, "minimum")]
"""Seconds; written ``90s 5m 1h30m 2d`` or as a number."""

PositiveDuration = Annotated[Duration, AfterValidator(_positive)]

Rate = Annotated[
    float,
    AfterValidator(_positive),
    *_written(parse_rate, format_rate, RATE_PATTERN, "exclusiveMinimum"),
]
"""Per second, more than 0; written ``0.5/s 30/m 2/h`` or as a number."""

TimeOfWeek = Annotated[
    float,
    BeforeValidator(parse_time_of_week),
    PlainSerializer(format_time_of_week, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string"}),
]
"""Seconds since Monday 00:00, with a date since 1970's first; written ``wed 14:30``."""

Whole = Annotated[int, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=10**15)]
Positive = Annotated[int, Field(strict=True, ge=1, le=10**15)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)]
PositiveNumber = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0)]
Share = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=1)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(strict=True, min_length=1, max_length=500)]
FileName = Annotated[Text, AfterValidator(_no_null)]
Name = Annotated[str, Field(strict=True, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")]
"""Letters, digits, dots, dashes and underscores: it becomes part of ids, keys and file names."""
RUN_NAME = r"^\w[\w.-]{0,99}\Z"
RunName = Annotated[str, Field(strict=True, max_length=100, pattern=RUN_NAME)]
"""The same, with letters of any script: it is only shown, and written to files."""

T = TypeVar("T")
W = TypeVar("W", bound=Collection[Any])


def some_weight(what: str) -> AfterValidator:
    """Return a check that at least one of several has a weight above 0."""

    def check(several: W) -> W:
        weights = several.values() if isinstance(several, Mapping) else (x.weight for x in several)
        if sum(weights) <= 0:
            raise ValueError(f"found no {what} with a weight above 0; allowed: at least one")
        return several

    return AfterValidator(check)


_ANY_CHOICE = (str | int | float) | list[str | int | float] | dict[str, float]


def _choice(
    kind: Callable[[object], T], what: str, is_allowed: Callable[[T], bool] = lambda _: True
) -> tuple[object, ...]:
    """Return a validator for one value, a list of values, or ``{value: weight}``.

    A value is a text or number from which ``kind`` makes one; ``what`` names what is allowed.
    """

    def value_of(found: object) -> T:
        plain = isinstance(found, str | int | float) and not isinstance(found, bool)
        with contextlib.suppress(ValueError, OverflowError):
            # whole numbers are not rounded
            if plain and not (kind is int and isinstance(found, float)):
                value = kind(found)
                if is_allowed(value):
                    return value
        raise ValueError(f"found {found!r:.60}; allowed: {what}")

    def choice(found: object) -> dict[T, object]:
        if isinstance(found, Mapping):
            return {value_of(key): weight for key, weight in found.items()}
        several = found if isinstance(found, list | tuple) else [found]
        return dict[T, object](Counter(map(value_of, several)))

    reader = BeforeValidator(choice, json_schema_input_type=_ANY_CHOICE)
    return reader, some_weight("value")


def _choice_for(name: str) -> tuple[object, ...]:
    field = JOB_FIELDS[name]
    return _choice(field.kind, *field.limit)


def choice_for(name: str) -> Any:
    """Return the type of a choice between values of this field of a job."""
    weights = GenericAlias(dict, (JOB_FIELDS[name].kind, NonNegative))
    return Annotated[weights, *_choice_for(name)]


TextChoice = Annotated[dict[str, NonNegative], *_choice(str, "text", bool)]
"""One text, a list of equally likely ones, or ``{text: weight}``; likewise the others."""
WholeChoice = Annotated[dict[int, NonNegative], *_choice(int, "a whole number")]
LevelChoice = Annotated[dict[int, NonNegative], *_choice_for("level")]
NumberChoice = Annotated[dict[float, NonNegative], *_choice_for("score")]
ModeChoice = Annotated[dict[str, NonNegative], *_choice_for("mode")]
ThreadChoice = Annotated[dict[int, NonNegative], *_choice_for("threads")]
