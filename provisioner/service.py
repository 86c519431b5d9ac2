"""The provisioner's service: reads the pools from Redis, and has a backend carry out plans.

One look: read what the scheduler published; for each pool compare requested with observed
(``reconcile``), then plan with reality (``decide``); carry out what follows; save what is
remembered. The next look starts from what is there.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, closing

import msgspec

from farm.core.errors import RunError
from farm.core.pools.algorithm import AnyAlgorithm
from farm.live.operating.client import FarmClient
from farm.live.redis.connection import connect
from farm.live.redis.keys import UNREADABLE, Keys
from farm.live.redis.lease import Lease
from farm.live.redis.trouble import ServerCalls
from farm.live.settings import LiveSettings
from farm.live.wire.messages import GiveUpBuilder, Plan, PlannerReport, Play, Watch
from farm.live.wire.pool_report import EMBEDDED, HostRecord, PoolReport
from farm.metrics.metrics_service import ProvisionerMetrics
from farm.plugins.guards import GuardedAlgorithm
from farm.processes.identity import end_of
from farm.processes.signals import StopRequest
from provisioner.backends.backend import Backend, BackendError, Pause
from provisioner.reconciler import (
    Instance,
    Keeping,
    Launch,
    ReconcilerTimes,
    Remove,
    decide,
    launched,
    not_launched,
    reconcile,
)

log = logging.getLogger("farm.provisioner")

#: real seconds between two sendings of the same introduction
INTRODUCE_AGAIN = 5.0
#: real seconds between two looks while something is going on, and if nothing is
LOOK_INTERVAL, REST_INTERVAL = 0.2, 2.0
#: real seconds in which the report arrives that a plan needs: it is made at the plan's instant
REPORT_TIME = 0.01
#: real seconds after which what was sent, and no report follows, counts as lost
LOST_AFTER = 5.0
#: real seconds after which a provisioner that says nothing is replaced: twice a scheduler's, as
#: pools are planned every few seconds at most
LEASE_TIME = 4.0
#: instances that are being started at a time: an Engine does so in parallel, within its machine
#: (all limits of booting: ``farm.core.pools.keeper``)
LAUNCHES_AT_ONCE = 8
#: stands among troubles for every pool
ALL = ""


class DeposedProvisionerError(RunError):
    """Another provisioner is in charge: this one must not do anything more."""

    def __init__(self) -> None:
        super().__init__("another provisioner took this farm over: this one stops")


class _Pool:
    """What is remembered of one pool; instants are seconds that no setting of the clock moves."""

    def __init__(self) -> None:
        self.keeping = Keeping()
        self.saved = b""
        #: names this provisioner in the pool's reports
        self.token = ""
        self.introduced_at = float("-inf")
        #: when a report last followed everything that was sent
        self._followed_at: float | None = None

    def introduce(self, now: float) -> str:
        """Forget what was sent before; return a new token."""
        self.token, self.introduced_at, self._followed_at = uuid.uuid4().hex, now, None
        # decisions are counted from zero; builders may have come and gone
        self.keeping = msgspec.structs.replace(
            self.keeping,
            serial=0,
            next_at=0.0,
            desired=None,
            observed=(),
            requested=(),
            given_up=(),
        )
        return self.token

    def has_lost_something(self, report: PoolReport, now: float) -> bool:
        """Return whether a plan or a given up builder has not reached the scheduler.

        A call to the server failed, or the server lost what it had taken.
        """
        is_followed = report.heard == self.keeping.serial and report.requested.keys().isdisjoint(
            self.keeping.given_up
        )
        if is_followed or self._followed_at is None:
            self._followed_at = now
        return now - self._followed_at > LOST_AFTER


class Pauses:
    """Determines the pauses between looks from the scheduler's reports; ``now`` is real."""

    def __init__(self) -> None:
        self._speed = 1.0
        #: farm time when this machine's clock showed 0, by the report that came soonest
        self._offset = float("-inf")
        #: what the last reports show to be under way
        self._under_way: object = None
        self._is_resting = False

    def hear(self, reports: Mapping[str, PoolReport], now: float) -> None:
        """Reports were read."""
        for report in reports.values():
            self._hear_farm_time(report, now)
        under_way = [
            (pool, report.watcher, report.heard, len(report.joined), set(report.requested))
            for pool, report in reports.items()
        ]
        is_booting = any(report.requested for report in reports.values())
        self._is_resting = under_way == self._under_way and not is_booting
        self._under_way = under_way

    def next(self, plans_at: Iterable[float], now: float, *, is_busy: bool) -> float:
        """Return the real seconds until the next look.

        ``plans_at``: farm time of the next plans; ``is_busy``: something happens that reports do
        not show.
        """
        pause = REST_INTERVAL if self._is_resting and not is_busy else LOOK_INTERVAL
        for at in plans_at:
            due = (at - self._offset) / self._speed - now
            # a report that does not come is not asked for all the time
            is_late = due < -LOOK_INTERVAL
            pause = min(pause, LOOK_INTERVAL if is_late else max(due, 0.0) + REPORT_TIME)
        return pause

    def _hear_farm_time(self, report: PoolReport, now: float) -> None:
        offset = report.snapshot.at - report.speed * now
        is_other = report.speed != self._speed or offset < self._offset - LOST_AFTER * report.speed
        self._offset = offset if is_other else max(self._offset, offset)
        self._speed = report.speed


