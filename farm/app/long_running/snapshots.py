"""Snapshots of a farm, from a live farm or a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from farm.assembly import make_rules
from farm.core.errors import InputError, ServerError, StateError
from farm.core.model import Builder, Job
from farm.core.state.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.core.state.working_state import JobStatus, PoolCounts
from farm.forecasts.dispatch.state_file import parse_state
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobView, view_of
from farm.live.operating.answers import FORMAT, FarmImage
from farm.scenario.load import load_scenario
from farm.scenario.model import Scenario, StandingFarm
from farm.whole_files import STDIN, read_whole


def image_from(
    source: Path | None, redis: str | None, folder: Path, changes: Sequence[str] = ()
) -> FarmImage:
    """Return the whole farm: of a file (a snapshot or a state file; - is stdin), else live.

    Raises InputError for a file that is neither, ServerError where no farm answers; before that
    ScenarioError for changes that no farm could have, whatever its pools.
    """
    if source is None:
        from farm.app.long_running.farm_place import reach  # noqa: PLC0415 - Redis, for live farms

        try:
            with reach(redis, folder) as client:
                return client.image()
        except ServerError:
            of_any = [one for one in changes if "=+" not in one and not one.startswith("pool")]
            farm = {"pools": [{"name": "any", "platform": {}, "builders": 1}]}
            make_rules(load_scenario(farm, of_any, kind=StandingFarm))
            raise
    if source.suffix in (".yaml", ".yml"):
        raise StateError(
            f"{source}: a scenario has no present state; allowed: a snapshot or state file (farm "
            f"sweep {source} --vary KEY=V1,V2 compares settings of a scenario)"
        )
    text, name = _text(source)
    return image_of_text(text, name) or image_of_state(parse_state(text, name))


def view_from(
    source: Path | None, redis: str | None, folder: Path
) -> tuple[FarmView, tuple[str, ...]]:
    """Return the same as the dispatch estimator sees it, and the names of provisioned pools."""
    if source is None:
        return _viewed(image_from(None, redis, folder))
    text, name = _text(source)
    image = image_of_text(text, name)
    return (parse_state(text, name), ()) if image is None else _viewed(image)


def _viewed(image: FarmImage) -> tuple[FarmView, tuple[str, ...]]:
    pools = image.scenario.get("pools", [])
    growing = tuple(pool["name"] for pool in pools if pool.get("provisioner") is not None)
    return view_of(image.snapshot), growing


def _text(source: Path) -> tuple[str, str]:
    """Return the text of a file (- is stdin), and its name in messages; raises StateError."""
    name = "stdin" if source == STDIN else str(source)
    try:
        return read_whole(source).decode(), name
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise StateError(f"{name}: cannot be read: {reason}") from None


def image_of_text(text: str, name: str) -> FarmImage | None:
    """Return the image that ``farm status --save`` wrote; None: the text is something else."""
    if not re.match(r'\s*\{\s*"format"\s*:', text):
        return None
    try:
        image = msgspec.json.decode(text, type=FarmImage)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise StateError(f"{name}: not a snapshot of a farm: {error}") from None
    if image.format != FORMAT:
        raise StateError(
            f"{name}: a snapshot of format {image.format}; this version reads format {FORMAT}"
        )
    return image


def image_of_state(view: FarmView) -> FarmImage:
    """Return a farm that stands as a state file says; run times are the declared ones.

    The waiting jobs keep the file's order. A job that runs for an unknown time has just begun.
    """
    if not view.builders:
        raise InputError("the state has no builders: nothing to forecast")
    waiting = [_waiting(job, place) for place, job in enumerate(view.waiting())]
    waiting.sort(key=lambda record: str(record.job.platform.normalised()))
    pools = _pools(view)
    return FarmImage(
        snapshot=FarmSnapshot(
            at=0.0,
            waiting=tuple(waiting),
            running=tuple(_running(view)),
            builders=tuple(_builder(one, index) for index, one in enumerate(view.builders, 1)),
            pools=tuple(PoolCounts(name=pool["name"]) for pool in pools),
            serial=max((job.id for job in view.jobs), default=0),
        ),
        scenario={
            "name": "state-file",
            "pools": pools,
            "scheduling": {"policy": "score", "runtime_estimates": "declared", "dedup": False},
        },
    )


def farm_of(image: FarmImage, changes: Sequence[str] = ()) -> Scenario:
    """Return the pools and rules of an image, with overrides as for ``--set``.

    Of a state file there is no workload. Raises ScenarioError.
    """
    return load_scenario(image.scenario, changes, kind=StandingFarm)


def _pools(view: FarmView) -> list[dict[str, Any]]:
    """Return the scenario's pools: the builders that are alike, in the order of the file."""
    sizes = Counter((one.processors, one.virtualized, one.slots) for one in view.builders)
    return [
        {
            "name": _pool_name(processors, virtualized, slots),
            "platform": {"processors": list(processors), "virtualized": virtualized},
            "slots": slots,
            "builders": count,
        }
        for (processors, virtualized, slots), count in sizes.items()
    ]


