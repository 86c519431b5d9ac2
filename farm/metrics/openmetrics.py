"""A finished run as OpenMetrics text with instants, for back-filling into Prometheus.

The same metrics, names and labels as a live farm's, sampled at an interval; OpenMetrics 1.0 (the
points of a series together and in order, counters named without ``_total`` in their TYPE line,
``# EOF`` at the end), as ``promtool tsdb create-blocks-from openmetrics`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TextIO

from farm.core.commands import Command
from farm.core.events import Event
from farm.core.scheduler import Scheduler
from farm.metrics.catalogue import CATALOGUE, Metric
from farm.metrics.farm_metrics import FarmMetrics
from farm.metrics.series import HistogramValue, Labels, Readings, Value

History = Iterable[tuple[Event, Sequence[Command]]]

Point = tuple[float, Value]


class Backfill:
    """Collects readings, then writes them series by series.

    Args:
        labels: added to every series (``job``, ``instance``), as a scrape would.
        started: Unix seconds of farm time 0.
    """

    def __init__(self, labels: Mapping[str, str], started: float) -> None:
        self._labels = dict(labels)
        self._started = started
        self._points: dict[str, dict[Labels, list[Point]]] = {}

    def add(self, at: float, readings: Readings) -> None:
        """Take in what the metrics said at this farm time; calls are in order of time."""
        for name, values in readings.items():
            series = self._points.setdefault(name, {})
            for labels, value in values.items():
                series.setdefault(labels, []).append((self._started + at, value))

    def write(self, sink: TextIO) -> int:
        """Write everything; return how many samples there are."""
        samples = 0
        for name, series in sorted(self._points.items()):
            metric = CATALOGUE[name]
            sink.write(f"# HELP {_family(metric)} {_escaped(metric.help)}\n")
            sink.write(f"# TYPE {_family(metric)} {metric.kind}\n")
            for labels, points in series.items():
                for line in self._lines(metric, labels, points):
                    sink.write(line)
                    samples += 1
        sink.write("# EOF\n")
        return samples

    def _lines(self, metric: Metric, values: Labels, points: list[Point]) -> Iterator[str]:
        pairs = {**self._labels, **dict(zip(metric.labels, values, strict=True))}
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items())
        for at, value in points:
            if isinstance(value, HistogramValue):
                yield from _histogram_lines(metric.name, labels, at, value)
            else:
                yield f"{metric.name}{{{labels}}} {value!r} {at!r}\n"


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
) -> float:
    """Play a recorded run through a fresh scheduler, handing on the metrics at every interval.

    Readings at 0, interval, 2·interval … include every fact at or before that instant; a last one
    stands at the end. Returns the farm time of the last fact. Raises ValueError for an interval
    that is not positive.
    """
    if not interval > 0:
        raise ValueError(f"interval {interval} is not positive")
    clock = [0.0]
    metrics = FarmMetrics(scheduler, desired=desired, monotonic=lambda: clock[0])
    metrics.lead(in_charge=True)
    number, last = 0, 0.0

    def sample(at: float) -> None:
        clock[0] = at
        metrics.publish_now(at)
        take(at, metrics.readings())

    for event, _ in history:
        while (at := number * interval) < event.at:
            sample(at)
            number += 1
        metrics.observe(event, scheduler.handle(event))
        last = event.at
    sample(max(last, number * interval))
    return last


def _family(metric: Metric) -> str:
    return metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