class Launches:
    """Instances that are being started, each in a thread: no pool waits for an Engine that is slow.

    Args:
        launch: starts one.
        executor: its threads.
    """

    def __init__(self, launch: Callable[[Play], None], executor: Executor) -> None:
        self._launch = launch
        self._executor = executor
        self._under_way: dict[str, tuple[Play, Future[None]]] = {}

    def begin(self, play: Play) -> None:
        """Start an instance of this builder, unless that is under way, or too many others are."""
        builder = play.builder.id
        if builder not in self._under_way and len(self._under_way) < LAUNCHES_AT_ONCE:
            self._under_way[builder] = play, self._executor.submit(self._launch, play)

    def ended(self) -> list[tuple[Play, BackendError | None]]:
        """Return those that were started, or could not be, since the last call."""
        ended: list[tuple[Play, BackendError | None]] = []
        for builder, (play, launch) in list(self._under_way.items()):
            if launch.done():
                del self._under_way[builder]
                error = launch.exception()
                if error is not None and not isinstance(error, BackendError):
                    raise error
                ended.append((play, error))
        return ended

    def close(self) -> None:
        """Wait for those that have begun."""
        self._executor.shutdown(cancel_futures=True)


class Provisioner:
    """Sizes the pools that have an algorithm, and has builders started for those of a fixed size.

    The scheduler asks for the builders of a fixed pool by itself; a backend whose builders are
    instances of their own starts one for each. ``look`` is called repeatedly, by one thread.

    Args: wall: Unix seconds, for instants that are saved. monotonic: seconds that no setting of the
    clock moves, for the others. is_in_charge: asked before anything is done: this process may have
    been paused since it looked, and another one may have acted since then. launcher: threads in
    which instances are started.
    """

    def __init__(
        self,
        client: FarmClient,
        algorithms: Mapping[str, AnyAlgorithm],
        backend: Backend,
        patience: ReconcilerTimes | None = None,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        metrics: ProvisionerMetrics | None = None,
        is_in_charge: Callable[[], bool] = lambda: True,
        launcher: Executor | None = None,
    ) -> None:
        self._metrics = metrics or ProvisionerMetrics()
        self._client = client
        self._algorithms = dict(algorithms)
        self._backend = backend
        self._patience = patience or ReconcilerTimes()
        self._wall = wall
        self._monotonic = monotonic
        self._is_in_charge = is_in_charge
        self._pools: defaultdict[str, _Pool] = defaultdict(_Pool)
        #: the pools of the last reports
        self._reported: tuple[str, ...] = ()
        #: before the backend's hosts are tended again
        self._pause = Pause()
        self._tended: Mapping[str, str] = {}
        #: what the backend could not do at this look, and at the last one (None: there was none);
        #: by pool, or of all of them
        self._troubles: dict[str, str] = {}
        self._logged: dict[str, str] | None = None
        self._pauses = Pauses()
        threads = launcher or ThreadPoolExecutor(LAUNCHES_AT_ONCE, thread_name_prefix="farm-launch")
        self._launches = Launches(self._launch_in_charge, threads)

    def close(self) -> None:
        """Wait for the instances that are being started."""
        self._launches.close()

    def restore(self) -> None:
        """Continue from what an earlier provisioner saved."""
        for pool, saved in self._client.remembered().items():
            try:
                self._pools[pool].keeping = msgspec.json.decode(saved, type=Keeping)
            except UNREADABLE:
                log.warning("the saved state of pool %s cannot be read: starting afresh", pool)

    def look(self) -> None:
        """Check every pool once and act; raises redis errors, RunError."""
        began = time.monotonic()
        try:
            self._troubles = {}
            self._look()
            self._tell_troubles()
        finally:
            self._metrics.cycled(time.monotonic() - began)

    def _look(self) -> None:
        reports, requested, hosts = self._client.to_provision()
        self._reported = tuple(reports)
        self._pauses.hear(reports, self._monotonic())
        self._tend(reports, hosts)
        found: list[Instance] | None = None
        # before the instances are listed: those that were started are among them
        self._hear_of_launches()
        if self._backend.outside:
            try:
                found = self._backend.instances()
            except BackendError as error:
                self._troubles[ALL] = str(error)
                return  # nothing is known, so do nothing
            self._remove_orphans(found, reports)
        for pool, report in reports.items():
            algorithm = self._algorithms.get(pool)
            # a fixed pool on the farm's own hosts is the scheduler's alone: a boot there has no
            # time-out of its own, but its host's silence
            is_fixed = self._backend.outside and not report.provisioned
            if (algorithm or is_fixed) and self._is_ours(pool, algorithm, report):
                mine = None if found is None else [i for i in found if i.pool == pool]
                self._look_at(pool, algorithm, report, mine, requested)

    def wait(self, stop: StopRequest) -> bool:
        """Wait until the next look is due; return whether a stop was requested."""
        plans_at = [self._pools[pool].keeping.next_at for pool in self._algorithms]
        pause = self._pauses.next(
            plans_at, self._monotonic(), is_busy=self._backend.outside or bool(self._troubles)
        )
        with ExitStack() as stack:
            # an end in times of trouble waits for a backend that has a pause
            watched = () if self._troubles else self._backend.processes()
            ends = [end for pid in watched for end in stack.enter_context(end_of(pid))]
            return stop.wait(pause, *ends)

    def _tend(self, reports: Mapping[str, PoolReport], hosts: Mapping[str, HostRecord]) -> None:
        now = self._monotonic()
        if self._pause.over(now):
            self._check_charge()
            try:
                self._tended = self._backend.tend(reports, hosts)
                self._pause.well()
            except BackendError as error:
                self._tended = {ALL: str(error)}
                self._pause.failed(now)
        self._troubles.update(self._tended)

    def _tell_troubles(self) -> None:
        """Log what is new of what the backend cannot do, and let ``farm pools`` show it."""
        logged, troubles = self._logged or {}, self._troubles
        if self._logged == troubles:
            return
        for pool, trouble in troubles.items():
            if logged.get(pool) != trouble:
                log.error("%s", trouble)
        if logged and not troubles:
            log.info("the backend works again")
        self._logged = troubles
        for name in {*self._reported, *self._algorithms}:
            trouble = troubles.get(name) or troubles.get(ALL, "")
            keeping = self._pools[name].keeping
            if keeping.backend != trouble:
                self._save(name, msgspec.structs.replace(keeping, backend=trouble))

    def _is_ours(self, pool: str, algorithm: AnyAlgorithm | None, report: PoolReport) -> bool:
        """Return whether the scheduler knows this provisioner; if not, introduce it."""
        if report.watcher == EMBEDDED:
            raise RunError(
                "this farm's pools are sized by farm run itself: start its scheduler as a service "
                "(farm admin scheduler) for a separate provisioner"
            )
        if not self._backend.acts:
            return True
        known, now = self._pools[pool], self._monotonic()
        if report.watcher and report.watcher == known.token:
            if not known.has_lost_something(report, now):
                return True
            log.warning("pool %s: what was sent was lost, so it is planned afresh", pool)
        if now - known.introduced_at > INTRODUCE_AGAIN:
            token = known.introduce(now)
            closely = algorithm is not None and algorithm.looks_closely
            interval = 0.0 if algorithm is None else algorithm.interval
            outside = self._backend.outside
            self._tell(Watch(pool, token, closely=closely, outside=outside, interval=interval))
        return False

    def _look_at(
        self,
        pool: str,
        algorithm: AnyAlgorithm | None,
        report: PoolReport,
        instances: list[Instance] | None,
        requested: Mapping[str, Play],
    ) -> None:
        now = self._wall()
        keeping = self._pools[pool].keeping
        if not self._backend.acts:
            keeping = msgspec.structs.replace(keeping, serial=report.heard)
        keeping, actions = reconcile(keeping, report, instances, now, self._patience)
        for action in actions:
            if isinstance(action, Launch):
                self._launch(keeping, requested.get(action.builder))
            elif isinstance(action, Remove):
                self._remove(action, action.why)
            elif isinstance(action, GiveUpBuilder):
                log.warning("builder %s is given up: %s", action.builder, action.reason)
                self._give_up(action)
        plan = None
        if algorithm is not None:
            keeping, plan = decide(algorithm, keeping, report, now)
            if isinstance(algorithm, GuardedAlgorithm) and algorithm.trouble:
                self._troubles[pool] = algorithm.trouble
        self._save(pool, keeping)
        _measure(self._metrics, pool, keeping, report, instances)
        if plan is not None:
            self._send(plan)

    def _send(self, plan: Plan) -> None:
        log.info(
            "pool %s: %d wanted, %d joined and %d booting: %+d, %+d (%s)",
            plan.pool,
            plan.desired,
            plan.joined,
            plan.booting,
            plan.start,
            -plan.stop,
            plan.why,
        )
        if self._backend.acts:
            self._tell(plan)
            self._metrics.acted(plan.pool, "requested", plan.start)
            self._metrics.acted(plan.pool, "drained", plan.stop)

    def _launch(self, keeping: Keeping, play: Play | None) -> None:
        if play is None:
            return  # requested before this provisioner registered: a host will play it
        if keeping.failures and self._wall() < keeping.not_before:
            return
        self._check_charge()
        self._launches.begin(play)

    def _launch_in_charge(self, play: Play) -> None:
        """Start an instance, in a thread that may have waited for its turn."""
        self._check_charge()
        self._backend.launch(play)

    def _hear_of_launches(self) -> None:
        """Remember which instances were started, and give up builders whose could not be."""
        now = self._wall()
        for play, error in self._launches.ended():
            pool, builder = play.builder.pool, play.builder.id
            known = self._pools[pool]
            if error is None:
                log.info("started builder %s", builder)
                self._metrics.acted(pool, "started")
                known.keeping = launched(known.keeping, builder, now)
                continue
            self._metrics.acted(pool, "failed")
            self._give_up(GiveUpBuilder(builder, str(error)))
            keeping = not_launched(known.keeping, builder, str(error), now, self._patience)
            known.keeping = keeping
            pause = keeping.not_before - now
            log.error("builder %s cannot be started (next try in %.0fs): %s", builder, pause, error)

    def _give_up(self, given_up: GiveUpBuilder) -> None:
        if self._backend.acts:
            self._tell(given_up)

    def _tell(self, report: PlannerReport) -> None:
        self._check_charge()
        self._client.send(report)

    def _remove_orphans(self, found: list[Instance], reports: Mapping[str, PoolReport]) -> None:
        """Remove what belongs to a pool that is no more (the others are reconciled)."""
        for instance in found:
            if reports and instance.pool not in reports:
                self._remove(Remove(instance, "orphan"), f"there is no pool {instance.pool}")

    def _remove(self, command: Remove, why: str) -> None:
        """Remove an instance; one that cannot be removed is tried again at every look."""
        self._check_charge()
        try:
            self._backend.remove(command)
        except BackendError as error:
            self._troubles[ALL] = str(error)
            return
        log.info("removed %s (%s)", command.instance.name, why)
        self._metrics.acted(command.instance.pool, "removed")

    def _save(self, pool: str, keeping: Keeping) -> None:
        known, saved = self._pools[pool], msgspec.json.encode(keeping)
        known.keeping = keeping
        if self._backend.acts and saved != known.saved:
            self._check_charge()
            self._client.remember(pool, saved)
            known.saved = saved

    def _check_charge(self) -> None:
        if not self._is_in_charge():
            raise DeposedProvisionerError


