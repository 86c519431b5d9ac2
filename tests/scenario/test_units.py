"""Durations and rates as users write them."""

import math
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import farm
from farm.units import format_rate, format_time, parse_rate, parse_time


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0),
        (90, 90.0),
        (1.5, 1.5),
        ("90", 90.0),
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("2d", 172800.0),
        ("1w", 604800.0),
        ("250ms", 0.25),
        ("0.5h", 1800.0),
        (" 3 s ", 3.0),
        ("1e3", 1000.0),
    ],
)
def test_spans(written: object, seconds: float) -> None:
    """Every documented way of writing a duration means what it says."""
    assert parse_time(written) == seconds


@pytest.mark.parametrize(
    "written",
    ["", "5 parsecs", "m", "-5s", "5m-3s", -1, math.nan, math.inf, "nan", "1e999", True, None, [],
     "0.5/s", "5m,3s", "٣s", "9" * 400 + "s", 10**400],
)  # fmt: skip
def test_an_invalid_span_is_refused(written: object) -> None:
    """Wrong units, negative and non-finite numbers say what was found and what is allowed."""
    with pytest.raises(ValueError, match=r"(?s)found .*; allowed: seconds"):
        parse_time(written)


@pytest.mark.parametrize(
    ("written", "rate"),
    [(2, 2.0), ("0.5/s", 0.5), ("30/m", 0.5), ("2/h", 2 / 3600), ("1/d", 1 / 86400), ("3 / s", 3)],
)
def test_rates(written: object, rate: float) -> None:
    """Every documented way of writing a rate means what it says."""
    assert parse_rate(written) == rate


@pytest.mark.parametrize("written", ["5m", "1/parsec", "-1/s", "nan/s", "/s", True, None, -2])
def test_an_invalid_rate_is_refused(written: object) -> None:
    """A duration is no rate, and neither is anything negative."""
    with pytest.raises(ValueError, match=r"found .*; allowed: a number per second"):
        parse_rate(written)


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_what_is_written_reads_back_exactly(number: float) -> None:
    """A resolved scenario is the same scenario, to the last bit."""
    assert parse_time(format_time(number)) == number
    assert parse_rate(format_rate(number)) == number


def test_spans_are_written_in_one_way() -> None:
    """Every message writes spans in the form that users type, without a blank before the unit."""
    root = Path(farm.__file__).parents[1]
    rooms = ("farm", "workers", "provisioner", "farm_twin", "farm_studies", "farm_chaos")
    sources = [path for room in rooms for path in root.glob(f"{room}/**/*.py")]
    assert len(sources) > 100
    own = [
        path
        for path in sources
        if re.search(r"(\{[^{}\n]*\}|%[.\d]*[gfd]) m?s\b", path.read_text("utf-8"))
    ]
    assert own == []


@given(st.text())
def test_any_text_is_a_span_or_a_clear_error(text: str) -> None:
    """No text makes the parsers raise anything but ValueError."""
    for parse in (parse_time, parse_rate):
        with suppress(ValueError):
            assert parse(text) >= 0
