"""A builder host's metrics: what it counts, where it serves it, and what is left afterwards."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from farm.core.commands import CancelJob, RetireBuilder, StartJob
from farm.core.model import Builder, Job
from farm.live.settings import LiveSettings
from farm.live.wire.messages import Play
from tests.fixtures.processes import own_port, until
from workers import host as module
from workers.host import BuilderHost


class Host(BuilderHost):
    """A host whose server is away, so that only the test gives it commands."""

    def begin(self, name: str, service_time: float, **more) -> None:
        job = Job(id=name, service_time=service_time, **more)
        self.start_attempt(StartJob(job, 1, "b", 0))

    def value(self, name: str, **labels: str) -> float | None:
        """Scrape one value."""
        assert self.metering.url is not None
        with urllib.request.urlopen(self.metering.url, timeout=60.0) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if (sample.name, sample.labels) == (name, labels):
                    return sample.value
        return None

    def until(self, wanted: float, name: str, **labels: str) -> None:
        until(lambda: self.value(name, **labels) == wanted, f"{name} {labels} of {wanted}")


def assert_no_thread_is_left(before: set[threading.Thread]) -> None:
    """Wait until there is no thread but those of before."""
    until(lambda: not set(threading.enumerate()) - before, "the end of all threads")


@pytest.fixture
def hosted(monkeypatch) -> Iterator[Callable[..., Host]]:
    """Make a host that plays one builder; it leaves after the test."""
    monkeypatch.setattr(module, "CLOSE_TIMEOUT", 0.05)  # its reports are not read
    made: list[Host] = []

    def make(**settings: str) -> Host:
        url = f"redis://127.0.0.1:{own_port()}/0"
        host = Host(
            LiveSettings(
                redis_url=url,
                host="host/1",
                beat_interval=0.05,
                burner="own",
                work_rates="cpu=4,memory=40",
                **settings,
            ),
            pid=1,
        )
        made.append(host)
        host.start()
        host.play(Play(builder=Builder(id="b", pool="p", index=0, slots=9)))
        return host

    yield make
    for host in made:
        host.close()


def test_a_host_counts_what_it_holds_and_how_it_ended(hosted):
    """By mode while it runs, by result when it has ended; dropped ones are lost."""
    host = hosted(metrics_port="0")
    host.until(1, "farm_host_builders")
    for name in ("a", "b", "c"):
        host.begin(name, 1000.0)
    host.begin("wrong", 0.0, fails=True)
    host.begin("right", 0.0)
    host.until(3, "farm_host_attempts", mode="timed")
    host.obey(CancelJob("a", 1, "b"))
    host.until(2, "farm_host_attempts", mode="timed")
    for result in ("succeeded", "failed", "cancelled"):
        assert host.value("farm_host_attempts_total", result=result) == 1
    assert host.value("farm_host_attempts_total", result="lost") == 0
    host.obey(RetireBuilder("b"))
    host.until(0, "farm_host_builders")
    assert host.value("farm_host_attempts_total", result="lost") == 2


def test_a_host_reports_its_delay_and_its_unsent_reports(hosted):
    """Every beat is due at an instant; with the server away reports pile up, tries are counted."""
    host = hosted(metrics_port="0")
    host.begin("a", 0.0)
    until(
        lambda: (
            (host.value("farm_host_agenda_lag_seconds_count") or 0) >= 2
            and (host.value("farm_host_reports_waiting") or 0) >= 4  # up twice, started, finished
            and (host.value("farm_host_send_failures_total") or 0) >= 1
        ),
        "two beats, four reports and a failure",
    )


def test_a_burning_job_is_compared_with_the_calibration(hosted):
    """Its time, its processor time, and what its work takes on idle cores, times its threads."""
    host = hosted(metrics_port="0")
    host.begin("hot", 0.25, mode="stress", threads=2)
    host.until(1, "farm_host_attempts_total", result="succeeded")
    what = {
        name: host.value(f"farm_host_burning{name}_seconds_total", mode="stress")
        for name in ("", "_work", "_cpu")
    }
    assert what["_work"] == 0.5
    # two threads of one unit of work each, which the lowered rate declares to last 0.25 s
    assert 0 < what["_cpu"] < what[""]


def test_a_host_without_the_setting_serves_nothing(hosted):
    """It counts all the same, but opens no port."""
    before = set(threading.enumerate())
    host = hosted()
    assert host.metering.url is None
    host.close()
    assert_no_thread_is_left(before)


def test_a_host_leaves_no_thread_no_port_and_no_file(hosted, tmp_path: Path):
    """With a target folder any port will do; the file exists as long as the port is open."""
    before = set(threading.enumerate())
    host = hosted(metrics_targets=str(tmp_path / "targets"))
    (path,) = (tmp_path / "targets").iterdir()
    assert path.name == "host%2F1.json"
    (entry,) = json.loads(path.read_bytes())
    (address,) = entry["targets"]
    assert host.metering.url == f"http://{address}/metrics"
    assert address.startswith("127.0.0.1:")
    assert entry["labels"] == {"job": "builders", "host": "host/1"}
    host.close()
    assert list((tmp_path / "targets").iterdir()) == []
    assert_no_thread_is_left(before)
    with socket.socket() as free:
        free.bind(("127.0.0.1", int(address.rpartition(":")[2])))


@pytest.mark.parametrize("port", ["taken", "many", "70000"])
def test_an_unavailable_port_is_one_line_and_the_host_continues(hosted, caplog, port):
    """Metrics are not worth a job."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        if port == "taken":
            port = str(taken.getsockname()[1])
        host = hosted(metrics_port=port)
    (line,) = [r.getMessage() for r in caplog.records if "metrics" in r.getMessage()]
    assert line.startswith("this host serves no metrics: ")
    assert "FARM_METRICS_PORT" in line
    assert port in line
    assert host.metering.url is None
    host.begin("a", 0.0)
    total = host.metering.metrics.readings
    until(lambda: total()["farm_host_attempts_total"]["succeeded",] == 1.0, "its end")


def test_a_folder_that_cannot_be_written_to_is_one_line_too(hosted, caplog, tmp_path: Path):
    """And the port is given back."""
    (tmp_path / "file").touch()
    before = set(threading.enumerate())
    host = hosted(metrics_targets=str(tmp_path / "file"))
    (line,) = [r.getMessage() for r in caplog.records if "metrics" in r.getMessage()]
    assert "FARM_METRICS_TARGETS" in line
    assert host.metering.url is None
    host.close()
    assert_no_thread_is_left(before)
