"""The doctor's figures as a table, on a terminal and on a page."""

from __future__ import annotations

from farm.doctor.figures import FarmFigures, PlatformFigures
from farm.results.descriptive_statistics import Spread
from farm.results.formatting import readable_percent, readable_ratio, readable_span

HEADINGS = (
    "jobs", "per hour", "run time", "slots", "load", "load ÷ slots", "busy while waiting",
    "p50 wait", "p95 wait", "of those started", "cancelled waiting", "turnaround", "retries",
    "worst hour",
)  # fmt: skip
FIRST_TO_GO = (
    "worst hour", "retries", "turnaround", "of those started", "per hour", "cancelled waiting",
)  # fmt: skip
ABOUT = {
    "run time": "run times are means, and their standard deviations",
    "slots": "slots and load are means over the time in which jobs arrived",
    "load ÷ slots": "load ÷ slots counts what passes between two jobs as load",
    "p95 wait": "p50 and p95 count waits that were broken off as longer",
    "cancelled waiting": "those that were cancelled waited for the median shown",
    "retries": "retries have the share of the busy time that was of attempts tried again",
    "worst hour": "the worst hour is that of the longest p95 wait",
}
"""What is to be said of a column."""


def about(figures: FarmFigures) -> dict[str, str]:
    """Return what is to be said of the columns of these figures: nothing of what they lack."""
    lacks = set[str]()
    if not any(one.censored for one in figures.platforms):
        lacks |= {"p95 wait", "cancelled waiting"}
    if not any(one.retries for one in figures.platforms):
        lacks.add("retries")
    return {column: text for column, text in ABOUT.items() if column not in lacks}


def row_of(one: PlatformFigures) -> tuple[str, ...]:
    """Return a platform's row: its labels, then the columns of ``HEADINGS``."""
    return (
        one.platform or "(no labels)",
        f"{one.attempts:,}",
        readable_ratio(one.arrivals_per_hour),
        _spread(one.run_time),
        f"at most {one.slots_seen:.0f}" if one.ephemeral else readable_ratio(one.mean_slots),
        readable_ratio(one.offered_load),
        readable_ratio(one.utilization),
        readable_percent(one.busy_share_while_waiting),
        _wait(one.wait_p50, one),
        _wait(one.wait_p95, one),
        f"{readable_span(one.waits.p50)}, {readable_span(one.waits.p95)}",
        _cancelled(one),
        readable_span(one.turnaround.p50),
        f"{one.retries:,} ({readable_percent(one.wasted_share)})" if one.retries else "0",
        f"{one.peak_hour}: {readable_span(one.peak_wait_p95)}" if one.peak_hour else "-",
    )


def _spread(of: Spread) -> str:
    return f"{readable_span(of.mean)} ± {readable_span(of.std)}" if of.count else "-"


def _wait(found: float | None, one: PlatformFigures) -> str:
    """Return a quantile; if more were broken off than that, the longest that is known."""
    if found is None and one.waits.max is not None:
        return f"> {readable_span(one.waits.max)}"
    return readable_span(found)


def _cancelled(one: PlatformFigures) -> str:
    if not one.censored:
        return "0"
    share = readable_percent(one.censored / one.attempts)
    return f"{one.censored:,} ({share}) after {readable_span(one.censored_wait.p50)}"
