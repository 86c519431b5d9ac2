"""The command line of the provisioner's service."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farm.core.errors import InputError
from farm.live.operating.client import FarmClient
from farm.live.redis.connection import redacted
from farm.live.settings import LiveSettings, from_environment
from farm.metrics.exporter import LOOPBACK, MetricsPlace
from farm.metrics.service import ProvisionerMetrics
from farm.metrics.targets import provisioner_target
from farm.processes.signals import stop_on_signals
from farm.scenario import load_scenario
from farm.terminal.options import (
    MetricsAddress,
    MetricsPort,
    MetricsTargets,
    Overrides,
    server_option,
)
from farm.terminal.output import log_to_stderr
from farm.terminal.settings import with_password
from provisioner.backends.docker import ContainerOptions, DockerBackend
from provisioner.backends.engine import check_engine_address, connect_engine
from provisioner.backends.interface import Backend, DryRun
from provisioner.backends.kubernetes import (
    PATTERN,
    SETTLE_TIME,
    KubernetesBackend,
    deployments_of,
)
from provisioner.backends.kubernetes_api import ACCOUNT, IN_CLUSTER, ScaleApi
from provisioner.backends.prepared import PreparedBackend
from provisioner.backends.prepared_api import PreparedApi
from provisioner.backends.process import ProcessBackend
from provisioner.from_scenario import algorithms_of
from provisioner.reconciler import Patience
from provisioner.service import Provisioner, serve, take_charge

log = logging.getLogger("farm.provisioner")


class BackendName(StrEnum):
    """The values of ``--backend``."""

    PROCESS = "process"
    JOINED = "joined"
    DOCKER = "docker"
    PREPARED = "prepared"
    KUBERNETES = "kubernetes"
    DRY_RUN = "dry-run"


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def provision(
    scenario: Annotated[Path, typer.Argument(envvar="FARM_SCENARIO")],
    sets: Overrides = None,
    redis: Annotated[str | None, server_option("The farm's server.")] = None,
    backend: Annotated[BackendName, typer.Option(envvar="FARM_BACKEND")] = BackendName.PROCESS,
    hosts_dir: Path | None = None,
    cord: bool = False,
    image: Annotated[
        str, typer.Option(envvar=["FARM_BUILDER_IMAGE", "FARM_IMAGE"])
    ] = "build-farm-emulator",
    network: Annotated[str | None, typer.Option(envvar="FARM_BUILDER_NETWORK")] = None,
    builder_redis: Annotated[str | None, typer.Option(envvar="FARM_BUILDER_REDIS_URL")] = None,
    cpus: Annotated[float, typer.Option(envvar="FARM_BUILDER_CPUS", min=0.01)] = 1.0,
    memory: Annotated[str, typer.Option(envvar="FARM_BUILDER_MEMORY")] = "512m",
    log_driver: Annotated[str | None, typer.Option(envvar="FARM_BUILDER_LOG_DRIVER")] = None,
    log_options: Annotated[
        list[str] | None,
        typer.Option("--log-opt", metavar="KEY=VALUE", envvar="FARM_BUILDER_LOG_OPTIONS"),
    ] = None,
    name: Annotated[str, typer.Option(envvar="FARM_NAME")] = "farm",
    docker_host: Annotated[str | None, typer.Option(envvar="FARM_DOCKER_HOST")] = None,
    docker_write_host: Annotated[str | None, typer.Option(envvar="FARM_DOCKER_WRITE_HOST")] = None,
    deployment: Annotated[str, typer.Option(envvar="FARM_KUBERNETES_DEPLOYMENT")] = PATTERN,
    namespace: Annotated[str | None, typer.Option(envvar="FARM_KUBERNETES_NAMESPACE")] = None,
    kubernetes_api: Annotated[str, typer.Option(envvar="FARM_KUBERNETES_API")] = IN_CLUSTER,
    kubernetes_account: Annotated[Path, typer.Option(envvar="FARM_KUBERNETES_ACCOUNT")] = ACCOUNT,
    settle_time: Annotated[
        float, typer.Option(envvar="FARM_KUBERNETES_SETTLE_TIME", min=0)
    ] = SETTLE_TIME,
    boot_timeout: Annotated[float, typer.Option(envvar="FARM_BOOT_TIMEOUT", min=1)] = 120.0,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    metrics_targets: MetricsTargets = None,
    builder_metrics_port: Annotated[
        int | None, typer.Option(envvar="FARM_BUILDER_METRICS_PORT", min=1, max=65535)
    ] = None,
) -> None:
    """Size the pools of a live farm, until SIGTERM or Ctrl-C. Further provisioners stand by.

    Args:
        scenario: The scenario with the provisioner sections of the pools.
        backend: How plans are carried out; joined: by hosts of farm join; dry-run: not at all.
        hosts_dir: process: folder for the hosts' logs and process ids.
        cord: process: hosts end with the standard input, not with this process.
        image: docker: image of the builders.
        network: docker: network on which they reach the server.
        builder_redis: process, docker: the server for hosts. Default: the same.
        cpus: docker: processors of a builder.
        memory: docker: memory of a builder, such as 512m.
        log_driver: docker: the Engine's logging driver for builders, such as journald. Default: 1
            MB of each, as long as it lives.
        log_options: docker: an option of the logging driver; repeatable.
        name: docker, prepared: distinguishes the farms of one Engine.
        docker_host: docker, prepared: address of the Engine. Default: DOCKER_HOST.
        docker_write_host: prepared: address of the Engine for starts and stops, if different.
        deployment: kubernetes: name of a pool's Deployment, with {pool}.
        namespace: kubernetes: namespace. Default: the account's.
        kubernetes_api: kubernetes: address of the API server.
        kubernetes_account: kubernetes: folder with token and ca.crt.
        settle_time: kubernetes: seconds after which an idle pod is surely not ready.
        boot_timeout: Seconds after which a builder that has not joined is given up.
        builder_metrics_port: docker: port on which each container serves metrics. Default: none.
    """
    log_to_stderr()
    loaded = load_scenario(scenario, sets or ())
    algorithms = algorithms_of(loaded)
    if not redis:
        raise InputError("--redis: missing; name the farm's server, or set FARM_REDIS_URL")
    place = MetricsPlace(metrics_port, metrics_address, metrics_targets)
    theirs = with_password(builder_redis, "FARM_BUILDER_REDIS_PASSWORD")
    settings = _settings_of_hosts(theirs or redis, place)
    options = ContainerOptions(
        image=image,
        network=network,
        cpus=cpus,
        memory=memory,
        farm=name,
        log_driver=log_driver,
        log_options=_pairs(log_options or []),
    )
    chosen: Backend = DryRun()
    if backend is BackendName.PREPARED:
        for address in (docker_host, docker_write_host):
            check_engine_address(address)
        api = PreparedApi(name, docker_host, docker_write_host)
        # half of it, so that another container is tried before its builder is given up
        chosen = PreparedBackend(api, come_up=boot_timeout / 2)
    elif backend is BackendName.JOINED:
        chosen = Backend()
    elif backend is BackendName.KUBERNETES:
        names = deployments_of([pool.name for pool in loaded.pools], deployment)
        scales = ScaleApi(kubernetes_api, kubernetes_account, namespace)
        chosen = KubernetesBackend(scales, names, settle_time=settle_time)
    stop = stop_on_signals()
    with ExitStack() as stack:
        client = stack.enter_context(FarmClient(redis, settings.prefix, "farm-provisioner"))
        lease = take_charge(redis, settings, stack, stop)
        if backend is BackendName.DOCKER:
            inside = _settings_of_containers(settings, builder_metrics_port)
            chosen = DockerBackend(connect_engine(docker_host), inside, options)
            chosen.check()
        elif backend is BackendName.PROCESS:
            folder = hosts_dir or Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="farm-hosts-"))
            )
            chosen = ProcessBackend(settings, folder, cord=cord)
        stack.callback(chosen.close)
        metrics = ProvisionerMetrics()
        if place.wanted:
            served = stack.enter_context(place.server(metrics.readings, provisioner_target))
            log.info("metrics at %s", served.url)
        patience = Patience(boot_timeout=boot_timeout)
        service = Provisioner(
            client, algorithms, chosen, patience, metrics=metrics, is_in_charge=lease.is_held
        )
        log.info("sizing %s at %s", ", ".join(algorithms) or "no pool", redacted(redis))
        serve(service, lease, stop)


def _pairs(texts: list[str]) -> dict[str, str]:
    """Return options of the logging driver by name; raises InputError for one without a value."""
    for text in texts:
        if not text.partition("=")[2]:
            raise InputError(f"--log-opt: found {text!r}; allowed: KEY=VALUE")
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def _settings_of_hosts(redis: str, place: MetricsPlace) -> LiveSettings:
    """Return the settings of hosts beside this process: any free port instead of its own."""
    return msgspec.structs.replace(
        from_environment(),
        redis_url=redis,
        play="",
        metrics_port="",
        metrics_address=place.address,
        metrics_targets=str(place.targets or ""),
    )


def _settings_of_containers(settings: LiveSettings, metrics_port: int | None) -> LiveSettings:
    """Return the settings of hosts in containers: each address has all ports free."""
    return msgspec.structs.replace(
        settings,
        metrics_port=str(metrics_port or ""),
        metrics_address="0.0.0.0",  # noqa: S104 - reached by its neighbours on the network only
        metrics_targets="",
    )
