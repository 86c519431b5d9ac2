"""The doctor's figures as a table, on a terminal and on a page."""

from __future__ import annotations

from farm.results.descriptive_statistics import Spread
from farm.results.formatting import readable_percent, readable_ratio, readable_span
from farm_twin.diagnosis.figures import FarmFigures, PlatformFigures

HEADINGS = (
    "jobs", "per hour", "run time", "slots", "load", "load ÷ slots", "busy while waiting",
    "p50 wait", "p95 wait", "of those started", "cancelled waiting", "turnaround", "retries",
    "worst hour",
)  # fmt: skip
FIRST_TO_GO = (
    "worst hour", "retries", "turnaround", "of those started", "per hour", "cancelled waiting",
    "run time", "p50 wait", "load", "slots", "jobs", "busy while waiting",
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
    empty_columns = set[str]()
    if not any(platform.censored for platform in figures.platforms):
        empty_columns |= {"p95 wait", "cancelled waiting"}
    if not any(platform.retries for platform in figures.platforms):
        empty_columns.add("retries")
    return {column: text for column, text in ABOUT.items() if column not in empty_columns}


def row_of(figures: PlatformFigures) -> tuple[str, ...]:
    """Return a platform's row: its labels, then the columns of ``HEADINGS``."""
    slots = readable_ratio(figures.mean_slots)
    if figures.ephemeral:
        slots = f"at most {figures.slots_seen:.0f}"
    retries = "0"
    if figures.retries:
        retries = f"{figures.retries:,} ({readable_percent(figures.wasted_share)})"
    worst_hour = "-"
    if figures.peak_hour:
        worst_hour = f"{figures.peak_hour}: {readable_span(figures.peak_wait_p95)}"
    return (
        figures.platform or "(no labels)",
        f"{figures.attempts:,}",
        readable_ratio(figures.arrivals_per_hour),
        _mean_and_deviation(figures.run_time),
        slots,
        readable_ratio(figures.offered_load),
        readable_ratio(figures.utilization),
        readable_percent(figures.busy_share_while_waiting),
        _wait(figures.wait_p50, figures),
        _wait(figures.wait_p95, figures),
        f"{readable_span(figures.waits.p50)}, {readable_span(figures.waits.p95)}",
        _cancelled(figures),
        readable_span(figures.turnaround.p50),
        retries,
        worst_hour,
    )


def _mean_and_deviation(times: Spread) -> str:
    if not times.count:
        return "-"
    return f"{readable_span(times.mean)} ± {readable_span(times.std)}"


def _wait(quantile: float | None, figures: PlatformFigures) -> str:
    """Return a quantile; if more were broken off than that, the longest that is known."""
    if quantile is None and figures.waits.max is not None:
        return f"> {readable_span(figures.waits.max)}"
    return readable_span(quantile)


def _cancelled(figures: PlatformFigures) -> str:
    """Return how many were cancelled while they waited, and after which median wait."""
    if not figures.censored:
        return "0"
    share = readable_percent(figures.censored / figures.attempts)
    after = f"after {readable_span(figures.censored_wait.p50)}"
    if figures.still_waiting:
        after += f", {figures.still_waiting:,} of them still waiting"
    return f"{figures.censored:,} ({share}) {after}"
