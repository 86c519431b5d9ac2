"""How a table writes its dates and numbers, as its columns show it.

``11/02/2026`` is of November or of February, ``1,400`` is more than a thousand or 1.4: no cell says
which, but a column mostly does, and what one program wrote, it wrote in one way. Where no column
says it, the user does, by the end of our name: ``--column submitted_dmy=Created``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from statistics import fmean
from typing import NamedTuple

DAY_FIRST, MONTH_FIRST = "dmy", "mdy"
COMMA, POINT = "comma", "point"
DAYS = "days"
DAYS_BEFORE_1970, DAY = 25_569, 86_400
EARLIEST_DAY, LATEST_DAY = 36_526, 73_050
"""The years 2000 and 2099, between which such numbers of days are."""
MAX_DAYS_OF_RUN, MAX_DAYS_BETWEEN = 0.5, 0.05
"""How long jobs run on average at most, and come after each other, where numbers are of days."""
INSTANTS = ("submitted", "eligible", "started", "finished")
MUCH_SHORTER = 5
"""How many times longer the days of a table are if day and month are mistaken for each other: days
that follow each other become months."""
MIN_AGREEING = 0.9
"""The share of the telling cells of a column that must agree; the others are unreadable."""
SAMPLE = 1000
"""Cells of a column that are looked at first."""
MIN_WITH_DOT, MIN_WHOLE = 30, 0.05
"""Of numbers such as 1.400, how many there must be in a column, and which share of whole ones
beside them, from which on the dot is one between thousands: decimal ones would not all have three
digits."""
_ENDINGS = re.compile(rf"_({DAY_FIRST}|{MONTH_FIRST}|{COMMA}|{POINT})\Z")
_WORDS = {
    DAY_FIRST: "with dates read with the day first",
    MONTH_FIRST: "with dates read with the month first",
    DAYS: "with dates read as days, which spreadsheets count since 1899",
    COMMA: "with numbers read with a decimal comma",
    POINT: "with numbers read with commas between thousands",
}
_NUMERIC_DATE = re.compile(r"(\d{1,2})([/-])(\d{1,2})\2(\d{4}|(?<=/)[1-9]\d)(?![\d/-])")
_DOTTED_DATE = re.compile(r"\d{1,2}\.\d{1,2}\.(\d{4}|\d\d)")
_HALF_OF_DAY = re.compile(r"\d\s*[ap]\.?m\b", re.IGNORECASE)
_GROUPED = re.compile(r"-?\d[\d.,'\u2019\u00a0\u202f ]*[.,'\u2019\u00a0\u202f ]\d+")
"""A number with a mark, or several."""
_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WITH_SECONDS_OF_DAY = re.compile(r"\d+\.\d{4,}|\d+\.0|\d+")
_GROUPED_BY_DOTS = re.compile(r"-?\d{1,3}(?:\.\d{3})+")
_DOT_BEFORE_THREE = re.compile(r"[1-9]\d{0,2}\.\d{3}")
_MARKS = set(",'\u2019\u00a0\u202f ")
"""Marks of numbers that are none of Python's."""
_BETWEEN_THOUSANDS = re.compile(r"(?<=\d)['\u2019\u00a0\u202f ](?=\d{3})")
_NAMES_OF_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS = {name: number for number, name in enumerate(_NAMES_OF_MONTHS.split(), 1)}
_YEAR, _SHORT_YEAR = r"(?P<year>\d{4})", r"(?P<year>\d{4}|\d\d)"
_MONTH, _DAY = r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
_NAMED_MONTH = rf"(?P<month>{_NAMES_OF_MONTHS.replace(' ', '|')})[a-z]*\.?"
_DAY_OF_WEEK = r"(?:[a-z]{3,9},?\s+)?"
_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d(?:[.,]\d+)?))?"
    r"(?:\s*(?P<half>[ap])\.?m\.?)?"
)
_ZONE = r"\s*(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?"
_REST = rf"(?:[T\s,]+{_CLOCK})?{_ZONE}"
_DATES = (
    rf"{_DAY}\.\s?{_MONTH}\.\s?{_SHORT_YEAR}{_REST}",  # 02.11.2026 08:00
    rf"{_YEAR}(?P<mark>[-/.]){_MONTH}(?P=mark){_DAY}{_REST}",  # 2026/11/02 8:00:00 PM
    rf"{_DAY_OF_WEEK}{_DAY}[-\s]+{_NAMED_MONTH}[-,\s]+{_SHORT_YEAR}{_REST}",  # 02-Nov-26 08:00
    rf"{_DAY_OF_WEEK}{_NAMED_MONTH}\s+{_DAY},?\s+{_YEAR}{_REST}",  # Nov 2, 2026 8:00:00 AM
    rf"{_DAY_OF_WEEK}{_NAMED_MONTH}\s+{_DAY}\s+{_CLOCK}{_ZONE}\s+{_YEAR}",  # as date prints it
)
_FORMS = [re.compile(form, re.IGNORECASE) for form in _DATES]


