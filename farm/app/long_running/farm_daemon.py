"""The process that supervises a farm: starts it, restarts its parts, ends it (``farm up``)."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from farm.app.calibrating.work_rates import burn_settings, rates_for
from farm.app.long_running.farm_place import FarmPlace, PlaceFile, place_file, targets_of
from farm.core.errors import FarmError, InputError, RunError, ScenarioError, ServerError
from farm.core.events import DrainRequested, UndrainRequested
from farm.live.log_recovery import ahead_of, set_aside
from farm.live.operating.client import FarmClient
from farm.live.redis.connection import redacted
from farm.live.redis.server import Server, choose_server
from farm.live.redis.trouble import RedisError
from farm.live.settings import from_environment, start_limit
from farm.live.wire.messages import UNSTAMPED
from farm.metrics.exporter import MetricsPlace, MetricsServer
from farm.metrics.targets import forget_targets
from farm.processes import log_files
from farm.processes.child import become_subreaper, end_at_once, unsupervised
from farm.processes.identity import began_at, is_alive
from farm.processes.signals import Wakeups
from farm.processes.supervisor import TRY_AGAIN, Restarts, Service, Supervisor, takes_writes
from farm.scenario import Scenario, load_scenario
from farm.scenario.model import StandingFarm
from provisioner.backends.process import HostFile, read_host_file
from provisioner.from_scenario import algorithms_of

log = logging.getLogger("farm.up")

#: real seconds between two looks at what only the server knows
LOOK_INTERVAL = 0.1
#: real seconds between two looks at the logs
TIDY_INTERVAL = 10.0
#: a scheduler that was killed on another machine holds its lease for 2 s (real), and a little more
LEASE_TIMEOUT = 5.0
#: real seconds in which builder hosts leave of themselves
LEAVE_TIMEOUT = 5.0
#: what is meant for others, or for us: two services cannot have one port
NOT_FOR_SERVICES = (
    "FARM_BACKEND",
    "FARM_SCENARIO",
    "FARM_PLAY",
    "FARM_HOST",
    "FARM_METRICS_PORT",
    "FARM_METRICS_ADDRESS",
    "FARM_METRICS_TARGETS",
)


def metrics_place(folder: Path, port: int | None, address: str) -> MetricsPlace:
    """Return where the folder's farm serves metrics, if a port was named.

    Raises InputError for one that cannot be had: now, not in a service's log.
    """
    if port is None:
        return MetricsPlace()
    if port:
        with MetricsServer(dict, port, address):
            pass
    return MetricsPlace(port, address, targets_of(folder))


def own_options(place: MetricsPlace) -> list[str]:
    """Return the options on metrics for the farm's daemon."""
    if place.port is None:
        return []
    return [f"--metrics-port={place.port}", f"--metrics-address={place.address}"]


def service_options(place: MetricsPlace, port: int | None = None) -> list[str]:
    """Return the options on metrics for a service; ``port`` replaces the requested one."""
    if place.port is None:
        return []
    used = MetricsPlace(place.port if port is None else port, place.address)
    return [*own_options(used), f"--metrics-targets={place.targets}"]


def check_services(scenario: Scenario) -> None:
    """Raise InputError for what the services would complain of in their logs."""
    algorithms_of(scenario)
    burn_settings()


