"""``farm load``: plays a scenario's workload to a farm that stays up, for as long as it lasts."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach
from farm.cli.options import AsJson, Overrides, Quiet, ScenarioFile
from farm.cli.showing import FarmConsole, many
from farm.core.model import Job
from farm.live.operating.operator import Operator
from farm.scenario import Scenario, load_scenario
from farm.workload import batches, build_jobs

#: real seconds between two looks at whether it is time to stop
STEP = 0.5


def load(
    scenario: ScenarioFile,
    sets: Overrides = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    name: Annotated[
        str | None,
        typer.Option(help="What the ids of the jobs begin with; absent: something new each time."),
    ] = None,
    most_waiting: Annotated[
        int,
        typer.Option(
            min=1,
            help="Hand in nothing while so many jobs wait: a farm that is stopped is not buried.",
        ),
    ] = 10_000,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Hand in a scenario's jobs at their farm times, until they end or Ctrl-C.

    Sources without count and duration never end. Pools and scheduling are the farm's own; only
    the workload and the seed are the scenario's.
    """
    wanted = load_scenario(scenario, sets or ())
    stop = threading.Event()
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, lambda *_: stop.set())
    with reach(redis, folder) as operator:
        count = _play(wanted, operator, name or uuid.uuid4().hex[:6], most_waiting, stop)
    if as_json:
        typer.echo(msgspec.json.encode({"submitted": count}).decode())
    elif not quiet:
        FarmConsole(stderr=True).print(f"handed in {many(count, 'job')}")


def _play(
    scenario: Scenario, operator: Operator, prefix: str, most_waiting: int, stop: threading.Event
) -> int:
    status = operator.status()
    began = time.monotonic()
    # farm time now: the status is a moment old
    offset = status.at + max(0.0, time.time() - status.written_at) * status.speed
    count = 0
    for at, jobs in batches(build_jobs(scenario)):
        while (pause := at / status.speed - (time.monotonic() - began)) > 0:
            if stop.wait(min(pause, STEP)):
                return count
        while operator.status().waiting >= most_waiting:
            if stop.wait(STEP):
                return count
        if stop.is_set():
            return count
        count += operator.submit(_renamed(jobs, prefix, offset))
    return count


def _renamed(jobs: tuple[Job, ...], prefix: str, offset: float) -> Iterator[Job]:
    """Give jobs ids that no earlier load had, and the farm's own time."""
    for job in jobs:
        changes: dict[str, object] = {
            "id": f"{prefix}.{job.id}",
            "arrived_at": offset + (job.arrived_at or 0.0),
        }
        if job.matrix is not None:
            changes["matrix"] = f"{prefix}.{job.matrix}"
        yield msgspec.structs.replace(job, **changes)
