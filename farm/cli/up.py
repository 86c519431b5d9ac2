"""``farm up`` and ``farm down``: a farm that stays up, and its end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farm.cli.burning import burn_settings
from farm.cli.connection import DEFAULT_DIR, Dir, FarmPlace, place_file, read_place
from farm.cli.keeping import FarmKeeper
from farm.cli.options import AsJson, MetricsAddress, MetricsPort, Overrides, Quiet, ScenarioFile
from farm.cli.provisioning import algorithms_of
from farm.cli.recording import this_command
from farm.cli.showing import FarmConsole, many
from farm.cli.watching import metrics_place, own_options, targets_of
from farm.core.errors import FarmError, InputError, RunError, ServerError
from farm.live.operating.operator import Operator
from farm.live.redis.connection import redacted
from farm.metrics.exporter import LOOPBACK
from farm.metrics.targets import forget_targets
from farm.processes.identity import is_alive
from farm.processes.log_files import last_line
from farm.scenario import load_scenario

#: real seconds between two looks at a process that is not our child
LOOK_INTERVAL = 0.1
#: real seconds that a farm has to end in when its start is interrupted
STOP_TIMEOUT = 60.0


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
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Start a farm that stays up: server, scheduler, provisioner, builder hosts.

    Its workload comes from farm submit. What waited when it went down (or was killed) goes on.
    """
    overrides = [*(sets or ()), *([] if speed is None else [f"live.speed={speed}"])]
    wanted = load_scenario(scenario, overrides)
    algorithms_of(wanted)  # a mistake there is told now, not in a log
    burn_settings()
    _refuse_second(folder)
    metrics = metrics_place(folder, metrics_port, metrics_address)
    if foreground:
        with _locked(folder):
            FarmKeeper(wanted, redis, folder, metrics, fresh=fresh).run()
        return
    with _locked(folder):
        pass  # what is wrong with the folder is told now
    options = [f"--set={override}" for override in overrides]
    options += ["--fresh"] if fresh else []
    place = _start_in_background(scenario, redis, folder, [*options, *own_options(metrics)])
    if as_json:
        said = {"name": wanted.name, "redis_url": redacted(place.redis_url), "pid": place.pid}
        said |= {"prefix": place.prefix, "speed": place.speed, "dir": str(folder)}
        typer.echo(msgspec.json.encode(said).decode())
    elif not quiet:
        typer.echo(
            f"farm {wanted.name} is up at {redacted(place.redis_url)} (speed {place.speed:g})"
        )
        where = "" if folder == DEFAULT_DIR else f" --dir {shlex.quote(str(folder))}"
        me, console = this_command(), FarmConsole(stderr=True)
        for line in (
            f"  {me} submit{where} --service-time 90s --count 20   give it work",
            f"  {me} status{where} --watch                         look at it",
            f"  {me} down{where}                                   end it",
        ):
            console.print(line, soft_wrap=True)
        if metrics.targets is not None:
            files = f"metrics for Prometheus (file_sd_configs): {metrics.targets.absolute()}/*.json"
            console.print(files, soft_wrap=True)


def down(
    folder: Dir = DEFAULT_DIR,
    now: Annotated[
        bool, typer.Option("--now", help="Running jobs are given up (they wait again next time).")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds that running jobs get; absent: as long as they take."),
    ] = None,
    as_json: AsJson = False,
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
    running = 0 if now or quiet else _running(place)
    os.kill(place.pid, signal.SIGINT if now else signal.SIGTERM)
    deadline = None if timeout is None else time.monotonic() + timeout
    if running:
        what = f"{many(running, 'running job')} first"
        FarmConsole(stderr=True).print(f"the farm ends {what} (farm down --now: at once) …")
    while is_alive(place.pid, place.began):
        if deadline is not None and time.monotonic() > deadline:
            os.kill(place.pid, signal.SIGINT)
            deadline = None
        time.sleep(LOOK_INTERVAL)
    if as_json:
        typer.echo(msgspec.json.encode({"down": str(folder)}).decode())
    elif not quiet:
        typer.echo("the farm is down")


def _running(place: FarmPlace) -> int:
    """Return how many jobs run; 0 if nobody can say."""
    with (
        contextlib.suppress(FarmError),
        Operator(place.redis_url, place.prefix) as operator,
    ):
        return operator.count_running()
    return 0


def _readable_place(folder: Path) -> FarmPlace | None:
    """Return where the folder's farm is; what a power cut left of the file says nothing."""
    with contextlib.suppress(InputError):
        return read_place(folder)
    return None


def _refuse_second(folder: Path) -> None:
    place = _readable_place(folder)
    if place is not None and is_alive(place.pid, place.began):
        raise ServerError(
            f"a farm is up in {folder} already (process {place.pid}, at "
            f"{redacted(place.redis_url)}): farm down ends it; another one needs another --dir"
        )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder: two farms that come up at the same moment do not share it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as error:
        raise InputError(f"--dir: cannot use {folder}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ServerError(f"a farm is coming up, or going down, in {folder}") from None
        yield


def _start_in_background(
    scenario: Path, redis: str | None, folder: Path, options: list[str]
) -> FarmPlace:
    command = [sys.executable, "-m", "farm.cli.main", "up", str(scenario), "--foreground"]
    # the URL may hold a password: not for the list of processes
    environment = os.environ | ({"FARM_REDIS_URL": redis} if redis else {})
    path = folder / "farm.log"
    with path.open("ab") as sink:
        before = sink.tell()
        process = subprocess.Popen(  # noqa: S603 - ourselves, no shell
            [*command, f"--dir={folder}", *options],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        return _wait_until_up(process, folder, before)
    except BaseException:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(STOP_TIMEOUT)
        raise


def _wait_until_up(process: subprocess.Popen[bytes], folder: Path, before: int) -> FarmPlace:
    """Wait until it is up, or has ended: it knows itself how long that may take."""
    while process.poll() is None:
        place = _readable_place(folder)
        if place is not None and place.pid == process.pid and place.state == "up":
            return place
        time.sleep(LOOK_INTERVAL)
    words = last_line(folder / "farm.log", before).removeprefix("error: ")
    kind = ServerError if process.returncode == ServerError.exit_code else RunError
    raise kind(words)