def _measure(
    metrics: ProvisionerMetrics,
    pool: str,
    keeping: Keeping,
    report: PoolReport,
    instances: list[Instance] | None,
) -> None:
    if keeping.desired is not None:
        limits = keeping.limits
        metrics.planned(pool, keeping.desired)
        metrics.limited(pool, limits.least, limits.most, limits.reason, limits.period)
    if instances is None:
        metrics.observed(pool, report.states)
    else:
        running = sum(instance.running for instance in instances)
        metrics.observed(pool, {"running": running, "ended": len(instances) - running})


def take_charge(url: str, settings: LiveSettings, stack: ExitStack, stop: StopRequest) -> Lease:
    """Wait until no other provisioner is in charge of this farm, then take charge of it."""
    client = stack.enter_context(closing(connect(url, "farm-provisioner-lease")))
    lease = Lease(client, Keys(f"{settings.prefix}provisioner:"), LEASE_TIME)

    def on_charge(in_charge: bool) -> None:
        if not in_charge:
            log.info("another provisioner is in charge, or was killed just now: standing by")

    lease.stand_by(client, stop.wait, on_charge)
    stack.callback(lease.release)
    return lease


def serve(service: Provisioner, lease: Lease, stop: StopRequest) -> None:
    """Look at the farm until stopped, waiting during trouble with the server."""
    call = ServerCalls(None, stop.wait)

    def look() -> None:
        if lease.lost:
            raise DeposedProvisionerError
        service.look()

    try:
        call(service.restore)
        while not service.wait(stop):
            call(look)
    except RunError:
        if not stop.is_set():
            raise
    log.info("stopped")
