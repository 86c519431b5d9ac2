"""``farm whatif``: forecast a farm from its present state, with and without a change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from farm.app.forecasts.what_if import roll_out
from farm.app.long_running.snapshots import image_from
from farm.core.errors import InputError
from farm.live.operating.farm_image import FarmImage
from farm.scenario import load_scenario
from farm.sim.rollouts.draws import Floats
from farm.sim.rollouts.rollout import Rollouts
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Overrides, Redis
from farm.terminal.output import note, print_json, progress
from farm.terminal.tables import Listing, numbers, texts
from farm.units import format_roughly


def whatif(
    source: Annotated[Path | None, typer.Argument(metavar="[FILE]")] = None,
    sets: Overrides = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    count: Annotated[int, typer.Option("--rollouts", min=1, max=100_000)] = 100,
    seed: int = 1,
    arrivals: Annotated[bool, typer.Option("--arrivals")] = False,
    limit: Annotated[int, typer.Option(min=0)] = 10,
    as_json: AsJson = False,
) -> None:
    """Simulate a farm from its present state, with and without a change.

    Shows when each waiting job will be dispatched. Every rollout draws run times from the history
    of the runtime estimator. With --set, the changed farm is simulated too, with the same
    random numbers for each job, and shown beside it.

    Args:
        source: A snapshot or state file; - reads stdin. Default: the live farm.
        count: Number of rollouts of each farm.
        seed: Seed of the rollouts.
        arrivals: Continue the scenario's workload; otherwise nothing arrives.
        limit: Number of slowest jobs shown; 0: all.
    """
    image = image_from(source, redis, folder)
    before, after = load_scenario(image.scenario), load_scenario(image.scenario, sets or ())
    if not image.snapshot.waiting:
        raise InputError("no job waits: there is nothing to roll out")
    then = None
    with progress("simulating", silent=as_json):
        now = roll_out(image, before, before, count, seed, arrivals=arrivals)
        if sets:
            then = roll_out(image, before, after, count, seed, arrivals=arrivals)
    report = _Report(image, now, then)
    if as_json:
        print_json(report.as_json(count, sets or (), limit))
        return
    note(report.platforms(count))
    note(report.slowest(limit))


class _Waits:
    """The waits of each job over the rollouts, seconds."""

    def __init__(self, found: Rollouts) -> None:
        self.p50 = found.wait_quantile(0.5)
        self.p90 = found.wait_quantile(0.9)
        self.mean = found.mean_wait

    def of(self, place: int) -> dict[str, float | None]:
        """Return one job's numbers; None means never."""
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

    def platforms(self, count: int) -> Listing:
        """Return a table of the platforms."""
        return Listing(
            (*texts("platform"), *numbers("waiting", "mean wait", "last job P50", "last job P90")),
            [
                (name, str(len(places)), *_cells([one.together(places) for _, one in self._both()]))
                for name, places in self._places.items()
            ],
            title=f"Waiting jobs by platform ({count} rollouts)",
            first_to_go=("waiting", "last job P90"),
        )

    def slowest(self, limit: int) -> Listing:
        """Return a table of the jobs that wait longest without the change."""
        shown = self._slowest[: limit or None]
        return Listing(
            (*texts("job", "platform"), *numbers("P50", "P90", "mean")),
            [
                (
                    self._jobs[place],
                    self._platform[place],
                    *_cells([one.of(place) for _, one in self._both()]),
                )
                for place in shown
            ],
            title=f"The {len(shown)} slowest of {len(self._jobs)} jobs: time to dispatch",
            first_to_go=("platform", "mean"),
        )


def _slowest_first(p50: Floats, p90: Floats) -> list[int]:
    found: list[int] = np.lexsort((-p90, -p50)).tolist()
    return found


def _cells(futures: list[dict[str, float | None]]) -> list[str]:
    """Return each number without and with the change."""
    return [" → ".join(_span(one[key]) for one in futures) for key in futures[0]]


def _span(seconds: float | None) -> str:
    return "never" if seconds is None else format_roughly(seconds)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
