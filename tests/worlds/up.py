"""Farms of real processes: one that ``farm up`` keeps, and a scheduler of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner

from farm.app.long_running.farm_place import FarmPlace, read_place
from farm.cli.main import app
from farm.core.errors import FarmError, ServerError
from farm.core.events import JobsSubmitted
from farm.core.model import Job, Platform
from farm.live.operating.client import FarmClient
from farm.live.redis.connection import connect
from farm.live.redis.keys import Keys
from farm.live.redis.server import Server
from farm.live.settings import LiveSettings
from farm.live.store.job_reader import state_of
from farm.live.wire.messages import UNSTAMPED, Report
from farm.live.wire.reporter import Reporter
from farm.processes.child import end_at_once
from farm.processes.identity import began_at
from tests.fixtures import processes
from tests.fixtures.processes import environment, own_port
from tests.fixtures.store import ReadableStore

AMD64 = Platform("amd64", True)
FARM = (sys.executable, "-m", "farm")

ELASTIC = (
    "slots: 4, boot_time: 1s, idle_timeout: 10m, "
    "provisioner: {algorithm: taskcluster, min: 2, max: 5, interval: 1s}"
)
SCENARIO = """
name: up
pools: [{{name: linux, platform: {{processor: amd64}}, {pool}}}]
workload: [{{arrivals: {{every: 1s, count: 1, service_time: 1s}}}}]
scheduling: {{{scheduling}}}
live: {{{live}}}
"""


def scenario(pool: str = "builders: 2", scheduling: str = "", live: str = "speed: 1") -> str:
    """Return a scenario of one pool, for farms that get their jobs from a test."""
    return SCENARIO.format(pool=pool, scheduling=scheduling, live=live)


def here(
    folder: Path, words: Sequence[str], stdin: str | None = None, **variables: str
) -> tuple[int, str, str]:
    """Run a command of the farm in this process: a second less than in one of its own.

    Returns its exit code, what it printed on both streams, and what on standard output.
    """
    # without any, it finds the farm in the folder's state file
    none: dict[str, str | None] = {name: None for name in os.environ if name.startswith("FARM_")}
    with contextlib.chdir(folder):
        done = CliRunner().invoke(
            app, words, input=stdin, env=none | {"COLUMNS": "160"} | variables
        )
    if isinstance(done.exception, FarmError):
        return done.exception.exit_code, f"{done.output}{done.exception}", ""
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output, done.stdout


class Up:
    """A farm that ``farm up`` keeps in its own folder; operated by commands."""

    def __init__(self, folder: Path, text: str = "") -> None:
        self.folder = folder
        self.keeper: subprocess.Popen[bytes] | None = None
        (folder / "farm.yaml").write_text(text or scenario(ELASTIC, live="speed: 20"))

    # --- commands -----------------------------------------------------------------------------

    def farm(self, *words: str, code: int = 0, stdin: str | None = None) -> str:
        """Run a command; return what it printed (both streams), after checking its exit code.

        ``farm up`` in a separate process, the others in this one: a second less for each.
        """
        if words[0] == "up":
            found, said = self._separately(words)
        else:
            found, said, _ = here(self.folder, words, stdin)
        assert found == code, f"farm {' '.join(words)}: {said}"
        return said

    def _separately(self, words: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(
            [*FARM, *words],
            cwd=self.folder,
            env=environment(FARM_PREFIX="tested:", COLUMNS="160"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )
        assert "Traceback" not in done.stdout
        return done.returncode, done.stdout

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """Return the rows that a command prints as JSON."""
        return [json.loads(line) for line in self.farm(*words, "--json").splitlines()]

    def up(self, *options: str) -> None:
        """Start a keeper in a new session, as ``farm up`` does in the background."""
        with (self.folder / "log").open("ab") as log:
            self.keeper = subprocess.Popen(
                [*FARM, "up", "farm.yaml", "--foreground", *options],
                cwd=self.folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @contextlib.contextmanager
    def running(self, *options: str) -> Iterator[str]:
        """Bring it up, yield what that said, and take it down whatever happens."""
        try:
            yield self.farm("up", "farm.yaml", *options)
        finally:
            if (place := read_place(self.folder / ".farm")) and began_at(place.pid) == place.began:
                self.farm("down", "--now")

    # --- state --------------------------------------------------------------------------------

    @property
    def place(self) -> FarmPlace:
        """Where it is, by its state file."""
        found = read_place(self.folder / ".farm")
        assert found is not None
        return found

    @property
    def is_up(self) -> bool:
        """Whether this test's keeper has brought it up."""
        found, keeper = read_place(self.folder / ".farm"), self.keeper
        pid = None if keeper is None else keeper.pid
        return found is not None and (found.state, found.pid) == ("up", pid)

    @contextlib.contextmanager
    def operator(self) -> Iterator[FarmClient]:
        """Yield a client of it."""
        with FarmClient(self.place.redis_url, self.place.prefix) as client:
            yield client

    def status(self) -> dict[str, Any]:
        """Return the data of farm status, but faster: tests poll it."""
        with self.operator() as client:
            return msgspec.to_builtins(client.status())

    def state_of(self, job: str) -> str:
        """Return a job's state, as farm jobs shows it, as quickly."""
        with self.operator() as client:
            found = client.job(job)
            return "unknown" if found is None else state_of(found)

    def has_builders(self) -> bool:
        """Return whether two builders have joined, and their host is known."""
        with self.operator() as client:
            return client.status().hosts == 1 and len(client.builders()) == 2

    def until(self, there: Callable[[], object], what: str, timeout: float = 120) -> None:
        """Wait for a condition; the message of a failure has the logs."""
        processes.until(there, what, timeout, log=self.logs)

    def logs(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(p.read_text()[-2000:] for p in (self.folder / ".farm").glob("*.log"))

    def said(self, words: str, log: str = "*") -> int:
        """Return how often the log of this name contains these words."""
        return sum(p.read_text().count(words) for p in (self.folder / ".farm").glob(f"{log}.log"))

    # --- processes ----------------------------------------------------------------------------

    def processes(self, *names: str) -> dict[int, str]:
        """Return the command lines of its live processes that have one of these words, by id.

        Each works in the folder, or below it.
        """
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.folder in ((cwd := (path / "cwd").readlink()), *cwd.parents):
                    line = (path / "cmdline").read_text().replace("\0", " ")
                    if began_at(int(path.name)):
                        found[int(path.name)] = line
        return {
            pid: line
            for pid, line in sorted(found.items())
            if not names or {Path(word).name for word in line.split()}.intersection(names)
        }

    def hosts(self) -> dict[str, int]:
        """Return the process ids of its builder hosts, by name."""
        paths = (self.folder / ".farm/hosts").glob("*.json")
        return {path.stem: json.loads(path.read_bytes())["pid"] for path in paths}

    def services(self) -> list[object]:
        """Return its hosts, and its services that were started first."""
        return [self.hosts(), *(min(self.processes(n)) for n in ("scheduler", "provisioner"))]

    def kill_keeper(self) -> None:
        """SIGKILL the process that keeps it up."""
        os.kill(self.place.pid if self.keeper is None else self.keeper.pid, signal.SIGKILL)
        if self.keeper is not None:
            self.keeper.wait()

    def end_all(self) -> None:
        """Leave nothing of it, whatever has happened."""
        for pid in self.processes():
            end_at_once(pid)
        if self.keeper is not None:
            self.keeper.wait()

    # --- jobs ---------------------------------------------------------------------------------

    def submit(self, *names: str, service_time: str = "500ms") -> None:
        """Submit a job of each name."""
        for name in names:
            self.farm("submit", "--id", name, "--service-time", service_time, "--quiet")

    def until_ended(self, *names: str) -> None:
        """Wait until these jobs have succeeded, also while its server is away."""

        def ended() -> bool:
            with contextlib.suppress(ServerError):
                return all(self.state_of(name) == "succeeded" for name in names)
            return False

        self.until(ended, f"the end of {names}", timeout=60)

    def attempts(self, *names: str) -> list[int]:
        """Return how often each of these jobs was started."""
        with self.operator() as client:
            return [job.attempts for job in client.jobs_of(names)]

    def trouble(self) -> str | None:
        """Return the kind of trouble that farm status shows."""
        code, said, out = here(self.folder, ("status", "--json"))
        if not out:
            return "refused" if "refuses us" in said else said
        trouble = json.loads(out)["trouble"]
        assert code == (0 if trouble is None else 1)
        return trouble and trouble["kind"]


@contextlib.contextmanager
def disturbed(folder: Path) -> Iterator[Up]:
    """Yield a running farm that soon notices a silent host, and has a standby, to be disturbed."""
    live = "speed: 1, heartbeat: 250ms, lost_after: 2s"
    farm = Up(folder, scenario("builders: 2, slots: 4", live=live))
    with farm.running("--quiet"):
        # one that came up during a trouble would not know why the lease had expired
        farm.until(lambda: farm.said("standing by", "standby"), "a standby")
        yield farm


class Service:
    """``farm admin scheduler`` as a process, and the farm around it, which the test plays."""

    def __init__(self, server: Server, keys: Keys, folder: Path) -> None:
        self.url, self.keys, self.folder = server.url, keys, folder
        self.client = connect(server.url, "test")
        self.store = ReadableStore(self.client, keys)
        self.settings = LiveSettings(server.url, keys.prefix, beat_interval=0.25)
        self.port = own_port()
        self.process: subprocess.Popen[str] | None = None
        self.scenario()

    def scenario(
        self, policy: str = "fifo", pool: str = "slots: 2, builders: 3", scheduling: str = ""
    ) -> None:
        """Write the scenario that the next scheduler follows."""
        rules = f"policy: {policy}, retries: 3{scheduling}"
        (self.folder / "service.yaml").write_text(scenario(pool, rules))

    @property
    def variables(self) -> dict[str, str]:
        """Return what a process of this farm finds in its environment."""
        return {"FARM_REDIS_URL": self.url, "FARM_PREFIX": self.keys.prefix}

    def start(
        self, *options: str, joined: int = 0, logged: bool = True, within: Sequence[str] = ()
    ) -> None:
        """Start it, and wait until this many builders have joined.

        ``within``: the command that runs it (a process space of its own).
        """
        events = ("--log", str(self.folder / "events")) if logged else ()
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [*within, *FARM, "admin", "scheduler", "service.yaml", *events, *options],
                cwd=self.folder,
                env=environment(FARM_METRICS_PORT=str(self.port), **self.variables),
                stderr=log,
                text=True,
            )
        if joined:
            self.until(lambda: len(self.store.builders()) == joined, "joining")

    def end(self, kind: signal.Signals = signal.SIGTERM) -> int:
        """End it with this signal; return its exit code."""
        assert self.process is not None
        self.process.send_signal(kind)
        return self.process.wait(60)

    def kill(self) -> None:
        """SIGKILL it, if it lives."""
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGKILL)

    def close(self) -> None:
        """Kill it, and leave no keys."""
        self.kill()
        self.store.clear()
        self.client.close()

    def send(self, stream: str, *reports: Report) -> None:
        """Let a client of the farm write these reports to one of its streams."""
        reporter = Reporter(self.url, self.keys, "test", stream)
        reporter.start()
        for report in reports:
            reporter.put(report)
        assert reporter.close(60)

    def submit(self, jobs: list[Job]) -> None:
        """Submit them together."""
        self.send("submissions", JobsSubmitted(UNSTAMPED, tuple(jobs)))

    def until_ended(self, count: int) -> None:
        """Wait until this many jobs have ended, in all."""
        self.until(lambda: self.store.count_results() >= count, f"{count} ends")

    def metric(self, name: str) -> float | None:
        """Return a metric of the scheduler's page; None while it is not there."""
        with contextlib.suppress(OSError):
            url = f"http://127.0.0.1:{self.port}/metrics"
            with urllib.request.urlopen(url, timeout=30) as answer:
                for line in answer.read().decode().splitlines():
                    if line.startswith(name + " "):
                        return float(line.split()[-1])
        return None

    def until(self, there: Callable[[], object], what: str, timeout: float = 90) -> None:
        """Wait for a condition while the scheduler lives."""

        def holds() -> object:
            assert self.process is None or self.process.poll() is None, self.log()
            return there()

        processes.until(holds, what, timeout, log=self.log)

    def log(self) -> str:
        """Return what its schedulers have logged."""
        return (self.folder / "log").read_text()


def jobs_of(count: int, service_time: float, every: float = 0.0, **more: Any) -> list[Job]:
    """Return identical jobs; ``every``: they arrive at this pace (farm time)."""
    fields = {"service_time": service_time, "platform": AMD64, **more}
    return [Job(id=f"j{n:03}", arrived_at=every * n or None, **fields) for n in range(count)]
