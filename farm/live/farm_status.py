"""A farm at a glance, as counted from the scheduler's state."""

from __future__ import annotations

from collections import Counter
from typing import Any

from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import count_builders
from farm.live.wire.pool_report import FarmStatus


def status_of(scheduler: Scheduler, at: float, running: int, **more: Any) -> FarmStatus:
    """Return the farm's status at this instant (farm time, s).

    ``running``: jobs on builders; ``more``: fields that the scheduler does not know.
    """
    depths = scheduler.dispatcher.matching.depths()
    path = scheduler.rules.path
    return FarmStatus(
        at=at,
        waiting=max(0, len(scheduler.jobs) - running),
        running=running,
        builders=dict(sum(count_builders(scheduler).values(), Counter[str]())),
        queues={str(platform): waiting for platform, waiting in depths.items()},
        fair_share=path is not None,
        fair_share_keys=() if path is None else path.names,
        choices=scheduler.rules.choices,
        **more,
    )
