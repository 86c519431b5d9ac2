"""One try at running a job, as the system that ran it recorded it."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from farm.core.fields import json_name

_LEVEL = re.compile(r"-?[0-9]{1,9}")
Result = Literal["succeeded", "failed", "cancelled", "lost", "open"]
"""How an attempt ended: by itself, well or not; cancelled; with its runner, or for another reason
of the farm's own; or not by the time the records were made."""


class Attempt(msgspec.Struct, kw_only=True, gc=False, omit_defaults=True, rename=json_name):
    """An attempt; instants are seconds since 1970, UTC, and None where the source has none.

    Its wait is what lies between the instants at which it could start and did: what a farm's
    queue is responsible for. A wait without a start is censored: it was at least as long.
    """

    #: unique in its source
    id: str
    submitted_at: float
    #: from when it only waited for a runner; None: the source does not have it
    eligible_at: float | None
    started_at: float | None = None
    finished_at: float | None = None
    result: Result
    #: the job whose attempts belong together; empty: it had this one
    job: str = ""
    attempt: int = 1
    #: the machine, or registration, that ran it
    runner: str = ""
    #: how long before this start the runner was requested, seconds; None: it is not known
    runner_age: float | None = None
    #: that it took at once; also a part of one
    slots: int | float = 1
    #: the labels that a runner must have
    platform: str = ""
    #: the job's name, which repeats from run to run
    kind: str = ""
    #: what was released together: a run, pipeline or build
    matrix: str = ""
    user: str = ""
    attributes: dict[str, str] = {}
    #: on runners that the system's vendor has without limit
    hosted: bool = False

    @property
    def arrived_at(self) -> float:
        """When it could start, or was submitted if that is not known."""
        return self.submitted_at if self.eligible_at is None else self.eligible_at

    @property
    def traits(self) -> dict[str, str]:
        """What a farm may order jobs by: the attributes, and the user if there is one."""
        return {**({"user": self.user} if self.user else {}), **self.attributes}

    @property
    def level(self) -> int:
        """The static priority level, by a column of that name: a higher one goes first."""
        text = self.attributes.get("level", "0")
        return int(text) if _LEVEL.fullmatch(text) else 0

    @property
    def waited(self) -> float | None:
        """The wait, seconds; None: it did not start, or since when it waited is not known."""
        if self.eligible_at is None or self.started_at is None:
            return None
        return self.started_at - self.eligible_at

    @property
    def ran(self) -> float | None:
        """How long it held its slot, seconds; None: it did not start, or did not end."""
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at
