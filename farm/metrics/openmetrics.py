"""A finished run as OpenMetrics text with instants, for back-filling into Prometheus.

The same metrics, names and labels as a live farm's, sampled at an interval; OpenMetrics 1.0 (the
points of a series together and in order, counters named without ``_total`` in their TYPE line,
``# EOF`` at the end), as ``promtool tsdb create-blocks-from openmetrics`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TextIO

from farm.core.commands import Command
from farm.core.driver import Observer
from farm.core.events import Event
from farm.core.scheduler import Scheduler
from farm.metrics.catalogue import CATALOGUE, Metric
from farm.metrics.farm_metrics import FarmMetrics
from farm.metrics.series import HistogramValue, Labels, Readings, Value

History = Iterable[tuple[Event, Sequence[Command]]]

Point = tuple[float, Value]

LIVE_ONLY = frozenset(
    {
        "farm_scheduler_cycle_seconds",
        "farm_scheduler_commit_seconds",
        "farm_scheduler_aside_seconds",
        "farm_scheduler_event_lag_seconds",
        "farm_scheduler_delay_seconds",
        "farm_scheduler_leader",
        "farm_builder_hosts",
        "farm_builders_unplaced",
    }
)
"""What a run's event log does not hold: how the scheduler's process was doing."""


class Backfill:
    """Collects readings, then writes them series by series.

    Args:
        labels: added to every series (``job``, ``instance``), as a scrape would.
        started: Unix seconds of farm time 0.
        interval: seconds between two readings.
    """

    def __init__(self, labels: Mapping[str, str], started: float, interval: float) -> None:
        self._labels = dict(labels)
        self._started = started
        self._interval = interval
        self._points: dict[str, dict[Labels, list[Point]]] = {}
        self._begun: set[tuple[str, Labels]] = set()

    def add(self, at: float, readings: Readings) -> None:
        """Add the metrics' values at this farm time; calls are in order of time."""
        for name, values in readings.items():
            if name not in LIVE_ONLY:
                series = self._points.setdefault(name, {})
                for labels, value in values.items():
                    points = series.setdefault(labels, [])
                    same = points and points[-1][1] == value
                    # most stay as they were: one value for all of them spares memory
                    points.append((self._started + at, points[-1][1] if same else value))

    def write(self, sink: TextIO) -> int:
        """Write what was added since the last call; return how many samples there are."""
        samples = 0
        for name, series in sorted(self._points.items()):
            metric = CATALOGUE[name]
            sink.write(f"# HELP {_family(metric)} {_escaped(metric.help)}\n")
            sink.write(f"# TYPE {_family(metric)} {metric.kind}\n")
            for labels, points in series.items():
                for line in self._lines(metric, labels, self._from_zero(metric, labels, points)):
                    sink.write(line)
                    samples += 1
        sink.write("# EOF\n")
        self._points = {}
        return samples

    def _from_zero(self, metric: Metric, labels: Labels, points: list[Point]) -> list[Point]:
        """Let a counter that appears with something in it rise from 0, so that rates see it."""
        key = (metric.name, labels)
        if metric.kind == "gauge" or key in self._begun:
            return points
        self._begun.add(key)
        at, first = points[0]
        nothing = _nothing(first)
        return points if first == nothing else [(at - self._interval, nothing), *points]

    def _lines(self, metric: Metric, values: Labels, points: list[Point]) -> Iterator[str]:
        pairs = {**self._labels, **dict(zip(metric.labels, values, strict=True))}
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items())
        for at, value in points:
            if isinstance(value, HistogramValue):
                yield from _histogram_lines(metric.name, labels, at, value)
            else:
                yield f"{metric.name}{{{labels}}} {value!r} {at!r}\n"


def _nothing(value: Value) -> Value:
    """Return what a counter or histogram like this one begins with."""
    if isinstance(value, HistogramValue):
        return HistogramValue(value.bounds, (0,) * len(value.counts), 0.0)
    return 0.0


def _histogram_lines(name: str, labels: str, at: float, value: HistogramValue) -> Iterator[str]:
    for bound, count in value.cumulative():
        yield f'{name}_bucket{{{labels},le="{bound}"}} {count!r} {at!r}\n'
    yield f"{name}_count{{{labels}}} {float(sum(value.counts))!r} {at!r}\n"
    yield f"{name}_sum{{{labels}}} {value.total!r} {at!r}\n"


def replay(
    scheduler: Scheduler,
    history: History,
    interval: float,
    take: Callable[[float, Readings], None],
    *,
    desired: Mapping[str, int] | None = None,
    observe: Observer = lambda _, __: None,
) -> float:
    """Play a recorded run through a fresh scheduler, handing on the metrics at every interval.

    Readings at 0, interval, 2·interval … include every event at or before that instant; a last one
    stands at the end. ``observe`` is called with each event and the scheduler's commands. Returns
    the farm time of the last event. Raises ValueError for an interval that is not positive.
    """
    if not interval > 0:
        raise ValueError(f"interval {interval} is not positive")
    clock = [0.0]
    metrics = FarmMetrics(scheduler, desired=desired, monotonic=lambda: clock[0])
    metrics.lead(in_charge=True)
    number, last = 0, 0.0

    def sample(at: float) -> None:
        clock[0] = at
        metrics.publish(at, at_once=True)
        take(at, metrics.readings())

    for event, _ in history:
        while (at := number * interval) < event.at:
            sample(at)
            number += 1
        commands = scheduler.handle(event)
        observe(event, commands)
        metrics.observe(event, commands)
        last = event.at
    sample(max(last, number * interval))
    return last


def _family(metric: Metric) -> str:
    return metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
