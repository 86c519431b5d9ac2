"""The attempts of a farm as columns, for figures that are taken of all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farm.columns import Coded, Floats, Rows
from farm.records.attempt import Attempt


class AttemptColumns(NamedTuple):
    """Columns of attempts, a row for each; instants are seconds since 1970, nan: there is none."""

    submitted_at: Floats
    eligible_at: Floats
    started_at: Floats
    finished_at: Floats
    slots: Floats
    #: which try of its job a row is, from 1
    number: NDArray[np.float64]
    hosted: NDArray[np.bool_]
    runner: Coded
    platform: Coded
    #: the names of the jobs
    kind: Coded
    #: what a job came with: a run, a pipeline, a build
    matrix: Coded

    @classmethod
    def of(cls, attempts: Sequence[Attempt]) -> AttemptColumns:
        """Return the columns of these attempts."""
        # one pass over the attempts costs half of one for each instant
        instants = np.array(
            [
                instant
                for attempt in attempts
                for instant in (
                    attempt.submitted_at,
                    attempt.eligible_at,
                    attempt.started_at,
                    attempt.finished_at,
                )
            ],
            np.float64,
        )
        submitted_at, eligible_at, started_at, finished_at = np.ascontiguousarray(
            instants.reshape(-1, 4).T
        )
        return cls(
            submitted_at=submitted_at,
            eligible_at=eligible_at,
            started_at=started_at,
            finished_at=finished_at,
            slots=np.array([attempt.slots for attempt in attempts], np.float64),
            number=np.array([attempt.attempt for attempt in attempts], np.float64),
            hosted=np.array([attempt.hosted for attempt in attempts], np.bool_),
            runner=_texts(attempts, "runner"),
            platform=_texts(attempts, "platform"),
            kind=_texts(attempts, "kind"),
            matrix=_texts(attempts, "matrix"),
        )

    @property
    def arrived_at(self) -> Floats:
        """When each could start, or was submitted if that is not known."""
        return np.where(np.isnan(self.eligible_at), self.submitted_at, self.eligible_at)

    @property
    def waited(self) -> Floats:
        """The waits, seconds; nan: it did not start, or since when it waited is not known."""
        return self.started_at - self.eligible_at

    @property
    def ran(self) -> Floats:
        """How long each held its slot, seconds; nan: it did not start, or did not end."""
        return self.finished_at - self.started_at

    def taken(self, rows: Rows) -> AttemptColumns:
        """Return the columns of some rows."""
        return AttemptColumns(
            submitted_at=self.submitted_at[rows],
            eligible_at=self.eligible_at[rows],
            started_at=self.started_at[rows],
            finished_at=self.finished_at[rows],
            slots=self.slots[rows],
            number=self.number[rows],
            hosted=self.hosted[rows],
            runner=self.runner[rows],
            platform=self.platform[rows],
            kind=self.kind[rows],
            matrix=self.matrix[rows],
        )

    def rows_by_platform(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield the platforms and their rows, by the first attempt of each."""
        codes = self.platform.codes
        rows = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=len(self.platform.values))
        pieces = np.split(rows, np.cumsum(counts)[:-1])
        return zip(self.platform.values, pieces, strict=True)


def _texts(attempts: Sequence[Attempt], field: str) -> Coded:
    return Coded.of(list(map(attrgetter(field), attempts)))
