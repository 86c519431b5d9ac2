"""The doctor's figures as a table, on a terminal and on a page."""

from __future__ import annotations

from farm.results.formatting import readable_percent, readable_ratio, readable_span
from farm.twin.doctor import PlatformFigures

HEADINGS = (
    "jobs", "per hour", "mean run", "slots", "load", "utilization", "busy while waiting",
    "p50 wait", "p95 wait", "cancelled waiting", "turnaround", "retries",
)  # fmt: skip
ABOUT = (
    "slots and load are means over the time in which jobs arrived; "
    "p50 and p95 count waits that were broken off as longer"
)


def row_of(one: PlatformFigures) -> tuple[str, ...]:
    """Return a platform's row: its labels, then the columns of ``HEADINGS``."""
    return (
        one.platform or "(no labels)",
        f"{one.attempts:,}",
        readable_ratio(one.arrivals_per_hour),
        readable_span(one.run_time.mean),
        f"at most {one.slots_seen:.0f}" if one.ephemeral else readable_ratio(one.mean_slots),
        readable_ratio(one.offered_load),
        readable_ratio(one.utilization),
        readable_percent(one.busy_share_while_waiting),
        readable_span(one.wait_p50),
        readable_span(one.wait_p95),
        f"{one.censored:,}",
        readable_span(one.turnaround.p50),
        f"{one.retries:,}",
    )
