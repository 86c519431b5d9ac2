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
from farm.metrics.metrics_service import ProvisionerMetrics
from farm.metrics.targets import provisioner_target
from farm.processes.signals import stop_on_signals
from farm.scenario import load_scenario
from farm.scenario.model import StandingFarm
from farm.terminal.field_options import Fields, with_fields
from farm.terminal.options import (
    MetricsAddress,
    MetricsPort,
    MetricsTargets,
    Overrides,
    server_option,
)
from farm.terminal.output import log_to_stderr
from farm.terminal.settings import with_password
from provisioner.backends.backend import Backend, DryRun
from provisioner.backends.docker import ContainerOptions, DockerBackend
from provisioner.backends.engine import EngineOptions, check_engine_address, connect_engine
from provisioner.backends.kubernetes import KubernetesBackend, KubernetesOptions, deployments_of
from provisioner.backends.kubernetes_api import ScaleApi
from provisioner.backends.prepared import PreparedBackend, PreparedOptions
from provisioner.backends.prepared_api import PreparedApi
from provisioner.backends.process import HostOptions, ProcessBackend
from provisioner.from_scenario import algorithms_of
from provisioner.reconciler import ReconcilerTimes
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
@with_fields
def provision(
    *,
    scenario: Annotated[Path, typer.Argument(envvar="FARM_SCENARIO")],
    sets: Overrides = None,
    redis: Annotated[str | None, server_option("The farm's server.")] = None,
    backend: Annotated[BackendName, typer.Option(envvar="FARM_BACKEND")] = BackendName.PROCESS,
    process: Annotated[HostOptions, Fields("process: ")],
    builder_redis: Annotated[str | None, typer.Option(envvar="FARM_BUILDER_REDIS_URL")] = None,
    docker: Annotated[ContainerOptions, Fields("docker: ")],
    engine: Annotated[EngineOptions, Fields("docker, prepared: ")],
    prepared: Annotated[PreparedOptions, Fields("prepared: ")],
    kubernetes: Annotated[KubernetesOptions, Fields("kubernetes: ")],
    boot_timeout: Annotated[float, typer.Option(envvar="FARM_BOOT_TIMEOUT", min=1)] = 120.0,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    metrics_targets: MetricsTargets = None,
) -> None:
    """Size the pools of a live farm, until SIGTERM or Ctrl-C. Further provisioners stand by.

    Args:
        scenario: The scenario with the provisioner sections of the pools.
        backend: How plans are carried out; joined: by hosts of farm admin join; dry-run: no.
        builder_redis: process, docker: the server for hosts. Default: the same.
        boot_timeout: Seconds after which a builder that has not joined is given up.
    """
    log_to_stderr()
    loaded = load_scenario(scenario, sets or (), kind=StandingFarm)
    algorithms = algorithms_of(loaded)
    if not redis:
        raise InputError("--redis: missing; name the farm's server, or set FARM_REDIS_URL")
    place = MetricsPlace(metrics_port, metrics_address, metrics_targets)
    theirs = with_password(builder_redis, "FARM_BUILDER_REDIS_PASSWORD")
    settings = _settings_of_hosts(theirs or redis, place)
    chosen: Backend = DryRun()
    if backend is BackendName.PREPARED:
        hosts = (engine.docker_host, prepared.docker_write_host)
        for address in hosts:
            check_engine_address(address)
        # half of it, so that another container is tried before its builder is given up
        chosen = PreparedBackend(PreparedApi(engine.name, *hosts), come_up=boot_timeout / 2)
    elif backend is BackendName.JOINED:
        chosen = Backend()
    elif backend is BackendName.KUBERNETES:
        names = deployments_of([pool.name for pool in loaded.pools], kubernetes.deployment)
        place_of = (kubernetes.kubernetes_api, kubernetes.kubernetes_account, kubernetes.namespace)
        chosen = KubernetesBackend(ScaleApi(*place_of), names, settle_time=kubernetes.settle_time)
    stop = stop_on_signals()
    with ExitStack() as stack:
        client = stack.enter_context(FarmClient(redis, settings.prefix, "farm-provisioner"))
        lease = take_charge(redis, settings, stack, stop)
        if backend is BackendName.DOCKER:
            options = msgspec.structs.replace(docker, farm=engine.name)
            chosen = DockerBackend(connect_engine(engine.docker_host), settings, options)
            chosen.check()
        elif backend is BackendName.PROCESS:
            folder = process.hosts_dir or Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="farm-hosts-"))
            )
            chosen = ProcessBackend(settings, folder, keeper_pipe=process.keeper_pipe)
        stack.callback(chosen.close)
        metrics = ProvisionerMetrics()
        if place.wanted:
            served = stack.enter_context(place.server(metrics.readings, provisioner_target))
            log.info("metrics at %s", served.url)
        patience = ReconcilerTimes(boot_timeout=boot_timeout)
        service = Provisioner(
            client, algorithms, chosen, patience, metrics=metrics, is_in_charge=lease.is_held
        )
        stack.callback(service.close)
        log.info("sizing %s at %s", ", ".join(algorithms) or "no pool", redacted(redis))
        serve(service, lease, stop)


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
