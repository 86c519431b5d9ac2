"""``farm whatif``: fork the simulator from a farm as it stands, and see what a change does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from farm.app.staying_up.snapshots import image_from
from farm.app.what_if import roll_out, scenario_of
from farm.core.errors import InputError
from farm.live.operating.farm_image import FarmImage
from farm.sim.rollouts.draws import Floats
from farm.sim.rollouts.rollout import Rollouts
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Overrides, Redis
from farm.units import format_duration


def whatif(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="A snapshot or state file; - reads stdin; absent: the live farm.",
        ),
    ] = None,
    sets: Overrides = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    count: Annotated[
        int, typer.Option("--rollouts", min=1, max=100_000, help="How often each is played.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="Of the rollouts' dice.")] = 1,
    arrivals: Annotated[
        bool,
        typer.Option("--arrivals", help="The scenario's workload goes on; else nothing arrives."),
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="How many of the slowest jobs; 0: all.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Simulate a farm on from where it stands, with and without a change.

    Says when each waiting job will be dispatched. Every rollout draws run times from what the
    runtime estimator has seen. With --set, the change is rolled out too, with the same luck for
    each job, and shown beside it.
    """
    image = image_from(source, redis, folder)
    if not image.snapshot.waiting:
        raise InputError("no job waits: there is nothing to roll out")
    before = scenario_of(image, ())
    now = roll_out(image, before, before, count, seed, arrivals=arrivals)
    then = None
    if sets:
        after = scenario_of(image, sets)
        then = roll_out(image, before, after, count, seed, arrivals=arrivals)
    report = _Report(image, now, then)
    if as_json:
        typer.echo(msgspec.json.encode(report.as_json(count, sets or (), limit)).decode())
        return
    console = Console()
    console.print(report.platforms(count))
    console.print(report.slowest(limit))


class _Waits:
    """What rollouts say of each job's wait, seconds."""

    def __init__(self, found: Rollouts) -> None:
        self.p50 = found.wait_quantile(0.5)
        self.p90 = found.wait_quantile(0.9)
        self.mean = found.mean_wait

    def of(self, place: int) -> dict[str, float | None]:
        """Return one job's numbers; None: never."""
        numbers = {"p50_s": self.p50, "p90_s": self.p90, "mean_s": self.mean}
        return {name: _finite(float(values[place])) for name, values in numbers.items()}

    def together(self, places: Sequence[int]) -> dict[str, float | None]:
        """Return a platform's numbers: the mean over its jobs, and its last job's."""
        return {
            "mean_wait_s": _finite(float(self.mean[places].mean())),
            "last_p50_s": _finite(float(self.p50[places].max())),
            "last_p90_s": _finite(float(self.p90[places].max())),
        }


class _Report:
    """The two futures side by side."""

    def __init__(self, image: FarmImage, now: Rollouts, then: Rollouts | None) -> None:
        self._now = _Waits(now)
        self._then = None if then is None else _Waits(then)
        self._at = now.at
        self._jobs = now.jobs
        platform = {view.job.id: str(view.job.platform) for view in image.snapshot.waiting}
        self._platform = [platform[job] for job in now.jobs]
        self._places: dict[str, list[int]] = {}
        for place, name in enumerate(self._platform):
            self._places.setdefault(name, []).append(place)
        self._slowest = _slowest_first(self._now.p50, self._now.p90)

    def as_json(self, count: int, sets: Sequence[str], limit: int) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "at_s": self._at,
            "rollouts": count,
            "changes": list(sets),
            "platforms": [
                {"platform": name, "waiting": len(places)}
                | {key: waits.together(places) for key, waits in self._both()}
                for name, places in self._places.items()
            ],
            "jobs": [
                {"job": self._jobs[place], "platform": self._platform[place]}
                | {key: waits.of(place) for key, waits in self._both()}
                for place in self._slowest[: limit or None]
            ],
        }

    def _both(self) -> list[tuple[str, _Waits]]:
        return [("now", self._now), *([] if self._then is None else [("then", self._then)])]

    def platforms(self, count: int) -> Table:
        """Lay out the platforms."""
        table = Table(title=f"Waiting jobs by platform ({count} rollouts)")
        table.add_column("platform")
        table.add_column("waiting", justify="right")
        for heading in ("mean wait", "last job (P50)", "last job (P90)"):
            table.add_column(heading, justify="right")
        for name, places in self._places.items():
            now = self._now.together(places)
            then = None if self._then is None else self._then.together(places)
            cells = [_change(now, then, key) for key in now]
            table.add_row(name, str(len(places)), *cells)
        return table

    def slowest(self, limit: int) -> Table:
        """Lay out the jobs that wait longest as things are."""
        shown = self._slowest[: limit or None]
        table = Table(title=f"The {len(shown)} slowest of {len(self._jobs)} jobs: time to dispatch")
        table.add_column("job", overflow="fold")
        table.add_column("platform", no_wrap=True)
        for heading in ("P50", "P90", "mean"):
            table.add_column(heading, justify="right")
        for place in shown:
            now = self._now.of(place)
            then = None if self._then is None else self._then.of(place)
            cells = [_change(now, then, key) for key in now]
            table.add_row(Text(self._jobs[place]), self._platform[place], *cells)
        return table


def _slowest_first(p50: Floats, p90: Floats) -> list[int]:
    found: list[int] = np.lexsort((-p90, -p50)).tolist()
    return found


def _change(now: dict[str, float | None], then: dict[str, float | None] | None, key: str) -> str:
    if then is None:
        return _span(now[key])
    return f"{_span(now[key])} → {_span(then[key])}"


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    return format_duration(round(seconds, 1) if seconds < 60 else float(round(seconds)))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
