"""A Docker Engine for the tests: the one that is there, else one of our own (root, Debian).

An Engine of our own has no registry to pull from, so the images that docker-compose.yml names are
made of Debian packages: a base by debootstrap, and stand-ins for Redis and Prometheus upon it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
BASE = "python:3.11-slim-bookworm"
STAND_INS = {
    "redis:7.2-bookworm": """
        RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends \\
            redis-server redis-tools >/dev/null && mkdir -p /data && chown redis:redis /data
        VOLUME /data
    """,
    # its configuration is ours: deploy/docker-proxy
    "haproxy:3.0-bookworm": """
        RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends haproxy >/dev/null
    """,
    "prom/prometheus:v2.53.4": """
        RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends prometheus \\
            >/dev/null && mkdir -p /prometheus && chown nobody:nogroup /prometheus
        USER nobody
        VOLUME /prometheus
        ENTRYPOINT ["/usr/bin/prometheus"]
    """,
}
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


class Engine:
    """Where the Engine is, and its command line."""

    def __init__(self, host: str | None = None) -> None:
        self.environment = dict(os.environ) if host is None else {**os.environ, "DOCKER_HOST": host}

    @property
    def socket(self) -> str:
        """The path of its socket."""
        host = self.environment.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        return host.removeprefix("unix://")

    def images(self) -> list[str]:
        """Return the names of its images."""
        return self.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()

    def log(self, container: str) -> str:
        """Return what a container has said, on both streams."""
        run = subprocess.run(
            [docker_command(), "logs", container],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=60,
        )
        return run.stdout

    def answers(self) -> bool:
        """Whether it does."""
        try:
            self.docker("version", timeout=20)
        except (OSError, subprocess.SubprocessError):
            return False
        return True

    def docker(self, *arguments: str, stdin: str | None = None, timeout: float = 300) -> str:
        """Run a docker command; return what it says."""
        return subprocess.run(
            [docker_command(), *arguments],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
            timeout=timeout,
        ).stdout


class OwnEngine:
    """An Engine that is started, and ended by its process id; root only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        socket = folder / "docker.sock"
        self.engine = Engine(f"unix://{socket}")
        self._command = [
            "dockerd",
            f"--data-root={folder / 'data'}",
            f"--exec-root={folder / 'exec'}",
            f"--pidfile={folder / 'pid'}",
            f"--host=unix://{socket}",
        ]

    def start(self) -> Engine:
        """Start it and make the images."""
        with (self._folder / "log").open("w") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not self.engine.answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.5)
        make_images(self.engine, self._folder)
        return self.engine

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(60)


def docker_command() -> str:
    """Return the docker command line of the distribution, if there is one."""
    return "/usr/bin/docker" if Path("/usr/bin/docker").exists() else "docker"


def make_images(engine: Engine, folder: Path) -> None:
    """Make the base image and the stand-ins, where the Engine has none of that name."""
    have = engine.images()
    if BASE not in have:
        root = folder / "root"
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)],
            check=True,
            capture_output=True,
        )
        if BUNDLE.exists():
            shutil.copyfile(BUNDLE, root / BUNDLE.relative_to("/"))
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(
                [docker_command(), "import", "-", BASE],
                stdin=tar.stdout,
                env=engine.environment,
                check=True,
                capture_output=True,
            )
        shutil.rmtree(root)
    for name, steps in STAND_INS.items():
        if name not in have:
            text = f"FROM {BASE}\n" + "\n".join(line.strip() for line in steps.splitlines())
            engine.docker("build", "-q", "-t", name, "-", stdin=text, timeout=600)
