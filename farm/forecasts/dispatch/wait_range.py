"""The range in which a waiting job is dispatched, as its user is told it."""

from __future__ import annotations

import msgspec

#: from which to which multiple of an estimate a wait may be, before any error is known: a guess, to
#: say no more than its order of magnitude, and replaced by the errors as soon as there are enough
GUESSED = (0.5, 2.0)


class WaitRange(msgspec.Struct, frozen=True):
    """Between which waits from now on, in seconds, a job is dispatched in eight cases of ten."""

    p10_time: float
    p90_time: float
    #: it rests on enough past errors of jobs like this; else on the rollouts alone
    is_proven: bool = False
    #: how many of these there are
    errors: int = 0
    #: the share of the last such jobs that were dispatched in their range; None: none was yet
    coverage: float | None = None
