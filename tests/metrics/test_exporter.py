"""What a scrape gets: valid metric families, over loopback."""

from __future__ import annotations

import socket
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from prometheus_client import generate_latest

from farm.core.errors import InputError
from farm.core.events import JobsSubmitted
from farm.metrics import exporter
from farm.metrics.catalogue import FARM, HOST
from farm.metrics.exporter import MOST_CONNECTIONS, MetricsServer, registry_of
from farm.metrics.service import HostMetrics, ProvisionerMetrics
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
                      "farm_sticky_dispatches_total"}  # fmt: skip


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