def iso_of(text: str) -> str | None:
    """Return a date that can only be one as ISO 8601; None: it is of no known form.

    Raises ValueError for a day that there is not.
    """
    match = next((found for form in _FORMS if (found := form.fullmatch(text))), None)
    if match is None:
        return None
    parts = match.groupdict()
    month = _MONTHS.get(parts["month"][:3].lower()) or int(parts["month"])
    day = date(_year(parts["year"]), month, int(parts["day"]))
    hour = int(parts["hour"] or 0)
    if hour == 24 and not parts["half"]:  # the end of a day
        day += timedelta(days=1)
        hour = 0
    if parts["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (parts["half"].lower() == "p")
    second = (parts["second"] or "00").replace(",", ".")
    zone = parts["zone"] or ""
    if zone.upper() in ("Z", "UTC", "GMT"):
        zone = "Z"
    return f"{day.isoformat()}T{hour:02}:{parts['minute'] or '00'}:{second}{zone}"


def _year(digits: str) -> int:
    return int(digits) + 2000 * (len(digits) == len("26"))


def without_endings(fields: Mapping[str, str]) -> tuple[dict[str, str], Notation]:
    """Return a mapping without what our names say of dates and numbers, and that."""
    shown = {"order": "", "mark": ""}
    plain = {}
    for ours, theirs in fields.items():
        match = _ENDINGS.search(ours)
        if match is not None:
            shown["order" if match[1] in (DAY_FIRST, MONTH_FIRST) else "mark"] = match[1]
        plain[_ENDINGS.sub("", ours)] = theirs
    return plain, Notation(**shown)


class Notation(NamedTuple):
    """How dates and numbers are written; empty: as ISO 8601, and with a decimal point."""

    order: str = ""
    mark: str = ""
    #: ``DAYS`` if dates are the numbers that spreadsheets have for them
    dates: str = ""

    @property
    def remarks(self) -> list[str]:
        """What a reader of the records must know of it."""
        return [_WORDS[found] for found in self if found]

    def instant(self, text: str) -> str:
        """Return a cell with an instant as ISO 8601, or as seconds with a decimal point."""
        plain = self.plain(text)
        if self.dates and _PLAIN_NUMBER.fullmatch(plain):
            return f"{(float(plain) - DAYS_BEFORE_1970) * DAY:.3f}"
        return plain

    def plain(self, text: str) -> str:
        """Return a cell as ISO 8601, or with a decimal point; unchanged if it is neither."""
        if self.order and (match := _NUMERIC_DATE.match(text)):
            day, month = match[1], match[3]
            if self.order == MONTH_FIRST:
                day, month = month, day
            return f"{_year(match[4]):04}-{int(month):02}-{int(day):02}{text[match.end() :]}"
        if self.mark and _is_number(text):
            number = _BETWEEN_THOUSANDS.sub("", text)
            if self.mark == COMMA:
                if "," not in number and not _GROUPED_BY_DOTS.fullmatch(number):
                    return number  # of a program, among those of a spreadsheet
                return number.replace(".", "").replace(",", ".")
            return number.replace(",", "")
        return text


def notation_of(
    columns: Mapping[str, Sequence[str]], separator: str = "", mapped: Notation | None = None
) -> Notation:
    """Return how the columns of times are written. Raises ValueError if none of them shows it.

    The first cells say it, or else all.

    Args:
        columns: their cells, by our names.
        separator: of the table's columns: where it is a semicolon, a comma is a decimal one.
        mapped: what the user says, which counts before what the columns show.
    """
    mapped = mapped or Notation()
    some = {name: texts[:SAMPLE] for name, texts in columns.items()}
    try:
        return _shown(some, separator, mapped)
    except ValueError:
        return _shown(columns, separator, mapped)


def _shown(columns: Mapping[str, Sequence[str]], separator: str, mapped: Notation) -> Notation:
    dates: dict[str, list[re.Match[str]]] = {}
    numbers: dict[str, list[str]] = {}
    for name, texts in columns.items():
        for text in texts:
            if match := _NUMERIC_DATE.match(text):
                dates.setdefault(name, []).append(match)
            elif text.isdecimal() or _is_number(text):
                numbers.setdefault(name, []).append(text)
    order = (mapped.order or _order_of(dates)) if dates else ""
    notation = Notation(order, mapped.mark or _mark_of(numbers, separator))
    instants = {
        name: [notation.plain(text) for text in numbers[name]]
        for name in INSTANTS
        if name in numbers
    }
    return notation._replace(dates=DAYS if _are_days(instants) else "")


def _are_days(instants: Mapping[str, Sequence[str]]) -> bool:
    """Return whether numbers are days since 1899, with the seconds as their decimals.

    As seconds since a trace began, all would be in a few hours of it, and run for a fraction of
    one; or, where no column has their ends, come many in each.
    """
    texts = [text for each in instants.values() for text in each]
    exact = sum(map(bool, map(_WITH_SECONDS_OF_DAY.fullmatch, texts)))
    if not texts or exact < MIN_AGREEING * len(texts):
        return False
    days = {name: list(map(float, each)) for name, each in instants.items()}
    first = min(map(min, days.values()))
    last = max(map(max, days.values()))
    if first < EARLIEST_DAY or last >= LATEST_DAY:
        return False
    if {"started", "finished"} <= days.keys():
        return 0 <= fmean(days["finished"]) - fmean(days["started"]) < MAX_DAYS_OF_RUN
    return last - first < MAX_DAYS_BETWEEN * max(map(len, days.values()))


def _is_number(text: str) -> bool:
    """Return whether a cell is a number with a mark."""
    return bool(_GROUPED.fullmatch(text)) and not _DOTTED_DATE.fullmatch(text)


def _order_of(dates: Mapping[str, list[re.Match[str]]]) -> str:
    """Return which of day and month is first. Raises ValueError."""
    # 00/00/0000 is no date, and says nothing of the others
    found = [
        match
        for each in dates.values()
        for match in each
        if int(match[1]) and int(match[3]) and int(match[4])
    ]
    if all(int(match[1]) == int(match[3]) for match in found):
        return DAY_FIRST
    shown = Counter(
        DAY_FIRST if int(one[1]) > int(one[3]) else MONTH_FIRST
        for one in found
        if max(int(one[1]), int(one[3])) > len(_MONTHS)
    )
    name, [example, *_] = next(iter(dates.items()))
    if shown:
        return _by_most(shown, f"{name}: found dates with the day first and with the month first")
    spans = {}
    for order, day, month in ((DAY_FIRST, 1, 3), (MONTH_FIRST, 3, 1)):
        days = [date(_year(one[4]), int(one[month]), int(one[day])).toordinal() for one in found]
        spans[order] = max(days) - min(days)
    shorter = min(spans, key=spans.__getitem__)
    if MUCH_SHORTER * spans[shorter] < max(spans.values()):
        return shorter
    if any(_HALF_OF_DAY.search(match.string) for match in found):
        return MONTH_FIRST  # who writes 8:00 PM, mostly writes so
    raise ValueError(
        f"{name}: found {example.string!r:.60}, in which the day or the month may be first; "
        f"allowed: --column {name}_{DAY_FIRST}=NAME, or {name}_{MONTH_FIRST}=NAME"
    )


def _by_most(shown: Counter[str], what: str) -> str:
    """Return what nearly all cells show. Raises ValueError where they disagree."""
    [(first, count), *_] = shown.most_common(1)
    if count < MIN_AGREEING * shown.total():
        raise ValueError(f"{what}; allowed: one of both")
    return first


def _mark_of(numbers: Mapping[str, list[str]], separator: str) -> str:
    """Return what a comma in numbers is; empty: there is none. Raises ValueError."""
    texts = [text for each in numbers.values() for text in each]
    if not any(_MARKS & set(text) for text in texts):
        is_grouped = any(_has_dots_between_thousands(each, separator) for each in numbers.values())
        return COMMA if is_grouped else ""
    with_comma = ((name, text) for name, each in numbers.items() for text in each if "," in text)
    name, example = next(with_comma, ("", ""))
    if not example:
        return POINT
    shown = Counter(filter(None, map(_mark_shown, texts)))
    if shown:
        what = f"{name}: found decimal commas, and commas between thousands, as {example!r:.60}"
        return _by_most(shown, what)
    if separator == ";":
        return COMMA
    # three decimals would be there in each, also in what is below a thousand
    if any(len(text) < len("1000") and text.isdecimal() for text in texts):
        return POINT
    raise ValueError(
        f"{name}: found {example!r:.60}, in which the comma may be a decimal one; allowed: "
        f"--column {name}_{COMMA}=NAME if it is, or {name}_{POINT}=NAME"
    )


def _has_dots_between_thousands(texts: Sequence[str], separator: str) -> bool:
    """Return whether 1.400 is more than a thousand: all such have three digits behind the dot.

    What is below a thousand has none then, as it would have as a decimal number.
    """
    with_dot = [text for text in texts if "." in text]
    whole = [text for text in texts if "." not in text and text != "0"]
    if not with_dot or not all(map(_DOT_BEFORE_THREE.fullmatch, with_dot)):
        return False
    if not whole or max(map(len, whole)) > len("999"):
        return False
    are_many = len(with_dot) >= MIN_WITH_DOT and len(whole) >= MIN_WHOLE * len(texts)
    return separator == ";" or are_many


def _mark_shown(text: str) -> str:
    """Return what the comma of a number can only be; empty: either, or there is none."""
    plain = _BETWEEN_THOUSANDS.sub("", text)
    whole, comma, rest = plain.rpartition(",")
    if not comma:
        is_decimal = "." in plain and not _GROUPED_BY_DOTS.fullmatch(plain)
        return POINT if is_decimal else ""
    if "." in rest or "," in whole:
        return POINT
    digits = whole.lstrip("-")
    if "." in whole or len(rest) != len("400") or len(digits) > len("999") or digits == "0":
        return COMMA
    return ""
