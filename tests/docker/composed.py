"""The farm of docker-compose.yml on an Engine, under a name and on ports of its own."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from farm.live.redis.server import free_port
from tests.docker.engine import BASE, BUNDLE, Engine
from tests.docker.generations import Compose
from tests.grafana.conftest import FOLDER, load, panels, plain

IMAGE = "build-farm:test"
GRAFANA = "grafana/grafana:11.6.0"
#: plays Grafana where it cannot be had: it looks whether what Grafana would read is there
NO_GRAFANA = {
    "image": BASE,
    "init": True,
    "command": [
        "sh",
        "-ec",
        "ls /etc/grafana/provisioning/*/*.yaml /var/lib/farm-dashboards/*.json; exec sleep 9999",
    ],
}


class Composed:
    """One farm; nothing is up before ``compose("up", …)``.

    Args:
        engine: where it runs.
        cli: the Compose to use.
        source: a copy of the project, as git has it.
        name: of the project, its network and its builders.
        settings: further variables of docker-compose.yml.
    """

    def __init__(
        self, engine: Engine, cli: Compose, source: Path, name: str, **settings: str
    ) -> None:
        self.engine = engine
        self.name = name
        self.prometheus = f"http://127.0.0.1:{free_port()}"
        self._cli = cli.command
        self.source = source
        self._override = source / f"{name}.override.yml"
        grafana = {} if GRAFANA in engine.images() else NO_GRAFANA
        self._override.write_text(json.dumps({"services": {"grafana": grafana}}))
        self.environment = engine.environment | {
            "COMPOSE_PROJECT_NAME": name,
            "FARM_NAME": name,
            "FARM_NETWORK": name,
            "FARM_IMAGE": IMAGE,
            "FARM_REDIS_PASSWORD": "not a simple/one:",
            "FARM_DOCKER_SOCKET": engine.socket,
            "FARM_PROMETHEUS_PORT": self.prometheus.rpartition(":")[2],
            "FARM_GRAFANA_PORT": str(free_port()),
            **settings,
        }
        if BUNDLE.exists():
            self.environment.setdefault("PIP_CERT", str(BUNDLE))

    # --- what a person does -----------------------------------------------------------------

    def compose(self, *arguments: str, given: str | None = None, timeout: float = 600) -> str:
        """Run compose, with this on its standard input; return what it printed."""
        run = self.run(*arguments, given=given, timeout=timeout)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def run(
        self, *arguments: str, given: str | None = None, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """Run compose, whatever comes of it."""
        return subprocess.run(
            self.command(*arguments),
            env=self.environment,
            cwd=self.source,
            input=given or "",
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def command(self, *arguments: str) -> list[str]:
        """Return what runs compose."""
        files = ("-f", "docker-compose.yml", "-f", str(self._override))
        return [*self._cli, *files, *arguments]

    def farm(self, *arguments: str) -> str:
        """Run the command farm in the scheduler's container."""
        return self.engine.docker("exec", self.service("scheduler"), "farm", *arguments, timeout=60)

    def die(self, service: str) -> None:
        """Kill what the service's first process watches over, as if it had crashed."""
        kill = "import os; os.kill(int(open('/proc/1/task/1/children').read()), 9)"
        self.engine.docker("exec", self.service(service), "python3", "-c", kill)

    def end(self) -> None:
        """Leave nothing, whatever there was."""
        for name in self.builders(everything=True):
            self.engine.docker("rm", "--force", "--volumes", name)
        self.compose("--profile", "*", "down", "--volumes", "--timeout", "5")

    # --- what there is ----------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the farm at a glance, as the scheduler wrote it (`farm status` costs a second)."""
        written = self.engine.docker(
            "exec", self.service("redis"), "redis-cli", "get", "farm:status", timeout=60
        )
        found: dict[str, Any] = json.loads(written.strip() or "null") or {
            "ended": {},
            "builders": {},
        }
        return found

    def ended(self) -> dict[str, int]:
        """Return how many jobs ended, by outcome."""
        return self.status()["ended"]

    def pool(self) -> dict[str, Any]:
        """Return the line of ``farm pools`` (there is one pool)."""
        found: dict[str, Any] = json.loads(self.farm("pools", "--json"))
        return found

    def containers(self, *filters: str, everything: bool = False) -> list[str]:
        """Return names of containers that the filters let through."""
        words = [word for one in filters for word in ("--filter", one)]
        every = ["--all"] if everything else []
        return self.engine.docker("ps", *every, "--format", "{{.Names}}", *words).split()

    def builders(self, *, everything: bool = False) -> list[str]:
        """Return the containers that the provisioner started and that run."""
        labels = ("label=farm.role=builder", f"label=farm.farm={self.name}")
        return self.containers(*labels, everything=everything)

    def service(self, name: str) -> str:
        """Return the container of a service, running or not."""
        label = f"label=com.docker.compose.project={self.name}"
        one_of_it = f"label=com.docker.compose.service={name}"
        (found,) = self.containers(label, one_of_it, everything=True)
        return found

    def state(self, container: str) -> dict[str, Any]:
        """Return what the Engine knows of a container's state."""
        found: dict[str, Any] = json.loads(
            self.engine.docker("inspect", "--format", "{{json .State}}", container)
        )
        return found

    def log(self, service: str) -> str:
        """Return what a service has said, on both streams."""
        return self.engine.log(self.service(service))

    def left(self) -> list[str]:
        """Return what of it is there: containers, networks, volumes."""
        docker, shown = self.engine.docker, ("--format", "{{.Name}}")
        names = [
            *docker("ps", "--all", "--format", "{{.Names}}").split(),
            *docker("network", "ls", *shown).split(),
            *docker("volume", "ls", *shown).split(),
        ]
        return [name for name in names if name.startswith(self.name)]

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Ask Prometheus; return the series."""
        url = f"{self.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = json.load(answer)
        assert found["status"] == "success", query
        return found["data"]["result"]

    def until(self, there: Callable[[], object], what: object, timeout: float = 90) -> None:
        """Wait for something (``what`` is written as it is by then)."""
        deadline = time.monotonic() + timeout
        while not there():
            if time.monotonic() > deadline:
                logs = self.run("logs", "--tail=40").stdout
                raise AssertionError(f"{what} did not happen\n{logs}")
            time.sleep(0.5)


class Questions:
    """The queries of all dashboards that Prometheus has not answered yet."""

    def __init__(self, farm: Composed) -> None:
        self._farm = farm
        self.left = [
            (f"{path.stem} / {panel['title']}", target["expr"])
            for path in sorted(FOLDER.glob("*.json"))
            for panel in panels(load(path))
            for target in panel["targets"]
        ]

    def ask(self) -> bool:
        """Ask those that are left; say whether all are answered (some are while work goes on)."""
        self.left = [(name, expr) for name, expr in self.left if not self._farm.ask(plain(expr))]
        return not self.left

    def __str__(self) -> str:
        return f"an answer to {[name for name, _ in self.left]}"