def _builder(one: BuilderView, index: int) -> BuilderRecord:
    builder = Builder(
        id=one.name,
        pool=_pool_name(one.processors, one.virtualized, one.slots),
        index=index,
        processors=one.processors,
        virtualized=one.virtualized,
        slots=one.slots,
    )
    return BuilderRecord(
        builder=builder,
        condition="idle" if one.usable else "draining",
        joined_at=0.0,
        active_at=0.0,
        draining=not one.usable,
    )


def _pool_name(processors: tuple[str, ...], virtualized: bool, slots: int) -> str:
    kind = "virtual" if virtualized else "native"
    words = [*processors, kind, *([] if slots == 1 else [f"{slots}-slots"])]
    return re.sub(r"[^A-Za-z0-9._-]", "-", "-".join(words)).lstrip("._-")[:100]


def _job(job: JobView) -> Job:
    time, of = job.duration_s or 0.0, job.platform
    return Job(id=job.name, service_time=time, platform=of, declared_time=time, score=job.score)


def _waiting(job: JobView, place: int) -> JobRecord:
    time, key = job.duration_s or 0.0, (0, place, job.id)
    return JobRecord(_job(job), job.id, key, 0.0, time, status=JobStatus.WAITING)


def _running(view: FarmView) -> list[JobRecord]:
    room = {one.name: iter(range(one.slots)) for one in view.builders}
    found = []
    for job in view.jobs:
        if job.builder is None or job.status not in ("running", "cancelling"):
            continue
        slot = next(room[job.builder], None)
        if slot is None:
            raise StateError(
                f"builder {job.builder!r}: found more running jobs than slots; allowed: one each"
            )
        since = -(job.elapsed_s or 0.0)
        found.append(
            JobRecord(
                job=_job(job),
                serial=job.id,
                key=(0, -1, job.id),
                submitted_at=since,
                estimated_time=job.duration_s or 0.0,
                status=JobStatus(job.status),
                attempts=1,
                builder=job.builder,
                slot=slot,
                dispatched_at=since,
                started_at=since,
            )
        )
    return found


def state_document(image: FarmImage) -> dict[str, object]:
    """Return a farm as a state file has it (docs/explanation/dispatch-estimates.md)."""
    view = view_of(image.snapshot)
    order = {number: place for place, number in enumerate(view.order or ())}
    waiting = sorted(
        (job for job in view.jobs if job.status == "waiting"), key=lambda job: order.get(job.id, 0)
    )
    return {
        "builders": msgspec.to_builtins(view.builders),
        "jobs": [_state_job(job) for job in view.jobs],
        "order": [job.name for job in waiting],
    }


def _state_job(job: JobView) -> dict[str, object]:
    row: dict[str, object] = msgspec.to_builtins(job)
    if job.builder is None:
        del row["builder"], row["elapsed_s"]
    return row
