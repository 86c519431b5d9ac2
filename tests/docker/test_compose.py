"""docker-compose.yml on a real Engine, by both generations of Compose, as a person would use it."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docker.conftest import ROOT, Farms
from tests.fixtures.docker_engine import BUNDLE, Compose, Engine
from tests.worlds.composed import IMAGE, Composed, Questions
from tests.worlds.up import FARM

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

JOBS = 60
#: those of the simulated run that is filled in
FILLED = 200
#: the largest mean error of the demo's dispatch estimates, farm seconds
STATED_ERROR = 15 * 60
#: words that no log has while all is well
TROUBLE = re.compile(r"\b(error|critical|fatal|traceback|exception|warning)\b", re.IGNORECASE)
#: Redis warns about the machine's settings; Debian's Prometheus about its build
NO_TROUBLE = re.compile(r"Memory overcommit|vm\.overcommit_memory|transparent huge", re.IGNORECASE)


def slice_of_a_trace() -> str:
    """Return jobs like a recording's: of two teams, some heavy, some that burn, some fail."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["submitted_at_s", "service_time_s", "heavy", "fails", "mode", "attributes"])
    for number in range(JOBS):
        team = json.dumps({"team": ("red", "blue")[number % 2]})
        mode = "stress" if number % 20 == 3 else "timed"
        heavy, fails = str(number % 5 == 0).lower(), str(number % 30 == 7).lower()
        table.writerow([number, 5 if mode == "stress" else 40, heavy, fails, mode, team])
    return text.getvalue()


def test_a_trace_is_completed_whatever_fails(farms: Farms, newest: Compose, tmp_path: Path):
    """Up, a trace, growth, a builder and the scheduler killed, dashboards, shrinking, down.

    Its Prometheus finds a simulated run that one line filled in before: its user may write there,
    and its promtool knows the options.
    """
    image = f"build-farm:trace-{os.getpid()}"
    farm = farms(newest, FARM_SCENARIO="examples/composed.yaml", FARM_IMAGE=image)
    farm.compose("up", "-d", timeout=800)
    assert_well(farm, "redis", "scheduler", "provisioner", "prometheus", "grafana")
    farm.compose("exec", "-T", "prometheus", "sh", "-c", documented(), given=exported(tmp_path))
    told = farm.compose(
        "exec", "-T", "scheduler", "farm", "submit", "-", "--format", "csv",
        "--platform", "amd64/virtual", given=slice_of_a_trace(),
    )  # fmt: skip
    assert f"{JOBS} jobs submitted" in told
    farm.until(lambda: len(farm.builders()) == 3, "the pool's growth")
    farm.until(lambda: sum(farm.ended().values()) >= 5, "the first ends")
    farm.until(lambda: builders_up(farm) == 3, "metrics of all builders")

    farm.compose("restart", "scheduler", "provisioner")
    assert len(farm.builders()) == 3, "what restarts leaves the builders at work"
    farm.engine.docker("kill", farm.builders()[0])
    farm.die("scheduler")
    questions = Questions(farm)
    farm.until(lambda: [questions.ask(), all_ended(farm)][-1], "the end of all jobs", 240)
    assert farm.ended() == {"succeeded": JOBS - 2, "failed": 2}
    jobs = farm.status()
    assert (jobs["submitted"], jobs["waiting"], jobs["running"]) == (JOBS, 0, 0)
    assert farm.state(farm.service("scheduler"))["Health"]["Status"] == "healthy"

    farm.until(lambda: len(farm.builders()) == 1, "scaling back")
    farm.until(lambda: builders_up(farm) == 1, "metrics of the one that is left")
    farm.until(questions.ask, questions, 30)
    farm.until(lambda: jobs_of(farm, "piped") == FILLED, "seeing the run")
    assert_goes_quietly(farm)


def all_ended(farm: Composed) -> bool:
    """Return whether no job is waiting or running any more."""
    return sum(farm.ended().values()) == JOBS


def builders_up(farm: Composed) -> int:
    """Return how many builders' metrics Prometheus scrapes."""
    return len(farm.ask('up{job="builders"} == 1'))