class _Revival:
    """Restarts the farm's own server whenever it ended unexpectedly, as often as necessary.

    Its disk may be full, its port taken, its data in need of repair: once that is mended the
    farm continues by itself. Services and hosts wait until then.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._restarts = Restarts()
        self._logged = ""

    def check(self, now: float) -> float:
        """Start it if it ended; return after how many seconds the next try is due."""
        if now < self._restarts.not_before:
            return self._restarts.not_before - now
        try:
            if not self._server.revive():
                return self._server.look_again_in
        except ServerError as error:
            if str(error) != self._logged:
                self._logged = str(error)
                log.error("%s; tried again until it comes up", error)
        else:
            self._logged = ""
            log.warning("the server had ended unasked: started again")
        return self._restarts.pause(now)


def missing(client: FarmClient, before: float | None) -> str:
    """Return which part of the farm is not at work yet, by its log's name; empty: all are.

    ``before``: when the status was written that an earlier farm left. It differs from this farm's
    by that, as the time of day may be set back.
    """
    with contextlib.suppress(ServerError, RedisError):
        status = client.status()
        if status.written_at != before:
            return "" if status.hosts else "provisioner"
    return "scheduler"


def refuse_other_speed(folder: Path, wanted: Scenario, *, is_given: bool) -> None:
    """Raise InputError if the folder has the state of a farm of another speed.

    ``is_given``: the speed is an option's, and not that of the scenario.
    """
    left = folder / "scenario.yaml"
    if not (folder / "redis").is_dir() or not left.is_file():
        return
    with contextlib.suppress(ScenarioError):
        stopped = load_scenario(left, kind=StandingFarm)
        speed, its_speed = wanted.live.speed, stopped.live.speed
        if speed == its_speed:
            return
        where = "--speed" if is_given else f"{wanted.name}: live.speed"
        allowed = f"--speed {its_speed:g}, or --fresh, which forgets its jobs"
        if stopped.name != wanted.name:
            allowed = f"another folder (farm --dir DIR up …), {allowed}"
        raise InputError(
            f"{where}: found {speed:g}, and {folder} has the jobs of the stopped farm "
            f"{stopped.name}, which runs at {its_speed:g}; allowed: {allowed}"
        )


class FarmKeeper:
    """Keeps the farm of a folder up. Use it from the main thread, holding the folder's lock.

    ``redis``: None: a new server, whose data stays in the folder. ``fresh``: forget what an earlier
    farm left. ``accept_loss``: go on without what its event log has and the server has lost.
    """

    def __init__(
        self,
        scenario: Scenario,
        redis: str | None,
        folder: Path,
        metrics: MetricsPlace,
        *,
        fresh: bool,
        accept_loss: bool = False,
    ) -> None:
        self._scenario = scenario
        self._resolved = folder / "scenario.yaml"
        self._redis = redis
        self._folder = folder
        self._log = folder / "log"
        self._metrics = metrics
        self._fresh = fresh
        self._accept_loss = accept_loss
        #: 1: drain, then end; 2: end
        self._asked = 0
        #: what the system has refused at the last look; empty: nothing
        self._refused = ""
        #: builders that were not draining when we began to end
        self._drained: set[str] = set()
        self._wakeups = Wakeups(self._on_request)
        self._prefix = from_environment().prefix
        pid, speed = os.getpid(), scenario.live.speed
        place = FarmPlace(
            pid=pid,
            began=began_at(pid),
            redis_url="",
            prefix=self._prefix,
            scenario=str(self._resolved),
            speed=speed,
        )
        self._place = PlaceFile(folder, place)

    def run(self) -> None:
        """Bring the farm up, keep it up until asked to end it, and end it."""
        os.umask(0o077)  # nothing that we or our children write is for others
        self._resolved.write_text(self._scenario.to_yaml(), encoding="utf-8")
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._wakeups)
            self._end_leftover_hosts(grace=0.0)
            become_subreaper()
            stack.callback(place_file(self._folder).unlink, missing_ok=True)
            forget_targets(targets_of(self._folder))
            stack.callback(forget_targets, targets_of(self._folder))
            server = choose_server(self._redis, data=self._folder / "redis")
            stack.enter_context(server)
            self._revival = _Revival(server)
            client = stack.enter_context(
                # that the scheduler says
                FarmClient(server.url, self._prefix, "farm-up", any_release=True)
            )
            self._await_lease(client)
            if self._fresh:
                client.forget_everything()
            elif self._accept_loss:
                self._place.update(restored=set_aside(self._log, client.commits()))
            supervisor = self._supervisor(server.url)
            stack.callback(supervisor.stop)
            self._place.update(state="starting", redis_url=server.url)
            before: float | None = None
            with contextlib.suppress(ServerError):
                before = client.status().written_at
            supervisor.start()
            if self._await(supervisor, server, client, before):
                self._note_restored(client)
                self._place.update(state="up")
                log.info("up")
                supervisor.settled = True
                # it takes over when the first one dies or stalls
                options = service_options(self._metrics, port=0)
                supervisor.add(Service("standby", (*self._scheduler(), *options)))
                self._keep_up(supervisor, server)
            self._place.update(state="stopping")
            self._end(supervisor, server, client)
        log.info("down")

    def _await_lease(self, client: FarmClient) -> None:
        """Make sure that no other scheduler has this farm; one that was killed is waited for."""
        deadline = time.monotonic() + LEASE_TIMEOUT
        while client.is_led() and not self._asked:
            if time.monotonic() > deadline:
                raise ServerError(
                    f"the farm at {redacted(client.url)} (prefix {self._prefix!r}) has a live "
                    "scheduler already: end that one, or use another server or FARM_PREFIX"
                )
            self._wakeups.wait(LOOK_INTERVAL)

    def _supervisor(self, url: str) -> Supervisor:
        scenario, hosts = str(self._resolved), str(self._folder / "hosts")
        provisioner = ("provisioner", scenario, "--hosts-dir", hosts, "--keeper-pipe")
        environment = os.environ | {
            "FARM_REDIS_URL": url,
            "FARM_WORK_RATES": rates_for(self._scenario),
            "FARM_INCARNATION": uuid.uuid4().hex[:12],
        }
        for name in NOT_FOR_SERVICES:
            environment.pop(name, None)
        services = [
            Service("scheduler", (*self._scheduler(), *service_options(self._metrics))),
            Service("provisioner", (*provisioner, *service_options(self._metrics, port=0))),
        ]
        return Supervisor(services, self._folder, environment)

    def _scheduler(self) -> tuple[str, ...]:
        return ("farm", "admin", "scheduler", str(self._resolved), "--log", str(self._log))

    def _await(
        self, supervisor: Supervisor, server: Server, client: FarmClient, before: float | None
    ) -> bool:
        """Wait until scheduler and hosts are running; False: stopped before that."""
        timeout = from_environment().start_timeout
        deadline = time.monotonic() + timeout
        while not self._asked:
            self._look_after(supervisor, server)
            if not (name := missing(client, before)):
                return True
            if time.monotonic() > deadline:
                if not takes_writes(self._folder) or self._is_restored(client):
                    deadline = time.monotonic() + timeout  # our end would end the server
                    continue
                whose = "no scheduler" if name == "scheduler" else "no builder host"
                raise RunError(
                    f"the farm did not come up: {whose} was at work within {start_limit(timeout)}; "
                    f"its log: {self._folder / name}.log"
                )
            self._wakeups.wait(LOOK_INTERVAL)
        return False

    def _is_restored(self, client: FarmClient) -> bool:
        """Whether the scheduler is still occupied with the event log, which may be large."""
        with contextlib.suppress(ServerError, RedisError):
            return client.is_led() and ahead_of(self._log, client.commits()) > 0
        return False

    def _note_restored(self, client: FarmClient) -> None:
        """Note for the one who starts the farm what its server had lost of an earlier one."""
        with contextlib.suppress(ServerError, RedisError):
            if restored := client.status().restored:
                self._place.update(restored=restored)

    def _keep_up(self, supervisor: Supervisor, server: Server) -> None:
        """Sleep until a process ends, or a stop is requested."""
        while not self._asked:
            due = self._look_after(supervisor, server)
            with contextlib.suppress(OSError):  # the next time will do
                log_files.tidy(self._folder)
            self._wakeups.wait(min(due, TIDY_INTERVAL))

    def _look_after(self, supervisor: Supervisor, server: Server) -> float:
        """Start again what has ended; return after how many seconds the next look is due.

        What the system refuses (it has no file descriptors, no processes or no memory left) is
        tried again: to end would end what still works.
        """
        try:
            due = min(
                self._revival.check(time.monotonic()), supervisor.check(), self._place.retry()
            )
            self._end_unsupervised({server.pid, *supervisor.pids()})
        except OSError as error:
            if str(error) != self._refused:
                log.error("the system refuses what keeps the farm up: %s; tried again", error)
            self._refused = str(error)
            return TRY_AGAIN
        self._refused = ""
        return due

    def _end(self, supervisor: Supervisor, server: Server, client: FarmClient) -> None:
        """Let running jobs end (unless asked twice), then hosts, then the rest."""
        log.info("ending: %s", "running jobs first" if self._asked == 1 else "immediately")
        supervisor.stop_one("provisioner")
        # a service that running jobs need was given up
        with contextlib.suppress(RunError, ServerError):
            self._let_jobs_end(supervisor, server, client)
        log.info("builder hosts leave")
        supervisor.close_pipe("provisioner")
        self._await_end(lambda: bool(client.hosts()), server)
        supervisor.terminate()
        self._await_end(lambda: supervisor.is_at_work, server)
        supervisor.stop()
        with contextlib.suppress(FarmError, RedisError):
            self._undrain_the_rest(client)
        self._end_leftover_hosts()

    def _await_end(self, at_work: Callable[[], bool], server: Server) -> None:
        """Wait for those that end, and keep our server up: it has the last lines of the log."""
        deadline = time.monotonic() + LEAVE_TIMEOUT
        while time.monotonic() < deadline:
            self._revival.check(time.monotonic())
            try:
                if not at_work():
                    return
            except (FarmError, RedisError):
                if not server.pid:  # it is not ours
                    return
            self._wakeups.wait(LOOK_INTERVAL)

    def _let_jobs_end(self, supervisor: Supervisor, server: Server, client: FarmClient) -> None:
        """Drain, through all troubles of the server, until no job runs or we are asked again."""
        logged = False
        while self._asked == 1:
            self._look_after(supervisor, server)
            try:
                if not self._drain(client):
                    return
            except (FarmError, RedisError) as error:
                if not supervisor.settled:  # the farm never came up: nothing was begun
                    return
                if not logged:
                    logged = True
                    log.warning("running jobs cannot be counted: %s; tried again", error)
            self._wakeups.wait(LOOK_INTERVAL)

    def _drain(self, client: FarmClient) -> bool:
        """Let no builder begin anything, one that has just booted neither; True: some jobs run."""
        if taking := {name for name, it in client.builders().items() if not it.draining}:
            self._drained |= taking
            client.send(DrainRequested(UNSTAMPED, "*"))
            return True
        return client.count_running() > 0

    def _undrain_the_rest(self, client: FarmClient) -> None:
        """Let the next scheduler use the builders of hosts that stay (``farm admin join``)."""
        if self._drained:
            kept = sorted(self._drained & client.builders().keys())
            client.send(*(UndrainRequested(UNSTAMPED, builder) for builder in kept))

    def _end_unsupervised(self, kept: set[int]) -> None:
        """End what a provisioner that was killed had started, but not yet written down.

        As its orphan it is our child now; written down, it is adopted by the next provisioner.
        """
        for pid in unsupervised(kept, {host.pid for host in self._hosts().values()}):
            log.warning("process %d has no supervisor: ended", pid)
            end_at_once(pid)

    def _hosts(self) -> dict[Path, HostFile]:
        """Return the builder hosts that are written down, by their files."""
        paths = (self._folder / "hosts").glob("*.json")
        return {path: file for path in paths if (file := read_host_file(path)) is not None}

    def _end_leftover_hosts(self, grace: float = LEAVE_TIMEOUT) -> None:
        """A host that did not notice its pipe is ended by its process id.

        Without grace: one of an earlier farm here, which has no supervisor any more.
        """
        deadline = time.monotonic() + grace
        last = deadline + LEAVE_TIMEOUT
        for path, host in self._hosts().items():
            while is_alive(host.pid, host.began) and time.monotonic() < last:
                if time.monotonic() >= deadline:
                    end_at_once(host.pid)
                self._wakeups.wait(0.02)
            path.unlink(missing_ok=True)

    def _on_request(self, kind: int) -> None:
        # without a terminal SIGINT comes from farm down --now
        background = sys.stdin is None or not sys.stdin.isatty()
        self._asked = 2 if kind == signal.SIGINT and background else self._asked + 1
