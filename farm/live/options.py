"""How a live farm is set up, and who looks on while it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from farm.core.driver import Observer, World
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import FarmSnapshot
from farm.live.hosts.host_processes import HostProcesses
from farm.live.protocol.failure_detection import Patience
from farm.live.settings import LiveSettings
from farm.live.store.saved import Learned
from farm.live.wire.pool_report import FarmStatus
from farm.metrics.series import Series

if TYPE_CHECKING:
    from farm.live.world import LiveWorld

#: jobs that may wait before no more are accepted
MAX_WAITING = 2_000_000


class Stays(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a long-running farm, which continues from the state in Redis."""

    #: restores the scheduler from a snapshot (True: its rules are not those of the snapshot),
    #: with what its predecessor had learned
    restore: Callable[[FarmSnapshot, bool, Learned], None]
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


class Watchers(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks on while a live farm runs, or has a turn."""

    #: sees every event with the commands that it led to
    observe: Observer
    #: given the status a few times per second
    progress: Callable[[FarmStatus], None] | None = None
    #: called when the farm has started, before the first job (chaos, displays)
    on_up: Callable[[LiveWorld, HostProcesses], None] | None = None
    #: called between batches of events, some times per second (a provisioner's turn)
    on_tick: Callable[[LiveWorld], None] = lambda _: None
    #: receives the durations of the scheduler's work
    meter: Series | None = None
    #: puts something before the world (estimates of its submissions)
    around: Callable[[LiveWorld], World] | None = None
