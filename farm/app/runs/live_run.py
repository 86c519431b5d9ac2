"""A recorded run of a scenario on a live farm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from farm.app.calibrating.work_rates import rates_for
from farm.app.inputs import digests_of
from farm.app.recorded.run_recorder import KeptRun, RunRecorder
from farm.app.runs.live_farm import LiveFarm
from farm.app.runs.own_parts import NONE, OwnParts
from farm.app.runs.planning_pace import too_fast_to_plan
from farm.assembly import complaints
from farm.core.driver import Observer
from farm.core.errors import InputError
from farm.core.model import Job
from farm.live.settings import from_environment
from farm.live.wire.pool_report import FarmStatus
from farm.live.world import LiveWorld
from farm.metrics.exporter import MetricsPlace
from farm.scenario import Scenario
from farm.units import parse_time
from farm.workload import FeedbackLoad, batches
from provisioner.embedded import EmbeddedProvisioner
from provisioner.from_scenario import algorithms_of


def live_run(
    scenario: Scenario,
    *,
    own: OwnParts = NONE,
    out: Path | None = None,
    keep_events: bool = False,
    redis: str | None = None,
    duration: float | str | None = None,
    metrics: MetricsPlace | None = None,
    show: Callable[[FarmStatus], None] | None = None,
    observers: Sequence[Observer] = (),
    known_rates: Mapping[str, float] | None = None,
    **host_settings: str,
) -> KeptRun:
    """Run a scenario on a live farm and return its result; to be called from the main thread.

    Args:
        scenario, own, out, keep_events: as for ``simulated_run``.
        redis: the server to use; None: a new one, stopped at the end.
        duration: the load ends after this farm time, and the phases with it.
        metrics: where metrics are served; None: nowhere.
        show: given the farm's status some times per second.
        observers: called with every event and its commands.
        known_rates: units of work per second of burning jobs, which need not be measured.
        host_settings: other settings of the builder hosts, such as ``burner`` and ``journal``.

    Raises InputError, ServerError without a usable server, RunError if the run fails.
    """
    farm = LiveFarm(scenario, metrics or MetricsPlace(), own)
    load_ends_at = _time(duration)
    inputs = {} if out is None else digests_of(scenario)
    workload = own.load(scenario)
    load = _before(load_ends_at, workload.jobs)
    algorithms = algorithms_of(scenario, own.algorithms)
    provisioner = EmbeddedProvisioner(algorithms)
    options = farm.options(
        redis_url=redis,
        prefix=from_environment().prefix,
        hosts=scenario.live.hosts,
        work_rates=rates_for(scenario, known_rates),
        ends_at=min(scenario.ends_at, load_ends_at),
        **host_settings,
    )
    with RunRecorder(
        scenario, "live", out, workload, inputs=inputs, keep_events=keep_events
    ) as recorder:

        def tick(world: LiveWorld) -> float:
            due = provisioner.tick(world, farm.control)
            recorder.flush()
            return due

        farm.metering.lead(in_charge=True)
        ended = farm.play(
            batches(load),
            options,
            observers=[*recorder.observers, *observers],
            on_up=provisioner.meet,
            on_tick=tick,
            show=show,
        )
    return recorder.finish(
        ended.engine,
        state="interrupted" if ended.interrupted else "finished",
        warnings=complaints(farm.scheduler, algorithms.values()),
        remarks=too_fast_to_plan(scenario, algorithms),
        until=load_ends_at,
    )


def _before(end: float, jobs: Iterable[Job]) -> Iterable[Job]:
    """Return the jobs of a load that come before an instant."""
    if isinstance(jobs, FeedbackLoad):
        return jobs.before(end)
    return takewhile(lambda job: (job.arrived_at or 0.0) < end, jobs)


def _time(duration: float | str | None) -> float:
    try:
        return math.inf if duration is None else parse_time(duration)
    except ValueError as error:
        raise InputError(f"duration: {error}") from None
