"""A forecast in words: when a job starts and how sure that is, how long it runs, when it is done.

Every command, page and client says it by these functions, so that users read the same words
everywhere. They take plain values and know no farm.
"""

from __future__ import annotations

import math

import msgspec

from farm.units import format_roughly, format_time

#: a start is said to be open where a tenth of such jobs waits this many times as long as expected …
OPEN_RATIO = 10.0
#: … and at least so long (s)
OPEN_TIME = 3600.0
#: jobs from which it is said how many of ten started in time
MIN_TENTHS = 10
#: a range that begins below this part of its end is said without its beginning
SMALL_SHARE = 0.1
#: the largest ratio of the ends of a range that is said as one time
ALIKE = 1.02
#: seconds below which a wait is none
AT_ONCE = 1.0
#: seconds up to which a range is said in seconds, and in minutes
MAX_SECONDS, MAX_MINUTES = 100.0, 6000.0
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
#: hours up to which a range is said in hours
MAX_HOURS = 48.0


class StartForecast(msgspec.Struct, frozen=True, kw_only=True):
    """When a job starts and how long it runs: spans in farm seconds, from now on.

    Of ten jobs, eight should start, and run, within the ranges from ``low`` to ``high``.
    """

    #: until it starts, as expected; None: no builder could run it
    start: float | None = None
    #: None: no range is known
    start_low: float | None = None
    start_high: float | None = None
    run_time: float | None = None
    run_time_low: float | None = None
    run_time_high: float | None = None
    #: of the last jobs that were given such a range: how many have started, and how many within it
    checked: int = 0
    in_time: int = 0
    #: these are enough
    is_proven: bool = False
    #: others may always go before it
    is_open: bool = False
    #: what its submitter declared, where jobs of its kind take another time, and what they take
    declared: float | None = None
    kind_time: float | None = None

    @property
    def done(self) -> float | None:
        """When it is done, as expected."""
        if self.start is None or self.run_time is None:
            return None
        return self.start + self.run_time

    @property
    def done_high(self) -> float | None:
        """By when it is done, for nine jobs of ten; None: not known.

        Start and run time err independently: they are rarely both late.
        """
        if self.done is None or self.start is None or self.run_time is None or self.is_open:
            return None
        late_start = (self.start if self.start_high is None else self.start_high) - self.start
        longer = self.run_time if self.run_time_high is None else self.run_time_high
        return self.done + math.hypot(max(0.0, late_start), max(0.0, longer - self.run_time))


def is_open_ended(start: float | None, start_high: float | None) -> bool:
    """Return whether a job may wait so long that no end of its range should be said."""
    if start is None or start_high is None:
        return False
    return start_high >= max(OPEN_TIME, OPEN_RATIO * start)


def sentence_of(job: str, forecast: StartForecast, why: str = "", done_at: str = "") -> str:
    """Return in one sentence when a waiting job starts, how sure that is, and why.

    ``done_at``: by when it is done, as a clock shows it; empty: the span from now on is said.
    """
    parts = [
        start_in_words(forecast),
        run_time_in_words(forecast),
        done_in_words(forecast, done_at),
    ]
    text = f"{job} {', '.join(filter(None, parts))}"
    if why:
        text += f": {why}"
    if other := declared_in_words(forecast):
        text += f"; {other}"
    return text


def at_once_in_words(job: str, forecast: StartForecast, done_at: str = "") -> str:
    """Return how long a job runs that does not wait, and by when it is done."""
    parts = ["starts at once", run_time_in_words(forecast), done_in_words(forecast, done_at)]
    text = f"{job} {', '.join(filter(None, parts))}"
    other = declared_in_words(forecast)
    return f"{text}; {other}" if other else text


def running_in_words(
    job: str, elapsed: float, rest: float, low: float | None, high: float | None, done_at: str = ""
) -> str:
    """Return since when a job runs, and when it is done; ``low``, ``high``: the range of its rest.

    ``done_at``: what a clock shows after ``high``.
    """
    text = f"{job} has run for {span_in_words(elapsed)}, {rest_in_words(rest, low, high)}"
    return f"{text} (by {done_at})" if done_at else text


def start_in_words(forecast: StartForecast) -> str:
    """Return when a job starts, and how sure that is: ``starts in 8-12 min (…)``."""
    if forecast.start is None:
        return "waits"
    sure = confidence_in_words(forecast)
    if forecast.is_open:
        return f"starts in about {span_in_words(forecast.start)}, but may wait very long ({sure})"
    if forecast.start_low is None or forecast.start_high is None:
        return f"starts in about {span_in_words(forecast.start)} ({sure})"
    return f"starts {when_in_words(forecast.start_low, forecast.start_high)} ({sure})"


