"""What a job must be like to be taken in: no number and no name that somebody could not carry.

Who submits looks before, to say so at once; the scheduler looks again, for it trusts nobody.
"""

from __future__ import annotations

import math

from farm.core.model import Job

MAX_ID = 256
#: characters of a job's kind, matrix, attribute, …
MAX_TEXT = 1000
#: the largest level, priority, number of threads
MAX_LEVEL = 10**9


def flaw_of(job: Job) -> str | None:
    """Say what makes a submitted job unacceptable; None if nothing does."""
    if not job.id or len(job.id) > MAX_ID:
        return f"job id of {len(job.id)} characters: 1 to {MAX_ID} are allowed"
    if not job.id.isprintable():
        return f"job id {job.id!r} has control characters"
    flaw = _flaw_of_numbers(job) or _flaw_of_texts(job)
    return None if flaw is None else f"job {job.id}: {flaw}"


def _flaw_of_numbers(job: Job) -> str | None:
    for name in ("service_time", "declared_time", "size"):
        value = getattr(job, name)
        if value is not None and not (math.isfinite(value) and value >= 0):
            return f"{name} {value} is not a finite number >= 0"
    for name in ("score", "arrived_at"):
        value = getattr(job, name)
        if value is not None and not math.isfinite(value):
            return f"{name} {value} is not a finite number"
    for name in ("level", "priority"):
        if abs(getattr(job, name)) > MAX_LEVEL:
            return f"{name} {getattr(job, name)} is not between -{MAX_LEVEL} and {MAX_LEVEL}"
    if not 1 <= job.threads <= MAX_LEVEL:
        return f"threads {job.threads} is not between 1 and {MAX_LEVEL}"
    return None


def _flaw_of_texts(job: Job) -> str | None:
    texts = [("kind", job.kind), ("matrix", job.matrix), ("action", job.action)]
    texts.append(("processor", job.platform.processor))
    for key, value in job.attributes.items():
        texts.extend((("attribute name", key), (f"attribute {key:.50}", value)))
    for name, text in texts:
        if text is not None and len(text) > MAX_TEXT:
            return f"{name} of {len(text)} characters: up to {MAX_TEXT} are allowed"
        if text is not None and not text.isprintable():
            return f"{name} {text!r:.100} has control characters"
    return None
