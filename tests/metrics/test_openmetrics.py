"""A finished run as OpenMetrics text (tests/grafana fills a real Prometheus with it)."""

from __future__ import annotations

import io

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from farm.core.events import BuilderJoined, JobFinished, JobsSubmitted
from farm.core.model import Builder, Job, Platform
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime import make_estimator
from farm.metrics.openmetrics import Backfill, replay
from farm.metrics.series import HistogramValue


def history():
    """Two jobs of 30 s on one slot."""
    jobs = tuple(Job(id=n, service_time=30.0, platform=Platform("x", True)) for n in "ab")
    return [
        (BuilderJoined(0.0, Builder(id="b", pool="p", index=1, processors=("x",))), []),
        (JobsSubmitted(10.0, jobs), []),
        (JobFinished(40.0, "a", 1, "b", "succeeded"), []),
        (JobFinished(70.0, "b", 1, "b", "succeeded"), []),
    ]


def test_samples_stand_at_every_interval_and_include_what_was_before():
    """The queue is one deep from 10 to 40 s."""
    seen = []
    scheduler = Scheduler(SchedulingRules(), make_estimator("oracle"))
    last = replay(scheduler, history(), 20.0, lambda at, values: seen.append((at, values)))
    assert last == 70.0
    assert [at for at, _ in seen] == [0.0, 20.0, 40.0, 60.0, 80.0]
    depths = [values["farm_queue_depth"].get(("x/virtual",)) for _, values in seen]
    assert depths == [None, 1.0, 0.0, 0.0, 0.0]
    done = [values["farm_jobs_total"]["succeeded",] for _, values in seen]
    assert done == [0.0, 0.0, 1.0, 1.0, 2.0]


def test_the_text_is_openmetrics():
    """prometheus_client's strict parser accepts it, with labels and instants.

    Histograms are left to promtool (below): this parser allows them one instant only.
    """
    sink, text = Backfill({"job": "run", "instance": 'od"d'}, 1000.0, 20.0), io.StringIO()
    scheduler = Scheduler(SchedulingRules(), make_estimator("oracle"))
    replay(scheduler, history(), 20.0, sink.add)
    count = sink.write(text)
    lines = text.getvalue().splitlines(keepends=True)
    buckets = {line.split()[2] for line in lines if line.endswith(" histogram\n")}
    others = [line for line in lines if not any(name in line for name in buckets)]
    families = list(text_string_to_metric_families("".join(others)))
    samples = [sample for family in families for sample in family.samples]
    assert len(samples) == sum(not line.startswith("#") for line in others)
    assert count == sum(not line.startswith("#") for line in lines)
    (depth,) = (f for f in families if f.name == "farm_queue_depth")
    assert [(float(s.timestamp), s.value) for s in depth.samples] == [
        (1020.0, 1.0), (1040.0, 0.0), (1060.0, 0.0), (1080.0, 0.0),
    ]  # fmt: skip
    assert depth.samples[0].labels == {
        "job": "run", "instance": 'od"d', "platform": "x/virtual",
    }  # fmt: skip


def test_counters_rise_from_zero_once_and_unlogged_metrics_are_left_out():
    """A burst at a series' first sample must show in its rate; a block later it continues."""
    sink, text = Backfill({}, 1000.0, 20.0), io.StringIO()
    one = HistogramValue((1.0,), (1, 0), 0.5)
    sink.add(
        0.0, {"farm_jobs_total": {("failed",): 5.0}, "farm_matrix_response_seconds": {(): one}}
    )
    sink.add(0.0, {"farm_queue_depth": {("x",): 3.0}, "farm_scheduler_leader": {(): 1.0}})
    assert sink.write(text) == 2 + 8 + 1
    assert samples(text, "farm_jobs_total") == [("980.0", 0.0), ("1000.0", 5.0)]
    assert samples(text, "farm_matrix_response_seconds_count") == [("980.0", 0.0), ("1000.0", 1.0)]
    assert samples(text, "farm_queue_depth") == [("1000.0", 3.0)]
    again = io.StringIO()
    sink.add(20.0, {"farm_jobs_total": {("failed",): 6.0, ("succeeded",): 0.0}})
    sink.write(again)
    assert samples(again, "farm_jobs_total") == [("1020.0", 6.0), ("1020.0", 0.0)]


def samples(text: io.StringIO, name: str) -> list[tuple[str, float]]:
    """Return (instant, value) of a metric's samples."""
    found = (line.split() for line in text.getvalue().splitlines() if line.startswith(name + "{"))
    return [(at, float(value)) for _, value, at in found]
