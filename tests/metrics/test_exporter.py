"""What a scrape gets: valid metric families, over loopback."""

from __future__ import annotations

import errno
import io
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from farm.core.errors import InputError
from farm.core.events import BuilderJoined, JobFinished, JobsSubmitted
from farm.core.model import Builder, Job, Platform
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.metrics import exporter
from farm.metrics.catalogue import FARM, HOST
from farm.metrics.exporter import MOST_CONNECTIONS, MetricsPlace, MetricsServer, registry_of
from farm.metrics.metrics_service import HostMetrics, ProvisionerMetrics
from farm.metrics.openmetrics import Backfill, replay
from farm.metrics.series import HistogramValue
from farm.metrics.targets import scheduler_target
from tests.fixtures.processes import until


def read(url: str) -> str:
    """Return the page served there."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


@pytest.fixture
def busy(play, job):
    """A farm with every kind of event."""
    farm = play(fair_share=("team",))
    farm.join(0.0, "b1", slots=2)
    farm.tell(JobsSubmitted(1.0, tuple(job(f"j{n}", attributes={"team": "a"}) for n in range(5))))
    farm.metrics.series.observe("farm_scheduler_cycle_seconds", 0.002)
    farm.metrics.series.observe("farm_scheduler_commit_seconds", 0.001)
    farm.metrics.series.set("farm_scheduler_event_lag_seconds", {(): 0.0})
    farm.metrics.lead(in_charge=True)
    farm.metrics.publish(2.0, at_once=True)
    return farm.metrics


def test_promtool_accepts_the_metrics(busy, tool):
    """Names, units, help texts: promtool check metrics is silent."""
    provisioner, host = ProvisionerMetrics(), HostMetrics()
    provisioner.planned("linux", 3)
    provisioner.limited("linux", 1, 5, "demand", "mon-fri 08:00-18:00")
    provisioner.observed("linux", {"running": 2})
    provisioner.acted("linux", "started")
    provisioner.cycled(0.1)
    host.holds(1, {"timed": 2, "stress": 1})
    host.ended("succeeded")
    host.late(0.002)
    host.reports(3, 1)
    host.burns("stress")
    host.burnt("stress", 3.0, 2.0, 2.5)
    for readings in (busy.readings, provisioner.readings, host.readings):
        text = generate_latest(registry_of(readings, process=False))
        run = subprocess.run(
            [tool("promtool"), "check", "metrics"], input=text, capture_output=True
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_a_pools_reason_is_the_last_one():
    """Of two that are shown at once, a reader could not tell which holds."""
    provisioner = ProvisionerMetrics()
    provisioner.limited("linux", 1, 5, "demand", "")
    provisioner.limited("linux", 0, 3, "maximum", "sat,sun")
    text = generate_latest(registry_of(provisioner.readings, process=False)).decode()
    limits = re.findall(
        r'^farm_provisioner_limit_builders{limit="(\w+)",.*} (\S+)$', text, re.MULTILINE
    )
    assert limits == [("min", "0.0"), ("max", "3.0")]
    assert re.findall(r'reason="(\w+)"', text) == ["maximum"]
    provisioner.limited("linux", 1, 5, "demand", "")
    text = generate_latest(registry_of(provisioner.readings, process=False)).decode()
    assert 'period="always",pool="linux",reason="demand"' in text


def test_a_host_shows_all_of_its_metrics():
    """Those of burning jobs once one has begun; no other metric, and each from the start."""
    host = HostMetrics()
    host.holds(1, {"timed": 0})
    host.reports(0, 0)
    burning = {name for name in HOST if "_burning_" in name}
    assert set(host.readings()) == set(HOST) - burning | {"farm_build_info"}
    host.burns("memory")
    assert set(host.readings()) == {*HOST, "farm_build_info"}
    assert host.readings()["farm_host_burning_cpu_seconds_total"] == {("memory",): 0.0}


def test_a_farm_has_its_metrics(busy):
    """Nearly all of the catalogue's farm metrics have a value on a busy farm."""
    shown = set(busy.readings())
    absent = {name for name in FARM if name not in shown}
    assert absent <= {"farm_builder_seconds_total", "farm_share_slot_seconds_total",
                      "farm_sticky_dispatches_total", "farm_event_log_ok"}  # fmt: skip


