"""``farm up`` and ``farm down``: a farm that stays up, and its end."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from farm.cli.connection import DEFAULT_DIR, Dir, FarmPlace, place_file, read_place
from farm.cli.options import MetricsAddress, MetricsPort, Overrides, Quiet, ScenarioFile
from farm.cli.provisioning import algorithms_of
from farm.cli.recording import this_command
from farm.cli.watching import metrics_place, own_options, service_options, targets_of
from farm.core.errors import FarmError, RunError, ServerError
from farm.live.connection import redacted
from farm.live.messages import Drain
from farm.live.operator import Operator
from farm.live.processes import began_at, is_alive
from farm.live.server import choose_server
from farm.live.settings import from_environment
from farm.live.supervisor import Service, Supervisor, last_line
from farm.metrics.exporter import LOOPBACK, MetricsPlace
from farm.metrics.targets import forget_targets
from farm.scenario import Scenario, load_scenario

log = logging.getLogger("farm.up")

#: real seconds for a farm to come up, and between two looks at it
UP_TIMEOUT = 90.0
LOOK_INTERVAL = 0.1
#: what is meant for others, or for us: two services cannot have one port
NOT_FOR_SERVICES = (
    "FARM_BACKEND", "FARM_SCENARIO", "FARM_PLAY", "FARM_HOST",
    "FARM_METRICS_PORT", "FARM_METRICS_ADDRESS", "FARM_METRICS_TARGETS",
)  # fmt: skip


def up(
    scenario: ScenarioFile,
    sets: Overrides = None,
    speed: Annotated[
        float | None, typer.Option(help="Farm seconds in a real second; absent: as it says.")
    ] = None,
    redis: Annotated[
        str | None,
        typer.Option(
            envvar="FARM_REDIS_URL",
            help="Use this server; absent: one of our own, whose data stays in DIR.",
        ),
    ] = None,
    folder: Dir = DEFAULT_DIR,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget what an earlier farm left, and begin anew.")
    ] = False,
    foreground: Annotated[
        bool,
        typer.Option("--foreground", help="Stay in this terminal; Ctrl-C drains, twice ends."),
    ] = False,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    quiet: Quiet = False,
) -> None:
    """Start a farm that stays up: server, scheduler, provisioner, builder hosts.

    Its workload comes from farm submit. What waited when it went down (or was killed) goes on.
    """
    overrides = [*(sets or ()), *([] if speed is None else [f"live.speed={speed}"])]
    wanted = load_scenario(scenario, overrides)
    algorithms_of(wanted)  # a mistake there is told now, not in a log
    _refuse_second(folder)
    metrics = metrics_place(folder, metrics_port, metrics_address)
    folder.mkdir(parents=True, exist_ok=True)
    resolved = folder / "scenario.yaml"
    resolved.write_text(wanted.to_yaml(), encoding="utf-8")
    if foreground:
        with _locked(folder):
            _Up(wanted, resolved, redis, folder, metrics, fresh=fresh).run()
        return
    place = _start_in_background(resolved, redis, folder, metrics, fresh=fresh)
    if not quiet:
        typer.echo(
            f"farm {wanted.name} is up at {redacted(place.redis_url)} (speed {place.speed:g})"
        )
        me, where = this_command(), "" if folder == DEFAULT_DIR else f" --dir {folder}"
        console = Console(stderr=True, highlight=False)
        for line in (
            f"  {me} submit{where} --service-time 90s --count 20   give it work",
            f"  {me} status{where} --watch                         look at it",
            f"  {me} down{where}                                   end it",
        ):
            console.print(line, soft_wrap=True, markup=False)
        if metrics.targets is not None:
            files = f"metrics for Prometheus (file_sd_configs): {metrics.targets.absolute()}/*.json"
            console.print(files, soft_wrap=True, markup=False)


def down(
    folder: Dir = DEFAULT_DIR,
    now: Annotated[
        bool, typer.Option("--now", help="Running jobs are given up (they wait again next time).")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds that running jobs get; absent: as long as they take."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """End the farm that farm up started: running jobs end first, no process is left.

    Jobs that wait stay in DIR (or on the server that was given) for the next farm up.
    """
    place = read_place(folder)
    if place is None:
        raise ServerError(f"no farm is running here: {place_file(folder)} does not exist")
    if not is_alive(place.pid, place.began):
        place_file(folder).unlink(missing_ok=True)
        forget_targets(targets_of(folder))
        raise RunError(
            f"the farm in {folder} had ended already without saying so (log: {folder / 'farm.log'})"
        )
    os.kill(place.pid, signal.SIGINT if now else signal.SIGTERM)
    deadline = None if timeout is None else time.monotonic() + timeout
    told = quiet or now
    while is_alive(place.pid, place.began):
        if deadline is not None and time.monotonic() > deadline:
            os.kill(place.pid, signal.SIGINT)
            deadline = None
        elif not told:
            told = True
            Console(stderr=True).print("running jobs end (farm down --now: at once) …")
        time.sleep(LOOK_INTERVAL)
    if not quiet:
        typer.echo("the farm is down")


def _refuse_second(folder: Path) -> None:
    place = read_place(folder)
    if place is not None and is_alive(place.pid, place.began):
        raise ServerError(
            f"a farm is up in {folder} already (process {place.pid}, at "
            f"{redacted(place.redis_url)}): farm down ends it; another one needs another --dir"
        )
    place_file(folder).unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder: two farms that come up at the same moment do not share it."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ServerError(f"a farm is coming up in {folder} already") from None
        yield


def _start_in_background(
    resolved: Path, redis: str | None, folder: Path, metrics: MetricsPlace, *, fresh: bool
) -> FarmPlace:
    command = [sys.executable, "-m", "farm.cli.main", "up", str(resolved), "--foreground"]
    command += ["--dir", str(folder), *(["--fresh"] if fresh else []), *own_options(metrics)]
    # the URL may hold a password: not for the list of processes
    environment = os.environ | ({"FARM_REDIS_URL": redis} if redis else {})
    path = folder / "farm.log"
    with path.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603 - ourselves, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        return _wait_until_up(process, folder)
    except BaseException:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(UP_TIMEOUT)
        raise


def _wait_until_up(process: subprocess.Popen[bytes], folder: Path) -> FarmPlace:
    path = folder / "farm.log"
    deadline = time.monotonic() + UP_TIMEOUT
    while True:
        place = read_place(folder)
        if place is not None and place.pid == process.pid and place.state == "up":
            return place
        if process.poll() is not None:
            words = last_line(path).removeprefix("error: ")
            kind = ServerError if process.returncode == ServerError.exit_code else RunError
            raise kind(words)
        if time.monotonic() > deadline:
            raise RunError(f"the farm did not come up within {UP_TIMEOUT:g} s (log: {path})")
        time.sleep(LOOK_INTERVAL)


class _Up:
    """The process that keeps a farm up."""

    def __init__(
        self,
        scenario: Scenario,
        resolved: Path,
        redis: str | None,
        folder: Path,
        metrics: MetricsPlace,
        *,
        fresh: bool,
    ) -> None:
        self._scenario = scenario
        self._resolved = resolved
        self._redis = redis
        self._folder = folder
        self._metrics = metrics
        self._fresh = fresh
        #: 1: drain, then end; 2: end
        self._asked = 0
        self._place = FarmPlace(pid=os.getpid(), began=began_at(os.getpid()), redis_url="")

    def run(self) -> None:
        """Bring the farm up, keep it up until asked to end it, and end it."""
        logging.basicConfig(
            stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
        )
        for kind in (signal.SIGINT, signal.SIGTERM):
            signal.signal(kind, self._on_signal)
        data = self._folder / "redis"
        with contextlib.ExitStack() as stack:
            stack.callback(place_file(self._folder).unlink, missing_ok=True)
            forget_targets(targets_of(self._folder))
            stack.callback(forget_targets, targets_of(self._folder))
            server = stack.enter_context(choose_server(self._redis, data=data))
            operator = stack.enter_context(Operator(server.url, name="farm-up"))
            if self._fresh:
                operator.forget_everything()
            supervisor = self._supervisor(server.url)
            stack.callback(supervisor.stop)
            self._tell("starting", server.url)
            supervisor.start()
            if self._await(supervisor, operator):
                self._tell("up", server.url)
                log.info("up")
                self._keep_up(supervisor)
            self._tell("stopping", server.url)
            self._end(supervisor, operator)
        log.info("down")

    def _supervisor(self, url: str) -> Supervisor:
        scenario, hosts = str(self._resolved), str(self._folder / "hosts")
        me = (sys.executable, "-m")
        scheduler = (*me, "farm.cli.main", "scheduler", scenario)
        provisioner = (*me, "provisioner", scenario, "--hosts-dir", hosts, "--cord")
        environment = os.environ | {"FARM_REDIS_URL": url}
        for name in NOT_FOR_SERVICES:
            environment.pop(name, None)
        services = [
            Service("scheduler", (*scheduler, *service_options(self._metrics))),
            Service("provisioner", (*provisioner, *service_options(self._metrics, port=0))),
        ]
        return Supervisor(services, self._folder, environment)

    def _await(self, supervisor: Supervisor, operator: Operator) -> bool:
        """Wait until scheduler and hosts are at work; False: asked to end before that."""
        deadline = time.monotonic() + UP_TIMEOUT
        began = time.time()
        while not self._asked:
            supervisor.check()
            with contextlib.suppress(ServerError):
                status = operator.status()
                if status.written_at > began and status.hosts:
                    return True
            if time.monotonic() > deadline:
                raise RunError(
                    "the farm did not come up; its scheduler said: "
                    f"{supervisor.last_words('scheduler')}; its provisioner said: "
                    f"{supervisor.last_words('provisioner')}"
                )
            time.sleep(LOOK_INTERVAL)
        return False

    def _keep_up(self, supervisor: Supervisor) -> None:
        while not self._asked:
            supervisor.check()
            time.sleep(LOOK_INTERVAL)

    def _end(self, supervisor: Supervisor, operator: Operator) -> None:
        """Let running jobs end (unless asked twice), then hosts, then the rest."""
        supervisor.stop_one("provisioner")
        with contextlib.suppress(FarmError):
            if self._asked == 1:
                operator.tell(Drain("*"))
                while self._asked == 1 and any(True for _ in operator.jobs("running")):
                    supervisor.check()
                    time.sleep(LOOK_INTERVAL)
        supervisor.close_cord()
        deadline = time.monotonic() + 5.0
        with contextlib.suppress(FarmError):
            while operator.hosts() and time.monotonic() < deadline:
                time.sleep(LOOK_INTERVAL)
        supervisor.stop()
        self._end_leftover_hosts()

    def _end_leftover_hosts(self) -> None:
        """A host that did not notice its cord is ended by its process id."""
        deadline = time.monotonic() + 5.0
        for path in (self._folder / "hosts").glob("*.json"):
            host = msgspec.json.decode(path.read_bytes())
            while is_alive(host["pid"], host["began"]):
                if time.monotonic() > deadline:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(host["pid"], signal.SIGKILL)
                    break
                time.sleep(0.02)
            path.unlink(missing_ok=True)

    def _tell(self, state: str, url: str) -> None:
        self._place = msgspec.structs.replace(
            self._place,
            state=state,
            redis_url=url,
            prefix=from_environment().prefix,
            scenario=str(self._resolved),
            speed=self._scenario.live.speed,
        )
        path = place_file(self._folder)
        draft = path.with_suffix(".new")
        draft.touch(mode=0o600)
        draft.write_bytes(msgspec.json.encode(self._place))
        draft.rename(path)

    def _on_signal(self, kind: int, _: object) -> None:
        self._asked = 2 if kind == signal.SIGINT and self._is_background() else self._asked + 1

    @staticmethod
    def _is_background() -> bool:
        """Whether there is no terminal: then SIGINT comes from farm down --now."""
        return not sys.stdin.isatty()
