"""The jobs and builders that the Taskcluster simulator counts: those present in the run phase.

Its recorder drops jobs and builders that ended before the phase or came after it; the others count
with their whole lives. So a builder whose jobs all ended before the phase, but which was still
present when it began, counts as over-provisioned, from the instant it joined. Waiting times
are those of the jobs that ended by the phase's end (``farm.results.summary.summary``).
"""

from __future__ import annotations

from farm.results.summary.builder_time import Window
from farm.results.summary.columns import Columns


def touching(columns: Columns, window: Window) -> Columns:
    """Return the columns without the jobs and builders that were not present in the window."""
    ends, spans = columns.ends, columns.spans
    return columns.only(
        ~(ends.finished_at < window.start) & (ends.arrived_at <= window.end),
        ~(spans.gone_at < window.start) & ~(spans.requested_at > window.end),
    )