def test_the_server_serves_and_releases_its_port_and_thread(busy):
    """Loopback only, any free port; afterwards no thread or port is left."""
    before = threading.active_count()
    with MetricsServer(busy.readings, 0) as server:
        assert server.port > 0
        text = read(server.url)
        assert 'farm_queue_depth{platform="amd64/virtual"} 3.0' in text
        assert "process_cpu_seconds_total" in text
        assert server.url.startswith("http://127.0.0.1:")
    assert threading.active_count() == before
    with pytest.raises(urllib.error.URLError):
        read(server.url)


def test_an_occupied_port_is_one_clear_message(busy):
    """It names the option and the place."""
    with (
        MetricsServer(busy.readings, 0) as server,
        pytest.raises(InputError, match=rf"--metrics-port.*127\.0\.0\.1:{server.port}"),
        MetricsServer(busy.readings, server.port),
    ):
        pass


def half_sent(port: int) -> socket.socket:
    """Return a connection whose request will never be complete."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(b"GET /metrics HTTP/1.1\r\nHo")
    return connection


def is_cut_off(connection: socket.socket) -> bool:
    """Wait for the server's end of it; what it had not read yet makes that a reset."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_half_sent_requests_take_few_threads_and_keep_out_no_scrape(busy):
    """Of more connections than may be open at once, the oldest is cut off."""
    before = threading.active_count()
    with MetricsServer(busy.readings, 0) as server:
        held = [half_sent(server.port) for _ in range(4 * MOST_CONNECTIONS)]
        assert "farm_queue_depth" in read(server.url)
        assert all(is_cut_off(connection) for connection in held[: 3 * MOST_CONNECTIONS])
        until(lambda: threading.active_count() <= before + 1 + MOST_CONNECTIONS, "threads to end")
    assert all(is_cut_off(connection) for connection in held)  # a closed server leaves none open
    for connection in held:
        connection.close()


def test_a_connection_that_says_nothing_is_closed(busy, monkeypatch):
    """After a time, without any other connection's help."""
    monkeypatch.setattr(exporter._Request, "timeout", 0.05)
    with MetricsServer(busy.readings, 0) as server, half_sent(server.port) as connection:
        assert is_cut_off(connection)


def test_scraping_does_not_touch_the_schedulers_state(busy):
    """A scrape reads the published value: the same object, however often."""
    first = busy.readings()
    generate_latest(registry_of(busy.readings, process=False))
    assert busy.readings() is first


# --- The files that tell Prometheus which processes to scrape -------------------------------------


def test_a_scheduler_removes_what_killed_ones_left_and_nothing_else(tmp_path: Path) -> None:
    """A host may be named like a scheduler: its file stays, and the scheduler starts."""
    names = ("scheduler-4194305", "scheduler-a", "scheduler-a-1", "host-4194305")
    for name in names:  # no process has such an id on Linux
        (tmp_path / f"{name}.json").touch()
    scheduler_target(tmp_path)
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(names[1:])


def test_a_full_disk_keeps_no_scheduler_from_starting(tmp_path: Path, monkeypatch, caplog) -> None:
    """It serves metrics, and says that Prometheus will not find it. A wrong folder is refused."""

    def refuses(number: int) -> None:
        def write(_path: Path, _data: bytes) -> int:
            raise OSError(number, "refused")

        monkeypatch.setattr(Path, "write_bytes", write)

    place = MetricsPlace(0, targets=tmp_path)
    refuses(errno.ENOSPC)
    with place.server(dict, scheduler_target) as server:
        assert server.port
    [line] = caplog.messages
    assert "Prometheus will not find this process" in line
    refuses(errno.EACCES)
    with pytest.raises(InputError, match="--metrics-targets"), place.server(dict, scheduler_target):
        pass


# --- A finished run as OpenMetrics text (tests/grafana fills a real Prometheus with it) -----------


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
