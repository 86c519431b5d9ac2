"""When will a waiting job be dispatched? Time to next builder plus predecessor lead time.

``estimate_dispatch`` answers for one job with all of its arithmetic, ``estimate_queue`` for the
whole queue in one pass; both take a ``FarmView``. A scheduler that keeps its queue as columns
makes a ``QueueEstimates`` directly and asks it about the head of a platform's queue and about a
job submitted now. Rule sets (``RULES``): ``page``, ``launchpad-2010``, ``launchpad``, ``farm``.

What the formula means beyond Launchpad's farm:

- *Slots.* A slot is a builder of its own: pools and free builders count slots, the next builder
  is the next slot. Contention (a job slows its neighbours) is not in it.
- *Any policy, fair share.* "Ahead" is the place in dispatch order: by score unless the view's
  ``order`` says otherwise. For a fair-share tree this is the order if nothing more arrives and
  no job changes its length: optimistic for a user whose rivals keep submitting, pessimistic for
  a user who has just come, whose jobs the tree lets overtake.
- *Several processors per builder.* Launchpad's rules count such a builder once in each of its
  pools and do not see jobs of a sibling processor ahead (too optimistic). ``farm`` sees them: two
  platforms compete when some usable builder can run both.

Pessimistic by construction, under all rules: groups are added although they run side by side
when their builders differ; a group smaller than its pool is divided by its own size, as if its
jobs did not all start at once; the head job's wait is added even where the job of interest has a
free builder of its own.
"""

from farm.forecasts.dispatch.builder_pools import BuilderPools, NextBuilder
from farm.forecasts.dispatch.estimate import (
    DispatchEstimate,
    PredecessorGroup,
    estimate_dispatch,
)
from farm.forecasts.dispatch.rules import (
    FARM,
    LAUNCHPAD,
    LAUNCHPAD_2010,
    PAGE,
    RULES,
    Rules,
)
from farm.forecasts.dispatch.sweep import (
    QueueEstimates,
    WaitingColumns,
    estimate_queue,
)
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobView

__all__ = [
    "FARM",
    "LAUNCHPAD",
    "LAUNCHPAD_2010",
    "PAGE",
    "RULES",
    "BuilderPools",
    "BuilderView",
    "DispatchEstimate",
    "FarmView",
    "JobView",
    "NextBuilder",
    "PredecessorGroup",
    "QueueEstimates",
    "Rules",
    "WaitingColumns",
    "estimate_dispatch",
    "estimate_queue",
]
