"""What the Taskcluster simulator counts: all that was there at some time in the run phase.

Its recorder forgets jobs that ended before the phase or came after it, and builders likewise; what
is left counts with its whole life. So a builder whose jobs all ended before the phase, yet was
still there when it began, counts as over-provisioned, from the moment at which it joined. Waiting
times are those of the jobs that ended by the phase's end (``farm.results.summary.summary``).
"""

from __future__ import annotations

from farm.results.summary.builder_time import Window
from farm.results.summary.columns import Columns


def touching(columns: Columns, window: Window) -> Columns:
    """Return the columns without the jobs and builders that were not there in the window."""
    ends, spans = columns.ends, columns.spans
    return columns.only(
        ~(ends.finished_at < window.start) & (ends.arrived_at <= window.end),
        ~(spans.gone_at < window.start) & ~(spans.requested_at > window.end),
    )