def assert_well(farm: Composed, *services: str) -> None:
    """Each service is running, healthy if it can tell, and has not been restarted."""

    def well(service: str) -> bool:
        state = farm.state(farm.service(service))
        return state["Running"] and state.get("Health", {}).get("Status", "healthy") == "healthy"

    for service in services:
        farm.until(lambda service=service: well(service), f"{service}'s health")
        count = farm.engine.docker(
            "inspect", "--format", "{{.RestartCount}}", farm.service(service)
        )
        assert int(count) == 0, farm.log(service)


def assert_goes_quietly(farm: Composed) -> None:
    """Each service stops within its grace period (exit code 0, not 137); down leaves nothing."""
    farm.compose("stop", "provisioner", "scheduler")
    for service in ("provisioner", "scheduler"):
        state = farm.state(farm.service(service))
        assert (state["ExitCode"], state["OOMKilled"]) == (0, False), farm.log(service)
    assert farm.builders() != [], "builders outlive their provisioner"
    farm.compose("down", "--remove-orphans", "--volumes")
    assert farm.left() == []


def test_up_and_nothing_else_shows_a_farm_at_work(
    farms: Farms, oldest: Compose, source: Path, tmp_path: Path
):
    """From a checkout with umask 077 and CRLF, an image that is not there yet, and no settings.

    Jobs of both teams end, pools grow and shrink, estimates are as accurate as the page on
    deployment says, dashboards have data, no alert fires, no log has errors; a killed provisioner
    costs nothing and `down` leaves nothing.
    """
    clone = spoiled(source, tmp_path / "clone")
    image = f"build-farm:first-{os.getpid()}"
    farm = farms(oldest, clone, FARM_IMAGE=image, FARM_LOAD="", FARM_REDIS_PASSWORD="")
    farm.compose("up", "-d", timeout=800)
    assert_well(farm, "redis", "scheduler", "provisioner", "prometheus", "grafana", "load", "ready")
    assert farm.prometheus in farm.log("ready"), "the pages, in the closing word"
    questions = Questions(farm)
    farm.until(lambda: sum(farm.ended().values()) >= 40, "the first ends", 240)
    farm.until(questions.ask, questions)
    assert len(farm.ask("farm_share_slots")) == 2
    grown = "max by (pool) (max_over_time(sum by (pool) (farm_builders)[10m:5s]) > 1)"
    assert len(farm.ask(grown)) == 2
    shrunk = 'sum by (pool) (farm_builders_ended_total{end="retired"}) > 0'
    farm.until(lambda: farm.ask(shrunk), "shrinking", 240)
    error = "farm_dispatch_estimate_error_seconds"
    (found,) = farm.ask(f"sum({error}_sum) / sum({error}_count)")
    assert 0 < float(found["value"][1]) < STATED_ERROR
    assert farm.ask('ALERTS{alertstate="firing"}') == []
    of_builders = builder_logs(farm)
    assert of_builders
    for name, log in [(name, farm.engine.log(name)) for name in services(farm)] + of_builders:
        lines = log.splitlines()
        found = [line for line in lines if TROUBLE.search(line) and not NO_TROUBLE.search(line)]
        assert found == [], name
    farm.die("provisioner")
    farm.compose("down", "--remove-orphans", "--volumes")
    assert farm.left() == []


def builder_logs(farm: Composed) -> list[tuple[str, str]]:
    """Return the logs of the existing builders; on a busy farm one may just be leaving."""
    logs = []
    for name in farm.builders():
        with contextlib.suppress(subprocess.CalledProcessError):
            logs.append((name, farm.engine.log(name)))
    return logs


def spoiled(source: Path, clone: Path) -> Path:
    """Return a clone with another system's habits: readable by its owner only, CRLF.

    But for what the image's dependencies are installed from: pip reads any, and as it is that
    layer is also the image's to publish.
    """
    shutil.copytree(source, clone)
    clone.chmod(0o700)
    for path in clone.rglob("*"):
        if path.is_dir():
            path.chmod(0o700)
        elif path.name != "requirements.txt":
            path.chmod(0o600)
            if b"\0" not in (content := path.read_bytes()):
                path.write_bytes(content.replace(b"\r", b"").replace(b"\n", b"\r\n"))
    return clone


