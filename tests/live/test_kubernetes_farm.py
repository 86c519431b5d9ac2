"""The kubernetes backend with real builder hosts: a stub API server starts one for each replica."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from farm.live.host_processes import HostProcess
from farm.live.settings import LiveSettings
from tests.fixtures.processes import running
from tests.worlds.cluster import StubCluster, account_in
from tests.worlds.up import Service, jobs_of

pytestmark = pytest.mark.live

PROBE_INTERVAL = 0.2


class HostPod:
    """A pod with one builder host, as in deploy/kubernetes: room 1, a ready file."""

    def __init__(self, name: str, settings: LiveSettings, folder: Path) -> None:
        self.name = name
        self.ready = False
        self._file = folder / f"{name}.playing"
        self.process = HostProcess(
            msgspec.structs.replace(settings, host=name, ready_file=str(self._file)),
            folder / f"{name}.log",
        )

    def probe(self) -> None:
        """Check readiness, as the kubelet does periodically."""
        self.ready = self._file.exists()

    def end(self) -> None:
        """Send SIGTERM; the pod then has its grace period."""
        self.process.terminate()


class Cluster:
    """The stub with pods that are processes, a scheduler and a provisioner."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.folder = folder
        self.settings = msgspec.structs.replace(
            service.settings, room=1, pool="linux", drain_time=20.0
        )
        self.pods: list[HostPod] = []
        self.stub = StubCluster(self._make)
        self._over = threading.Event()
        self._probes = threading.Thread(target=self._probe)
        self._probes.start()
        self._provisioner = contextlib.ExitStack()

    def _make(self, name: str) -> HostPod:
        pod = HostPod(name, self.settings, self.folder)
        self.pods.append(pod)
        return pod

    def _probe(self) -> None:
        while not self._over.wait(PROBE_INTERVAL):
            for pod in list(self.pods):
                pod.probe()

    def provision(self) -> None:
        account = account_in(self.folder / "account")
        command = (
            f"{sys.executable} -m provisioner service.yaml --backend kubernetes --settle-time 2 "
            f"--kubernetes-api {self.stub.url} --kubernetes-account {account}"
        )
        process = running(command.split(), self.folder, "provisioner.log", **self.service.variables)
        self._provisioner.enter_context(process)

    def close(self) -> None:
        self._provisioner.close()
        self.stub.close()
        self._over.set()
        self._probes.join()
        for pod in self.pods:
            pod.process.kill()
            pod.process.wait(60)
            pod.process.close()


@pytest.fixture
def cluster(hostless: Service, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with a Deployment of one pod, and a farm without a scheduler."""
    sized = "provisioner: {algorithm: taskcluster, min: 1, max: 4, interval: 1s}"
    hostless.scenario(pool=f"slots: 2, idle_timeout: 2s, {sized}")
    found = Cluster(hostless, tmp_path)
    found.stub.create("builders-linux", 1)
    yield found
    found.close()


@pytest.mark.slow
def test_a_pool_of_pods_follows_the_queue_and_only_emptied_ones_go(cluster: Cluster):
    """The queue grows, the scale is patched, hosts come, jobs end, it is scaled back, by readiness.

    Slots are two a builder, so the four builders are busy unevenly at the end: the pods that go are
    those whose builders retire.
    """
    service, stub = cluster.service, cluster.stub
    service.start()
    cluster.provision()
    service.until(lambda: len(service.store.builders()) == 1, "the least pool")
    assert stub.deployments == {"builders-linux": 1}
    service.submit(jobs_of(40, 1.0))
    service.until(lambda: len(service.store.builders()) == 4, "growth")
    assert stub.deployments["builders-linux"] == 4
    service.until(lambda: service.store.count_results() == 40, "the end of all jobs")
    service.until(lambda: stub.deployments["builders-linux"] == 1, "scaling back")
    service.until(lambda: len(stub.pods["builders-linux"]) == 1, "the pods' end")
    ends = [service.store.result(job.id) for job in jobs_of(40, 1.0)]
    assert {(end.outcome, end.attempts) for end in ends} == {("succeeded", 1)}
    # where the last builder idles out as well, the least pool is started anew: more pods than four
    assert len(stub.removed) == len(cluster.pods) - 1 >= 3
    assert not any(ready for _, ready in stub.removed)
    service.until(lambda: len(service.store.builders()) == 1, "the least pool again")
    assert {method for method, _, _ in stub.calls} == {"GET", "PATCH"}
