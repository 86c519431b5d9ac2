"""What a job's fields are called in the columns of csv tables and the keys of JSON lines."""

from __future__ import annotations

from farm.core.errors import TraceError
from farm.core.fields import json_name
from farm.core.model import JOB_FIELDS, Platform

_OTHER_NAMES = {"id": "job_id", "arrived_at": "submitted_at_s"}
COLUMNS = {_OTHER_NAMES.get(name) or json_name(name): name for name in JOB_FIELDS}
"""The field of a job that each column holds."""


def platform_of(found: object, where: str) -> Platform:
    """Return the platform that is written; the message of a TraceError begins with ``where``."""
    try:
        return Platform.parse(str(found))
    except ValueError as error:
        raise TraceError(f"{where}: found {found!r:.60}; allowed: {error}") from None
