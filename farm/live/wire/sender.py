"""One life of a sender of reports, which numbers its envelopes and limits their size."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from farm.core.events import JobsSubmitted
from farm.live.wire.messages import (
    UNSTAMPED,
    VERSION,
    Envelope,
    Report,
    TooLargeError,
    encode,
)
from farm.live.wire.report_checks import MAX_JOBS


class Sender:
    """Makes envelopes of reports, in order; ``life`` is a name that cannot be guessed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = secrets.token_hex(16)
        self._seq = 0

    def envelopes(self, *reports: Report) -> Iterator[bytes]:
        """Yield these reports in as few envelopes as the bounds allow.

        Jobs submitted together stay together if there are no more than MAX_JOBS of them. Raises
        TooLargeError for a single report, or job, that no envelope holds.
        """
        if len(reports) == 1 and _jobs_of(reports[0]) > MAX_JOBS:
            yield from self._halved(reports)
            return
        self._seq += 1
        try:
            data = encode(Envelope(VERSION, self.name, self.life, self._seq, reports))
        except TooLargeError:
            if len(reports) == 1 and _jobs_of(reports[0]) < 2:
                raise
            yield from self._halved(reports)
        else:
            yield data

    def _halved(self, reports: tuple[Report, ...]) -> Iterator[bytes]:
        half = len(reports) // 2
        if half:
            yield from self.envelopes(*reports[:half])
            yield from self.envelopes(*reports[half:])
        elif isinstance(one := reports[0], JobsSubmitted):
            # as many full ones as there are, then the rest
            half = MAX_JOBS if len(one.jobs) > MAX_JOBS else len(one.jobs) // 2
            yield from self.envelopes(JobsSubmitted(UNSTAMPED, one.jobs[:half]))
            yield from self.envelopes(JobsSubmitted(UNSTAMPED, one.jobs[half:]))


def _jobs_of(report: Report) -> int:
    return len(report.jobs) if isinstance(report, JobsSubmitted) else 0