def short_start_in_words(forecast: StartForecast) -> str:
    """Return in which time a job starts, for a table: ``8-12 min``; empty: not known."""
    if forecast.start is None:
        return ""
    if forecast.is_open or forecast.start_low is None or forecast.start_high is None:
        about = f"about {span_in_words(forecast.start)}"
        return f"{about}, or very long" if forecast.is_open else about
    return range_in_words(forecast.start_low, forecast.start_high)


def when_in_words(low: float, high: float) -> str:
    """Return a range of instants from now on: ``in 8-12 min``, ``within 3 min``."""
    if high < AT_ONCE:
        return "at once"
    text = range_in_words(low, high)
    return text if text.startswith("within") else f"in {text}"


def confidence_in_words(forecast: StartForecast) -> str:
    """Return how sure a start is: how often the last jobs that were told a range kept to it."""
    if not forecast.checked:
        return "unproven: no job so told has started yet"
    text = held_in_words(forecast.checked, forecast.in_time, "so told")
    return text if forecast.is_proven else f"unproven: {text}"


def held_in_words(checked: int, in_time: int, which: str) -> str:
    """Return how many of the last jobs started in the range that they were told.

    ``which`` follows the noun: jobs ``so told``.
    """
    if checked == 1:
        return f"the last job {which} {'started' if in_time else 'did not start'} in time"
    share = str(in_time)
    if in_time in (0, checked):
        share = "all" if in_time else "none"
    elif checked >= MIN_TENTHS:
        # not all, and not none
        share = f"{min(max(round(10 * in_time / checked), 1), 9)} of 10"
    return f"of the last {checked} jobs {which}, {share} started in time"


def run_time_in_words(forecast: StartForecast) -> str:
    """Return how long a job runs: ``runs 6-11 min``; empty: not known."""
    if forecast.run_time is None:
        return ""
    if forecast.run_time_low is None or forecast.run_time_high is None:
        return f"runs about {span_in_words(forecast.run_time)}"
    text = range_in_words(forecast.run_time_low, forecast.run_time_high)
    return f"runs {text.replace('within', 'up to')}"


def rest_in_words(rest: float, low: float | None, high: float | None) -> str:
    """Return when a running job is done: ``done in 2-5 min``."""
    if low is None or high is None:
        return f"done in about {span_in_words(rest)}"
    return f"done {when_in_words(low, high)}"


def done_in_words(forecast: StartForecast, done_at: str = "") -> str:
    """Return by when a job is done: ``done by 14:50``, ``done within 25 min``; empty: not known."""
    if forecast.done_high is None:
        return ""
    return f"done by {done_at}" if done_at else f"done within {_upper(forecast.done_high)}"


def declared_in_words(forecast: StartForecast) -> str:
    """Return that a declared time was not believed; empty: it was, or there is none."""
    if forecast.declared is None or forecast.kind_time is None:
        return ""
    declared, usual = span_in_words(forecast.declared), span_in_words(forecast.kind_time)
    return f"you said {declared}; this kind takes about {usual}"


def span_in_words(seconds: float) -> str:
    """Return a span: whole minutes as ``4 min``, others as ``1m30s``."""
    rounded = round(seconds)
    if rounded >= MINUTE and rounded % 60 == 0 and seconds < HOUR:
        return f"{rounded // 60} min"
    if seconds >= 2 * HOUR:
        return format_time(float(round(seconds / 60) * 60))
    return format_roughly(seconds)


def range_in_words(low: float, high: float) -> str:
    """Return a range in the unit of its end, never narrower than it is: ``8-12 min``.

    A beginning near zero is left out (``within 3 min``), and ends that are alike are one time
    (``about 8 min``).
    """
    low = max(0.0, min(low, high))
    if high <= ALIKE * low:
        return f"about {span_in_words((low + high) / 2)}"
    unit, length = _unit_of(high)
    begin, end = _down(low / length, unit), _up(high / length, unit)
    if low < SMALL_SHARE * high:
        return f"within {end} {unit}"
    if low < length:
        smaller, its_length = _unit_of(low)
        return f"{_down(low / its_length, smaller)} {smaller} to {end} {unit}"
    return f"{begin}-{end} {unit}"


def _upper(seconds: float) -> str:
    unit, length = _unit_of(seconds)
    return f"{_up(seconds / length, unit)} {unit}"


def _unit_of(seconds: float) -> tuple[str, float]:
    """Return the unit in which a span is said, and its length in seconds."""
    if seconds <= MAX_SECONDS:
        return "s", 1.0
    if seconds <= MAX_MINUTES:
        return "min", MINUTE
    if seconds <= MAX_HOURS * HOUR:
        return "h", HOUR
    return "days", DAY


def _down(value: float, unit: str) -> str:
    """Return a number rounded down: hours and days to a tenth."""
    tenths = 10 if unit in ("h", "days") else 1
    return f"{math.floor(value * tenths + 1e-6) / tenths:,g}"


def _up(value: float, unit: str) -> str:
    tenths = 10 if unit in ("h", "days") else 1
    return f"{math.ceil(value * tenths - 1e-6) / tenths:,g}"
