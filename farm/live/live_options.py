"""How a live farm is set up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import FarmSnapshot
from farm.live.protocol.failure_detection import Patience
from farm.live.settings import LiveSettings
from farm.live.store.saved import SchedulerMemory

#: jobs that may wait before no more are accepted
MAX_WAITING = 2_000_000


class Stays(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a long-running farm, which continues from the state in Redis."""

    #: restores the scheduler from a snapshot (True: its rules are not those of the snapshot),
    #: with what its predecessor had learned
    restore: Callable[[FarmSnapshot, bool, SchedulerMemory], None]
    #: names the scheduling rules: jobs that were queued under others are ordered anew
    rules: str
    #: begin afresh: forget what is in Redis
    fresh: bool = False
    #: gives the event log's lines since it was asked last; None: none is kept
    log: Callable[[], bytes] | None = None
    #: where the log is, made by whether the farm begins anew
    log_folder: Path = Path()
    make_log_folder: Callable[[bool], object] = lambda _: None
    #: returns a fresh scheduler, which the log leads to the farm's state if the server has lost it
    make_scheduler: Callable[[], Scheduler] | None = None
    #: go on without what the log has and the server has lost
    accept_loss: bool = False
    #: called with whether this scheduler is in charge (False: it stands by)
    on_charge: Callable[[bool], object] = lambda _: None


class LiveOptions(LiveSettings, frozen=True, kw_only=True):
    """How a live farm is set up: the settings of its hosts, and the rest; times are real seconds.

    Without a ``redis_url`` it has a new server.
    """

    speed: float = 1.0
    #: builder host processes; 0: none (hosts come from elsewhere), None: as many as needed
    hosts: int | None = None
    #: where the hosts' logs go; None: a temporary folder
    log_folder: Path | None = None
    patience: Patience = Patience()
    #: while this many jobs wait, no more are accepted
    max_waiting: int = MAX_WAITING
    #: the run lasts at least until this farm time (the end of its phases)
    ends_at: float = 0.0
    #: None: the run ends with its load, and clears up after itself
    stays: Stays | None = None
