"""``farm run``: the live farm, all in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from farm.assembly import complaints, make_scheduler, pool_specs
from farm.cli.burning import rates_for
from farm.cli.estimating import Estimating
from farm.cli.metering import Metering
from farm.cli.options import (
    AsJson,
    LearnFrom,
    MetricsAddress,
    MetricsPort,
    MetricsTargets,
    Out,
    Overrides,
    Quiet,
    ScenarioFile,
    learning,
)
from farm.cli.provisioning import algorithms_of
from farm.cli.recording import Recording, exit_code, show, suggest, this_command
from farm.cli.run_display import RunDisplay
from farm.core.errors import InputError
from farm.core.model import Job
from farm.live.hosts.processes import HostProcesses
from farm.live.hosts.registry import Patience
from farm.live.operating.control_plane import Desk
from farm.live.run import LiveOptions, run_live
from farm.live.world import LiveWorld
from farm.metrics.exporter import LOOPBACK, MetricsPlace
from farm.scenario import Scenario, load_scenario
from farm.sim.simulation import together
from farm.units import parse_duration
from farm.workload import batches, build_jobs
from provisioner.embedded import EmbeddedProvisioner

Batch = tuple[float, tuple[Job, ...]]


def run(
    scenario: ScenarioFile,
    sets: Overrides = None,
    out: Out = None,
    learn_from: LearnFrom = None,
    speed: Annotated[
        float | None,
        typer.Option(help="Farm seconds in a real second; absent: as the scenario says."),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(help="Stop the load after so much farm time, such as 2h; then drain."),
    ] = None,
    redis: Annotated[
        str | None,
        typer.Option(
            envvar="FARM_REDIS_URL",
            help="Use this server; absent: one of our own, stopped at the end.",
        ),
    ] = None,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    metrics_targets: MetricsTargets = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a scenario on a live farm: a real server, real Celery builders, real time.

    Ctrl-C stops the load and lets running jobs end; twice ends them at once. Either way the run
    is reported.
    """
    overrides = [
        *(sets or ()),
        *learning(learn_from),
        *([] if speed is None else [f"live.speed={speed}"]),
    ]
    wanted = load_scenario(scenario, overrides)
    estimating = Estimating(wanted, live=True)
    scheduler = make_scheduler(wanted, explain_last=1000, estimator=estimating.estimator)
    pools = pool_specs(wanted)
    load = _until(batches(build_jobs(wanted)), duration)
    desk = Desk(scheduler, pools, scenario=wanted.model_dump(mode="json", exclude_none=True))
    provisioner = EmbeddedProvisioner(desk, algorithms_of(wanted))
    place = MetricsPlace(metrics_port, metrics_address, metrics_targets)
    metering = Metering(scheduler, pools, wanted.live.speed, place)
    recording = Recording(wanted, "live", out)

    def up(world: LiveWorld, hosts: HostProcesses) -> None:
        provisioner.meet(world, hosts)
        metering.meet(world, hosts)

    def tick(world: LiveWorld) -> None:
        provisioner.tick(world)
        recording.flush()

    display = None if quiet or as_json else RunDisplay()
    try:
        with metering, display or nullcontext():
            metering.lead(in_charge=True)
            ended = run_live(
                scheduler,
                pools,
                load,
                _options(wanted, redis, place),
                observe=together([*recording.observers, desk.observe, *metering.observers]),
                progress=metering.progress(display.show if display else None),
                on_up=up,
                on_tick=tick,
                around=lambda world: estimating.around_live(world, scheduler),
                meter=metering.metrics,
            )
    finally:
        recording.abandon()
    summary = recording.finish(
        ended.engine,
        state="interrupted" if ended.interrupted else "finished",
        warnings=complaints(scheduler),
    )
    show(summary, as_json=as_json)
    if not (quiet or as_json):
        _what_next(scenario, recording.path)
    raise typer.Exit(130 if ended.interrupted else exit_code(summary))


def _options(scenario: Scenario, redis: str | None, metrics: MetricsPlace) -> LiveOptions:
    live = scenario.live
    return LiveOptions(
        speed=live.speed,
        redis_url=redis,
        hosts=live.hosts,
        work_rates=rates_for(scenario),
        patience=Patience(silence=live.lost_after),
        beat_interval=live.heartbeat,
        metrics_address=metrics.address,
        metrics_targets=metrics.targets,
    )


def _until(load: Iterator[Batch], duration: str | None) -> Iterable[Batch]:
    if duration is None:
        return load
    try:
        end = parse_duration(duration)
    except ValueError as error:
        raise InputError(f"--duration: {error}") from None
    return takewhile(lambda batch: batch[0] < end, load)


def _what_next(scenario: Path, out: Path | None) -> None:
    farm = this_command()
    live = out or Path("runs/live")
    simulated, other = live.with_name(f"{live.name}-simulated"), live.with_name(f"{live.name}-sjf")
    suggest(
        "",
        "What next:",
        "  the same farm in virtual time:",
        f"    {farm} simulate {scenario} --out {simulated}",
        "  how well the two agree:" if out else "  keep the live run with --out, and compare:",
        f"    {farm} compare {live} {simulated}",
        "  another policy, the same jobs:",
        f"    {farm} simulate {scenario} --set scheduling.policy=sjf --out {other}",
    )
