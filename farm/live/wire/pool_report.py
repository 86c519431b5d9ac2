"""The scheduler's reports to provisioners and operators: on pools, hosts and itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from farm.core.events import PoolSize
from farm.core.model import Platform
from farm.core.pools.algorithm import PoolSnapshot
from farm.core.rules import Choices
from farm.core.state.snapshot import count_builders

if TYPE_CHECKING:  # who only reads what a farm wrote needs no scheduler
    from farm.core.scheduler import Scheduler

#: the watcher of pools that are sized in the scheduler's process, so that no other takes charge
EMBEDDED = "embedded"


class PoolReport(msgspec.Struct, frozen=True, kw_only=True):
    """One pool at one instant, with its requested and joined builders; times are farm seconds."""

    snapshot: PoolSnapshot
    #: token of the last Watch, or EMBEDDED, and serial of the last Plan after it, that were read
    watcher: str = ""
    heard: int = 0
    #: builders requested and not joined yet, and when they were requested
    requested: dict[str, float] = {}
    #: builders that are there, whatever they do
    joined: tuple[str, ...] = ()
    #: how many of both need no room on a host: they have one of their own, or theirs is leaving
    elsewhere: int = 0
    #: builders by what they are doing (booting ones too)
    states: dict[str, int] = {}
    #: the snapshot has the estimates of work and time
    closely: bool = False
    #: see Watch
    outside: bool = False
    #: an algorithm sizes the pool
    provisioned: bool = False
    processors: tuple[str, ...] = ()
    virtualized: bool = True
    boot_time: float = 0.0
    #: farm seconds per real second
    speed: float = 1.0
    #: number of builders that the pool begins with, and its maximum (None: unknown)
    least: int = 0
    most: int | None = None
    #: limits that an operator chose for its provisioner
    chosen: PoolSize = PoolSize()
    #: requested builders that no host plays yet
    unplaced: int = 0
    #: the last plan of its provisioner, and the reason; the limits that held, and for which times
    desired: int | None = None
    why: str = ""
    plan_least: int = 0
    plan_most: int | None = None
    period: str = ""

    def can_run(self, platform: Platform) -> bool:
        """Whether its builders can run jobs of the platform."""
        return platform.runs_on(self.processors, virtualized=self.virtualized)


class HostRecord(msgspec.Struct, frozen=True):
    """A builder host."""

    host: str
    builders: int
    #: it plays a builder of its own
    own: bool = False
    #: it was asked to leave, and takes no more builders
    leaving: bool = False


class LostBuilder(msgspec.Struct, frozen=True):
    """A builder that is gone without notice."""

    builder: str
    at: float
    reason: str
    pool: str = ""


class FarmStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A live farm at a glance; times are farm seconds."""

    at: float
    submitted: int
    waiting: int
    running: int
    ended: dict[str, int]
    #: by what they do; the lost ones are those of the last minutes
    builders: dict[str, int]
    hosts: int
    stopping: bool
    #: largest delay from intended arrival to intake so far
    worst_delay: float = 0.0
    #: jobs whose needs have not been met; they are not among those that wait
    blocked: int = 0
    #: requested builders that no host has room for, by pool
    unplaced: dict[str, int] = {}
    #: when, by the server's clock (Unix): an old one means that no scheduler is running
    written_at: float = 0.0
    speed: float = 1.0
    #: waiting jobs by platform
    queues: dict[str, int] = {}
    #: jobs that succeeded or failed in the last real minute
    ended_last_minute: int = 0
    #: of the last jobs that were told a range of their start: how many have started, and in time
    forecasts_checked: int = 0
    forecasts_in_time: int = 0
    #: jobs that may wait, and bytes of submissions that may lie in Redis: more are refused
    max_waiting: int = 2_000_000
    max_backlog: int = 1_000_000_000
    #: whether jobs are charged to invocations (not known of a scheduler of version 0.2)
    fair_share: bool = True
    #: by which keys, outermost first (not known of an older scheduler)
    fair_share_keys: tuple[str, ...] = ()
    #: policy, ageing factor and fair-share weights at present
    choices: Choices = Choices()
    #: the last builders that were lost, the newest last
    lost: tuple[LostBuilder, ...] = ()
    #: why the event log cannot be written (empty: it can), and what it lacks (empty: nothing);
    #: None: none is kept
    log_trouble: str | None = None
    log_lacks: str | None = None
    #: what the server had lost, as this scheduler has found out, and what it was given again
    restored: str = ""
    #: what went wrong in the user's own policy or balancer since this scheduler began
    complaints: list[str] = []


def status_of(scheduler: Scheduler, at: float, running: int, **more: Any) -> FarmStatus:
    """Return the farm's status at this instant (farm time, s).

    ``running``: jobs on builders; ``more``: fields that the scheduler does not know.
    """
    depths = scheduler.dispatcher.matching.depths()
    path = scheduler.rules.path
    return FarmStatus(
        at=at,
        waiting=max(0, len(scheduler.jobs) - running - len(scheduler.blocked.states)),
        blocked=len(scheduler.blocked.states),
        running=running,
        builders=dict(sum(count_builders(scheduler).values(), Counter[str]())),
        queues={str(platform): waiting for platform, waiting in depths.items()},
        fair_share=path is not None,
        fair_share_keys=() if path is None else path.names,
        choices=scheduler.rules.choices,
        **more,
    )
