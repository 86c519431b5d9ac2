"""``swf``: a log in the Standard Workload Format, with the waits and the processors it has.

Its header says when it begins (``UnixStartTime``) and how many processors there are
(``MaxProcs``), which is the capacity of the farm: all partitions are one platform, as they are for
a scenario. No machine is named. As jobs to play again, the
same logs are read by ``farm.records.traces.swf``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from farm.records.attempt import Attempt, Result
from farm.records.reading import Reading

#: the fields of a line that are used, by their places, and how many there are
JOB, SUBMIT, WAIT, RUN, PROCESSORS, REQUESTED, STATUS, USER, EXECUTABLE, QUEUE, PARTITION = (
    0, 1, 2, 3, 4, 7, 10, 11, 13, 14, 15,
)  # fmt: skip
FIELDS = 18
CANCELLED = 5
_RESULTS: dict[float, Result] = {0: "failed", 4: "failed", CANCELLED: "cancelled"}
#: status of a line that is a part of a job
_PARTS = (2, 3, 4)
_OF_HEADER = (";", "\ufeff;")


def knows_line(line: str) -> bool:
    """Return whether this is the first line of such a log."""
    if line.startswith(_OF_HEADER):
        # a table may begin with a column that has no name
        return ":" in line or not line.strip("\ufeff;\r\n \t") or line.lstrip("\ufeff")[1:2] == " "
    return len(line.split()) == FIELDS and all(map(_is_number, line.split()))


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield the attempts."""
    for text in reading.texts():
        header: dict[str, str] = {}
        yield from reading.attempts(_lines(text, header, reading), _Log(header).attempt)
        processors = header.get("MaxProcs") or header.get("MaxNodes", "")
        if processors.isdigit() and int(processors) > 0:
            reading.declared_slots = (reading.declared_slots or 0.0) + int(processors)


def _lines(text: TextIO, header: dict[str, str], reading: Reading) -> Iterator[list[float]]:
    """Yield the numbers of each line; the comments above go to ``header``."""
    for line in text:
        stripped = line.strip().removeprefix("\ufeff")
        if stripped.startswith(";"):
            key, _, value = stripped.lstrip("; \t").partition(":")
            header.setdefault(key.strip(), value.strip())
            continue
        if not stripped or stripped.startswith("#"):
            continue
        reading.count()
        words = stripped.split()
        if len(words) != FIELDS or not all(map(_is_number, words)):
            reading.leave_out_unreadable(
                f"found {len(words)} fields; allowed: {FIELDS} numbers, -1 where one is unknown"
            )
            continue
        yield list(map(float, words))


def _is_number(word: str) -> bool:
    try:
        return float(word) * 0 == 0
    except ValueError:
        return False


class _Log:
    """A log whose header has been read by the time of its first line."""

    def __init__(self, header: dict[str, str]) -> None:
        self._header = header

    def attempt(self, line: list[float], reading: Reading) -> Attempt:
        """Return a line as an attempt."""
        status = line[STATUS]
        if status in _PARTS:
            reading.leave_out("parts of jobs that were swapped out")
        if line[SUBMIT] < 0:
            reading.leave_out("without a submit time")
        start_of_log = self._header.get("UnixStartTime", "")
        begins = 0.0
        if start_of_log.isdigit():
            begins = float(start_of_log)
        submitted_at = begins + line[SUBMIT]
        wait_ends_at = None
        if line[WAIT] >= 0:
            wait_ends_at = submitted_at + line[WAIT]
        never_ran = status == CANCELLED and line[RUN] <= 0
        started_at = None if never_ran else wait_ends_at
        finished_at = wait_ends_at if never_ran else None
        if started_at is not None and line[RUN] >= 0:
            finished_at = started_at + line[RUN]
        if started_at is None and finished_at is None:
            reading.leave_out("without a wait, so that it is not known when they ran")
        result: Result = "open"
        if finished_at is not None:
            result = _RESULTS.get(status, "succeeded")
        return Attempt(
            id=f"{line[JOB]:.0f}",
            submitted_at=submitted_at,
            eligible_at=submitted_at,
            started_at=started_at,
            finished_at=finished_at,
            result=result,
            slots=_processors(line),
            kind=_named("executable", line[EXECUTABLE]),
            user=_named("user", line[USER]),
            attributes={
                "queue": _named("queue", line[QUEUE]),
                "partition": _named("partition", line[PARTITION]),
            },
        )


def _processors(line: list[float]) -> int:
    known = [int(line[place]) for place in (PROCESSORS, REQUESTED) if line[place] >= 1]
    return known[0] if known else 1


def _named(field: str, number: float) -> str:
    """Return the name of a number; empty: it is not known."""
    return f"{field}-{number:.0f}" if number >= 0 else ""
