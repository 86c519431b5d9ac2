"""What a scrape gets: families that Prometheus takes without complaint, over loopback."""

from __future__ import annotations

import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from prometheus_client import generate_latest

from farm.core.errors import InputError
from farm.core.events import JobsSubmitted
from farm.metrics.catalogue import CATALOGUE, FARM
from farm.metrics.exporter import MetricsServer, registry_of
from farm.metrics.service import HostMetrics, ProvisionerMetrics


def read(url: str) -> str:
    """Return what is served there."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


@pytest.fixture
def busy(play, job):
    """A farm with something of everything."""
    farm = play(fair_share=("team",))
    farm.join(0.0, "b1", slots=2)
    farm.tell(JobsSubmitted(1.0, tuple(job(f"j{n}", attributes={"team": "a"}) for n in range(5))))
    farm.metrics.cycle(0.002)
    farm.metrics.commit(0.001)
    farm.metrics.lag(0.0)
    farm.metrics.lead(in_charge=True)
    farm.metrics.publish_now(2.0)
    return farm.metrics


def test_promtool_finds_nothing_to_complain_about(busy, tool):
    """Names, units, help texts: promtool check metrics is silent."""
    provisioner, host = ProvisionerMetrics(), HostMetrics()
    provisioner.planned("linux", 3)
    provisioner.observed("linux", {"running": 2})
    provisioner.acted("linux", "started")
    provisioner.cycled(0.1)
    host.holds(1, 2)
    host.ended("succeeded")
    for readings in (busy.readings, provisioner.readings, host.readings):
        text = generate_latest(registry_of(readings, process=False))
        run = subprocess.run(
            [tool("promtool"), "check", "metrics"], input=text, capture_output=True
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_every_metric_is_in_the_catalogue_and_documented():
    """docs/metrics.md names what there is."""
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    missing = [name for name in CATALOGUE if f"`{name}`" not in text]
    assert not missing


def test_a_farm_shows_what_it_should(busy):
    """Nearly all of the catalogue's farm metrics have a value on a farm that works."""
    shown = set(busy.readings())
    absent = {name for name in FARM if name not in shown}
    assert absent <= {"farm_builder_seconds_total", "farm_share_slot_seconds_total",
                      "farm_sticky_dispatches_total"}  # fmt: skip


def test_the_server_serves_and_lets_go_of_its_port_and_thread(busy):
    """Loopback only, any free port; afterwards nothing is left."""
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


def test_scraping_touches_nothing_that_the_scheduler_writes(busy):
    """A scrape reads the published value: the same object, however often."""
    first = busy.readings()
    generate_latest(registry_of(busy.readings, process=False))
    assert busy.readings() is first
