"""What the Taskcluster simulator counts: all that was there at some time in the run phase.

Its recorder forgets jobs that ended before the phase or came after it, and builders likewise; what
is left counts with its whole life. So a builder whose jobs all ended before the phase, yet was
still there when it began, counts as over-provisioned, from the moment at which it joined. Waiting
times are those of the jobs that ended by the phase's end (``farm.results.summary.summary``).
"""

from __future__ import annotations

import msgspec

from farm.core.events import JobsSubmitted
from farm.results.summary.builder_time import Window
from farm.results.summary.records import RunRecords


def touching(records: RunRecords, window: Window) -> RunRecords:
    """Return the records without the jobs and builders that were not there in the window."""
    over = {end.job.id for end in records.ends if end.finished_at < window.start}
    return msgspec.structs.replace(
        records,
        ends=[
            end
            for end in records.ends
            if end.job.id not in over and end.job.arrival(end.submitted_at) <= window.end
        ],
        submissions=[
            JobsSubmitted(
                event.at,
                tuple(
                    job
                    for job in event.jobs
                    if job.id not in over and job.arrival(event.at) <= window.end
                ),
            )
            for event in records.submissions
        ],
        builders=[
            span
            for span in records.builders
            if (span.gone_at is None or span.gone_at >= window.start)
            and (span.requested_at is None or span.requested_at <= window.end)
        ],
    )
