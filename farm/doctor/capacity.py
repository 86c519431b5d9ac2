"""What no queue of slots can be: more runs than there is, or jobs take unlike numbers of slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from farm.core.errors import TraceError
from farm.doctor.occupancy import steps_of
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle

OFTEN = 0.01
"""Share of the time with more than the capacity told, from which that is no clock's mistake."""
UNLIKE = 0.05
"""Share of jobs that take another number of slots than most, from which placement decides."""


def refuse_more_than_slots(bundle: Bundle) -> None:
    """Raise TraceError if more ran, too often, than the slots that the farm is said to have."""
    declared = bundle.manifest.capacity
    ran = [one for one in bundle.attempts if one.ran]
    if declared is None or not ran:
        return
    # the instants are no more exact than that: it may not have run at once with the next
    until = bundle.manifest.resolution_time
    spans = np.array([(one.started_at, one.finished_at) for one in ran], np.float64)
    begins, ends = spans[:, 0], np.maximum(spans[:, 0], spans[:, 1] - until)
    taken = np.array([one.slots for one in ran], np.float64)
    nothing = np.empty(0)
    steps = steps_of(
        (nothing, nothing), (begins, ends), ((begins, ends), taken), begins.min(), ends.max()
    )
    share = float(steps.lasts[steps.slots > declared * (1 + 1e-9)].sum() / steps.lasts.sum())
    if share >= OFTEN:
        raise TraceError(
            f"not believable: {share:.0%} of the time more is running than the capacity told: up "
            f"to {steps.slots.max():g} slots of {declared:g}"
        )


def unlike_slots(attempts: Sequence[Attempt]) -> str:
    """Return how many jobs take another number of slots than most; nothing, if they are few."""
    counts = Counter(one.slots for one in attempts)
    [(_, most)] = counts.most_common(1)
    share = 1 - most / len(attempts)
    if share < UNLIKE:
        return ""
    return (
        f"{share:.0%} of the jobs took another number of slots than the others, from "
        f"{min(counts):g} to {max(counts):g}: where they fit in (placement) decides over waits, "
        "not the number of slots"
    )