def services(farm: Composed) -> list[str]:
    """Return the containers of all services, without builders."""
    found = farm.containers(f"label=com.docker.compose.project={farm.name}")
    return sorted({*found}.difference(farm.builders()))


def test_a_static_set_needs_no_socket(farms: Farms, oldest: Compose):
    """Profile static: builders without the provisioner; they run jobs too."""
    farm = farms(oldest)
    farm.compose(
        "--profile", "static", "up", "-d", "--scale", "builder=2",
        "redis", "scheduler", "builder", timeout=800,
    )  # fmt: skip
    farm.until(lambda: farm.status()["builders"].get("idle") == 2, "joining")
    farm.farm(
        "submit", "--quiet", "--service-time", "10s", "--count", "8", "--platform", "amd64/virtual"
    )
    farm.until(lambda: farm.ended() == {"succeeded": 8}, "the end of all jobs")


def test_the_image(engine: Engine, image: str):
    """Not root, no build tools, a read-only file system is enough."""

    def told(*command: str) -> str:
        return engine.docker("run", "--rm", "--read-only", "--network", "none", image, *command)

    assert "Usage: farm" in told("farm", "--help")
    assert "uid=10001" in told("id")
    assert told("sh", "-c", "command -v gcc cc g++ make git /opt/farm/bin/pip; true") == ""


INSTALLED = """
import importlib.metadata, json
print(json.dumps({one.name: one.version for one in importlib.metadata.distributions()}))
"""


def test_an_image_to_publish_says_what_it_is_and_what_is_in_it(
    engine: Engine, composed: Composed, tmp_path: Path
):
    """Tag, labels, and a bill of materials with the versions that are installed in it."""
    clone = shutil.copytree(composed.source, tmp_path / "clone")
    me = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    for words in (["init", "-q"], ["add", "."], [*me, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=clone, check=True)
    name = f"{IMAGE.partition(':')[0]}-{os.getpid()}"
    given = engine.environment | ({"PIP_CERT": str(BUNDLE)} if BUNDLE.exists() else {})
    done = subprocess.run(
        [clone / "deploy/make-image", name], env=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    made, written = (line.split()[0] for line in done.stdout.splitlines())
    try:
        text = engine.docker("inspect", "--format", "{{json .Config.Labels}}", made)
        labels = {key.rpartition(".")[2]: value for key, value in json.loads(text).items()}
        version = made.rpartition(":")[2]
        commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=clone, text=True)
        assert (labels["version"], labels["revision"]) == (version, commit.strip())
        assert (labels["title"], labels["licenses"]) == ("Build farm emulator", "Apache-2.0")
        bill = json.loads((clone / written).read_text())
        ours = bill["metadata"]["component"]
        assert (ours["name"], ours["version"]) == ("build-farm-emulator", version)
        installed = json.loads(engine.docker("run", "--rm", made, "python3", "-c", INSTALLED))
        found = {one["name"]: one["version"] for one in bill["components"]}
        assert found | {ours["name"]: version} == installed
    finally:
        engine.docker("rmi", made)


def exported(folder: Path) -> str:
    """Return a simulated run as text for Prometheus."""
    run, few = folder / "piped", ("--set", f"workload.0.arrivals.count={FILLED}")
    subprocess.run([*FARM, "simulate", "mmc", "--quiet", "--out", run, *few], check=True)
    export = [*FARM, "admin", "export", run, "--format", "openmetrics", "-o", "-"]
    return subprocess.run(export, check=True, capture_output=True, text=True).stdout


def documented() -> str:
    """Return the command that the page runs in the container."""
    page = (ROOT / "docs/reference/metrics.md").read_text()
    (line,) = re.findall(r"docker compose exec -T prometheus sh -c '([^']+)'", page)
    return line


def jobs_of(farm: Composed, run: str) -> float:
    """Return how many jobs Prometheus counts for a run; 0 while it knows of none."""
    with contextlib.suppress(OSError):
        for found in farm.ask(f'sum(max_over_time(farm_jobs_total{{instance="{run}"}}[10d]))'):
            return float(found["value"][1])
    return 0.0
